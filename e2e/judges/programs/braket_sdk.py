"""amazon-braket-sdk: runs and fetches."""

import os

import turns
from braket.aws import AwsDevice, AwsSession
from braket.circuits import Circuit

import boto3


def submit():
    session = AwsSession()
    # As a program would write it into its code.
    if endpoint := os.environ.get("IN_CODE_ENDPOINT"):
        session = AwsSession(braket_client=boto3.client("braket", endpoint_url=endpoint))
    bell = Circuit().h(0).cnot(0, 1)
    device = AwsDevice(turns.SV1, aws_session=session)
    task = device.run(bell, (turns.BUCKET, "judges"), shots=turns.SHOTS)
    return task.id, turns.counted(task.result().measurement_counts)


turns.run(["amazon-braket-sdk", "boto3"], submit)
