"""amazon-braket-sdk from before AWS_ENDPOINT_URL_BRAKET: runs and fetches."""

import os

import boto3
import turns
from braket.aws import AwsDevice, AwsSession
from braket.circuits import Circuit


class Session(boto3.Session):
    """This boto3 takes S3's endpoint from code only; Braket's is left alone."""

    def resource(self, service, **options):
        return super().resource(service, endpoint_url=os.environ["AWS_ENDPOINT_URL_S3"], **options)


def submit():
    session = AwsSession(boto_session=Session())
    bell = Circuit().h(0).cnot(0, 1)
    device = AwsDevice(turns.SV1, aws_session=session)
    task = device.run(bell, (turns.BUCKET, "judges"), shots=turns.SHOTS)
    return task.id, turns.counted(task.result().measurement_counts)


turns.run(["amazon-braket-sdk", "boto3", "botocore"], submit)
