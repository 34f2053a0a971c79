"""Computes quantum programs for the emulator with the vendor SDK's own local simulator.

One JSON object a line: {"id", "action", "shots", "device", "task"} in,
{"id", "result"} or {"id", "failure"} out. Ends when its input ends.
"""

import json
import sys

# Libraries may print; the protocol owns the real standard output.
answers, sys.stdout = sys.stdout, sys.stderr

from braket.default_simulator import DensityMatrixSimulator, StateVectorSimulator  # noqa: E402
from braket.ir.openqasm import Program  # noqa: E402
from braket.tasks import GateModelQuantumTaskResult  # noqa: E402
from pydantic.v1.json import pydantic_encoder  # noqa: E402

SIMULATORS = {"dm1": DensityMatrixSimulator}


def compute(job):
    action = json.loads(job["action"])
    name = action.get("braketSchemaHeader", {}).get("name")
    if name != "braket.ir.openqasm.program":
        raise ValueError(f"programs of type {name} cannot be run on this device")
    program = Program.parse_raw(job["action"])
    simulator = SIMULATORS.get(job["device"].rsplit("/", 1)[-1], StateVectorSimulator)()
    result = simulator.run(program, shots=job["shots"])
    result.taskMetadata.id = job["task"]
    result.taskMetadata.deviceId = job["device"]
    # The simulator leaves bits as text, the vendor sends numbers.
    bits = [[int(bit) for bit in shot] for shot in result.measurements or []]
    # Without shots there are no measurements, and an empty list is not in the schema.
    result.measurements = bits or None
    # With shots the simulator only repeats what was asked for; the vendor sends the values.
    if bits and result.resultTypes:
        result.resultTypes = GateModelQuantumTaskResult.from_object(result).result_types
    return result.json(encoder=plain)


def plain(value):
    """Numbers that JSON does not know, in the form of the vendor: a complex one is a pair."""
    if isinstance(value, complex):
        return [value.real, value.imag]
    if hasattr(value, "tolist"):
        return value.tolist()
    return pydantic_encoder(value)


def answer(line):
    job = json.loads(line)
    try:
        return {"id": job["id"], "result": compute(job)}
    except Exception as problem:  # every program error is the user's to read
        text = str(problem).strip() or type(problem).__name__
        return {"id": job["id"], "failure": text}


def main():
    answers.write(json.dumps({"ready": True}) + "\n")
    answers.flush()
    for line in sys.stdin:
        answers.write(json.dumps(answer(line)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
