"""Makes calls of QRMI: one JSON object a line in, {"answer"} or {"error", "text"} out.

{"resource", "type", "call", "arguments"}; the resources find their services by environment alone.
"""

import json
import sys

import qrmi

RESOURCES = {}


def resource(call):
    key = (call["resource"], call["type"])
    if key not in RESOURCES:
        RESOURCES[key] = qrmi.QuantumResource(key[0], getattr(qrmi.ResourceType, key[1]))
    return RESOURCES[key]


def answer(call):
    one = resource(call)
    name, arguments = call["call"], call["arguments"]
    if name == "task_start":
        payload = getattr(qrmi.Payload, arguments.pop("payload"))(**arguments)
        return one.task_start(payload)
    told = getattr(one, name)(*arguments)
    if name == "status":
        return json.loads(json.dumps(told.to_dict(), default=str))
    if name == "task_status":
        return str(told).rsplit(".", 1)[-1]
    if name == "task_result":
        return told.value
    return told


for line in sys.stdin:
    try:
        told = {"answer": answer(json.loads(line))}
    except Exception as problem:
        told = {"error": type(problem).__name__, "text": str(problem)}
    print(json.dumps(told), flush=True)
