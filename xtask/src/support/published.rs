//! Crates as they are published, and the tools that record their tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::support::cargo;

/// The part of a summary of replays that is looked at.
#[derive(Debug, Deserialize)]
pub(crate) struct Replays {
    pub(crate) replays: u64,
    pub(crate) as_recorded: u64,
    pub(crate) desynchronised: u64,
    pub(crate) faithful: u64,
}

/// Where sources and what is built of them are kept, if the user names no other place.
///
/// # Errors
/// If it cannot be made.
pub(crate) fn work(asked: Option<&PathBuf>, name: &str) -> anyhow::Result<PathBuf> {
    let work = asked
        .cloned()
        .unwrap_or_else(|| std::env::temp_dir().join(format!("reprise-{name}")));
    fs::create_dir_all(&work).with_context(|| format!("making {}", work.display()))?;
    work.canonicalize()
        .with_context(|| format!("finding {}", work.display()))
}

/// Builds programs of packages: the path of the one of this name.
///
/// # Errors
/// If they do not build, or there is no such program.
pub(crate) fn build(packages: &[&str], program: &str) -> anyhow::Result<PathBuf> {
    let packages = packages.iter().flat_map(|package| ["--package", package]);
    let mut command = cargo::building("build");
    command.args(packages).arg("--bins");
    cargo::built(&mut command, program)
}

/// A copy of a published source below `work`, fetched by cargo if it is not there yet.
///
/// # Errors
/// If it cannot be had.
pub(crate) fn fetch(work: &Path, name: &str, version: &str) -> anyhow::Result<PathBuf> {
    let copy = work.join(format!("{name}-{version}"));
    if copy.join("Cargo.toml").exists() {
        return Ok(copy);
    }
    let package = work.join("fetch");
    fs::create_dir_all(package.join("src"))?;
    fs::write(package.join("src/lib.rs"), "")?;
    // What the last one needed says nothing about this one.
    crate::support::tree::remove(&package.join("Cargo.lock"))?;
    fs::write(
        package.join("Cargo.toml"),
        format!(
            "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n\
             [dependencies]\n{name} = \"={version}\"\n\n[workspace]\n"
        ),
    )?;
    let metadata =
        cargo::metadata(&package).with_context(|| format!("cargo cannot fetch {name}"))?;
    let published = cargo::source_of(&metadata, name)?;
    let unfinished = work.join(format!("{name}-{version}.new"));
    crate::support::tree::remove(&unfinished)?;
    let copied = Command::new("cp")
        .arg("-r")
        .args([&published, &unfinished])
        .status()
        .context("starting cp")?;
    ensure!(copied.success(), "cannot copy {}", published.display());
    fs::rename(&unfinished, &copy)?;
    Ok(copy)
}

/// Replays the last recording so many times, and shows where replays go another way.
///
/// # Errors
/// If there is none, or it cannot be replayed.
pub(crate) fn replay(mut reprise: Command, json: &Path, times: u32) -> anyhow::Result<Replays> {
    let output = reprise
        .args(["--times", &times.to_string(), "--json"])
        .arg(json)
        .output()
        .context("starting cargo-reprise")?;
    let said = String::from_utf8_lossy(&output.stderr);
    for line in said.lines() {
        if line.contains("desynchronised at event") || line.contains("differs from the recording") {
            println!("{line}");
        }
    }
    let text = fs::read(json).with_context(|| format!("no replay was counted:\n{said}"))?;
    fs::remove_file(json)?;
    Ok(serde_json::from_slice(&text)?)
}
