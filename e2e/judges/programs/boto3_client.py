"""boto3 alone: submits, polls, fetches the result from S3."""

import os
import time

import boto3
import turns
from botocore.config import Config


def submit():
    session = boto3.Session()
    options = {}
    # As a program would write them into its code.
    if endpoint := os.environ.get("IN_CODE_ENDPOINT"):
        options["endpoint_url"] = endpoint
    if os.environ.get("IN_CODE_IGNORE"):
        options["config"] = Config(ignore_configured_endpoint_urls=True)
    client = session.client("braket", **options)
    task = client.create_quantum_task(**turns.REQUEST)["quantumTaskArn"]
    while True:
        seen = client.get_quantum_task(
            quantumTaskArn=task, additionalAttributeNames=["QueueInfo"]
        )
        if seen["status"] in turns.ENDED:
            break
        time.sleep(0.1)
    key = seen["outputS3Directory"] + "/results.json"
    stored = session.client("s3").get_object(Bucket=seen["outputS3Bucket"], Key=key)
    return task, turns.measured(stored["Body"].read())


turns.run(["boto3", "botocore"], submit)
