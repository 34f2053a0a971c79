"""IBM's own client, at IBM Quantum Compute Service; environment alone says where that is."""

import turns
from qiskit import QuantumCircuit, transpile
from qiskit_ibm_runtime import QiskitRuntimeService, SamplerV2


def submit():
    backend = QiskitRuntimeService().least_busy()
    circuit = QuantumCircuit(2, 2)
    circuit.h(0)
    circuit.cx(0, 1)
    circuit.measure([0, 1], [0, 1])
    job = SamplerV2(mode=backend).run([transpile(circuit, backend)], shots=turns.SHOTS)
    return job.job_id(), turns.counted(job.result()[0].data.c.get_counts())


turns.run(["qiskit-ibm-runtime", "qiskit"], submit)
