//! What a machine of IQM can do: its qubits, the pairs that are joined, its gates.
//!
//! The qubits stand in rows, as those of IQM's square lattices do, and each is joined with the next
//! one in its row and in its column.

use serde_json::{Value, json};

use crate::rest::machine::Machine;

/// What is fixed by the chip.
pub(super) fn fixed(machine: &Machine) -> Value {
    json!({
        "dut_label": machine.name,
        "qubits": qubits(machine.qubits),
        "computational_resonators": [],
        "connectivity": joined(machine.qubits),
    })
}

/// What a calibration set allows; `None`: the machine has no such set. It has one, by default.
pub(super) fn calibrated(machine: &Machine, set: &str) -> Option<Value> {
    let id = super::id_of(&format!("{}/calibration", machine.full_name()));
    if set != "default" && set != id {
        return None;
    }
    let each: Vec<_> = qubits(machine.qubits).into_iter().map(|qubit| [qubit]).collect();
    let gate = |implementation: &str, loci: Value| {
        json!({
            "implementations": { implementation: { "loci": loci } },
            "default_implementation": implementation,
            "override_default_implementation": {},
        })
    };
    Some(json!({
        "calibration_set_id": id,
        "qubits": qubits(machine.qubits),
        "computational_resonators": [],
        "gates": {
            "prx": gate("drag_crf", json!(each)),
            "cz": gate("tgss", json!(joined(machine.qubits))),
            "measure": gate("constant", json!(each)),
        },
    }))
}

fn qubit(number: u32) -> String {
    format!("QB{}", number + 1)
}

fn qubits(all: u32) -> Vec<String> {
    (0..all).map(qubit).collect()
}

fn joined(all: u32) -> Vec<[String; 2]> {
    // The smallest square that holds them all.
    let width = all.saturating_sub(1).isqrt() + 1;
    let pairs = (0..all).flat_map(|one| {
        let in_row = (one % width + 1 < width).then_some(one + 1);
        [in_row, Some(one + width)].into_iter().flatten().map(move |other| (one, other))
    });
    pairs.filter(|(_, other)| *other < all).map(|(one, other)| [one, other].map(qubit)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qubits_are_joined_in_rows_and_columns() {
        let pair = |one: u32, other: u32| [format!("QB{one}"), format!("QB{other}")];
        assert_eq!(joined(4), [pair(1, 2), pair(1, 3), pair(2, 4), pair(3, 4)]);
        assert_eq!(joined(5).last(), Some(&pair(4, 5)));
        assert_eq!(joined(1), [] as [[String; 2]; 0]);
        assert_eq!(joined(0).len(), 0);
    }
}
