"""boto3 from before AWS_ENDPOINT_URL_BRAKET: submits only."""

import boto3
import turns


def submit():
    made = boto3.Session().client("braket").create_quantum_task(**turns.REQUEST)
    return made["quantumTaskArn"], None


turns.run(["boto3", "botocore"], submit)
