"""Submits past the tap, with an endpoint of its own, and announces the task to the sidecar."""

import json
import os
import time
import urllib.request

import boto3

braket = boto3.client("braket", region_name="eu-north-1", endpoint_url=os.environ["DIRECT"])
program = {
    "braketSchemaHeader": {"name": "braket.ir.openqasm.program", "version": "1"},
    "source": "OPENQASM 3.0; qubit[2] q; bit[2] b; h q[0]; cnot q[0], q[1]; b = measure q;",
    "inputs": {},
}
if os.environ["FLUENCE_COORDINATION_ROLE"] == "producer":
    arn = braket.create_quantum_task(
        clientToken=os.environ["HOSTNAME"],
        deviceArn=os.environ["DEVICE"],
        shots=20,
        outputS3Bucket=os.environ["AMZN_BRAKET_OUT_S3_BUCKET"],
        outputS3KeyPrefix="tasks",
        action=json.dumps(program),
    )["quantumTaskArn"]
    request = urllib.request.Request(
        os.environ["SLUICE_URL"] + "/v1/tasks",
        data=json.dumps({"id": arn}).encode(),
        headers={"Content-Type": "application/json"},
    )
    print(urllib.request.urlopen(request).status, flush=True)
else:
    arn = os.environ["FLUENCE_QUANTUM_JOB_ID"]
while braket.get_quantum_task(quantumTaskArn=arn)["status"] not in ("COMPLETED", "FAILED", "CANCELLED"):
    time.sleep(0.5)
print(f"done {arn}", flush=True)
