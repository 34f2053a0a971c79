//! Inputs and results of Qiskit's sampler, version 2.
//!
//! Circuits as `OpenQASM` 3, as QRMI sends them, are translated here for the simulator of Braket;
//! those with parameters are not computed. Circuits in Qiskit's own binary form, as IBM's own client
//! sends them, are read by Qiskit alone: such an input goes to a worker that has it, whole, and what
//! comes back is the result. The estimator and client-side primitives (`executor`) are not computed.
//! A job that is not computed fails when it runs, with a reason that says so.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::rest::compute::{Measured, Program};

/// Gates of `stdgates.inc` that the simulator knows by another name.
const GATES: &str = "gate sx a { v a; } gate cx a, b { cnot a, b; } gate id a { i a; } \
                     gate p(l) a { phaseshift(l) a; } gate sdg a { si a; } gate tdg a { ti a; } ";

/// Shots of an input that names none.
const SHOTS: u64 = 4_096;

/// For each bit of a row the register that it belongs to, and its place there.
type Bits = Vec<(String, usize)>;

/// Reads the input of a job.
///
/// # Errors
/// Why it cannot be computed, for people.
pub(super) fn read(program: &str, input: &Value) -> Result<Vec<Program>, String> {
    if program != "sampler" {
        return Err(format!("the emulator computes 'sampler' jobs only, not '{program}'"));
    }
    let pubs = input["pubs"].as_array().filter(|pubs| !pubs.is_empty());
    let pubs = pubs.ok_or("the input has no 'pubs'")?;
    if pubs.iter().any(|one| one[0].is_object()) {
        return Ok(vec![Program::Qiskit { input: input.to_string() }]);
    }
    let default = [&input["shots"], &input["options"]["default_shots"]];
    let default = default.into_iter().find_map(Value::as_u64).unwrap_or(SHOTS);
    pubs.iter()
        .map(|one| {
            let source = one[0].as_str().ok_or("a pub has no circuit")?;
            let parameters = &one[1];
            let none = parameters.is_null()
                || parameters.as_array().is_some_and(Vec::is_empty)
                || parameters.as_object().is_some_and(serde_json::Map::is_empty);
            if !none {
                return Err("the emulator computes circuits without parameters only".to_owned());
            }
            if bits(source).is_empty() {
                return Err("a circuit measures nothing".to_owned());
            }
            let shots = one[2].as_u64().unwrap_or(default);
            Ok(Program::Circuit { openqasm: translate(source), shots })
        })
        .collect()
}

fn translate(source: &str) -> String {
    let mut text = format!("OPENQASM 3.0; {GATES}");
    for statement in source.split(';').map(str::trim) {
        let skipped = ["OPENQASM", "include"].iter().any(|word| statement.starts_with(word));
        if !skipped && !statement.is_empty() {
            text.push_str(statement);
            text.push_str("; ");
        }
    }
    text
}

/// Which bit each measurement of a circuit fills, in the order of its statements.
fn bits(source: &str) -> Bits {
    let mut sizes = BTreeMap::new();
    let mut found = Bits::new();
    for statement in source.split(';').map(str::trim) {
        if let Some(rest) = statement.strip_prefix("bit[")
            && let Some((size, name)) = rest.split_once(']')
            && let Ok(size) = size.trim().parse::<usize>()
        {
            sizes.insert(name.trim().to_owned(), size);
        }
        let Some((target, _)) = statement.split_once("= measure") else { continue };
        let target = target.trim();
        let one = target.strip_suffix(']').and_then(|target| target.split_once('['));
        if let Some((name, index)) = one {
            found.push((name.to_owned(), index.trim().parse().unwrap_or_default()));
        } else {
            // A whole register at once.
            let size = sizes.get(target).copied().unwrap_or(1);
            found.extend((0..size).map(|index| (target.to_owned(), index)));
        }
    }
    found
}

