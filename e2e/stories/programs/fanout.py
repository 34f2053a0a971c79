"""The fan-out: the producer submits, the consumers take its result by the id they are given.

DELAY   seconds of work before the submission
LEAVE   1: the producer ends right after the submission
"""

import os
import time

from braket.aws import AwsDevice, AwsQuantumTask
from braket.circuits import Circuit

role = os.environ["FLUENCE_COORDINATION_ROLE"]
if role == "producer":
    time.sleep(float(os.environ.get("DELAY", "0")))
    task = AwsDevice(os.environ["DEVICE"]).run(Circuit().h(0).cnot(0, 1), shots=20)
    print(f"submitted {task.id}", flush=True)
    if os.environ.get("LEAVE") == "1":
        raise SystemExit(0)
else:
    task = AwsQuantumTask(arn=os.environ["FLUENCE_QUANTUM_JOB_ID"])
    print(f"given {task.id}", flush=True)
counts = dict(task.result().measurement_counts)
assert set(counts) <= {"00", "11"} and sum(counts.values()) == 20, counts
print(f"{role} counts {sum(counts.values())} shots of {task.id}", flush=True)
