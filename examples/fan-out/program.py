"""Fan-out: one pod submits, all the others work on parts of its one result."""

import os

from braket.aws import AwsDevice, AwsQuantumTask
from braket.circuits import Circuit

DEVICE = os.environ.get("DEVICE", "arn:aws:braket:eu-north-1::device/qpu/iqm/Garnet")
SHOTS = int(os.environ.get("SHOTS", "300"))
INDEX = int(os.environ.get("JOB_COMPLETION_INDEX", "0"))
CONSUMERS = int(os.environ.get("CONSUMERS", "3"))

if os.environ["FLUENCE_COORDINATION_ROLE"] == "producer":
    task = AwsDevice(DEVICE).run(Circuit().h(0).cnot(0, 1).cnot(1, 2), shots=SHOTS)
    print(f"submitted {task.id}", flush=True)
    # The producer stays, so that the consumers are released just in time.
    task.result()
else:
    task = AwsQuantumTask(arn=os.environ["FLUENCE_QUANTUM_JOB_ID"])
    shots = task.result().measurements[INDEX - 1 :: CONSUMERS]
    odd = sum(int(sum(bits)) % 2 for bits in shots)
    print(f"consumer {INDEX}: {odd} of {len(shots)} shots have odd parity", flush=True)
