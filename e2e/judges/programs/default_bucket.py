"""amazon-braket-sdk with its default bucket, which it names by STS and makes in S3."""

import json
import time

import turns
from braket.aws import AwsDevice
from braket.circuits import Circuit

bell = Circuit().h(0).cnot(0, 1)
task = AwsDevice(turns.SV1).run(bell, shots=turns.SHOTS)
while (seen := task.metadata())["status"] not in turns.ENDED:
    time.sleep(0.1)
place = {
    "task": task.id,
    "bucket": seen["outputS3Bucket"],
    "key": seen["outputS3Directory"] + "/results.json",
}
print(json.dumps(place), flush=True)
input()
print(json.dumps({"shots": turns.counted(task.result().measurement_counts)}), flush=True)
