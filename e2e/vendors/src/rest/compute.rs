//! What jobs compute, and what comes out: bits.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::braket::world::Job as Order;
use crate::signature::sha256_hex;
use crate::simulator::Simulator;

/// The bits of one program: a row for each shot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Measured(pub Vec<Vec<u8>>);

impl Measured {
    /// How often each row came, as text, in the order of the text.
    #[must_use]
    pub fn counts(&self) -> std::collections::BTreeMap<String, u64> {
        let mut counts = std::collections::BTreeMap::new();
        for row in &self.0 {
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

/// Computes the programs of a job one after the other.
///
/// # Errors
/// Why the first that fails does.
pub(crate) async fn run(
    simulator: &Simulator,
    job: &str,
    programs: &[Program],
) -> Result<Vec<Measured>, String> {
    let mut all = Vec::new();
    for program in programs {
        all.push(match program {
            Program::Noise { seed, bits, shots } => noise(seed, *bits, *shots),
            Program::Circuit { openqasm, shots } => {
                let text = simulator.compute(order(job, openqasm, *shots)).await?;
                measurements(&text).ok_or("the simulator measured nothing")?
            }
        });
    }
    Ok(all)
}

fn order(job: &str, openqasm: &str, shots: u64) -> Order {
    let action = json!({
        "braketSchemaHeader": { "name": "braket.ir.openqasm.program", "version": "1" },
        "source": openqasm, "inputs": {},
    });
    let none = String::new;
    Order {
        id: job.to_owned(),
        arn: job.to_owned(),
        action: action.to_string(),
        shots,
        device: "sv1".to_owned(),
        account: none(),
        bucket: none(),
        key: none(),
    }
}

/// Reads the measurements of a result of the simulator.
fn measurements(text: &str) -> Option<Measured> {
    let result: Value = serde_json::from_str(text).ok()?;
    serde_json::from_value(result.get("measurements")?.clone()).ok().map(Measured)
}

fn noise(seed: &str, bits: u32, shots: u64) -> Measured {
    let rows = (0..shots).map(|shot| {
        let row = (0..bits).map(|bit| {
            let digest = sha256_hex(format!("{seed} {shot} {bit}").as_bytes());
            u8::from(digest.starts_with(['8', '9', 'a', 'b', 'c', 'd', 'e', 'f']))
        });
        row.collect()
    });
    Measured(rows.collect())
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
