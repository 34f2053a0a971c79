"""botocore alone."""

import time

import botocore.session
import turns


def submit():
    session = botocore.session.Session()
    client = session.create_client("braket")
    task = client.create_quantum_task(**turns.REQUEST)["quantumTaskArn"]
    while (seen := client.get_quantum_task(quantumTaskArn=task))["status"] not in turns.ENDED:
        time.sleep(0.1)
    key = seen["outputS3Directory"] + "/results.json"
    stored = session.create_client("s3").get_object(Bucket=seen["outputS3Bucket"], Key=key)
    return task, turns.measured(stored["Body"].read())


turns.run(["botocore"], submit)
