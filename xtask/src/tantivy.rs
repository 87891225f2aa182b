//! A flaky test of somebody else's, recorded and replayed with `cargo reprise`.
//!
//! tantivy 0.17.0's `garbage_collect_works_as_intended` has eight threads that take documents
//! from one bounded channel, and fails where fewer than eight of them got any. One run that
//! passes and one that fails are recorded, and each is replayed many times: every replay
//! must end as its recording did, without a desynchronisation. Then two more such runs are
//! recorded, with places in the source, and what makes the difference is searched for.
//!
//! The published source is fetched by cargo, and is as it was afterwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::cargo;
use crate::load::Load;

const PACKAGE: &str = "tantivy";
const VERSION: &str = "0.17.0";
const TEST: &str = "core::index::tests::garbage_collect_works_as_intended";

/// Options of `cargo xtask tantivy`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How often each recording is replayed.
    #[arg(long, default_value_t = 200)]
    replays: u32,
    /// Keep all processors busy during the replays.
    #[arg(long)]
    load: bool,
    /// Where the source is, and what is built.
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
}

/// The part of a summary of replays that is looked at.
#[derive(Debug, Deserialize)]
struct Summary {
    replays: u64,
    as_recorded: u64,
    desynchronised: u64,
    faithful: u64,
}

/// Records, replays, and says what came of it.
///
/// # Errors
///
/// When the source cannot be had or built, or no run ended as wanted.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let work = args
        .work
        .clone()
        .unwrap_or_else(|| std::env::temp_dir().join("reprise-tantivy"));
    fs::create_dir_all(&work).with_context(|| format!("making {}", work.display()))?;
    let reprise = build()?;
    let source = fetch(&work)?;
    let mut good = true;
    println!("recorded  runs until  replays  as recorded  desynchronised  every event used      s");
    for wanted in ["success", "failure"] {
        let runs = record(&reprise, &source, wanted, &[])?;
        let start = Instant::now();
        let summary = replay(&reprise, &source, &work, args)?;
        println!(
            "{wanted:8}  {runs:>10}  {:>7}  {:>11}  {:>14}  {:>16}  {:>5.0}",
            summary.replays,
            summary.as_recorded,
            summary.desynchronised,
            summary.faithful,
            start.elapsed().as_secs_f64()
        );
        good &= summary.replays == u64::from(args.replays)
            && summary.as_recorded == summary.replays
            && summary.desynchronised == 0;
    }
    for wanted in ["success", "failure"] {
        record(&reprise, &source, wanted, &["--places"])?;
    }
    good &= minimize(&reprise, &source)?;
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Builds `cargo-reprise`: the program's path.
fn build() -> anyhow::Result<PathBuf> {
    let output = cargo::command()
        .args(["build", "--package", "rr-channel-tools"])
        .args([
            "--bin",
            "cargo-reprise",
            "--message-format",
            "json-render-diagnostics",
        ])
        .stderr(Stdio::inherit())
        .output()
        .context("starting `cargo build`")?;
    ensure!(output.status.success(), "cargo-reprise does not build");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .context("`cargo build` named no executable")
}

/// A copy of the published source.
fn fetch(work: &Path) -> anyhow::Result<PathBuf> {
    let copy = work.join(format!("{PACKAGE}-{VERSION}"));
    if copy.join("Cargo.toml").exists() {
        return Ok(copy);
    }
    let package = work.join("fetch");
    fs::create_dir_all(package.join("src"))?;
    fs::write(package.join("src/lib.rs"), "")?;
    fs::write(
        package.join("Cargo.toml"),
        format!(
            "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n\
             [dependencies]\n{PACKAGE} = \"={VERSION}\"\n\n[workspace]\n"
        ),
    )?;
    let output = cargo::command()
        .args(["metadata", "--format-version=1"])
        .current_dir(&package)
        .stderr(Stdio::inherit())
        .output()
        .context("starting `cargo metadata`")?;
    ensure!(output.status.success(), "cargo cannot fetch {PACKAGE}");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let manifest = metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|package| package["name"] == PACKAGE)
        .and_then(|package| package["manifest_path"].as_str())
        .context("cargo does not say where it keeps the source")?;
    let published = Path::new(manifest)
        .parent()
        .context("a manifest lies in no directory")?;
    let unfinished = copy.with_extension("new");
    crate::tree::remove(&unfinished)?;
    let copied = Command::new("cp")
        .arg("-r")
        .args([published, &unfinished])
        .status()
        .context("starting cp")?;
    ensure!(copied.success(), "cannot copy {}", published.display());
    fs::rename(&unfinished, &copy)?;
    Ok(copy)
}

fn reprise(program: &Path, source: &Path, subcommand: &str) -> Command {
    let mut command = Command::new(program);
    command
        .args(["reprise", subcommand])
        .current_dir(source)
        .env("CARGO_TARGET_DIR", source.join("target"));
    command
}

/// Records a run that ends as `wanted`: how many it took.
fn record(program: &Path, source: &Path, wanted: &str, options: &[&str]) -> anyhow::Result<u64> {
    let output = reprise(program, source, "test")
        .args(options)
        .args(["--until", wanted, "--quiet", "--lib", "--", "--exact", TEST])
        .output()
        .context("starting cargo-reprise")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said
        .lines()
        .find(|line| line.starts_with("reprise: recording "));
    let line = line.with_context(|| {
        let tail: Vec<_> = said.lines().rev().take(20).collect();
        let tail: Vec<_> = tail.into_iter().rev().collect();
        format!("no run was recorded:\n{}", tail.join("\n"))
    })?;
    let runs = line
        .split_once("(the last of ")
        .and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
    Ok(runs.unwrap_or(1))
}

/// Says what makes the last recording that fails fail; whether that is an answer.
fn minimize(program: &Path, source: &Path) -> anyhow::Result<bool> {
    let output = reprise(program, source, "minimize")
        .output()
        .context("starting cargo-reprise")?;
    let found = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    let answer = found
        .lines()
        .skip_while(|line| !line.starts_with("the test fails when"));
    for line in answer.chain(said.lines().filter(|line| line.starts_with("reprise: "))) {
        println!("{line}");
    }
    Ok(output.status.success())
}

fn replay(program: &Path, source: &Path, work: &Path, args: &Args) -> anyhow::Result<Summary> {
    let json = work.join("replays.json");
    let _load = args.load.then(Load::start);
    let output = reprise(program, source, "replay")
        .args(["--times", &args.replays.to_string(), "--json"])
        .arg(&json)
        .output()
        .context("starting cargo-reprise")?;
    let said = String::from_utf8_lossy(&output.stderr);
    for line in said.lines() {
        if line.contains("desynchronised at event") || line.contains("went another way") {
            println!("{line}");
        }
    }
    let text = fs::read(&json).with_context(|| format!("reading {}", json.display()))?;
    fs::remove_file(&json)?;
    Ok(serde_json::from_slice(&text)?)
}
