"""Waits for the task with nothing but its state: the keys of its own file may have ended long ago."""

import os
import time

from braket.aws import AwsDevice, AwsQuantumTask
from braket.circuits import Circuit

if os.environ["FLUENCE_COORDINATION_ROLE"] == "producer":
    task = AwsDevice(os.environ["DEVICE"]).run(Circuit().h(0).cnot(0, 1), shots=20)
    print(f"submitted {task.id}", flush=True)
else:
    task = AwsQuantumTask(arn=os.environ["FLUENCE_QUANTUM_JOB_ID"])
while task.state() not in ("COMPLETED", "FAILED", "CANCELLED"):
    time.sleep(0.5)
print(f"{task.state()} {task.id}", flush=True)
