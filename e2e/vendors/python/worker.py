"""Head of every worker: what the emulator asks, and how it is answered.

One JSON object a line in, with an "id"; {"id", "result"} or {"id", "failure"} out. Ends when its
input ends. The source of a worker is this file and then its own, which calls `serve`.
"""

import json
import sys

# Libraries may print; the protocol owns the real standard output.
answers, sys.stdout = sys.stdout, sys.stderr


def tell(said):
    answers.write(json.dumps(said) + "\n")
    answers.flush()


def answer(job, compute):
    try:
        return {"id": job["id"], "result": compute(job)}
    except Exception as problem:  # every program error is the user's to read
        text = str(problem).strip() or type(problem).__name__
        return {"id": job["id"], "failure": text}


def serve(compute):
    tell({"ready": True})
    for line in sys.stdin:
        tell(answer(json.loads(line), compute))
