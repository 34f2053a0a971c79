"""Makes calls of qiskit-alice-bob-provider: one JSON object a line in, {"answer"} or {"error"} out.

The client takes its address from code alone, and joins paths to it as browsers do: without the
slash at its end, the last part of the address is lost.
"""

import json
import os
import sys

from qiskit import QuantumCircuit, transpile
from qiskit_alice_bob_provider import AliceBobRemoteProvider

JOBS = {}


def run(shots):
    provider = AliceBobRemoteProvider(
        os.environ["felis_QRMI_AB_FELIS_API_KEY"],
        url=os.environ["felis_QRMI_AB_FELIS_BASE_ENDPOINT"] + "/",
        retries=1,
    )
    backend = provider.get_backend("EMU:1Q:LESCANNE_2020", verbose=False)
    circuit = QuantumCircuit(1, 1)
    circuit.initialize("+", 0)
    circuit.measure(0, 0)
    job = backend.run(transpile(circuit, backend), shots=shots)
    JOBS[job.job_id()] = job
    return job.job_id()


def answer(call):
    if call["call"] == "run":
        return run(call["shots"])
    job = JOBS[call["job"]]
    if call["call"] == "status":
        return job.status().name
    if call["call"] == "counts":
        return job.result(timeout=10).get_counts()
    return job.cancel()


for line in sys.stdin:
    try:
        told = {"answer": answer(json.loads(line))}
    except Exception as problem:
        told = {"error": f"{type(problem).__name__}: {problem}"}
    print(json.dumps(told), flush=True)
