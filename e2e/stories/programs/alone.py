"""A program that knows no roles: every pod submits for itself and takes its own result."""

import os

from braket.aws import AwsDevice
from braket.circuits import Circuit

task = AwsDevice(os.environ["DEVICE"]).run(Circuit().h(0).cnot(0, 1), shots=20)
print(f"submitted {task.id}", flush=True)
assert sum(task.result().measurement_counts.values()) == 20
print(f"done {task.id}", flush=True)
