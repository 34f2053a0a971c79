"""Checks recorded answers against the API models that botocore carries.

Input: a journal with answers. Output: {"checked": {operation: number}, "problems": [text]}.
"""

import json
import re
import sys

import botocore.loaders
from botocore.model import ServiceModel
from botocore.parsers import create_parser
from botocore.validate import ParamValidator

# Errors of the signature check and of routing: common to all services, in no model.
COMMON = {
    "UnrecognizedClientException": 403,
    "InvalidSignatureException": 403,
    "IncompleteSignatureException": 403,
    "MissingAuthenticationTokenException": 403,
    "ExpiredTokenException": 403,
    "AccessDeniedException": 403,
    "ThrottlingException": 429,
    "UnknownOperationException": 404,
}
loader = botocore.loaders.Loader()
models = {
    name: ServiceModel(loader.load_service_model(name, "service-2"), name)
    for name in ["braket", "s3", "sts"]
}
errors_of_braket = {shape.name: shape for shape in models["braket"].error_shapes}


def words(value, shape, place):
    """What ParamValidator does not look at: enumerations, patterns, bounds of numbers."""
    if value is None:
        yield f"{place}: null"
    elif shape.type_name == "structure":
        for name, member in shape.members.items():
            if name in value:
                yield from words(value[name], member, f"{place}.{name}")
    elif shape.type_name == "list":
        for index, item in enumerate(value):
            yield from words(item, shape.member, f"{place}[{index}]")
    elif shape.type_name == "string":
        if shape.enum and value not in shape.enum:
            yield f"{place}: {value} is none of {shape.enum}"
        pattern = shape.metadata.get("pattern")
        if pattern and not re.fullmatch(pattern, value):
            yield f"{place}: {value} does not match {pattern}"
        if len(value) > shape.metadata.get("max", len(value)):
            yield f"{place}: too long"
    elif shape.type_name == "timestamp":
        if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", value):
            yield f"{place}: {value} is not the vendor's form of a time"


def structure(value, shape):
    report = ParamValidator().validate(value, shape)
    if report.has_errors():
        yield report.generate_report()
    yield from words(value, shape, shape.name)


def response(entry):
    answer = entry["answer"]
    return {
        "status_code": entry["status"],
        "headers": answer["headers"],
        "body": answer["body"].encode(),
        "context": {"operation_name": entry["operation"]},
    }


def braket(entry):
    body = json.loads(entry["answer"]["body"])
    model = models["braket"]
    known = entry["operation"] in model.operation_names
    operation = model.operation_model(entry["operation"]) if known else None
    if entry["status"] < 300:
        if entry["status"] != operation.http.get("responseCode", 200):
            yield f"status {entry['status']}"
        if operation.output_shape:
            yield from structure(body, operation.output_shape)
            create_parser("rest-json").parse(response(entry), operation.output_shape)
        return
    name = entry["answer"]["headers"].get("x-amzn-errortype")
    if name != entry["error"]:
        yield f"x-amzn-errortype is {name}"
    declared = {shape.name for shape in operation.error_shapes} if operation else set()
    if name in declared:
        shape = errors_of_braket[name]
        if entry["status"] != shape.metadata["error"]["httpStatusCode"]:
            yield f"{name} with status {entry['status']}"
        yield from structure(body, shape)
    elif COMMON.get(name) != entry["status"]:
        yield f"{name} with status {entry['status']} is not an error of this operation"
    parsed = create_parser("rest-json").parse(response(entry), None)
    if parsed["Error"]["Code"] != name or not parsed["Error"]["Message"]:
        yield f"parsed as {parsed['Error']}"


def xml(entry):
    model = models[entry["service"]]
    protocol = {"s3": "rest-xml", "sts": "query"}[entry["service"]]
    if entry["operation"] not in model.operation_names:
        return
    operation = model.operation_model(entry["operation"])
    if entry["status"] < 300:
        if operation.output_shape and not operation.has_streaming_output:
            parsed = create_parser(protocol).parse(response(entry), operation.output_shape)
            parsed.pop("ResponseMetadata")
            if entry["operation"] == "GetCallerIdentity" and set(parsed) != {
                "Account",
                "Arn",
                "UserId",
            }:
                yield f"parsed as {parsed}"
    elif entry["method"] != "HEAD":
        parsed = create_parser(protocol).parse(response(entry), None)
        if parsed["Error"]["Code"] != entry["error"] or not parsed["Error"]["Message"]:
            yield f"parsed as {parsed['Error']}"


def main():
    checked, problems = {}, []
    for entry in json.load(sys.stdin):
        # Foreign answers and closed connections follow no model, on purpose.
        if entry["status"] is None or entry["fault"] == "answer":
            continue
        check = braket if entry["service"] == "braket" else xml
        name = f"{entry['operation']} {entry['error'] or entry['status']}"
        checked[name] = checked.get(name, 0) + 1
        try:
            found = list(check(entry))
        except Exception as problem:
            found = [f"{type(problem).__name__}: {problem}"]
        problems += [f"{name}: {text}" for text in found]
    json.dump({"checked": checked, "problems": problems}, sys.stdout)


main()