/// The result of a sampler: as Qiskit wrote it, or for each register its values as hexadecimal
/// numbers, bit 0 last.
pub(super) fn result(input: &Value, measured: &[Measured]) -> String {
    match measured {
        [Measured::Written(text)] => text.clone(),
        rows => plain(input, rows).to_string(),
    }
}

fn plain(input: &Value, measured: &[Measured]) -> Value {
    let pubs = input["pubs"].as_array().map_or(&[][..], Vec::as_slice);
    let results: Vec<_> = pubs
        .iter()
        .zip(measured)
        .map(|(one, measured)| {
            let bits = bits(one[0].as_str().unwrap_or_default());
            let mut data = serde_json::Map::new();
            for (name, _) in &bits {
                let of_register = bits.iter().filter(|(register, _)| register == name);
                let size = of_register.map(|(_, index)| index + 1).max().unwrap_or_default();
                let samples: Vec<_> =
                    measured.rows().iter().map(|row| value(&bits, name, row)).collect();
                data.insert(name.clone(), json!({ "samples": samples, "num_bits": size }));
            }
            json!({ "data": data, "metadata": { "circuit_metadata": {} } })
        })
        .collect();
    json!({ "results": results, "metadata": { "version": 2 } })
}

fn value(bits: &Bits, register: &str, row: &[u8]) -> String {
    let set = bits.iter().zip(row).filter(|((name, _), bit)| name == register && **bit == 1);
    let number = set.fold(0_u128, |number, ((_, index), _)| number | 1 << index.min(&127));
    format!("{number:#x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "OPENQASM 3.0; include \"stdgates.inc\"; bit[2] c; bit[1] d; sx $0; \
                          cx $0, $1; c[1] = measure $0; c[0] = measure $1; d = measure $2;";

    #[test]
    fn a_circuit_is_given_the_gates_that_it_includes() {
        let input = json!({ "pubs": [[SOURCE, null, 5], [SOURCE, [], null]], "shots": 7 });
        let programs = read("sampler", &input).unwrap();
        let Program::Circuit { openqasm, shots } = &programs[0] else { panic!("a circuit") };
        assert!(openqasm.starts_with("OPENQASM 3.0; gate sx") && !openqasm.contains("include"));
        assert_eq!(*shots, 5);
        assert!(matches!(&programs[1], Program::Circuit { shots: 7, .. }));
    }

    #[test]
    fn values_are_those_of_the_registers() {
        let input = json!({ "pubs": [[SOURCE, null, 2]] });
        let told = result(&input, &[Measured::Rows(vec![vec![1, 0, 1], vec![0, 1, 0]])]);
        let told: Value = serde_json::from_str(&told).unwrap();
        let data = &told["results"][0]["data"];
        assert_eq!(data["c"], json!({ "samples": ["0x2", "0x1"], "num_bits": 2 }));
        assert_eq!(data["d"], json!({ "samples": ["0x1", "0x0"], "num_bits": 1 }));
    }

    #[test]
    fn circuits_in_qiskits_own_form_are_left_to_qiskit() {
        let input = json!({ "pubs": [[{ "__type__": "QuantumCircuit", "__value__": "eJw" }]] });
        let programs = read("sampler", &input).unwrap();
        assert_eq!(programs, [Program::Qiskit { input: input.to_string() }]);
        let written = Measured::Written("as it came".to_owned());
        assert_eq!(result(&input, &[written]), "as it came");
    }

    #[test]
    fn what_is_not_computed_is_named() {
        let told = |program: &str, one: Value| read(program, &json!({ "pubs": [one] }));
        assert!(told("estimator", json!([SOURCE])).unwrap_err().contains("'estimator'"));
        assert!(told("sampler", json!([7])).unwrap_err().contains("no circuit"));
        assert!(told("sampler", json!([SOURCE, [1.0]])).unwrap_err().contains("parameters"));
        assert!(read("sampler", &json!({})).unwrap_err().contains("'pubs'"));
    }
}
