//! The workspace's own `pcache`, built when a task needs it.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, ensure};

/// Builds pcache with optimisations and returns the program's path.
///
/// # Errors
///
/// When it does not build.
pub(crate) fn build(planted_defects: bool) -> anyhow::Result<PathBuf> {
    let mut command = crate::cargo::command();
    command.args([
        "build",
        "--release",
        "--package",
        "process-cache",
        "--bin",
        "pcache",
    ]);
    command.args(["--message-format", "json-render-diagnostics"]);
    if planted_defects {
        command.args(["--features", "planted-defects"]);
    }
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .context("starting `cargo build`")?;
    ensure!(output.status.success(), "pcache does not build");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .context("`cargo build` named no executable")
}
