//! `cargo xtask full` and `cargo xtask quick`: the checks in one table.
//!
//! Every check runs even when an earlier one failed, so one run shows all
//! there is to mend.

mod steps;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;

use self::steps::{Notes, STEPS, Step, When};

/// Options of `cargo xtask full`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Leave out the tests, which the caller has run already.
    #[arg(long)]
    skip_tests: bool,
}

/// Runs all checks of continuous integration and says which of them failed.
///
/// # Errors
///
/// When a check could not be started at all.
pub(crate) fn full(args: &Args) -> anyhow::Result<ExitCode> {
    run(|step| match step.when {
        When::Tests => !args.skip_tests,
        When::Full | When::Always => true,
        When::Quick => false,
    })
}

/// Runs the checks that take seconds, and the unit tests.
///
/// # Errors
///
/// When a check could not be started at all.
pub(crate) fn quick() -> anyhow::Result<ExitCode> {
    run(|step| matches!(step.when, When::Always | When::Quick))
}

fn run(is_wanted: impl Fn(&Step) -> bool) -> anyhow::Result<ExitCode> {
    let mut failed = Vec::new();
    let mut notes = Notes::default();
    for step in STEPS.iter().filter(|step| is_wanted(step)) {
        println!("== {}", step.name);
        let start = Instant::now();
        let is_ok = (step.run)(&mut notes).with_context(|| format!("check `{}`", step.name))?;
        println!(
            "== {}: {} ({:.1} s)",
            step.name,
            if is_ok { "ok" } else { "FAILED" },
            start.elapsed().as_secs_f64()
        );
        if !is_ok {
            failed.push(step.name);
        }
    }
    if !failed.is_empty() {
        println!("failed checks: {}", failed.join(", "));
        // Repeated, because a log that is cut short keeps its end.
        for failure in &notes.failures {
            println!("{failure}");
        }
    }
    if let Some(totals) = notes.totals {
        println!("{totals}");
    }
    Ok(if failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
