"""Qiskit's Braket provider."""

import turns
from qiskit import QuantumCircuit
from qiskit_braket_provider import BraketProvider


def submit():
    circuit = QuantumCircuit(2, 2)
    circuit.h(0)
    circuit.cx(0, 1)
    circuit.measure([0, 1], [0, 1])
    job = BraketProvider().get_backend("SV1").run(circuit, shots=turns.SHOTS)
    return job.job_id(), turns.counted(job.result().get_counts())


turns.run(["qiskit-braket-provider", "qiskit"], submit)
