"""Submits and never asks again; ends when `done` appears in S3. The sidecar reads by itself."""

import json
import os
import time

import boto3
from botocore.exceptions import ClientError

bucket = os.environ["AMZN_BRAKET_OUT_S3_BUCKET"]
s3 = boto3.client("s3")
if os.environ["FLUENCE_COORDINATION_ROLE"] == "producer":
    braket = boto3.client("braket", region_name=os.environ.get("REGION", "eu-north-1"))
    program = {
        "braketSchemaHeader": {"name": "braket.ir.openqasm.program", "version": "1"},
        "source": "OPENQASM 3.0; qubit[2] q; bit[2] b; h q[0]; cnot q[0], q[1]; b = measure q;",
        "inputs": {},
    }
    task = braket.create_quantum_task(
        clientToken=os.environ["HOSTNAME"],
        deviceArn=os.environ["DEVICE"],
        shots=20,
        outputS3Bucket=bucket,
        outputS3KeyPrefix="tasks",
        action=json.dumps(program),
    )
    print(f"submitted {task['quantumTaskArn']}", flush=True)
while True:
    try:
        s3.head_object(Bucket=bucket, Key="done")
        break
    except ClientError:
        time.sleep(0.5)
