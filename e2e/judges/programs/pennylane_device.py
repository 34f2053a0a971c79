"""PennyLane's Braket device."""

import pennylane
import turns


def submit():
    device = pennylane.device(
        "braket.aws.qubit",
        device_arn=turns.SV1,
        wires=2,
        s3_destination_folder=(turns.BUCKET, "judges"),
    )

    @pennylane.set_shots(turns.SHOTS)
    @pennylane.qnode(device)
    def bell():
        pennylane.Hadamard(wires=0)
        pennylane.CNOT(wires=[0, 1])
        return pennylane.counts(wires=[0, 1])

    counts = bell()
    return device.task.id, turns.counted({key: int(value) for key, value in counts.items()})


turns.run(["amazon-braket-pennylane-plugin", "pennylane"], submit)
