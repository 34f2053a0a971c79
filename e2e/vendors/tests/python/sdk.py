"""A whole session of the vendor's SDK; prints what it saw as one JSON object."""

import json
import logging

import boto3
from braket.aws import AwsDevice, AwsQuantumTask
from braket.circuits import Circuit

logging.disable(logging.WARNING)
SV1 = "arn:aws:braket:::device/quantum-simulator/amazon/sv1"
DM1 = "arn:aws:braket:::device/quantum-simulator/amazon/dm1"
GARNET = "arn:aws:braket:eu-north-1::device/qpu/iqm/Garnet"
EMERALD = "arn:aws:braket:eu-north-1::device/qpu/iqm/Emerald"
CEPHEUS = "arn:aws:braket:us-west-1::device/qpu/rigetti/Cepheus-1-108Q"
FORTE = "arn:aws:braket:us-east-1::device/qpu/ionq/Forte-1"
bell = Circuit().h(0).cnot(0, 1)
seen = {}


def counts(result):
    return {bits: int(count) for bits, count in result.measurement_counts.items()}


seen["devices"] = {}
for arn in [SV1, DM1, GARNET, EMERALD, CEPHEUS, FORTE]:
    device = AwsDevice(arn)
    depth = device.queue_depth()
    seen["devices"][arn] = {
        "name": device.name,
        "status": device.status,
        "available": bool(device.is_available),
        "schema": type(device.properties).__name__,
        "actions": [action.value for action in device.properties.action],
        "depth": list(depth.quantum_tasks.values()),
    }

task = AwsDevice(SV1).run(bell, shots=100)
seen["first"] = task.id
seen["bell"] = counts(task.result())
seen["after"] = [task.state(), task.queue_position().queue_position, task.queue_position().message]
noisy = Circuit().x(0).amplitude_damping(0, 1.0)
seen["noisy"] = counts(AwsDevice(DM1).run(noisy, shots=10).result())
exact = AwsDevice(SV1).run(Circuit().h(0).probability().state_vector(), shots=0).result()
seen["exact"] = [float(p) for p in exact.values[0]]
seen["amplitude"] = [abs(complex(a)) ** 2 for a in exact.values[1]]

batch = AwsDevice(GARNET).run_batch([bell] * 3, shots=20, tags={"batch": "1"})
seen["batch"] = [sum(counts(result).values()) for result in batch.results()]

waiting = AwsDevice(EMERALD).run(bell, shots=5)
seen["queued"] = [waiting.state(), waiting.queue_position().queue_position]
waiting.cancel()
seen["cancelled"] = waiting.id

attached = AwsQuantumTask(arn=task.id)
seen["attached"] = [attached.state(), counts(attached.result()) == seen["bell"]]

bad = AwsDevice(SV1).run(
    __import__("braket.ir.openqasm", fromlist=["Program"]).Program(source="OPENQASM 3.0; what is"),
    shots=5,
)
seen["bad"] = [bad.result(), bad.state(), bad.metadata(use_cached_value=True)["failureReason"]]

north = boto3.client("braket", region_name="eu-north-1")
pages = north.get_paginator("search_quantum_tasks").paginate(
    filters=[
        {"name": "deviceArn", "operator": "EQUAL", "values": [GARNET]},
        {"name": "createdAt", "operator": "GTE", "values": ["2020-01-01T00:00:00Z"]},
    ],
    PaginationConfig={"PageSize": 2},
)
seen["pages"] = [
    [{"arn": t["quantumTaskArn"], "tags": t["tags"]} for t in page["quantumTasks"]]
    for page in pages
]
seen["batch_ids"] = [t.id for t in batch.tasks]
seen["plain_actions"] = list(
    json.loads(north.get_device(deviceArn=GARNET)["deviceCapabilities"])["action"]
)
seen["no_queue_info"] = "queueInfo" in north.get_quantum_task(quantumTaskArn=batch.tasks[0].id)
found = AwsDevice.get_devices(arns=[GARNET, SV1])
seen["found"] = sorted(device.arn for device in found)
print(json.dumps(seen))
