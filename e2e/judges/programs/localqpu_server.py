"""localqpu, an emulator of another author: prints its URL; told `report`, what it has seen."""

import ctypes
import json
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

PR_SET_PDEATHSIG = 1


def ends_with_its_parent():
    # The test kills this program without a word; its server must not outlive it.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


with tempfile.TemporaryDirectory() as folder:
    scenario = Path(folder, "scenario.json")
    scenario.write_text(sys.argv[1])
    program = Path(sys.executable).with_name("localqpu")
    server = subprocess.Popen(
        [program, "start", "--port", "0", "--scenario", scenario],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=ends_with_its_parent,
    )
    try:
        url = None
        while url is None:
            url = re.search(r"http://127\.0\.0\.1:\d+", next(server.stdout))
        print(url[0], flush=True)
        # Ends with its reader, or when there is nobody to ask any more.
        for _ in sys.stdin:

            def get(what):
                with urllib.request.urlopen(f"{url[0]}/_localqpu/{what}", timeout=10) as answer:
                    return json.load(answer)

            posted = [
                request
                for request in get("requests")["requests"]
                if request["method"] == "POST" and request["path"] == "/quantum-task"
            ]
            seen = {"jobs": len(get("jobs")["jobs"]), "submissions": len(posted)}
            print(json.dumps(seen), flush=True)
    finally:
        server.terminate()
        server.wait(10)
