//! `cargo xtask spelling`: known misspellings, found by the program `typos`.
//!
//! `typos.toml` lists the words that only look like misspellings. Where the program is
//! missing, it is installed from PyPI into a directory of this workspace's builds.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, ensure};

use crate::support::workspace;

/// Another version may know other misspellings.
const VERSION: &str = "1.52.0";

/// Runs `typos` over the workspace, which prints each misspelling.
///
/// # Errors
///
/// When the program is not there and cannot be installed.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let status = Command::new(program()?)
        .args(["--format", "brief"])
        .current_dir(workspace::root())
        .status()
        .context("starting typos")?;
    Ok(if status.success() {
        println!("spelling: ok");
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The program, installed if it is missing.
fn program() -> anyhow::Result<PathBuf> {
    let dir = workspace::target_dir().join("typos");
    let program = dir.join("bin/typos");
    if !is_there(&program) {
        let install = || {
            succeed(Command::new("python3").args(["-m", "venv"]).arg(&dir))?;
            let package = format!("typos=={VERSION}");
            succeed(
                Command::new(dir.join("bin/pip"))
                    .args(["install", "--quiet"])
                    .arg(package),
            )
        };
        install().context(
            "installing typos from PyPI (it needs python3 with the module venv, and the network)",
        )?;
    }
    Ok(program)
}

fn is_there(program: &Path) -> bool {
    let output = Command::new(program)
        .arg("--version")
        .stderr(Stdio::null())
        .output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(VERSION))
}

fn succeed(command: &mut Command) -> anyhow::Result<()> {
    let status = command
        .status()
        .with_context(|| format!("starting {command:?}"))?;
    ensure!(status.success(), "{command:?} failed");
    Ok(())
}
