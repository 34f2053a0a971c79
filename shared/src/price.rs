//! What tasks cost: a dated catalogue of list prices, and sums in whole millionths of a dollar.
//!
//! An estimate for people and for a guard rail, never a bill: discounts, reservations and taxes
//! are the vendor's to know.

use std::fmt;
use std::iter::Sum;
use std::ops::Add;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// An amount in US dollars, exact to a millionth: the smallest list price is 0.000425 a shot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Usd(u64);

/// Millionths in a dollar.
const MICRO: u64 = 1_000_000;
/// The largest amount. Sums stop there, so that every amount has a text of the form of [`PATTERN`].
const MOST: u64 = 999_999_999_999 * MICRO;
/// How amounts are written, for the schema of the gang.
pub const PATTERN: &str = r"^[0-9]{1,12}\.[0-9]{2,6} USD$";

impl Usd {
    /// An amount in millionths of a dollar.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        if micros > MOST { Self(MOST) } else { Self(micros) }
    }

    /// The amount in millionths of a dollar.
    #[must_use]
    pub const fn micros(self) -> u64 {
        self.0
    }

    /// So many times the amount; the largest amount that there is rather than an overflow.
    #[must_use]
    pub const fn times(self, n: u64) -> Self {
        Self::from_micros(self.0.saturating_mul(n))
    }
}

impl Add for Usd {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self::from_micros(self.0.saturating_add(other.0))
    }
}

impl Sum for Usd {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::default(), Add::add)
    }
}

impl fmt::Display for Usd {
    /// At least two decimals, and as many as it takes: `0.30 USD`, `0.0425 USD`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = format!("{:06}", self.0 % MICRO);
        let decimals = decimals.trim_end_matches('0');
        write!(f, "{}.{decimals:0<2} USD", self.0 / MICRO)
    }
}

/// Text that is no amount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no amount; write US dollars with at most 6 decimals, as in \"25\" or \"0.50 USD\""
)]
pub struct NotAnAmount(pub String);

impl FromStr for Usd {
    type Err = NotAnAmount;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let no = || NotAnAmount(text.chars().take(40).collect());
        let number = text.trim();
        let number = number.strip_suffix("USD").map_or(number, str::trim_end);
        let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
        let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(decimals) || decimals.len() > 6 {
            return Err(no());
        }
        let whole: u64 = whole.parse().map_err(|_| no())?;
        let decimals: u64 = format!("{decimals:0<6}").parse().map_err(|_| no())?;
        let whole = whole.checked_mul(MICRO).ok_or_else(no)?;
        whole.checked_add(decimals).filter(|micros| *micros <= MOST).map(Self).ok_or_else(no)
    }
}

impl TryFrom<String> for Usd {
    type Error = NotAnAmount;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Usd> for String {
    fn from(amount: Usd) -> Self {
        amount.to_string()
    }
}

/// When the prices of the catalogue were last compared with a source.
pub const AS_OF: &str = "2026-06";

/// How a device is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// So much a task, and so much for each of its shots.
    Shots {
        /// For the task.
        task: Usd,
        /// For one shot.
        shot: Usd,
    },
    /// So much a minute that the task runs, which nobody knows before.
    Minute(Usd),
}

/// A line of the catalogue.
struct Line {
    /// The end of the device's ARN, in lower case.
    device: &'static str,
    rate: Rate,
}

const fn shots(device: &'static str, shot: u64) -> Line {
    // Every QPU of Amazon Braket has the same price for the task itself.
    Line { device, rate: Rate::Shots { task: Usd(300_000), shot: Usd(shot) } }
}

const fn minute(device: &'static str, price: u64) -> Line {
    Line { device, rate: Rate::Minute(Usd(price)) }
}

/// List prices, on demand. Sources: the notes of the experiments published at
/// `converged-computing/quantum-braket` (June 2026); for retired devices a copy of the vendor's
/// price page of 2025. The vendor's price list is the authority.
const CATALOGUE: [Line; 11] = [
    shots("rigetti/cepheus-1-108q", 425),
    shots("rigetti/ankaa-3", 900),
    shots("iqm/garnet", 1_450),
    shots("iqm/emerald", 1_600),
    shots("aqt/ibex-q1", 23_500),
    shots("ionq/forte-1", 80_000),
    shots("ionq/forte-enterprise-1", 80_000),
    shots("quera/aquila", 10_000),
    minute("amazon/sv1", 75_000),
    minute("amazon/dm1", 75_000),
    minute("amazon/tn1", 275_000),
];

