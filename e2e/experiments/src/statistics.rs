//! The few statistics that rows quote.

/// The median; of an even count the mean of the two in the middle. `None` of nothing.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(*sorted.get(middle.checked_sub(1)?)?, upper))
}

/// The smallest value that at least `percent` of 100 values do not exceed (nearest rank).
/// `None` of nothing, and where `percent` is above 100.
#[must_use]
pub fn percentile(values: &[f64], percent: u8) -> Option<f64> {
    let rank = (values.len() * usize::from(percent)).div_ceil(100).max(1);
    sorted(values).get(rank - 1).copied()
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle_whatever_the_order() {
        let rows: [(&[f64], Option<f64>); 5] = [
            (&[], None),
            (&[7.0], Some(7.0)),
            (&[9.0, 1.0, 5.0], Some(5.0)),
            (&[4.0, 1.0, 3.0, 100.0], Some(3.5)),
            // One outlier does not move it.
            (&[1.0, 1.0, 1.0, 1.0, 5000.0], Some(1.0)),
        ];
        for (values, expected) in rows {
            assert_eq!(median(values), expected, "{values:?}");
        }
    }

    #[test]
    fn a_percentile_is_a_value_that_was_measured() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&hundred, 99), Some(99.0));
        assert_eq!(percentile(&hundred, 100), Some(100.0));
        assert_eq!(percentile(&hundred, 50), Some(50.0));
        assert_eq!(percentile(&hundred, 0), Some(1.0));
        // Of few values p99 is the worst, never one that hides it.
        assert_eq!(percentile(&[3.0, 1.0, 2.0], 99), Some(3.0));
        assert_eq!(percentile(&[], 99), None);
        assert_eq!(percentile(&[1.0], 101), None);
    }
}
