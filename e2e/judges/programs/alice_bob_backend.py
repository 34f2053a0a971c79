"""Alice & Bob's own client, at the address of QRMI's variable or at its own."""

import os

import turns
from qiskit import QuantumCircuit, transpile
from qiskit_alice_bob_provider import AliceBobRemoteProvider

TARGET = "EMU:1Q:LESCANNE_2020"


def submit():
    name = os.environ["QRMI_JOB_QPU_RESOURCES"]
    # The key of QRMI's variable is the one that this client takes.
    key = os.environ[f"{name}_QRMI_AB_FELIS_API_KEY"]
    url = {"url": os.environ[f"{name}_QRMI_AB_FELIS_BASE_ENDPOINT"]}
    if "IN_CODE_DEFAULT" in os.environ:
        url = {}
    provider = AliceBobRemoteProvider(key, retries=1, **url)
    backend = provider.get_backend(TARGET, verbose=False)
    circuit = QuantumCircuit(1, 1)
    circuit.initialize("+", 0)
    circuit.measure(0, 0)
    job = backend.run(transpile(circuit, backend), shots=turns.SHOTS)
    counts = job.result().get_counts()
    return job.job_id(), sum(counts.values())


turns.run(["qiskit-alice-bob-provider"], submit)
