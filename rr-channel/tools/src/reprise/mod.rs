//! `cargo reprise`: records and replays the tests of a project as it is.
//!
//! ```console
//! $ cargo reprise test --until failure -- flaky_test    # records; keeps the run that fails
//! $ cargo reprise test --until failure --chaos          # the same, with rare orders made likely
//! $ cargo reprise replay --times 100                    # that run again, a hundred times
//! $ cargo reprise minimize                              # what makes a run that fails fail
//! $ cargo reprise coverage                              # what is recorded, and what is not
//! ```
//!
//! Wherever the project's dependencies use `crossbeam-channel` 0.5, `parking_lot` 0.11 to
//! 0.13, `ipc-channel` 0.23, `rayon-core` 1.12 or 1.13, or `tokio` 1.53 or 1.54 from crates.io,
//! cargo is given a crate of that name and of the locked version that is `rr-channel` inside
//! ([`patch`]), or has its hooks. The patch is in cargo's command line,
//! the changed lock file and all that is built lie in `target/reprise`: neither the project's
//! files nor its own builds are touched. If cargo did not use the patch, that is an error.
//!
//! What makes a process record or replay are environment variables, which only the
//! executables get that cargo runs: cargo calls them through [`runner`]. Compilers,
//! build scripts and procedural macros never see them, and the processes that an
//! executable starts run as if nothing were.
//!
//! A *recording* ([`store`]) is one call of cargo. In it, the log of an executable is found
//! by package, executable and, where it ran just one test, by the test.
//!
//! Not recorded: documentation tests; and of the executables what `rr-channel` does
//! not cover, such as the locks of `std`, which a dependency's source would have to be
//! changed for. [`coverage`](project::coverage) says what that is in a project.

mod cli;
mod commands;
mod patch;
mod project;
mod runner;
mod store;

pub use self::commands::library::{PatchedProject, Reported};
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
