"""Computes jobs of Qiskit's sampler for the emulator, with Qiskit's own simulator of states.

A job is {"id", "input"}. Input and result are in the JSON of IBM's runtime, and IBM's own code reads
and writes them.
"""

import json

from qiskit.converters import circuit_to_dag, dag_to_circuit
from qiskit.primitives import StatevectorSampler
from qiskit_ibm_runtime import RuntimeDecoder, RuntimeEncoder

# Of a job that names none; the same number as for circuits in OpenQASM 3.
SHOTS = 4096


def narrow(circuit):
    """The circuit without idle qubits: it is as wide as its machine, and each doubles the work."""
    dag = circuit_to_dag(circuit)
    qubits = set(dag.qubits)
    dag.remove_qubits(*[wire for wire in dag.idle_wires() if wire in qubits])
    return dag_to_circuit(dag)


def compute(job):
    params = json.loads(job["input"], cls=RuntimeDecoder)
    shots = params.get("shots") or params.get("options", {}).get("default_shots") or SHOTS
    pubs = [(narrow(circuit), *rest) for circuit, *rest in params["pubs"]]
    result = StatevectorSampler(default_shots=shots).run(pubs).result()
    return json.dumps(result, cls=RuntimeEncoder)


serve(compute)  # noqa: F821 (of worker.py)
