"""IQM's own client, at the address of QRMI's variable or at one in code."""

import os

import turns
from iqm.iqm_client import Circuit, CircuitOperation, IQMClient

HALF = 1.5707963267948966


def turn(qubit, angle, phase):
    return CircuitOperation(name="prx", locus=(qubit,), args={"angle": angle, "phase": phase})


def submit():
    url = os.environ.get("IN_CODE_ENDPOINT") or os.environ["garnet_QRMI_IQM_ISA_ENDPOINT"]
    token = os.environ["garnet_QRMI_IQM_ISA_TOKEN"]
    client = IQMClient(url, quantum_computer="garnet", token=token)
    # A Hadamard is a quarter turn about y and a half turn about x.
    first, second = (
        [turn(qubit, HALF, HALF), turn(qubit, 2 * HALF, 0.0)] for qubit in ("QB1", "QB2")
    )
    joined = CircuitOperation(name="cz", locus=("QB1", "QB2"), args={})
    ends = [
        CircuitOperation(name="measure", locus=(qubit,), args={"key": qubit})
        for qubit in ("QB1", "QB2")
    ]
    bell = Circuit(name="bell", instructions=(*first, *second, joined, *second, *ends))
    job = client.submit_circuits([bell], shots=turns.SHOTS)
    job.wait_for_completion()
    result = job.result()[0]
    assert result["QB1"] == result["QB2"], result
    return str(job.job_id), len(result["QB1"])


turns.run(["iqm-client"], submit)
