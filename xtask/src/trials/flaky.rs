//! Published crates whose authors know that a test of theirs is flaky, tamed.
//!
//! Each was found in its project's list of issues, and its tests are in what is published.
//! `servo-harness` surveys the test, tames it and explains it; what comes of it is printed,
//! cured or not.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::Context;

use crate::support::published::{self, build, fetch};

/// A crate, and what is flaky in it.
struct Known {
    name: &'static str,
    version: &'static str,
    /// Where its authors say so.
    issue: &'static str,
    /// A part of the test's name.
    test: &'static str,
    cargo: &'static [&'static str],
}

const KNOWN: [Known; 2] = [
    Known {
        name: "stretto",
        version: "0.8.4",
        issue: "https://github.com/al8n/stretto/issues/31",
        test: "test_cache_drop_updates",
        cargo: &["--lib"],
    },
    Known {
        name: "tracing-appender",
        version: "0.2.3",
        issue: "https://github.com/tokio-rs/tracing/issues/751",
        test: "logs_dropped_if_lossy",
        cargo: &["--lib", "--", "--ignored"],
    },
];

/// Options of `cargo xtask flaky`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this crate; may be given again.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Plain runs of the test, and replays.
    #[arg(short = 'n', long, default_value_t = 100)]
    runs: u32,
    /// Threads that compute beside the plain runs and the replays.
    #[arg(long, default_value_t = 3)]
    load: usize,
    /// The engine that records: `rr-channel` or `reprise`.
    #[arg(long, default_value = "rr-channel")]
    engine: String,
    /// Where the sources are, and what is built.
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
}

/// Tames them.
///
/// # Errors
///
/// When a source cannot be had or built.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let work = published::work(args.work.as_ref(), "flaky")?;
    let harness = build(&["servo-harness", "reprise"], "servo-harness")?;
    let is_wanted =
        |known: &&Known| args.only.is_empty() || args.only.iter().any(|only| only == known.name);
    for known in KNOWN.iter().filter(is_wanted) {
        let source = fetch(&work, known.name, known.version)?;
        println!("{} {}, {}", known.name, known.version, known.issue);
        let load = args.load.to_string();
        let call = |command: &str, options: &[&str]| {
            Command::new(&harness)
                .arg(command)
                .args(options)
                .args(["--timeout", "120", "--load", &load, "--state"])
                .arg(source.join(format!("target/{}", args.engine)))
                .args(["--", "cargo", "test"])
                .args(known.cargo)
                .current_dir(&source)
                .env_remove("CARGO_TARGET_DIR")
                .status()
                .context("starting servo-harness")
        };
        let (runs, engine) = (args.runs.to_string(), args.engine.as_str());
        let tame = [
            "--only",
            known.test,
            "--engine",
            engine,
            "--precision",
            "0",
            "--runs",
            &runs,
        ];
        // That a test is intermittent is what is expected.
        call("tame", &tame)?;
        call("explain", &[known.test])?;
    }
    Ok(ExitCode::SUCCESS)
}
