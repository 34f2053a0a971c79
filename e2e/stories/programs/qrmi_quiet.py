"""Submits by QRMI and never asks again: whatever is known of the task, the sidecar has found out."""

import json
import os
import time

import qrmi


def circuit():
    measure = {"name": "measure", "locus": ["QB1"], "args": {"key": "m"}}
    job = {"circuits": [{"name": "coin", "instructions": [measure]}], "shots": 10}
    return qrmi.Payload.IQMServer(
        iqmjson=json.dumps(job), job_type="circuit", use_timeslot=False, tag="quiet"
    )


def sampler():
    coin = 'OPENQASM 3.0; include "stdgates.inc"; bit[1] c; sx $0; c[0] = measure $0;'
    pubs = {"pubs": [[coin, None, 10]], "version": 2, "support_qiskit": False}
    return qrmi.Payload.QiskitPrimitive(input=json.dumps(pubs), program_id="sampler")


KINDS = {
    "iqm-server": ("IQMServer", circuit),
    "ibm-quantum-compute-service": ("IBMQuantumComputeService", sampler),
}

if os.environ["FLUENCE_COORDINATION_ROLE"] == "producer":
    kind, payload = KINDS[os.environ["QRMI_JOB_QPU_TYPES"]]
    name = os.environ["QRMI_JOB_QPU_RESOURCES"]
    task = qrmi.QuantumResource(name, getattr(qrmi.ResourceType, kind)).task_start(payload())
    print(f"submitted {task}", flush=True)
    time.sleep(3600)
print(os.environ.get("FLUENCE_QUANTUM_JOB_ID"), flush=True)
