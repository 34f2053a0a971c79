"""Equal circuits, as programs send them: HOW says in which way, COUNT how many. Prints the ids."""

import json
import os

from braket.aws import AwsDevice
from braket.circuits import Circuit

GARNET = "arn:aws:braket:eu-north-1::device/qpu/iqm/Garnet"

bell = Circuit().h(0).cnot(0, 1)
count = int(os.environ["COUNT"])
device = AwsDevice(GARNET)
if os.environ["HOW"] == "batch":
    batch = device.run_batch([bell] * count, shots=20)
    batch.results()
    ids = [task.id for task in batch.tasks]
else:
    # The queue does not move: nobody waits for a result.
    ids = [device.run(bell, shots=20).id for _ in range(count)]
print(json.dumps(ids))
