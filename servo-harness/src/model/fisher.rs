//! Fisher's exact test: are two flake rates the same?
//!
//! A chi-squared test is wrong for the small counts that test suites give (100
//! runs with 3 failures); this one is exact for any counts. Probabilities are
//! computed relative to the mode of the hypergeometric distribution, outwards by
//! the ratio of neighbours, so that no factorial is ever formed; terms too small
//! for an `f64` count as zero.

/// One row of the two-by-two table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    /// Runs with the property, for instance expected ones.
    pub yes: u64,
    /// Runs without it.
    pub no: u64,
}

/// Two tables this close in probability count as equally likely (as in R).
const TIE: f64 = 1.0 + 1e-7;

/// The two-sided p-value of `before` against `after`: the probability, if both
/// had the same rate, of a table at most as likely as this one.
///
/// Takes time in proportion to the smallest of the four margins. A side without
/// runs says nothing, so the p-value is 1.
///
/// ```
/// use servo_harness::{Split, fisher_exact};
///
/// let before = Split { yes: 92, no: 8 };
/// let after = Split { yes: 100, no: 0 };
/// assert!(fisher_exact(before, after) < 0.01);
/// ```
pub fn fisher_exact(before: Split, after: Split) -> f64 {
    let row = before.yes as f64 + before.no as f64;
    let column = before.yes as f64 + after.yes as f64;
    let total = row + after.yes as f64 + after.no as f64;
    let lowest = (row + column - total).max(0.0);
    let highest = row.min(column);
    let observed = before.yes as f64;
    if highest <= lowest {
        return 1.0;
    }
    let mode = (((row + 1.0) * (column + 1.0)) / (total + 2.0))
        .floor()
        .clamp(lowest, highest);

    // weight(k + 1) / weight(k)
    let up = |k: f64| ((row - k) * (column - k)) / ((k + 1.0) * (total - row - column + k + 1.0));
    let mut weights = vec![(mode, 1.0)];
    let (mut k, mut weight) = (mode, 1.0_f64);
    while k < highest && weight > 0.0 {
        weight *= up(k);
        k += 1.0;
        weights.push((k, weight));
    }
    (k, weight) = (mode, 1.0);
    while k > lowest && weight > 0.0 {
        k -= 1.0;
        weight /= up(k);
        weights.push((k, weight));
    }
    let limit = weights
        .iter()
        .find(|(k, _)| *k == observed)
        .map_or(0.0, |(_, w)| w * TIE);
    // Smallest first, for the sums' precision.
    weights.sort_by(|a, b| a.1.total_cmp(&b.1));
    let all: f64 = weights.iter().map(|(_, w)| w).sum();
    let unlikely: f64 = weights
        .iter()
        .map(|(_, w)| w)
        .filter(|w| **w <= limit)
        .sum();
    (unlikely / all).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn p(table: [u64; 4]) -> f64 {
        let [a, b, c, d] = table;
        fisher_exact(Split { yes: a, no: b }, Split { yes: c, no: d })
    }

    #[track_caller]
    fn check(table: [u64; 4], expected: f64) {
        let got = p(table);
        assert!(
            (got - expected).abs() < 1e-9 * expected.max(1e-3),
            "{got} is not {expected}"
        );
    }

    #[test]
    fn p_values_are_those_of_the_literature() {
        // Fisher's lady and her tea: 34 of 70 tables.
        check([3, 1, 1, 3], 34.0 / 70.0);
        // SciPy's example of whales and sharks: 5/143.
        check([8, 2, 1, 5], 5.0 / 143.0);
        // Studying teenagers (C(12,1)·C(12,9) and its rarer kin over C(24,10)).
        check([1, 9, 11, 3], 5412.0 / 1_961_256.0);
        // Fisher's convicted twins: 5.367e-4 in R's help page.
        assert!((p([2, 15, 10, 3]) - 0.000_536_7).abs() < 5e-8);
    }

    #[test]
    fn empty_rows_and_columns_say_nothing() {
        check([0, 0, 5, 5], 1.0);
        check([5, 5, 0, 0], 1.0);
        check([0, 5, 0, 5], 1.0);
        check([0, 0, 0, 0], 1.0);
    }

    #[test]
    fn counts_far_beyond_a_factorial_still_have_a_p_value() {
        check([100_000, 100_000, 100_000, 100_000], 1.0);
        assert_eq!(p([100_000, 0, 0, 100_000]), 0.0);
    }

    /// The definition, with exact integers.
    fn by_enumeration([a, b, c, d]: [u64; 4]) -> f64 {
        fn choose(n: u64, k: u64) -> u128 {
            (0..u128::from(k)).fold(1, |acc, i| acc * (u128::from(n) - i) / (i + 1))
        }
        let (row, column, total) = (a + b, a + c, a + b + c + d);
        let ways = |k: u64| choose(row, k) * choose(total - row, column - k);
        let range = (row + column).saturating_sub(total)..=row.min(column);
        let all: u128 = range.clone().map(ways).sum();
        let unlikely: u128 = range.map(ways).filter(|w| *w <= ways(a)).sum();
        unlikely as f64 / all as f64
    }

    proptest! {
        #[test]
        fn small_tables_agree_with_enumeration(table in prop::array::uniform4(0..15u64)) {
            prop_assert!((p(table) - by_enumeration(table)).abs() < 1e-9);
        }

        #[test]
        fn a_p_value_is_a_probability(table in prop::array::uniform4(0..5_000u64)) {
            let p = p(table);
            prop_assert!((0.0..=1.0).contains(&p));
        }

        #[test]
        fn swapping_rows_or_columns_or_transposing_changes_nothing(
            [a, b, c, d] in prop::array::uniform4(0..200u64),
        ) {
            for other in [[c, d, a, b], [b, a, d, c], [a, c, b, d]] {
                prop_assert!((p([a, b, c, d]) - p(other)).abs() < 1e-9);
            }
        }
    }
}
