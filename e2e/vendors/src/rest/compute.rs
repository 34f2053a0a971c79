//! What jobs compute, and what comes out: bits.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::hub::Hub;
use crate::signature::sha256_hex;
use crate::simulator::{braket_order, qiskit_order};

/// What came out of one program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Measured {
    /// Bits: a row for each shot.
    Rows(Vec<Vec<u8>>),
    /// A whole result, written in the form of its vendor.
    Written(String),
}

impl Measured {
    /// The rows of bits; none of a result that is written.
    #[must_use]
    pub fn rows(&self) -> &[Vec<u8>] {
        match self {
            Self::Rows(rows) => rows,
            Self::Written(_) => &[],
        }
    }

    /// How often each row came, as text, in the order of the text.
    #[must_use]
    pub fn counts(&self) -> std::collections::BTreeMap<String, u64> {
        let mut counts = std::collections::BTreeMap::new();
        for row in self.rows() {
            let text: String = row.iter().map(u8::to_string).collect();
            *counts.entry(text).or_default() += 1;
        }
        counts
    }
}

/// One program of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// A circuit in the dialect of the simulator; bit 0 comes first in a row.
    Circuit {
        /// The program.
        openqasm: String,
        /// How often.
        shots: u64,
    },
    /// The whole input of a primitive, with circuits that only Qiskit can read.
    Qiskit {
        /// In the JSON of IBM's runtime.
        input: String,
    },
    /// A program that no simulator here can run. The machine is taken to be all noise: each bit
    /// is the toss of a coin, the same ones for the same program.
    Noise {
        /// What the tosses depend on.
        seed: String,
        /// Bits in a row.
        bits: u32,
        /// How often.
        shots: u64,
    },
}

/// Why a circuit in Qiskit's own form is not computed by default: the emulator stays free of Qiskit.
const WITHOUT_QISKIT: &str = "the emulator has no Python with Qiskit, so it cannot read circuits in \
                              Qiskit's own form; set --qiskit-python or SLUICE_QISKIT_PYTHON, or \
                              send OpenQASM 3 and set 'support_qiskit' to false";

/// Computes the programs of a job one after the other.
///
/// # Errors
/// Why the first that fails does.
pub(crate) async fn run(
    hub: &Hub,
    job: &str,
    programs: &[Program],
) -> Result<Vec<Measured>, String> {
    let mut all = Vec::new();
    for program in programs {
        all.push(match program {
            Program::Noise { seed, bits, shots } => noise(seed, *bits, *shots),
            Program::Circuit { openqasm, shots } => {
                let order = braket_order(job, job, "sv1", &action(openqasm), *shots);
                let text = hub.simulator.compute(job, order).await?;
                measurements(&text).ok_or("the simulator measured nothing")?
            }
            Program::Qiskit { input } => {
                let simulator = hub.qiskit.as_ref().ok_or(WITHOUT_QISKIT)?;
                Measured::Written(simulator.compute(job, qiskit_order(job, input)).await?)
            }
        });
    }
    Ok(all)
}

fn action(openqasm: &str) -> String {
    json!({
        "braketSchemaHeader": { "name": "braket.ir.openqasm.program", "version": "1" },
        "source": openqasm, "inputs": {},
    })
    .to_string()
}

/// Reads the measurements of a result of the simulator.
fn measurements(text: &str) -> Option<Measured> {
    let result: Value = serde_json::from_str(text).ok()?;
    serde_json::from_value(result.get("measurements")?.clone()).ok().map(Measured::Rows)
}

fn noise(seed: &str, bits: u32, shots: u64) -> Measured {
    let rows = (0..shots).map(|shot| {
        let row = (0..bits).map(|bit| {
            let digest = sha256_hex(format!("{seed} {shot} {bit}").as_bytes());
            u8::from(digest.starts_with(['8', '9', 'a', 'b', 'c', 'd', 'e', 'f']))
        });
        row.collect()
    });
    Measured::Rows(rows.collect())
}

/// Time as these vendors write it.
#[must_use]
pub(crate) fn time_text(at: Timestamp) -> String {
    format!("{at:.6}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_fair_and_repeats() {
        let measured = noise("seed", 2, 400);
        assert_eq!(measured, noise("seed", 2, 400));
        assert_ne!(measured, noise("other", 2, 400));
        let counts = measured.counts();
        assert_eq!(counts.values().sum::<u64>(), 400);
        assert!(counts.len() == 4 && counts.values().all(|count| (60..140).contains(count)));
    }

    #[test]
    fn rows_are_read_from_a_result() {
        let text = r#"{"measurements": [[0, 1], [1, 1], [0, 1]]}"#;
        let counts = measurements(text).unwrap().counts();
        assert_eq!(counts.into_iter().collect::<Vec<_>>(), [("01".into(), 2), ("11".into(), 1)]);
        assert_eq!(measurements("{}"), None);
    }
}
