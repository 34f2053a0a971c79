"""Submits with keys that the sidecar does not hold, then with the pod's own."""

import json
import os
import time

import boto3
from botocore.exceptions import ClientError

SUBMISSION = {
    "deviceArn": os.environ["DEVICE"],
    "shots": 20,
    "outputS3Bucket": os.environ["AMZN_BRAKET_OUT_S3_BUCKET"],
    "outputS3KeyPrefix": "tasks",
    "action": json.dumps(
        {
            "braketSchemaHeader": {"name": "braket.ir.openqasm.program", "version": "1"},
            "source": "OPENQASM 3.0; qubit[2] q; bit[2] b; h q[0]; cnot q[0], q[1]; b = measure q;",
            "inputs": {},
        }
    ),
}

stranger = boto3.client(
    "braket",
    region_name="eu-north-1",
    aws_access_key_id=os.environ["STRANGER_KEY_ID"],
    aws_secret_access_key=os.environ["STRANGER_SECRET"],
)
try:
    stranger.create_quantum_task(clientToken="stranger", **SUBMISSION)
    raise SystemExit("the stranger got through")
except ClientError as error:
    print(f"refused {error}", flush=True)

own = boto3.client("braket", region_name="eu-north-1")
arn = own.create_quantum_task(clientToken="own", **SUBMISSION)["quantumTaskArn"]
print(f"submitted {arn}", flush=True)
while own.get_quantum_task(quantumTaskArn=arn)["status"] not in ("COMPLETED", "FAILED", "CANCELLED"):
    time.sleep(0.3)
print(f"done {arn}", flush=True)
