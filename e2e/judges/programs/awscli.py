"""The AWS command line, as a shell script would use it."""

import json
import subprocess
import sys
import time
from pathlib import Path

import turns

AWS = str(Path(sys.executable).with_name("aws"))


def aws(*words):
    done = subprocess.run([AWS, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ChildProcessError(done.stderr)
    return done.stdout


def submit():
    request = json.dumps(turns.REQUEST)
    made = aws("braket", "create-quantum-task", "--output", "json", "--cli-input-json", request)
    task = json.loads(made)["quantumTaskArn"]
    ask = ["braket", "get-quantum-task", "--output", "json", "--quantum-task-arn", task]
    while (seen := json.loads(aws(*ask)))["status"] not in turns.ENDED:
        time.sleep(0.1)
    place = f"s3://{seen['outputS3Bucket']}/{seen['outputS3Directory']}/results.json"
    return task, turns.measured(aws("s3", "cp", place, "-"))


turns.run(["awscli"], submit)
