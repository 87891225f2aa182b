//! Finds the intermittent tests of a suite, and says how often they fail.
//!
//! `servo-harness survey` runs every test many times ([`campaign`]), each run in a [`cell`]
//! that it cannot leave, and writes what became of it to a [`journal`] that survives being
//! killed. Tests come from cargo, nextest, test executables, lists or manifests of web
//! platform tests ([`source`]). A run ends in one [`Outcome`]; [`Counts`] adds them up. From
//! counts come a rate with its [`wilson`] interval, and the [`fisher_exact`] p-value for
//! "before" against "after" ([`summary`]).
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

/// Writes a line to standard error, where perhaps nobody reads any more.
macro_rules! tell {
    ($($what:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($what)*);
    }};
}

pub mod artefact;
pub mod campaign;
pub mod cell;
mod cli;
pub mod engine;
mod fisher;
mod interrupt;
pub mod journal;
mod load;
mod outcome;
mod progress;
mod report;
pub mod source;
pub mod summary;
mod suspects;
mod tame;
mod wilson;

pub use cli::main;
pub use fisher::{Split, fisher_exact};
pub use interrupt::{Interrupt, Interrupted};
pub use outcome::{Counts, Outcome, ParseOutcomeError};
pub use wilson::{Confidence, Interval, wilson};
