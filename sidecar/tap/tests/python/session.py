"""An ordinary program: runs, a batch, a QPU, boto3 alone, a cancel. Prints what it got as JSON."""

import json
import time

import boto3
from braket.aws import AwsDevice, AwsQuantumTask
from braket.circuits import Circuit

SV1 = "arn:aws:braket:::device/quantum-simulator/amazon/sv1"
GARNET = "arn:aws:braket:eu-north-1::device/qpu/iqm/Garnet"

bell = Circuit().h(0).cnot(0, 1)
seen = {}
ids = []

task = AwsDevice(SV1).run(bell, shots=100)
ids.append(task.id)
seen["run"] = dict(task.result().measurement_counts)

batch = AwsDevice(SV1).run_batch([bell] * 3, shots=20)
seen["batch"] = [sum(result.measurement_counts.values()) for result in batch.results()]
ids += [task.id for task in batch.tasks]

task = AwsDevice(GARNET).run(bell, shots=30)
ids.append(task.id)
seen["qpu"] = dict(AwsQuantumTask(arn=task.id).result().measurement_counts)

client = boto3.client("braket")
made = client.create_quantum_task(
    deviceArn=SV1,
    outputS3Bucket="amazon-braket-x",
    outputS3KeyPrefix="k",
    shots=1,
    action=bell.to_ir("OPENQASM").json(),
)
ids.append(made["quantumTaskArn"])
while True:
    answer = client.get_quantum_task(
        quantumTaskArn=made["quantumTaskArn"], additionalAttributeNames=["QueueInfo"]
    )
    if answer["status"] in ("COMPLETED", "FAILED", "CANCELLED"):
        break
    time.sleep(0.1)
seen["boto3"] = {"status": answer["status"]}

task = AwsDevice(GARNET).run(bell, shots=30)
ids.append(task.id)
task.cancel()
seen["cancelled"] = task.metadata()["status"]

seen["ids"] = ids
print(json.dumps(seen))
