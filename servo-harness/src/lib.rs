//! Finds the intermittent tests of a suite, measures how often they fail, and replays a good
//! run.
//!
//! `servo-harness survey` runs every test many times ([`campaign`]). Each run has a [`sandbox`]
//! that no process leaves, and its outcome goes to a [journal](store::journal) that survives
//! being killed. Tests come from cargo, nextest, test executables, lists or manifests of web
//! platform tests ([`source`]). A run has one [`Outcome`]; [`Counts`] adds them up. Counts give
//! a rate with its [`wilson`](wilson()) interval, and the [`fisher_exact`] p-value of "before"
//! against "after" ([`report`]).
//!
//! # Layers
//!
//! From the ground up; a module imports only from rows above its own in this table.
//!
//! | layer | modules | purpose |
//! |---|---|---|
//! | 1 | `platform` | signals, processors, locks |
//! | 2 | `model` | outcomes of runs, and the statistics over them |
//! | 3 | `sandbox` | one run, whose processes end with it |
//! | 4 | `store` | the journal of a survey, recordings beside the tests |
//! | 5 | `source` | where tests come from |
//! | 6 | `engine` | one interface to what records and replays |
//! | 7 | `campaign` | many runs of many tests |
//! | 8 | `report` | tables, pages, JUnit's XML |
//! | 9 | `cli` | the command line |
//!
//! # Examples
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

pub mod campaign;
mod cli;
pub mod engine;
pub mod model;
pub mod platform;
pub mod report;
pub mod sandbox;
pub mod source;
pub mod store;

pub use cli::main;
pub use model::fisher::{Split, fisher_exact};
pub use model::outcome::{Counts, Outcome, ParseOutcomeError};
pub use model::wilson::{Confidence, Interval, wilson};
pub use platform::interrupt::{Interrupt, Interrupted};
