//! Calling cargo.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use cargo_metadata::{Metadata, MetadataCommand};

/// The README's command that runs the tests.
pub(crate) const TESTS: &[&str] = &["test", "--workspace"];

/// The cargo that started us, so that a chosen toolchain stays chosen.
pub(crate) fn command() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// The metadata of the project in `dir` and of everything that it depends on, which is
/// fetched where it is missing.
///
/// # Errors
///
/// When `cargo metadata` fails.
pub(crate) fn metadata(dir: &Path) -> anyhow::Result<Metadata> {
    MetadataCommand::new()
        .current_dir(dir)
        .exec()
        .context("running `cargo metadata`")
}

/// Where cargo keeps the sources of a package.
///
/// # Errors
///
/// When the project does not depend on it.
pub(crate) fn source_of(metadata: &Metadata, package: &str) -> anyhow::Result<PathBuf> {
    metadata
        .packages
        .iter()
        .find(|found| *found.name == package)
        .and_then(|found| found.manifest_path.parent())
        .map(|dir| dir.as_std_path().to_owned())
        .with_context(|| format!("cargo does not say where it keeps {package}"))
}

/// The path of a program of this workspace as the tests build it: unoptimized, and together with
/// all else, as their libraries are. Where the tests have been built, nothing is.
///
/// # Errors
///
/// When something does not build, or there is no such program.
pub(crate) fn program_of_tests(name: &str) -> anyhow::Result<PathBuf> {
    let mut command = building(TESTS[0]);
    command.args(&TESTS[1..]).arg("--no-run");
    built(&mut command, name)
}

/// A call of cargo that says what it has [`built`].
pub(crate) fn building(subcommand: &str) -> Command {
    let mut command = command();
    command.args([subcommand, "--message-format", "json-render-diagnostics"]);
    command
}

/// Makes that call; the path of the program of that name.
///
/// # Errors
///
/// When it does not build, or there is no such program.
pub(crate) fn built(command: &mut Command, name: &str) -> anyhow::Result<PathBuf> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .context("starting cargo")?;
    ensure!(output.status.success(), "{name} does not build");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
        .find(|path| path.ends_with(name))
        .with_context(|| format!("cargo named no {name}"))
}
