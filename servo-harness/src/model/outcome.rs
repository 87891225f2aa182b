//! The outcome of one run of a test, and how often each outcome was seen.
//!
//! The four outcomes are those of the Tivo evaluation (section 4.6.1).

use std::fmt;
use std::str::FromStr;

use super::fisher::Split;
use super::wilson::{Confidence, Interval, wilson};

/// How one run of a test ended.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The test gave the result that the suite expects.
    Expected,
    /// The test ended by itself and gave another result.
    Unexpected,
    /// The program under test crashed.
    Crash,
    /// The test did not end within its time limit.
    Timeout,
}

impl Outcome {
    /// Every outcome, in the order in which tables show them.
    pub const ALL: [Outcome; 4] = [
        Outcome::Expected,
        Outcome::Unexpected,
        Outcome::Crash,
        Outcome::Timeout,
    ];

    /// The word that [`FromStr`] reads back.
    pub const fn as_str(self) -> &'static str {
        match self {
            Outcome::Expected => "expected",
            Outcome::Unexpected => "unexpected",
            Outcome::Crash => "crash",
            Outcome::Timeout => "timeout",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The text is none of the four outcomes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown outcome `{0}`: use expected, unexpected, crash or timeout")]
pub struct ParseOutcomeError(String);

impl FromStr for Outcome {
    type Err = ParseOutcomeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Outcome::ALL
            .into_iter()
            .find(|outcome| outcome.as_str() == text)
            .ok_or_else(|| ParseOutcomeError(text.to_owned()))
    }
}

/// How often each outcome was seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    by_outcome: [u64; 4],
}

impl Counts {
    /// Counts one more run.
    pub fn add(&mut self, outcome: Outcome) {
        self.by_outcome[outcome as usize] += 1;
    }

    /// The number of runs that ended in `outcome`.
    pub const fn of(&self, outcome: Outcome) -> u64 {
        self.by_outcome[outcome as usize]
    }

    /// The number of all runs.
    pub fn total(&self) -> u64 {
        self.by_outcome.iter().sum()
    }

    /// Whether the runs disagree with each other: at least two outcomes occur.
    ///
    /// A test that always fails is broken, but it is not flaky.
    pub fn is_flaky(&self) -> bool {
        self.by_outcome.iter().filter(|&&n| n > 0).count() > 1
    }

    /// Expected runs against all others, for [`fisher_exact`](crate::fisher_exact).
    pub fn split(&self) -> Split {
        let yes = self.of(Outcome::Expected);
        Split {
            yes,
            no: self.total() - yes,
        }
    }

    /// The rate of expected runs with its Wilson interval; `None` without runs.
    pub fn expected_rate(&self, confidence: Confidence) -> Option<Interval> {
        wilson(self.of(Outcome::Expected), self.total(), confidence)
    }
}

impl Extend<Outcome> for Counts {
    fn extend<I: IntoIterator<Item = Outcome>>(&mut self, outcomes: I) {
        for outcome in outcomes {
            self.add(outcome);
        }
    }
}

impl FromIterator<Outcome> for Counts {
    fn from_iter<I: IntoIterator<Item = Outcome>>(outcomes: I) -> Self {
        let mut counts = Counts::default();
        counts.extend(outcomes);
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_reads_back_what_it_prints() {
        for outcome in Outcome::ALL {
            assert_eq!(outcome.to_string().parse(), Ok(outcome));
        }
    }

    #[test]
    fn an_unknown_outcome_is_named_in_the_error() {
        let err = "Expected".parse::<Outcome>().unwrap_err();
        assert_eq!(
            err.to_string(),
            "unknown outcome `Expected`: use expected, unexpected, crash or timeout"
        );
    }

    #[test]
    fn a_test_that_always_fails_is_not_flaky() {
        let broken: Counts = [Outcome::Crash; 3].into_iter().collect();
        let flaky: Counts = [Outcome::Crash, Outcome::Expected].into_iter().collect();
        assert!(!broken.is_flaky());
        assert!(flaky.is_flaky());
        assert!(!Counts::default().is_flaky());
    }

    #[test]
    fn a_split_counts_every_run_once() {
        let counts: Counts = Outcome::ALL.into_iter().collect();
        assert_eq!(counts.split(), Split { yes: 1, no: 3 });
    }

    #[test]
    fn no_runs_have_no_rate() {
        assert_eq!(Counts::default().expected_rate(Confidence::P95), None);
    }
}