/// The list price of a device, by its ARN; `None` when the catalogue does not have it.
///
/// ```
/// use sluice_shared::price::{Rate, rate};
/// let garnet = rate("arn:aws:braket:eu-north-1::device/qpu/iqm/Garnet");
/// assert!(matches!(garnet, Some(Rate::Shots { .. })));
/// assert_eq!(rate("arn:aws:braket:eu-north-1::device/qpu/new/Machine"), None);
/// ```
#[must_use]
pub fn rate(device: &str) -> Option<Rate> {
    let device = device.to_lowercase();
    let ends =
        |line: &&Line| device.strip_suffix(line.device).is_some_and(|before| before.ends_with('/'));
    CATALOGUE.iter().find(ends).map(|line| line.rate)
}

/// What a task costs as far as can be known before it has run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Estimate {
    /// This much if it gives a result.
    Fixed(Usd),
    /// So much a minute, for a time that nobody knows before.
    Minute(Usd),
    /// The catalogue does not have the device, or the number of shots was not told.
    Unknown,
}

/// The list price of a task of `shots` shots on `device`.
#[must_use]
pub fn estimate(device: &str, shots: Option<u64>) -> Estimate {
    match (rate(device), shots) {
        (Some(Rate::Shots { task, shot }), Some(n)) => Estimate::Fixed(task + shot.times(n)),
        (Some(Rate::Minute(price)), _) => Estimate::Minute(price),
        (Some(Rate::Shots { .. }) | None, _) => Estimate::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn amounts_are_read_as_people_write_them() {
        for (text, micros) in [
            ("25", 25_000_000),
            ("0.30", 300_000),
            ("0.000425 USD", 425),
            (" 7.5USD ", 7_500_000),
            ("0", 0),
        ] {
            assert_eq!(text.parse(), Ok(Usd(micros)), "{text}");
        }
        for text in ["", "-1", "1.", ".5", "1,50", "$5", "5 EUR", "1e3", "0.0000001", "USD"] {
            let message = text.parse::<Usd>().unwrap_err().to_string();
            assert!(message.contains("US dollars with at most 6 decimals"), "{message}");
        }
        assert!("99999999999999999999".parse::<Usd>().is_err(), "no overflow");
    }

    #[test]
    fn amounts_are_written_with_the_decimals_they_need() {
        let texts = [0, 300_000, 425, 1_750_000, 25_000_000].map(|m| Usd(m).to_string());
        assert_eq!(texts, ["0.00 USD", "0.30 USD", "0.000425 USD", "1.75 USD", "25.00 USD"]);
    }

    #[test]
    fn a_task_costs_its_own_price_and_that_of_its_shots() {
        let device = "arn:aws:braket:eu-north-1::device/qpu/iqm/Garnet";
        assert_eq!(estimate(device, Some(1000)), Estimate::Fixed(Usd(1_750_000)));
        assert_eq!(estimate(device, None), Estimate::Unknown);
        let sv1 = "arn:aws:braket:::device/quantum-simulator/amazon/sv1";
        assert_eq!(estimate(sv1, Some(10)), Estimate::Minute(Usd(75_000)));
        // A name that only ends like one is another device.
        assert_eq!(
            estimate("arn:aws:braket:x::device/qpu/notiqm/garnet", Some(1)),
            Estimate::Unknown
        );
    }

    #[test]
    fn the_vendor_spells_names_in_capitals_here_and_there() {
        let device = "arn:aws:braket:eu-north-1::device/qpu/aqt/Ibex-Q1";
        assert_eq!(estimate(device, Some(1000)), Estimate::Fixed(Usd(23_800_000)));
    }

    proptest! {
        #[test]
        fn an_amount_survives_its_text(micros in any::<u64>(), n in any::<u64>()) {
            let amount = Usd::from_micros(micros).times(n) + Usd::from_micros(n);
            prop_assert_eq!(amount.to_string().parse(), Ok(amount));
            prop_assert!(amount.to_string().len() <= 24);
        }
    }
}
