//! The suite of `examples/pages`, tamed: what `servo-harness` is judged by.
//!
//! Every test is run many times plainly and many times in replay, stable ones as well, half
//! of the replays in turn with plain runs. Each test must be as expected in every replay of the
//! engine that is chosen for it, without a desynchronisation, and none may hang.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, ensure};
use serde::Deserialize;

use crate::support::cargo;
use crate::support::median::median;
use crate::support::published::build;

/// The project.
const SUBJECT: &str = "examples/pages";

/// Options of `cargo xtask subject`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Plain runs of each test, and replays.
    #[arg(short = 'n', long, default_value_t = 100)]
    runs: u32,
    /// Only tests with one of these in their names.
    #[arg(long)]
    only: Vec<String>,
    /// Where everything is built and kept.
    #[arg(long, value_name = "DIR", default_value = "target/subject")]
    work: PathBuf,
    /// Go on where the last time was interrupted.
    #[arg(long)]
    resume: bool,
}

/// The part of a summary that is looked at.
#[derive(Debug, Deserialize)]
struct Summary {
    tests: Vec<Row>,
}

#[derive(Debug, Deserialize)]
struct Row {
    test: String,
    plain: Stats,
    replay: Option<Stats>,
    beside_seconds: Option<f64>,
    p: Option<f64>,
    tamed: Option<Tamed>,
}

#[derive(Debug, Deserialize)]
struct Stats {
    runs: u64,
    expected: u64,
    timeout: u64,
    median_seconds: f64,
    unfaithful: u64,
}

#[derive(Debug, Deserialize)]
struct Tamed {
    bytes: u64,
    problem: Option<String>,
}

impl Row {
    fn short(&self) -> &str {
        self.test
            .rsplit_once('$')
            .map_or(&self.test, |(_, name)| name)
    }

    const fn is_flaky(&self) -> bool {
        self.plain.expected > 0 && self.plain.expected < self.plain.runs
    }

    /// The time of a replay over that of a plain run.
    fn ratio(&self) -> Option<f64> {
        Some(self.replay.as_ref()?.median_seconds / self.beside_seconds?)
    }

    /// The fault of the test, if it has one.
    fn fault(&self) -> Option<String> {
        let problem = self
            .tamed
            .as_ref()
            .and_then(|tamed| tamed.problem.as_deref());
        if self.plain.timeout > 0
            || self
                .replay
                .as_ref()
                .is_some_and(|replay| replay.timeout > 0)
        {
            return Some("it hangs".to_owned());
        }
        match (&self.replay, problem) {
            (_, Some(problem)) => Some(problem.to_owned()),
            (Some(replay), None) if replay.expected < replay.runs => {
                Some("not every replay is as expected".to_owned())
            }
            (Some(replay), None) if replay.unfaithful > 0 => {
                Some("replays desynchronise".to_owned())
            }
            (Some(_), None) => None,
            (None, None) if self.plain.expected > 0 => Some("it was not recorded".to_owned()),
            (None, None) => Some("it always fails".to_owned()),
        }
    }
}

/// Tames the suite, and shows what came of it.
///
/// # Errors
///
/// When something cannot be built or read.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let harness = build(&["servo-harness", "reprise"], "servo-harness")?;
    let root = std::env::current_dir().context("finding the workspace")?;
    let work = root.join(&args.work);
    let mut command = Command::new(harness);
    command
        .args([
            "tame",
            "--all",
            "--json",
            "--precision",
            "0",
            "--timeout",
            "30",
        ])
        .args(["--runs", &args.runs.to_string()])
        .arg("--state")
        .arg(work.join("state"))
        .arg("--recordings")
        .arg(work.join("recordings"))
        .args((!args.resume).then_some("--fresh"))
        .args(args.only.iter().flat_map(|name| ["--only", name]))
        .args(["--", "cargo", "test", "--test", "wpt"])
        .current_dir(root.join(SUBJECT))
        .env("CARGO_TARGET_DIR", work.join("target"))
        .stderr(Stdio::inherit());
    let output = command.output().context("starting servo-harness")?;
    let summary: Summary = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("servo-harness has no summary ({})", output.status))?;
    show(&summary);
    let mut faults = 0;
    for row in &summary.tests {
        if let Some(fault) = row.fault() {
            faults += 1;
            println!("{}: {fault}", row.short());
        }
    }
    let code = if faults == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    };
    Ok(code)
}

