"""moto's S3 and STS: prints its URL; told of a result, fetches it from where it is."""

import json
import os
import sys

import boto3
from moto.server import ThreadedMotoServer

# Nothing but the lines of the protocol on standard output.
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
url = f"http://{host}:{port}"
print(url, file=out, flush=True)


def client(endpoint):
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="AKIDEXAMPLE",
        aws_secret_access_key="secret",
    )


for line in sys.stdin:
    order = json.loads(line)
    place = {"Bucket": order["bucket"], "Key": order["key"]}
    buckets = {bucket["Name"] for bucket in client(url).list_buckets()["Buckets"]}
    made = order["bucket"] in buckets
    if made:
        result = client(order["from"]).get_object(**place)["Body"].read()
        client(url).put_object(**place, Body=result)
    print(json.dumps({"made": made}), file=out, flush=True)
server.stop()
