//! Wilson's score interval for a rate (Wilson 1927, without continuity correction).
//!
//! The textbook interval `p ± z·sqrt(p(1-p)/n)` has no width at all for a test
//! that passed 20 times out of 20, which is exactly the case that people ask
//! about; Wilson's never leaves [0, 1] and stays honest at both ends.

/// How sure an interval is: the share of intervals that hold the true rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Confidence {
    /// 90 %.
    P90,
    /// 95 %.
    P95,
    /// 99 %.
    P99,
}

impl Confidence {
    /// The two-sided quantile of the standard normal distribution.
    pub const fn z(self) -> f64 {
        match self {
            Confidence::P90 => 1.644_853_626_951_472_2,
            Confidence::P95 => 1.959_963_984_540_054,
            Confidence::P99 => 2.575_829_303_548_900_4,
        }
    }
}

/// A measured rate and the bounds within which the true one lies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower bound, in [0, `rate`].
    pub low: f64,
    /// Successes per trial, as measured.
    pub rate: f64,
    /// Upper bound, in [`rate`, 1].
    pub high: f64,
}

/// The Wilson interval of `successes` out of `trials`.
///
/// `None` if there were no trials, or fewer trials than successes.
///
/// ```
/// use servo_harness::{Confidence, wilson};
///
/// let passed_always = wilson(20, 20, Confidence::P95).unwrap();
/// assert_eq!(passed_always.high, 1.0);
/// assert!((passed_always.low - 0.8389).abs() < 1e-4);
/// ```
pub fn wilson(successes: u64, trials: u64, confidence: Confidence) -> Option<Interval> {
    if trials == 0 || successes > trials {
        return None;
    }
    let (n, z) = (trials as f64, confidence.z());
    let rate = successes as f64 / n;
    let scale = 1.0 + z * z / n;
    let centre = (rate + z * z / (2.0 * n)) / scale;
    let half = z * (rate * (1.0 - rate) / n + z * z / (4.0 * n * n)).sqrt() / scale;
    // Rounding may push a bound past the rate by an ulp where they coincide.
    let low = if successes == 0 {
        0.0
    } else {
        (centre - half).clamp(0.0, rate)
    };
    let high = if successes == trials {
        1.0
    } else {
        (centre + half).clamp(rate, 1.0)
    };
    Some(Interval { low, rate, high })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(successes: u64, trials: u64, low: f64, high: f64) {
        let got = wilson(successes, trials, Confidence::P95).unwrap();
        assert!((got.low - low).abs() < 5e-5, "{got:?}");
        assert!((got.high - high).abs() < 5e-5, "{got:?}");
    }

    /// Newcombe, "Two-sided confidence intervals for the single proportion",
    /// Statistics in Medicine 17 (1998), table I, method 3.
    #[test]
    fn intervals_are_those_of_the_literature() {
        check(81, 263, 0.2553, 0.3662);
        check(15, 148, 0.0624, 0.1605);
        check(0, 20, 0.0000, 0.1611);
        check(1, 29, 0.0061, 0.1718);
    }

    #[test]
    fn impossible_counts_have_no_interval() {
        assert_eq!(wilson(0, 0, Confidence::P95), None);
        assert_eq!(wilson(3, 2, Confidence::P95), None);
    }

    proptest! {
        #[test]
        fn the_rate_lies_within_its_interval(
            (trials, successes) in (1..=u64::from(u32::MAX)).prop_flat_map(|n| (Just(n), 0..=n)),
        ) {
            let i = wilson(successes, trials, Confidence::P95).unwrap();
            prop_assert!(0.0 <= i.low && i.low <= i.rate && i.rate <= i.high && i.high <= 1.0);
        }

        #[test]
        fn failures_mirror_successes(
            (trials, successes) in (1..10_000u64).prop_flat_map(|n| (Just(n), 0..=n)),
        ) {
            let yes = wilson(successes, trials, Confidence::P99).unwrap();
            let no = wilson(trials - successes, trials, Confidence::P99).unwrap();
            prop_assert!((yes.low - (1.0 - no.high)).abs() < 1e-12);
            prop_assert!((yes.high - (1.0 - no.low)).abs() < 1e-12);
        }

        #[test]
        fn more_confidence_is_never_narrower(
            (trials, successes) in (1..10_000u64).prop_flat_map(|n| (Just(n), 0..=n)),
        ) {
            let [a, b, c] = [Confidence::P90, Confidence::P95, Confidence::P99]
                .map(|level| wilson(successes, trials, level).unwrap());
            prop_assert!(c.low <= b.low && b.low <= a.low);
            prop_assert!(a.high <= b.high && b.high <= c.high);
        }

        #[test]
        fn ten_times_the_runs_are_narrower(
            (trials, successes) in (1..10_000u64).prop_flat_map(|n| (Just(n), 0..=n)),
        ) {
            let few = wilson(successes, trials, Confidence::P95).unwrap();
            let many = wilson(10 * successes, 10 * trials, Confidence::P95).unwrap();
            prop_assert!(many.high - many.low < few.high - few.low);
        }
    }
}
