//! A flaky test of somebody else's, recorded and replayed with `cargo reprise`.
//!
//! tantivy 0.17.0's `garbage_collect_works_as_intended` has eight threads that take documents
//! from one bounded channel, and fails where fewer than eight of them got any. One run that
//! passes and one that fails are recorded, and each is replayed many times: every replay
//! must end as its recording did, without a desynchronisation. Then two more such runs are
//! recorded, with places in the source, and what makes the difference is searched for.
//!
//! The published source is fetched by cargo, and is as it was afterwards.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::Context;

use crate::support::load::Load;
use crate::support::published::{self, build, fetch};

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

/// Records, replays, and says what came of it.
///
/// # Errors
///
/// When the source cannot be had or built, or no run ended as wanted.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let work = published::work(args.work.as_ref(), "tantivy")?;
    let program = build(&["rr-channel-tools"], "cargo-reprise")?;
    let source = fetch(&work, "tantivy", "0.17.0")?;
    let mut good = true;
    println!("recorded  runs until  replays  as recorded  desynchronised  every event used      s");
    for wanted in ["success", "failure"] {
        let runs = record(&program, &source, wanted, &[])?;
        let start = Instant::now();
        let summary = {
            let _load = args.load.then(Load::start);
            let json = work.join("replays.json");
            published::replay(reprise(&program, &source, "replay"), &json, args.replays)?
        };
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
        record(&program, &source, wanted, &["--places"])?;
    }
    good &= minimize(&program, &source)?;
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
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
