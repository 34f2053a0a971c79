"""A program with boto3 alone: submits, waits for the end, tells which key it used, as JSON."""

import json
import os
import sys
import time

import boto3

GARNET = "arn:aws:braket:eu-north-1::device/qpu/iqm/Garnet"
ACTION = json.dumps(
    {
        "braketSchemaHeader": {"name": "braket.ir.openqasm.program", "version": "1"},
        "source": "OPENQASM 3.0; qubit[1] q; bit[1] b; h q[0]; b[0] = measure q[0];",
        "inputs": {},
    }
)

session = boto3.Session(region_name="eu-north-1")
role = os.environ.get("OTHER_ROLE")
if role:
    keys = session.client("sts").assume_role(RoleArn=role, RoleSessionName="other")["Credentials"]
    session = boto3.Session(
        aws_access_key_id=keys["AccessKeyId"],
        aws_secret_access_key=keys["SecretAccessKey"],
        aws_session_token=keys["SessionToken"],
        region_name="eu-north-1",
    )
client = session.client("braket")
try:
    made = client.create_quantum_task(
        deviceArn=GARNET,
        outputS3Bucket="amazon-braket-x",
        outputS3KeyPrefix="k",
        shots=1,
        action=ACTION,
    )
except client.exceptions.ClientError as error:
    print(json.dumps(error.response["Error"]))
    sys.exit()
task = made["quantumTaskArn"]
while True:
    answer = client.get_quantum_task(quantumTaskArn=task, additionalAttributeNames=["QueueInfo"])
    if answer["status"] in ("RUNNING", "COMPLETED", "FAILED", "CANCELLED"):
        break
    time.sleep(0.2)
keys = session.get_credentials().get_frozen_credentials()
print(json.dumps({"task": task, "status": answer["status"], "key": keys.access_key}))
