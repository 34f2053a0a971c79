"""QRMI's library: starts a task, asks for it until it ends, fetches its result."""

import os
import time

import qrmi
import qrmi_payloads
import turns

TYPES = {
    "ibm-quantum-compute-service": "IBMQuantumComputeService",
    "qiskit-runtime-service": "IBMQiskitRuntimeService",
    "ibm-quantum-system": "IBMQuantumSystem",
    "pasqal-cloud": "PasqalCloud",
    "iqm-server": "IQMServer",
    "alice-bob-felis": "AliceBobFelis",
}


def submit():
    kind = os.environ["QRMI_JOB_QPU_TYPES"]
    resource = qrmi.QuantumResource(
        os.environ["QRMI_JOB_QPU_RESOURCES"], getattr(qrmi.ResourceType, TYPES[kind])
    )
    task = resource.task_start(qrmi_payloads.payload(kind))
    while (status := resource.task_status(task)) in (
        qrmi.TaskStatus.Queued,
        qrmi.TaskStatus.Running,
    ):
        time.sleep(0.1)
    assert status == qrmi.TaskStatus.Completed, status
    shots = qrmi_payloads.shots(kind, resource.task_result(task).value)
    # At IBM Quantum System a job holds its lane until then.
    resource.task_stop(task)
    return task, shots


turns.run(["qrmi"], submit)
