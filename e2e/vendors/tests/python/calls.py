"""Calls as told on standard input, each with its own credentials; prints their outcomes.

Input: a list of {"service", "operation", "arguments", "key", "secret", "token", "region"}.
Output: a list of {"answer"} or {"code", "status", "message"} or {"broken": <exception name>}.
"""

import json
import os
import sys

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

# One attempt: what the vendor does must be seen, not what the client makes of it.
CONFIG = Config(retries={"total_max_attempts": 1}, read_timeout=5, s3={"addressing_style": "path"})


def client(call):
    return boto3.client(
        call["service"],
        region_name=call.get("region") or "us-east-1",
        aws_access_key_id=call.get("key") or os.environ["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=call.get("secret") or os.environ["AWS_SECRET_ACCESS_KEY"],
        aws_session_token=call.get("token"),
        config=CONFIG,
    )


def plain(value):
    if hasattr(value, "read"):
        return value.read().decode()
    return str(value)


def outcome(call):
    try:
        answer = getattr(client(call), call["operation"])(**call.get("arguments", {}))
        answer.pop("ResponseMetadata", None)
        return {"answer": json.loads(json.dumps(answer, default=plain))}
    except ClientError as error:
        told = error.response["Error"]
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        return {"code": told["Code"], "status": status, "message": told["Message"]}
    except (BotoCoreError, HTTPClientError) as error:
        return {"broken": type(error).__name__}


json.dump([outcome(call) for call in json.load(sys.stdin)], sys.stdout)
