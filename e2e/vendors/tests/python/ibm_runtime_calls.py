"""Makes calls of qiskit-ibm-runtime: one JSON object a line in, {"answer"} or {"error"} out.

The client finds account, service and token service by environment alone.
"""

import json
import sys
import warnings
from functools import cache

from qiskit import QuantumCircuit, transpile
from qiskit_ibm_runtime import QiskitRuntimeService, SamplerV2, Session

JOBS = {}
SESSIONS = {}


@cache
def service():
    return QiskitRuntimeService()


@cache
def backend():
    return service().least_busy()


@cache
def bell():
    circuit = QuantumCircuit(2, 2)
    circuit.h(0)
    circuit.cx(0, 1)
    circuit.measure([0, 1], [0, 1])
    return transpile(circuit, backend())


def sign_in(call):
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        service()
    return [str(one.message) for one in warned]


def describe(call):
    one = backend()
    status = one.status()
    return {
        "name": one.name,
        "qubits": one.num_qubits,
        "gates": sorted(one.operation_names),
        "t1": one.qubit_properties(0).t1,
        "operational": status.operational,
        "pending": status.pending_jobs,
    }


def run(call):
    mode = SESSIONS[call["session"]] if "session" in call else backend()
    sampler = SamplerV2(mode=mode)
    sampler.options.environment.job_tags = call.get("tags", [])
    job = sampler.run([bell()], shots=call["shots"])
    JOBS[job.job_id()] = job
    return job.job_id()


def open_session(call):
    session = Session(backend=backend())
    SESSIONS[session.session_id] = session
    return session.session_id


def fetch(call):
    job = service().job(call["job"])
    return {
        "status": job.status(),
        "why": job.error_message(),
        "backend": job.backend().name,
        "session": job.session_id,
        "tags": job.tags,
        "circuits": len(job.inputs["pubs"]),
        "usage": job.usage(),
    }


CALLS = {
    "sign_in": sign_in,
    "describe": describe,
    "run": run,
    "open": open_session,
    "fetch": fetch,
    "list": lambda call: [job.job_id() for job in service().jobs(**call["filters"])],
    "usage": lambda call: service().usage(),
    "status": lambda call: JOBS[call["job"]].status(),
    "counts": lambda call: JOBS[call["job"]].result(timeout=10)[0].data.c.get_counts(),
    "tag": lambda call: JOBS[call["job"]].update_tags(call["tags"]),
    "cancel": lambda call: JOBS[call["job"]].cancel(),
    "session_status": lambda call: SESSIONS[call["session"]].status(),
    "close_session": lambda call: SESSIONS[call["session"]].close(),
    "cancel_session": lambda call: SESSIONS[call["session"]].cancel(),
}

for line in sys.stdin:
    try:
        call = json.loads(line)
        told = {"answer": CALLS[call["call"]](call)}
    except Exception as problem:
        told = {"error": f"{type(problem).__name__}: {problem}"}
    print(json.dumps(told), flush=True)
