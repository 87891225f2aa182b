//! `servo-harness survey`: runs every test many times.

use std::process::ExitCode;

use super::{RunOptions, Work, print, print_json};
use crate::campaign::runs::{self, AsTheyAre};
use crate::campaign::together;
use crate::platform::lock::lock;
use crate::report::summary::Summary;
use crate::source::Source;
use crate::store::journal::Phase;

/// Options of a survey.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Runs of all tests of an executable in one process, to find those that disturb each other;
    /// 0: none
    #[arg(long, value_name = "N", default_value_t = 9, help_heading = "Runs")]
    together: u64,
    #[command(flatten)]
    options: RunOptions,
    #[command(flatten)]
    source: Source,
}

/// Runs every test many times.
///
/// # Errors
/// If there are no tests, or they cannot be run, or what was found out cannot be written.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let work = Work::open(&args.options)?;
    let tests = work.plain_tests(&args.source)?;
    let _load = work.load();
    let context = work.campaign_context();
    let mut ended = runs::run(&tests, Phase::Plain, &AsTheyAre, &work.settings, &context);
    if matches!(ended, Ok(runs::Ended::Whole)) {
        ended = together::run(&tests, args.together, &work.settings, &context);
    }
    // Also of what came to an end too early, all is shown that is known.
    let complete = ended
        .as_ref()
        .is_ok_and(|ended| *ended == runs::Ended::Whole);
    let results = lock(&work.results);
    let summary = Summary::of_tests(&tests, &results.records, work.is_isolated(), complete);
    if args.options.json {
        print_json(&summary)?;
    } else {
        print(|out| summary.text(out))?;
    }
    let is_odd = summary.tests.iter().any(|row| row.verdict() != "stable");
    Ok(work.status(ended?, is_odd))
}
