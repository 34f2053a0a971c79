"""A program that fails after its submission, the first time in each pod, and is started again.

OTHER   1: no two runs build the same circuit
"""

import os
import pathlib
import random

from braket.aws import AwsDevice, AwsQuantumTask
from braket.circuits import Circuit

if os.environ["FLUENCE_COORDINATION_ROLE"] == "producer":
    circuit = Circuit().h(0).cnot(0, 1)
    if os.environ.get("OTHER") == "1":
        circuit.rz(0, random.random())
    task = AwsDevice(os.environ["DEVICE"]).run(circuit, shots=20)
    print(f"submitted {task.id}", flush=True)
    ran = pathlib.Path("/scratch/ran")
    if not ran.exists():
        ran.write_text(task.id)
        raise SystemExit("it fails before its result is there")
else:
    task = AwsQuantumTask(arn=os.environ["FLUENCE_QUANTUM_JOB_ID"])
assert sum(task.result().measurement_counts.values()) == 20
print(f"done {task.id}", flush=True)
