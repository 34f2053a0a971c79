//! Circuits as IQM writes them, translated for the simulator.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde::Deserialize;
use serde_json::Value;

use crate::rest::compute::Program;

/// The body of a job of type `circuit`.
#[derive(Debug, Deserialize)]
struct Run {
    circuits: Vec<Circuit>,
    #[serde(default = "one")]
    shots: u64,
}

fn one() -> u64 {
    1
}

#[derive(Debug, Deserialize)]
struct Circuit {
    instructions: Vec<Instruction>,
}

#[derive(Debug, Deserialize)]
struct Instruction {
    name: String,
    /// `locus` in newer clients.
    #[serde(alias = "locus", default)]
    qubits: Vec<String>,
    #[serde(default)]
    args: Value,
}

/// Keys of the measurements of one circuit, each with how many bits of a row it takes.
pub(super) type Keys = Vec<(String, usize)>;

/// Reads the body of a job.
///
/// # Errors
/// What is wrong with it, for people.
pub(super) fn read(body: &Value) -> Result<(Vec<Program>, Vec<Keys>), String> {
    let run = Run::deserialize(body).map_err(|problem| format!("job payload: {problem}"))?;
    if run.circuits.is_empty() || run.shots == 0 {
        return Err("job payload: a job needs at least one circuit and one shot".to_owned());
    }
    let mut programs = Vec::new();
    let mut keys = Vec::new();
    for (number, circuit) in run.circuits.iter().enumerate() {
        let (openqasm, of_circuit) =
            translate(circuit).map_err(|problem| format!("circuit {number}: {problem}"))?;
        programs.push(Program::Circuit { openqasm, shots: run.shots });
        keys.push(of_circuit);
    }
    Ok((programs, keys))
}

fn translate(circuit: &Circuit) -> Result<(String, Keys), String> {
    let names: BTreeSet<&str> =
        circuit.instructions.iter().flat_map(|one| &one.qubits).map(String::as_str).collect();
    let index = |name: &str| names.iter().position(|known| *known == name).unwrap_or_default();
    let (mut body, mut keys, mut bits) = (String::new(), Keys::new(), 0);
    for instruction in &circuit.instructions {
        let qubits: Vec<_> = instruction.qubits.iter().map(|name| index(name)).collect();
        match (instruction.name.as_str(), qubits.as_slice()) {
            ("prx" | "phased_rx", [qubit]) => {
                let angle = radians(&instruction.args, "angle")?;
                let phase = radians(&instruction.args, "phase")?;
                // A rotation about an axis in the plane: turn the axis to x, rotate, turn back.
                let _ = write!(
                    body,
                    "rz({:?}) q[{qubit}]; rx({angle:?}) q[{qubit}]; rz({phase:?}) q[{qubit}]; ",
                    -phase
                );
            }
            ("cz", [first, second]) => {
                let _ = write!(body, "cz q[{first}], q[{second}]; ");
            }
            ("measure", [_, ..]) => {
                let key = instruction.args["key"].as_str().unwrap_or("m").to_owned();
                keys.push((key, qubits.len()));
                for qubit in qubits {
                    let _ = write!(body, "b[{bits}] = measure q[{qubit}]; ");
                    bits += 1;
                }
            }
            ("barrier", _) => {}
            (name, _) => return Err(format!("'{name}' on {} qubits is unknown", qubits.len())),
        }
    }
    if bits == 0 {
        return Err("it measures nothing".to_owned());
    }
    let qubits = names.len();
    Ok((format!("OPENQASM 3.0; bit[{bits}] b; qubit[{qubits}] q; {body}"), keys))
}

/// An angle in radians; older clients give `<name>_t`, in full turns.
fn radians(args: &Value, name: &str) -> Result<f64, String> {
    let turns = args[format!("{name}_t")].as_f64().map(|turns| turns * std::f64::consts::TAU);
    args[name].as_f64().or(turns).ok_or_else(|| format!("a rotation without '{name}'"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_spellings_are_read() {
        let old = json!({ "name": "prx", "qubits": ["QB2"],
                          "args": { "angle_t": 0.5, "phase_t": 0.0 } });
        let new = json!({ "name": "prx", "locus": ["QB2"],
                          "args": { "angle": std::f64::consts::PI, "phase": 0.0 } });
        let measure = json!({ "name": "measure", "locus": ["QB2", "QB1"], "args": { "key": "k" } });
        let body = json!({ "shots": 3, "circuits": [
            { "name": "old", "instructions": [old, measure] },
            { "name": "new", "instructions": [new, measure] },
        ] });
        let (programs, keys) = read(&body).unwrap();
        assert_eq!(programs[0], programs[1]);
        let Program::Circuit { openqasm, shots } = &programs[0] else { panic!("a circuit") };
        assert_eq!(*shots, 3);
        assert_eq!(
            openqasm,
            "OPENQASM 3.0; bit[2] b; qubit[2] q; rz(-0.0) q[1]; rx(3.141592653589793) q[1]; \
             rz(0.0) q[1]; b[0] = measure q[1]; b[1] = measure q[0]; "
        );
        assert_eq!(keys, vec![vec![("k".to_owned(), 2)]; 2]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = |instructions: Value| {
            read(&json!({ "circuits": [{ "instructions": instructions }] })).unwrap_err()
        };
        assert!(wrong(json!([{ "name": "cx", "qubits": ["a", "b"] }])).contains("'cx'"));
        assert!(wrong(json!([{ "name": "prx", "qubits": ["a"] }])).contains("'angle'"));
        assert!(wrong(json!([])).contains("measures nothing"));
        assert!(read(&json!({})).unwrap_err().contains("circuits"));
    }
}
