"""Submits by QRMI and never asks again: whatever is known of the task, the sidecar has found out."""

import json
import os
import time

import qrmi

if os.environ["FLUENCE_COORDINATION_ROLE"] == "producer":
    resource = qrmi.QuantumResource("garnet", qrmi.ResourceType.IQMServer)
    measure = {"name": "measure", "locus": ["QB1"], "args": {"key": "m"}}
    job = {"circuits": [{"name": "coin", "instructions": [measure]}], "shots": 10}
    task = resource.task_start(
        qrmi.Payload.IQMServer(
            iqmjson=json.dumps(job), job_type="circuit", use_timeslot=False, tag="quiet"
        )
    )
    print(f"submitted {task}", flush=True)
    time.sleep(3600)
print(os.environ.get("FLUENCE_QUANTUM_JOB_ID"), flush=True)
