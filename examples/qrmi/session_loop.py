"""Variational loop in a session of IBM Quantum Compute Service, with QRMI.

The vendor runs the jobs of an active session before those of others: only the first round waits in
the queue. An open session may cost money while nothing runs, so the producer ends it in any case:
after the last round, after an error, and when its pod is deleted.

Only the producer knows when the search is over, so the Job says `release: manual`.
"""

import json
import math
import os
import random
import signal
import time
import urllib.error
import urllib.request

import qrmi

RESOURCE = os.environ["QRMI_JOB_QPU_RESOURCES"]
SHOTS = int(os.environ.get("SHOTS", "200"))
# IBM takes five jobs a minute from one user.
ROUNDS = int(os.environ.get("ROUNDS", "4"))
INDEX = int(os.environ.get("JOB_COMPLETION_INDEX", "0"))

resource = qrmi.QuantumResource(RESOURCE, qrmi.ResourceType.IBMQuantumComputeService)


def ansatz(angle):
    # The native gates of a turn by the angle about y, as far as a measurement sees it.
    program = f"""OPENQASM 3.0; include "stdgates.inc"; bit[2] c;
    sx $0; rz({angle + math.pi:.6f}) $0; sx $0; cx $0, $1;
    c[0] = measure $0; c[1] = measure $1;"""
    pubs = {"pubs": [[program, None, SHOTS]], "version": 2, "support_qiskit": False}
    return qrmi.Payload.QiskitPrimitive(input=json.dumps(pubs), program_id="sampler")


def values(task):
    """Z on the first qubit, shot by shot, as soon as the job has ended."""
    while (status := str(resource.task_status(task)).rsplit(".", 1)[-1]) in ("Queued", "Running"):
        time.sleep(1)
    if status != "Completed":
        raise SystemExit(f"{task} ended {status}")
    samples = json.loads(resource.task_result(task).value)["results"][0]["data"]["c"]["samples"]
    return [-1 if int(sample, 16) & 1 else 1 for sample in samples]


def release(task):
    """Opens the gates for this job; asked again until Sluice has written it down."""
    url = os.environ["SLUICE_URL"] + "/v1/release"
    for _ in range(30):
        try:
            body = json.dumps({"id": task}).encode()
            with urllib.request.urlopen(urllib.request.Request(url, body), timeout=30) as answer:
                print(f"release of {task}: {answer.status}", flush=True)
                return
        except urllib.error.HTTPError as error:
            print(f"release of {task}: {error.code} {error.read().decode()}", flush=True)
            if error.code != 503:
                raise
            time.sleep(1)
    raise SystemExit("the gates could not be opened")


def search():
    """The job with the lowest energy."""
    best = None
    for turn in range(ROUNDS):
        # A real search would choose the next angle by what it has seen so far.
        angle = 1.5 * math.pi * (turn + 1) / ROUNDS
        task = resource.task_start(ansatz(angle))
        print(f"round {turn} submitted {task}", flush=True)
        shots = values(task)
        energy = sum(shots) / len(shots)
        print(f"round {turn}: angle {angle:.3f} energy {energy:.3f}", flush=True)
        if best is None or energy < best[0]:
            best = (energy, angle, task)
    print(f"best angle {best[1]:.3f} energy {best[0]:.3f}", flush=True)
    return best[2]


def stop(_signal, _frame):
    raise SystemExit("told to stop")


if os.environ["FLUENCE_COORDINATION_ROLE"] == "producer":
    # Without a handler SIGTERM would end the program before it has ended the session.
    signal.signal(signal.SIGTERM, stop)
    session = resource.acquire()
    print(f"session {session} is open", flush=True)
    try:
        best = search()
    finally:
        resource.release(session)
        print(f"session {session} is closed", flush=True)
    release(best)
else:
    # Each consumer draws its own share of bootstrap samples for the error bar.
    shots = values(os.environ["FLUENCE_QUANTUM_JOB_ID"])
    draw = random.Random(INDEX)
    means = [sum(draw.choices(shots, k=len(shots))) / len(shots) for _ in range(100)]
    mean = sum(means) / len(means)
    error = math.sqrt(sum((m - mean) ** 2 for m in means) / len(means))
    print(f"energy {mean:.3f} +- {error:.3f} by consumer {INDEX}", flush=True)
