"""Max-cut of a small graph by QAOA: one pod submits, the others share its shots.

An ordinary program of the Amazon Braket SDK. It knows nothing of Sluice but two environment
variables that Fluence's applications read too:

    FLUENCE_COORDINATION_ROLE   producer or consumer
    FLUENCE_QUANTUM_JOB_ID      the task, in consumers

Without them (an ungated Job) index 0 is the producer, and consumers wait for the task id in S3.
Parts of the work meet in S3 under RUN, which the Job sets.
"""

import time

BORN = time.time()

import itertools
import json
import math
import os

import boto3
from botocore.exceptions import ClientError
from braket.aws import AwsDevice, AwsQuantumTask
from braket.circuits import Circuit

IMPORTED = time.time()

DEVICE = os.environ.get("DEVICE", "arn:aws:braket:eu-north-1::device/qpu/iqm/Garnet")
BUCKET = os.environ["AMZN_BRAKET_OUT_S3_BUCKET"]
RUN = os.environ["RUN"]
SHOTS = int(os.environ.get("SHOTS", "700"))
SIZE = int(os.environ.get("SIZE", "8"))
INDEX = int(os.environ.get("JOB_COMPLETION_INDEX", "0"))
ROLE = os.environ.get("FLUENCE_COORDINATION_ROLE") or ("producer" if INDEX == 0 else "consumer")

# The Petersen graph: ten nodes, 15 edges, three at each node, no triangles. No cut takes all edges.
NODES = 10
EDGES = (
    [(i, (i + 1) % 5) for i in range(5)]
    + [(i, i + 5) for i in range(5)]
    + [(i + 5, (i + 2) % 5 + 5) for i in range(5)]
)
# The best angles of one QAOA layer on graphs with three edges at each node and no triangles.
GAMMA, BETA = 0.6155, math.pi / 8

s3 = boto3.client("s3")


def circuit():
    """One layer of QAOA."""
    qaoa = Circuit()
    for node in range(NODES):
        qaoa.h(node)
    for a, b in EDGES:
        qaoa.cnot(a, b).rz(b, -GAMMA).cnot(a, b)
    for node in range(NODES):
        qaoa.rx(node, 2 * BETA)
    return qaoa


def cut(bits):
    """How many edges join the two sides."""
    return sum(bits[a] != bits[b] for a, b in EDGES)


def improve(bits):
    """Moves single nodes to the other side while that cuts more edges."""
    bits = list(bits)
    best = cut(bits)
    better = True
    while better:
        better = False
        for node in range(NODES):
            bits[node] ^= 1
            value = cut(bits)
            if value > best:
                best, better = value, True
            else:
                bits[node] ^= 1
    return best, bits


def fetch(key, every=0.5):
    """Waits for an object."""
    while True:
        try:
            return s3.get_object(Bucket=BUCKET, Key=f"{RUN}/{key}")["Body"].read()
        except ClientError as error:
            if error.response["Error"]["Code"] not in ("NoSuchKey", "404"):
                raise
            time.sleep(every)


def store(key, body):
    """Writes an object."""
    s3.put_object(Bucket=BUCKET, Key=f"{RUN}/{key}", Body=body)


def say_times(**times):
    """One line that the comparison of the demo reads."""
    print("times " + json.dumps({"role": ROLE, "index": INDEX, "born": BORN, "imported": IMPORTED, **times}), flush=True)


def produce():
    """Submits, waits for the result and for the parts of the others, and says the best cut."""
    task = AwsDevice(DEVICE).run(circuit(), shots=SHOTS)
    submitted = time.time()
    print(f"submitted {task.id}", flush=True)
    store("task", task.id.encode())
    task.result()
    have = time.time()
    parts = [json.loads(fetch(f"part-{index}")) for index in range(1, SIZE)]
    done = time.time()
    best = max(parts, key=lambda part: part["best"])
    direct = max(cut(bits) for bits in itertools.product((0, 1), repeat=NODES))
    mean = sum(p["sum"] for p in parts) / sum(p["shots"] for p in parts)
    print(f"{sum(p['shots'] for p in parts)} shots in {len(parts)} parts, mean cut {mean:.2f}", flush=True)
    say_times(submitted=submitted, result=have, done=done)
    word = "as good as" if best["best"] == direct else "below"
    print(
        f"best cut {best['best']} of {len(EDGES)} edges, sides {''.join(map(str, best['bits']))}, "
        f"{word} the direct computation ({direct})",
        flush=True,
    )


def consume():
    """Takes the shared result and works on one part of the shots."""
    task_id = os.environ.get("FLUENCE_QUANTUM_JOB_ID") or fetch("task").decode()
    shots = AwsQuantumTask(arn=task_id).result().measurements
    have = time.time()
    mine = [tuple(int(bit) for bit in shot) for shot in shots[INDEX - 1 :: SIZE - 1]]
    best, bits = max(improve(shot) for shot in set(mine))
    part = {"best": best, "bits": bits, "sum": sum(map(cut, mine)), "shots": len(mine)}
    store(f"part-{INDEX}", json.dumps(part).encode())
    print(f"part {INDEX}: best cut {best} in {len(mine)} shots of {task_id.rsplit('/', 1)[-1]}", flush=True)
    say_times(result=have, done=time.time())


if ROLE == "producer":
    produce()
else:
    consume()
