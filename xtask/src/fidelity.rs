//! The programs of `rr-channel`'s tests, replayed many more times than the tests do.

use std::process::ExitCode;

use anyhow::Context;

use crate::cargo;
use crate::load::Load;

/// Options of `cargo xtask fidelity`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How often each program is recorded.
    #[arg(long, default_value_t = 1)]
    recordings: u32,
    /// How often each recording is replayed.
    #[arg(long, default_value_t = 1000)]
    replays: u32,
    /// Keep all processors busy meanwhile.
    #[arg(long)]
    load: bool,
    /// Only the tests with this in their names.
    filter: Option<String>,
}

/// Runs the tests, one at a time.
///
/// # Errors
///
/// When cargo cannot be started; tests that fail have said so.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut command = cargo::command();
    command
        .args(["test", "--release", "--package", "rr-channel"])
        .args(["--test", "fidelity"])
        .args(&args.filter)
        .args(["--", "--test-threads=1"])
        .env(
            "RR_CHANNEL_TEST_RUNS",
            format!("{}x{}", args.recordings, args.replays),
        );
    let _load = args.load.then(Load::start);
    let status = command.status().context("starting `cargo test`")?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
