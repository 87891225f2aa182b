//! Test totals, summed over the `test result:` lines of `cargo test`.

use std::fmt;

/// How many tests ran, over all test binaries.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Totals {
    passed: u64,
    failed: u64,
}

impl Totals {
    /// Adds the counts of `line` when it is the summary of a test binary.
    pub(crate) fn add_line(&mut self, line: &str) {
        let Some(summary) = line.trim_start().strip_prefix("test result: ") else {
            return;
        };
        for part in summary.split([';', '.']) {
            let mut words = part.split_whitespace();
            let (Some(count), Some(what)) = (words.next(), words.next()) else {
                continue;
            };
            let Ok(count) = count.parse::<u64>() else {
                continue;
            };
            match what {
                "passed" => self.passed += count,
                "failed" => self.failed += count,
                _ => {}
            }
        }
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_sum_the_summaries_and_nothing_else() {
        let mut totals = Totals::default();
        for line in [
            "running 3 tests",
            "test a ... ok",
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1.02s",
            "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.50s",
        ] {
            totals.add_line(line);
        }
        assert_eq!(totals.to_string(), "15 passed, 2 failed");
    }
}
