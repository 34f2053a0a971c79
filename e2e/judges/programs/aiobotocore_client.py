"""aiobotocore."""

import asyncio

import turns
from aiobotocore.session import AioSession


async def submission():
    session = AioSession()
    async with session.create_client("braket") as client:
        task = (await client.create_quantum_task(**turns.REQUEST))["quantumTaskArn"]
        while True:
            seen = await client.get_quantum_task(quantumTaskArn=task)
            if seen["status"] in turns.ENDED:
                break
            await asyncio.sleep(0.1)
    key = seen["outputS3Directory"] + "/results.json"
    async with session.create_client("s3") as client:
        stored = await client.get_object(Bucket=seen["outputS3Bucket"], Key=key)
        async with stored["Body"] as body:
            return task, turns.measured(await body.read())


turns.run(["aiobotocore", "botocore"], lambda: asyncio.run(submission()))
