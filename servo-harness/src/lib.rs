//! Statistics for flaky test suites: how often does a test fail, and did a
//! change make a difference?
//!
//! A run of a test ends in one [`Outcome`]; [`Counts`] adds them up. From counts
//! come a rate with its [`wilson`] interval, and the [`fisher_exact`] p-value for
//! "before" against "after".
//!
//! This crate holds the arithmetic only. It does not start tests, and it reads no
//! log: what it is given is what it counts.
//!
//! **Invariant:** no function here does I/O, reads a clock or draws a random
//! number; the same counts give the same answer.
//!
//! ```
//! use servo_harness::{Confidence, Counts, Outcome, fisher_exact};
//!
//! let before: Counts = [Outcome::Expected; 70].into_iter().chain([Outcome::Timeout; 30]).collect();
//! let after: Counts = [Outcome::Expected; 100].into_iter().collect();
//!
//! let rate = before.expected_rate(Confidence::P95).unwrap();
//! assert!(rate.low > 0.60 && rate.high < 0.79);
//! assert!(fisher_exact(before.split(), after.split()) < 1e-8);
//! ```

mod fisher;
mod outcome;
mod wilson;

pub use fisher::{Split, fisher_exact};
pub use outcome::{Counts, Outcome, ParseOutcomeError};
pub use wilson::{Confidence, Interval, wilson};
