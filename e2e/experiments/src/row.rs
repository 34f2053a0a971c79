//! One result: a value, its floor, and whether the goal holds.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::statistics::median;

/// What a row should reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// The value itself is larger.
    ValueAbove(f64),
    /// The value is at most so many times the floor.
    RatioAtMost(f64),
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ValueAbove(limit) => write!(f, "value > {limit}"),
            Self::RatioAtMost(limit) => write!(f, "ratio <= {limit}"),
        }
    }
}

impl Serialize for Goal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What was measured round by round, the product and its floor in turns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rounds {
    /// Of the product.
    pub values: Vec<f64>,
    /// Of the floor.
    pub floors: Vec<f64>,
}

/// Why no row can be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// Product and floor were not measured equally often, or not at all.
    #[error(
        "{name}: {values} rounds of the product and {floors} of the floor; measure both, in turns"
    )]
    Rounds {
        /// Name of the row.
        name: String,
        /// Rounds of the product.
        values: usize,
        /// Rounds of the floor.
        floors: usize,
    },
    /// A floor is nothing, so there is no ratio to it.
    #[error("{0}: a floor is not above zero; the clock or the measurement is broken")]
    Floor(String),
}

/// One result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// What was measured.
    pub name: String,
    /// The median of the product's rounds.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// The median of the floor's rounds, in the same unit.
    pub floor: f64,
    /// The median of the rounds' own ratios. The two arms of a round see the same machine, which may
    /// be another one a minute later; so this is not `value / floor` where the machine is noisy.
    pub ratio: f64,
    /// What it should reach.
    pub goal: Goal,
    /// Whether it does.
    pub holds: bool,
    /// How many rounds the medians are of.
    pub rounds: usize,
}

impl Row {
    /// Makes the row of what was measured.
    ///
    /// # Errors
    /// If the rounds cannot be compared.
    pub fn of(
        name: &str,
        unit: &'static str,
        rounds: &Rounds,
        goal: Goal,
    ) -> Result<Self, Unusable> {
        let (values, floors) = (&rounds.values, &rounds.floors);
        let ratios: Vec<f64> = values.iter().zip(floors).map(|(v, f)| v / f).collect();
        let found = (median(values), median(floors), median(&ratios));
        let (true, (Some(value), Some(floor), Some(ratio))) = (values.len() == floors.len(), found)
        else {
            return Err(Unusable::Rounds {
                name: name.to_owned(),
                values: values.len(),
                floors: floors.len(),
            });
        };
        if floors.iter().any(|f| *f <= 0.0) {
            return Err(Unusable::Floor(name.to_owned()));
        }
        let holds = match goal {
            Goal::ValueAbove(limit) => value > limit,
            Goal::RatioAtMost(limit) => ratio <= limit,
        };
        let rounds = values.len();
        Ok(Self { name: name.to_owned(), value, unit, floor, ratio, goal, holds, rounds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_rounds(values: &[f64], floors: &[f64]) -> Rounds {
        Rounds { values: values.to_vec(), floors: floors.to_vec() }
    }

    #[test]
    fn whether_a_goal_holds_is_computed() {
        let (most, least) = (Goal::RatioAtMost(1.3), Goal::ValueAbove(1000.0));
        let rows = [
            ("at the limit", mk_rounds(&[13.0], &[10.0]), most, true),
            ("above it", mk_rounds(&[13.1], &[10.0]), most, false),
            ("faster than the floor", mk_rounds(&[9.0], &[10.0]), most, true),
            ("an outlier", mk_rounds(&[12.0, 12.0, 900.0], &[10.0, 10.0, 10.0]), most, true),
            ("just the limit", mk_rounds(&[1000.0], &[9000.0]), least, false),
            ("above", mk_rounds(&[1000.5], &[9000.0]), least, true),
        ];
        for (name, rounds, goal, holds) in rows {
            let row = Row::of(name, "ms", &rounds, goal).unwrap();
            assert_eq!(row.holds, holds, "{row:?}");
        }
    }

    #[test]
    fn a_machine_that_gets_slower_changes_no_ratio() {
        let rounds = mk_rounds(&[12.0, 24.0, 240.0], &[10.0, 20.0, 200.0]);
        let row = Row::of("r", "ms", &rounds, Goal::RatioAtMost(1.3)).unwrap();
        assert!((row.ratio - 1.2).abs() < 1e-9, "{row:?}");
        // The median of each arm alone would be a pair that never met: 24 to 10.
        let rounds = mk_rounds(&[24.0, 12.0, 240.0], &[20.0, 10.0, 8.0]);
        let row = Row::of("r", "ms", &rounds, Goal::RatioAtMost(1.3)).unwrap();
        assert!((row.ratio - 1.2).abs() < 1e-9 && row.holds, "{row:?}");
        assert!((row.value / row.floor - 2.4).abs() < 1e-9, "{row:?}");
    }

    #[test]
    fn rounds_that_cannot_be_compared_make_no_row() {
        let make = |values: &[f64], floors: &[f64]| {
            Row::of("r", "ms", &mk_rounds(values, floors), Goal::RatioAtMost(1.0)).unwrap_err()
        };
        assert!(matches!(make(&[], &[]), Unusable::Rounds { .. }));
        assert!(make(&[1.0, 2.0], &[1.0]).to_string().contains("2 rounds of the product and 1"));
        assert_eq!(make(&[1.0], &[0.0]), Unusable::Floor("r".into()));
    }
}
