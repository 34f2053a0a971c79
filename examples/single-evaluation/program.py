"""Single evaluation: one circuit, one task, one pod that works on the result.

Nothing of this program knows of Sluice. It runs on a laptop just the same.
"""

import os

from braket.aws import AwsDevice
from braket.circuits import Circuit

DEVICE = os.environ.get("DEVICE", "arn:aws:braket:eu-north-1::device/qpu/iqm/Garnet")
SHOTS = int(os.environ.get("SHOTS", "200"))

bell = Circuit().h(0).cnot(0, 1)
task = AwsDevice(DEVICE).run(bell, shots=SHOTS)
print(f"submitted {task.id}", flush=True)
counts = task.result().measurement_counts

# <ZZ>: equal bits count +1, different bits count -1.
zz = sum(n if bits[0] == bits[1] else -n for bits, n in counts.items()) / SHOTS
print(f"<ZZ> = {zz:.3f} from {SHOTS} shots", flush=True)
