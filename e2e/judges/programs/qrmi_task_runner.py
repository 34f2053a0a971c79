"""QRMI's task runner, as a batch job starts it."""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import qrmi_payloads
import turns


def submit():
    kind = os.environ["QRMI_JOB_QPU_TYPES"]
    with tempfile.TemporaryDirectory() as folder:
        task, output = Path(folder, "input.json"), Path(folder, "output")
        task.write_text(json.dumps(qrmi_payloads.INPUTS[kind]))
        runner = Path(sys.executable).with_name("task_runner")
        name = os.environ["QRMI_JOB_QPU_RESOURCES"]
        ended = subprocess.run([runner, name, task, output], capture_output=True, text=True)
        assert ended.returncode == 0 and output.exists(), ended.stdout + ended.stderr
        found = re.search("Task ID: (.+)", ended.stdout).group(1)
        return found, qrmi_payloads.shots(kind, output.read_text())


turns.run(["qrmi"], submit)
