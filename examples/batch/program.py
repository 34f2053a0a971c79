"""Batch: many circuits at once; the results are shared out among all pods.

The SDK sends ten tasks at a time and the next when one has its result. The Job says `tasks: 25`,
so the consumers start when the last of the batch is next, not when the first is.
"""

import math
import os

from braket.aws import AwsDevice, AwsQuantumTask
from braket.circuits import Circuit

DEVICE = os.environ.get("DEVICE", "arn:aws:braket:eu-north-1::device/qpu/iqm/Garnet")
SHOTS = int(os.environ.get("SHOTS", "50"))
CIRCUITS = int(os.environ.get("CIRCUITS", "25"))
INDEX = int(os.environ.get("JOB_COMPLETION_INDEX", "0"))
CONSUMERS = int(os.environ.get("CONSUMERS", "2"))

if os.environ["FLUENCE_COORDINATION_ROLE"] == "producer":
    circuits = [Circuit().rx(0, math.pi * n / (CIRCUITS - 1)) for n in range(CIRCUITS)]
    batch = AwsDevice(DEVICE).run_batch(circuits, shots=SHOTS, max_parallel=10)
    results = batch.results()
    print(f"producer has {len(results)} results", flush=True)
else:
    # All tasks that were known at the release, in the order of their submission.
    ids = os.environ["SLUICE_QUANTUM_JOB_IDS"].split(",")
    mine = ids[INDEX - 1 :: CONSUMERS]
    for task in mine:
        counts = AwsQuantumTask(arn=task).result().measurement_counts
        print(f"{task.rsplit('/', 1)[-1]}: P(1) = {counts.get('1', 0) / SHOTS:.2f}", flush=True)
    print(f"consumer {INDEX} worked on {len(mine)} of {len(ids)} tasks", flush=True)
