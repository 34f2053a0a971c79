"""Makes calls of pasqal-cloud: one JSON object a line in, {"answer"} or {"error"} out."""

import json
import os
import sys

from pasqal_cloud.endpoints import Endpoints, TokenProviderConf
from pasqal_cloud.pasqal_cloud_client import PasqalCloudClient

NAME = "EMU_FREE_QRMI_PASQAL_CLOUD_"
SEQUENCE = json.dumps({"register": [{"name": "q0"}, {"name": "q1"}]})
CLIENT = []


def client():
    """Signs in with the first call, so that a refusal is the answer to it."""
    if not CLIENT:
        base = os.environ[f"{NAME}BASE_URL"]
        tokens = TokenProviderConf(
            token_endpoint=os.environ[f"{NAME}AUTH_ENDPOINT"],
            public_client_id="judge",
            audience="https://apis.pasqal.cloud/account/api/v1",
            realm="pcs-users",
            grant_type="http://auth0.com/oauth/grant-type/password-realm",
        )
        CLIENT.append(
            PasqalCloudClient(
                username=os.environ[f"{NAME}CLIENT_ID"],
                password=os.environ[f"{NAME}CLIENT_SECRET"],
                project_id=os.environ[f"{NAME}PROJECT_ID"],
                endpoints=Endpoints(core=f"{base}/core-fast", account=f"{base}/account"),
                auth_config=tokens,
            )
        )
    return CLIENT[0]


def answer(call):
    if call["call"] == "create":
        jobs = [{"runs": call["runs"]}]
        return client().create_batch(SEQUENCE, jobs, open=call["open"], device_type="EMU_FREE").id
    batch = client().get_batch(call["batch"])
    if call["call"] == "add":
        batch.add_jobs([{"runs": call["runs"]}])
    elif call["call"] == "close":
        batch.close()
    elif call["call"] == "cancel":
        batch.cancel()
    elif call["call"] == "results":
        return [job.result for job in batch.ordered_jobs]
    jobs = [job.status for job in batch.ordered_jobs]
    return {"status": client().get_batch_status(batch.id).value, "open": batch.open, "jobs": jobs}


for line in sys.stdin:
    try:
        told = {"answer": answer(json.loads(line))}
    # The client's own errors are no Exception.
    except BaseException as problem:
        told = {"error": f"{type(problem).__name__}: {problem}"}
    print(json.dumps(told), flush=True)
