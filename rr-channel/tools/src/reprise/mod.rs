//! `cargo reprise`: records and replays the tests of a project as it is.
//!
//! ```console
//! $ cargo reprise test --until failure -- flaky_test    # records until a run fails, keeps it
//! $ cargo reprise test --until failure --chaos          # the same, with rare orders made likely
//! $ cargo reprise replay --times 100                    # replays that run 100 times
//! $ cargo reprise minimize                              # finds the decisions that make it fail
//! $ cargo reprise coverage                              # lists what is recorded, and what is not
//! ```
//!
//! Where a dependency of the project is `crossbeam-channel` 0.5, `parking_lot` 0.11 to 0.13,
//! `ipc-channel` 0.23, `rayon-core` 1.12 or 1.13, or `tokio` 1.53 or 1.54 from crates.io, cargo
//! gets a replacement with that name and version ([`patch`]). The replacement uses `rr-channel`
//! or has its hooks. The patch is on cargo's command line. The changed lock file and the build
//! are in `target/reprise`, so neither the project's files nor its own builds change. A patch
//! that cargo does not use is an error.
//!
//! Environment variables make a process record or replay. Only the executables that cargo runs
//! get them: cargo calls them through [`runner`]. Compilers, build scripts and procedural
//! macros never see them.
//!
//! A *recording* ([`store`]) is one call of cargo. It has a log for each executable, found by
//! package, executable and, if it ran only one test, by that test.
//!
//! With `--std`, crates are built against a `std` that records
//! ([`recorded_std`](project::recorded_std)). Documentation tests are not recorded, and neither are
//! parts that `rr-channel` does not cover. [`coverage`](project::coverage) lists them for a project.

mod cli;
mod commands;
mod patch;
mod project;
mod runner;
mod store;

pub use self::commands::library::{PatchedProject, Reported};
pub use self::project::cargo::NothingToRecord;
use std::process::ExitCode;

/// Runs the command line. What stopped it is said on standard error.
pub fn main() -> ExitCode {
    cli::run().unwrap_or_else(|error| {
        eprintln!("reprise: {error:#}");
        ExitCode::from(FAILED)
    })
}

/// The exit status where the tool itself could not do its work.
const FAILED: u8 = 125;