/// The suite once, plainly: what is not intermittent must pass.
///
/// # Errors
///
/// When it does not build.
pub(crate) fn run_briefly() -> anyhow::Result<ExitCode> {
    let target = std::env::current_dir()?.join("target/subject/target");
    let mut built = cargo::command();
    built
        .args(["test", "--lib", "--test", "wpt", "--no-fail-fast"])
        .current_dir(SUBJECT)
        .env("CARGO_TARGET_DIR", target);
    let output = built
        .stderr(Stdio::inherit())
        .output()
        .context("starting cargo")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let (mut passed, mut broken) = (0, Vec::new());
    for line in said.lines().filter_map(|line| line.strip_prefix("test ")) {
        let Some((name, result)) = line.split_once(" ... ") else {
            continue;
        };
        if result == "ok" {
            passed += 1;
        } else if !may_fail(name) {
            broken.push(line);
        }
    }
    for line in &broken {
        println!("{line}");
    }
    ensure!(passed > 0, "no test of {SUBJECT} has passed:\n{said}");
    Ok(if broken.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Whether a page says of itself what it takes for granted.
fn may_fail(test: &str) -> bool {
    let path = test.replace("::", "/");
    let path = path.split_once('.').map_or(&*path, |(path, _)| path);
    let page = Path::new(SUBJECT)
        .join("tests/wpt")
        .join(format!("{path}.html"));
    std::fs::read_to_string(page).is_ok_and(|text| text.contains("Takes for granted"))
}

fn show(summary: &Summary) {
    println!("| test | plain | replay | p | time | log |");
    println!("|---|---|---|---|---|---|");
    for row in &summary.tests {
        let rate = |stats: &Stats| format!("{} of {}", stats.expected, stats.runs);
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        println!(
            "| {} | {} | {} | {} | {} | {} |",
            row.short(),
            rate(&row.plain),
            or_none(row.replay.as_ref().map(rate)),
            or_none(row.p.map(|p| format!("{p:.1e}"))),
            or_none(row.ratio().map(|ratio| format!("{ratio:.2}x"))),
            or_none(
                row.tamed
                    .as_ref()
                    .filter(|tamed| tamed.bytes > 0)
                    .map(|tamed| format!("{} B", tamed.bytes))
            ),
        );
    }
    let rows = &summary.tests;
    let flaky = rows.iter().filter(|row| row.is_flaky());
    let honest = |row: &&&Row| {
        let rate = row.plain.expected as f64 / row.plain.runs as f64;
        (0.05..=0.95).contains(&rate)
    };
    let flaky: Vec<&Row> = flaky.collect();
    let cured = |row: &&&Row| {
        let replay = row.replay.as_ref();
        replay.is_some_and(|replay| replay.expected == replay.runs && replay.unfaithful == 0)
    };
    println!(
        "\n{} tests; {} intermittent, {} of these fail 5 to 95 of 100 runs; {} come to what is \
         expected in every replay",
        rows.len(),
        flaky.len(),
        flaky.iter().filter(honest).count(),
        flaky.iter().filter(cured).count(),
    );
    let ratios: Vec<f64> = rows.iter().filter_map(Row::ratio).collect();
    let sizes: Vec<f64> = rows
        .iter()
        .filter_map(|row| row.tamed.as_ref())
        .filter(|tamed| tamed.bytes > 0)
        .map(|tamed| tamed.bytes as f64)
        .collect();
    if !ratios.is_empty() && !sizes.is_empty() {
        let logs: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
        println!(
            "a replay takes {:.2}x of a plain run (geometric mean; median {:.2}x, {} of {} \
             tests at most 1.2x); a recording has {:.0} bytes (median)",
            (logs / ratios.len() as f64).exp(),
            median(ratios.clone()),
            ratios.iter().filter(|ratio| **ratio <= 1.2).count(),
            ratios.len(),
            median(sizes),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(test: &str, expected: u64, unfaithful: u64, problem: Option<&str>) -> Row {
        let stats = |expected, unfaithful| Stats {
            runs: 10,
            expected,
            timeout: 0,
            median_seconds: 1.0,
            unfaithful,
        };
        Row {
            test: format!("pages::wpt${test}"),
            plain: stats(5, 0),
            replay: problem.is_none().then(|| stats(expected, unfaithful)),
            beside_seconds: Some(1.0),
            p: None,
            tamed: Some(Tamed {
                bytes: 1,
                problem: problem.map(str::to_owned),
            }),
        }
    }

    #[test]
    fn what_is_not_cured_is_a_fault() {
        let fault = |expected, unfaithful, problem| {
            row("a", expected, unfaithful, problem).fault().is_some()
        };
        assert!(!fault(10, 0, None));
        assert!(fault(9, 0, None));
        assert!(fault(10, 1, None));
        assert!(fault(0, 0, Some("the network decides")));
    }
}
