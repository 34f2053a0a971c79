"""Variational loop: the producer looks for the angle with the lowest energy, task by task; the
consumers then work on the best one together.

Only the producer knows when the search is over, so the Job says `release: manual`, and the
producer opens the gates by one POST. With `release: front` the consumers would start with the
first round and idle through all the others.
"""

import json
import math
import os
import random
import urllib.error
import urllib.request

from braket.aws import AwsDevice, AwsQuantumTask
from braket.circuits import Circuit

DEVICE = os.environ.get("DEVICE", "arn:aws:braket:eu-north-1::device/qpu/iqm/Garnet")
SHOTS = int(os.environ.get("SHOTS", "200"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))
INDEX = int(os.environ.get("JOB_COMPLETION_INDEX", "0"))


def ansatz(angle):
    return Circuit().ry(0, angle).cnot(0, 1)


def energy(counts):
    """Z on the first qubit: lowest, at -1, for the angle pi."""
    shots = sum(counts.values())
    return sum(n if bits[0] == "0" else -n for bits, n in counts.items()) / shots


def release(task):
    """Opens the gates for this task; asked again until Sluice has written it down."""
    url = os.environ["SLUICE_URL"] + "/v1/release"
    for _ in range(30):
        try:
            body = json.dumps({"id": task}).encode()
            with urllib.request.urlopen(urllib.request.Request(url, body), timeout=30) as answer:
                print(f"release of {task}: {answer.status}", flush=True)
                return
        except urllib.error.HTTPError as error:
            print(f"release of {task}: {error.code} {error.read().decode()}", flush=True)
            if error.code != 503:
                raise
    raise SystemExit("the gates could not be opened")


if os.environ["FLUENCE_COORDINATION_ROLE"] == "producer":
    device = AwsDevice(DEVICE)
    best = None
    low, high = 0.0, 1.5 * math.pi
    for turn in range(ROUNDS):
        # A real search would choose the next angle by what it has seen so far.
        angle = low + (high - low) * (turn + 1) / ROUNDS
        task = device.run(ansatz(angle), shots=SHOTS)
        print(f"round {turn} submitted {task.id}", flush=True)
        value = energy(task.result().measurement_counts)
        print(f"round {turn}: angle {angle:.3f} energy {value:.3f}", flush=True)
        if best is None or value < best[0]:
            best = (value, angle, task.id)
    print(f"best angle {best[1]:.3f} energy {best[0]:.3f}", flush=True)
    release(best[2])
else:
    counts = AwsQuantumTask(arn=os.environ["FLUENCE_QUANTUM_JOB_ID"]).result().measurement_counts
    # Each consumer draws its own share of bootstrap samples for the error bar.
    shots = [bits for bits, n in counts.items() for _ in range(n)]
    draw = random.Random(INDEX)
    values = []
    for _ in range(100):
        sample = draw.choices(shots, k=len(shots))
        values.append(sum(1 if bits[0] == "0" else -1 for bits in sample) / len(sample))
    mean = sum(values) / len(values)
    error = math.sqrt(sum((v - mean) ** 2 for v in values) / len(values))
    print(f"energy {mean:.3f} +- {error:.3f} by consumer {INDEX}", flush=True)
