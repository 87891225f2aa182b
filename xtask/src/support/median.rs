//! Middle values of measurements.

pub(crate) use servo_harness::report::summary::median;

/// Between which of the values the median lies with 95 % certainty (by order statistics);
/// `None` for none.
pub(crate) fn interval(mut values: Vec<f64>) -> Option<[f64; 2]> {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    let off = 0.98 * (n as f64).sqrt();
    let low = ((n as f64 / 2.0 - off).floor().max(1.0) as usize).checked_sub(1)?;
    Some([*values.get(low)?, *values.get(n - 1 - low)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![]), 0.0);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn the_interval_is_around_the_middle() {
        assert_eq!(interval(vec![]), None);
        assert_eq!(interval(vec![1.0]), Some([1.0, 1.0]));
        let hundred = (1..=100).rev().map(f64::from).collect();
        assert_eq!(interval(hundred), Some([40.0, 61.0]));
    }
}
