"""One task for each type of QRMI's resources: as its task runner reads it, and as its library does."""

import json

import qrmi
from turns import SHOTS

BELL = """OPENQASM 3.0; include "stdgates.inc"; bit[2] c; rz(pi/2) $0; sx $0; rz(pi/2) $0;
cx $0, $1; c[0] = measure $0; c[1] = measure $1;"""
SAMPLER = {
    "program_id": "sampler",
    "parameters": {"pubs": [[BELL, None, SHOTS]], "version": 2, "support_qiskit": False},
}
COIN = [
    {"name": "prx", "locus": ["QB1"], "args": {"angle": 1.5708, "phase": 0.0}},
    {"name": "measure", "locus": ["QB1"], "args": {"key": "m"}},
]
INPUTS = {
    "ibm-quantum-compute-service": SAMPLER,
    "qiskit-runtime-service": SAMPLER,
    "ibm-quantum-system": SAMPLER,
    "pasqal-cloud": {"sequence": {"register": [{"name": "q0"}, {"name": "q1"}]}, "job_runs": SHOTS},
    "iqm-server": {
        "iqmjson": {"circuits": [{"name": "coin", "instructions": COIN}], "shots": SHOTS},
        "use_timeslot": False,
        "tag": "judge",
        "job_type": "circuit",
    },
    "alice-bob-felis": {
        "human_qir": "call void @__quantum__qis__mz__body(%Qubit* null, %Result* null)",
        "input_params": {"nbShots": SHOTS},
    },
}


def payload(kind):
    """The same for the library."""
    task = INPUTS[kind]
    if "parameters" in task:
        text = json.dumps(task["parameters"])
        return qrmi.Payload.QiskitPrimitive(input=text, program_id=task["program_id"])
    if kind == "pasqal-cloud":
        sequence = json.dumps(task["sequence"])
        return qrmi.Payload.PasqalCloud(sequence=sequence, job_runs=task["job_runs"])
    if kind == "iqm-server":
        circuits = json.dumps(task["iqmjson"])
        rest = {name: task[name] for name in ("use_timeslot", "tag", "job_type")}
        return qrmi.Payload.IQMServer(iqmjson=circuits, **rest)
    parameters = json.dumps(task["input_params"])
    return qrmi.Payload.AliceBobFelis(human_qir=task["human_qir"], input_params=parameters)


def shots(kind, result):
    """Number of shots in the text of a result."""
    if kind == "alice-bob-felis":
        # Lines of a table: a memory and how often it came.
        return sum(int(line.rsplit(",", 1)[1]) for line in result.split())
    told = json.loads(result)
    if kind == "pasqal-cloud":
        return sum(told["counter"].values())
    if kind == "iqm-server":
        return sum(told["measurement_counts"][0]["counts"].values())
    return len(told["results"][0]["data"]["c"]["samples"])
