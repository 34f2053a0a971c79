"""Submits once by boto3 and prints the error that the program sees."""

import json

import boto3
from botocore.exceptions import ClientError

try:
    boto3.client("braket").create_quantum_task(
        deviceArn="arn:aws:braket:::device/quantum-simulator/amazon/sv1",
        outputS3Bucket="amazon-braket-x",
        outputS3KeyPrefix="k",
        shots=1,
        action="{}",
    )
    print(json.dumps({"code": None}))
except ClientError as error:
    print(
        json.dumps(
            {
                "code": error.response["Error"]["Code"],
                "message": error.response["Error"]["Message"],
                "status": error.response["ResponseMetadata"]["HTTPStatusCode"],
                "retries": error.response["ResponseMetadata"]["RetryAttempts"],
            }
        )
    )
