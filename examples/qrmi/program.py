"""Fan-out with QRMI: one pod submits a task, all the others fetch its one result by its id."""

import json
import os
import time

import qrmi

RESOURCE = os.environ["QRMI_JOB_QPU_RESOURCES"]
TYPE = os.environ["QRMI_JOB_QPU_TYPES"]
SHOTS = int(os.environ.get("SHOTS", "100"))

BELL = """OPENQASM 3.0; include "stdgates.inc"; bit[2] c; rz(pi/2) $0; sx $0; rz(pi/2) $0;
cx $0, $1; c[0] = measure $0; c[1] = measure $1;"""


def sampler():
    pubs = {"pubs": [[BELL, None, SHOTS]], "version": 2, "support_qiskit": False}
    return qrmi.Payload.QiskitPrimitive(input=json.dumps(pubs), program_id="sampler")


def pulses():
    sequence = {"register": [{"name": "q0"}, {"name": "q1"}]}
    return qrmi.Payload.PasqalCloud(sequence=json.dumps(sequence), job_runs=SHOTS)


def circuit():
    measure = {"name": "measure", "locus": ["QB1"], "args": {"key": "m"}}
    turn = {"name": "prx", "locus": ["QB1"], "args": {"angle": 1.5708, "phase": 0.0}}
    job = {"circuits": [{"name": "coin", "instructions": [turn, measure]}], "shots": SHOTS}
    return qrmi.Payload.IQMServer(
        iqmjson=json.dumps(job), job_type="circuit", use_timeslot=False, tag="fan-out"
    )


def cat():
    qir = "call void @__quantum__qis__mz__body(%Qubit* null, %Result* null)"
    return qrmi.Payload.AliceBobFelis(human_qir=qir, input_params=json.dumps({"nbShots": SHOTS}))


KINDS = {
    "ibm-quantum-compute-service": ("IBMQuantumComputeService", sampler),
    "ibm-quantum-system": ("IBMQuantumSystem", sampler),
    "pasqal-cloud": ("PasqalCloud", pulses),
    "iqm-server": ("IQMServer", circuit),
    "alice-bob-felis": ("AliceBobFelis", cat),
}

kind, payload = KINDS[TYPE]
resource = qrmi.QuantumResource(RESOURCE, getattr(qrmi.ResourceType, kind))


def word(status):
    return str(status).rsplit(".", 1)[-1]


if os.environ["FLUENCE_COORDINATION_ROLE"] == "producer":
    # At IBM Quantum System this call waits until a lane is free.
    task = resource.task_start(payload())
    print(f"submitted {task}", flush=True)
else:
    task = os.environ["FLUENCE_QUANTUM_JOB_ID"]

# The producer stays, so that the consumers are released just in time.
while (status := word(resource.task_status(task))) in ("Queued", "Running"):
    time.sleep(0.5)
if status != "Completed":
    raise SystemExit(f"{task} ended {status}")
result = resource.task_result(task).value
print(f"{task} gave {len(result)} characters", flush=True)
