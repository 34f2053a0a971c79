//! What the compute service tells of a backend.
//!
//! The machine is made up: its qubits stand in a row, and every qubit is as good as the others.
//! Gates, errors and times are those of a Falcon, the processor that it claims to be.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::rest::compute::time_text;
use crate::rest::machine::{Machine, Status};

/// The vendor's word for the version of a backend.
const VERSION: &str = "1.0.0";
/// Nanoseconds of one sample of a pulse.
const DT: f64 = 2.0 / 9.0;
/// Gates of one qubit, with error and nanoseconds.
const SINGLE: [(&str, f64, f64); 4] = [
    ("id", 2.0e-4, 160.0 * DT),
    ("rz", 0.0, 0.0),
    ("sx", 2.0e-4, 160.0 * DT),
    ("x", 2.0e-4, 160.0 * DT),
];
/// The gate of two qubits, with error and nanoseconds.
const PAIR: (&str, f64, f64) = ("cx", 8.0e-3, 1_440.0 * DT);
/// How often a machine is measured anew, seconds.
const CALIBRATED: i64 = 3_600;

/// An entry of the list of backends.
pub(super) fn listed(machine: &Machine, waiting: u64) -> Value {
    let status = match machine.status {
        Status::Online => "online",
        Status::Paused => "paused",
        Status::Offline => "offline",
    };
    json!({
        "name": machine.name, "qubits": machine.qubits, "is_simulator": false,
        "status": { "name": status, "reason": "available" },
        "processor_type": processor(),
        "queue_length": waiting,
        "wait_time_seconds": { "average": 10 }, "performance_metrics": {},
    })
}

/// Whether it works, and the length of its queue.
pub(super) fn status(machine: &Machine, waiting: u64) -> Value {
    let online = machine.status == Status::Online;
    json!({
        "state": online, "status": if online { "active" } else { "maintenance" },
        "message": if online { "available" } else { "maintenance" },
        "length_queue": waiting, "backend_version": VERSION,
    })
}

/// What does not change: clients translate circuits for it.
pub(super) fn configuration(machine: &Machine) -> Value {
    let (pairs, qubits) = (pairs(machine), 0..machine.qubits);
    let mut gates: Vec<_> = SINGLE
        .iter()
        .map(|(name, ..)| {
            let parameters: &[&str] = if *name == "rz" { &["theta"] } else { &[] };
            let qubits: Vec<_> = qubits.clone().map(|qubit| [qubit]).collect();
            json!({ "name": name, "parameters": parameters, "qasm_def": "", "coupling_map": qubits })
        })
        .collect();
    gates.push(
        json!({ "name": PAIR.0, "parameters": [], "qasm_def": "", "coupling_map": pairs.clone() }),
    );
    let names: Vec<_> = SINGLE.iter().map(|gate| gate.0).chain([PAIR.0]).collect();
    let instructions: Vec<_> = names.iter().chain(&["delay", "measure", "reset"]).collect();
    json!({
        "backend_name": machine.name, "backend_version": VERSION, "n_qubits": machine.qubits,
        "basis_gates": names, "gates": gates, "supported_instructions": instructions,
        "coupling_map": pairs, "meas_map": [qubits.collect::<Vec<_>>()],
        "local": false, "simulator": false, "conditional": false, "open_pulse": false,
        "memory": true, "max_shots": 100_000, "max_experiments": 300, "credits_required": true,
        "dynamic_reprate_enabled": true, "rep_delay_range": [0.0, 500.0],
        "default_rep_delay": 250.0, "dt": DT, "dtm": DT, "meas_levels": [1, 2],
        "timing_constraints": {
            "acquire_alignment": 16, "granularity": 16, "min_length": 64, "pulse_alignment": 16,
        },
        "processor_type": processor(), "supported_features": ["qasm3", "qobj"],
        "online_date": "2021-05-20T04:00:00Z", "description": "an emulated machine",
    })
}

/// What was measured on it last, at or before a time.
pub(super) fn properties(machine: &Machine, at: Timestamp) -> Value {
    let second = at.as_second();
    let date = Timestamp::from_second(second - second.rem_euclid(CALIBRATED)).unwrap_or(at);
    let date = time_text(date);
    let fact = |name: &str, unit: &str, value: f64| json!({ "name": name, "unit": unit, "value": value, "date": date });
    let gate = |(name, error, length): (&str, f64, f64), qubits: &[u32]| {
        let place = qubits.iter().map(u32::to_string).collect::<Vec<_>>().join("_");
        json!({
            "gate": name, "name": format!("{name}{place}"), "qubits": qubits,
            "parameters": [fact("gate_error", "", error), fact("gate_length", "ns", length)],
        })
    };
    let qubits: Vec<_> = (0..machine.qubits)
        .map(|qubit| {
            vec![
                fact("T1", "us", 120.0),
                fact("T2", "us", 90.0),
                // Neighbours differ, so that a pulse reaches one of them.
                fact("frequency", "GHz", if qubit % 2 == 0 { 5.0 } else { 5.1 }),
                fact("anharmonicity", "GHz", -0.34),
                fact("readout_error", "", 0.015),
                fact("prob_meas0_prep1", "", 0.02),
                fact("prob_meas1_prep0", "", 0.01),
                fact("readout_length", "ns", 3_552.0 * DT),
            ]
        })
        .collect();
    let single =
        SINGLE.iter().flat_map(|one| (0..machine.qubits).map(|qubit| gate(*one, &[qubit])));
    let gates: Vec<_> =
        single.chain(pairs(machine).iter().map(|qubits| gate(PAIR, qubits))).collect();
    json!({
        "backend_name": machine.name, "backend_version": VERSION, "last_update_date": date,
        "qubits": qubits, "gates": gates, "general": [],
    })
}

/// Pairs of qubits that the gate of two joins: each with its neighbours, both ways.
fn pairs(machine: &Machine) -> Vec<[u32; 2]> {
    (1..machine.qubits).flat_map(|qubit| [[qubit - 1, qubit], [qubit, qubit - 1]]).collect()
}

fn processor() -> Value {
    json!({ "family": "Falcon", "revision": "5.11" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Service;

    #[test]
    fn every_gate_of_the_configuration_has_its_properties() {
        let machine = Machine::new(Service::IbmQuantumComputeService, "ibm_lagos", 3);
        let places = |gates: &Value| -> usize {
            let of = |gate: &Value| gate["coupling_map"].as_array().unwrap().len();
            gates.as_array().unwrap().iter().map(of).sum()
        };
        let configuration = configuration(&machine);
        assert_eq!(configuration["coupling_map"], json!([[0, 1], [1, 0], [1, 2], [2, 1]]));
        let at = Timestamp::from_second(1_796_000_123).unwrap();
        let properties = properties(&machine, at);
        assert_eq!(places(&configuration["gates"]), properties["gates"].as_array().unwrap().len());
        assert_eq!(properties["qubits"].as_array().unwrap().len(), 3);
        let date: Timestamp = properties["last_update_date"].as_str().unwrap().parse().unwrap();
        assert!(date <= at && at.as_second() - date.as_second() < CALIBRATED);
    }
}
