//! The published tests of the crates that `rr-channel` replaces, in each of its modes.

use std::process::ExitCode;

use anyhow::Context;

use crate::support::cargo;

/// Runs them, which shows how many passed.
///
/// # Errors
///
/// When cargo cannot be started; tests that fail have said so.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let mut command = cargo::command();
    command
        .args(["test", "--package", "rr-channel", "--test", "conformance"])
        .args(["--", "--ignored", "--nocapture"]);
    let status = command.status().context("starting `cargo test`")?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
