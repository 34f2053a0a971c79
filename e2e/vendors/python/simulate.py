"""Computes quantum programs for the emulator with the vendor SDK's own local simulator.

A job is {"id", "action", "shots", "device", "task"}, its result the text of results.json.
"""

import json

from braket.default_simulator import DensityMatrixSimulator, StateVectorSimulator
from braket.ir.openqasm import Program
from braket.tasks import GateModelQuantumTaskResult
from pydantic.v1.json import pydantic_encoder

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


serve(compute)  # noqa: F821 (of worker.py)
