"""Pasqal's own client, at the address of QRMI's variable or at its own."""

import json
import os

import turns
from pasqal_cloud.endpoints import Endpoints, TokenProviderConf
from pasqal_cloud.pasqal_cloud_client import PasqalCloudClient

NAME = "EMU_FREE_QRMI_PASQAL_CLOUD_"


def submit():
    base = os.environ[f"{NAME}BASE_URL"]
    endpoints = Endpoints(core=f"{base}/core-fast", account=f"{base}/account")
    if "IN_CODE_DEFAULT" in os.environ:
        endpoints = None
    tokens = TokenProviderConf(
        token_endpoint=os.environ[f"{NAME}AUTH_ENDPOINT"],
        public_client_id="judge",
        audience="https://apis.pasqal.cloud/account/api/v1",
        realm="pcs-users",
        grant_type="http://auth0.com/oauth/grant-type/password-realm",
    )
    client = PasqalCloudClient(
        username=os.environ[f"{NAME}CLIENT_ID"],
        password=os.environ[f"{NAME}CLIENT_SECRET"],
        project_id=os.environ[f"{NAME}PROJECT_ID"],
        endpoints=endpoints,
        auth_config=tokens,
    )
    sequence = json.dumps({"register": [{"name": "q0"}, {"name": "q1"}]})
    batch = client.create_batch(
        sequence, jobs=[{"runs": turns.SHOTS}], device_type="EMU_FREE", wait=True
    )
    assert batch.status == "DONE", batch.status
    return batch.id, sum(batch.ordered_jobs[0].result.values())


turns.run(["pasqal-cloud"], submit)
