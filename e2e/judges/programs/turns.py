"""What every program here does: one submission for each environment that it is given.

Reads a list of environments from standard input (null unsets a variable), prints what came of each.
"""

import json
import os
import sys
import traceback
from importlib.metadata import version

SV1 = "arn:aws:braket:::device/quantum-simulator/amazon/sv1"
BUCKET = "amazon-braket-x"
SHOTS = 10
ENDED = ("COMPLETED", "FAILED", "CANCELLED")

SOURCE = """OPENQASM 3.0;
bit[2] b;
qubit[2] q;
h q[0];
cnot q[0], q[1];
b[0] = measure q[0];
b[1] = measure q[1];
"""
ACTION = json.dumps(
    {
        "braketSchemaHeader": {"name": "braket.ir.openqasm.program", "version": "1"},
        "source": SOURCE,
        "inputs": {},
    }
)
REQUEST = {
    "deviceArn": SV1,
    "outputS3Bucket": BUCKET,
    "outputS3KeyPrefix": "judges",
    "shots": SHOTS,
    "action": ACTION,
}


def measured(results):
    """Number of shots in a results.json; the pairs of a Bell state agree in each of them."""
    shots = json.loads(results)["measurements"]
    assert all(first == second for first, second in shots), shots
    return len(shots)


def counted(counts):
    """Number of shots in counts by outcome."""
    assert set(counts) <= {"00", "11"}, counts
    return sum(counts.values())


def run(packages, submit):
    """Calls `submit` once in each environment; it returns the task's ARN and the shots it got."""
    seen = []
    for turn in json.load(sys.stdin):
        for name, value in turn.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        try:
            task, shots = submit()
            seen.append({"task": task, "shots": shots})
        except Exception as error:
            traceback.print_exc()
            seen.append({"error": type(error).__name__, "message": str(error)})
    versions = {package: version(package) for package in packages}
    print(json.dumps({"versions": versions, "turns": seen}))
