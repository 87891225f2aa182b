//! `cargo xtask survey`: the workspace's own tests, many times, on a busy machine.
//!
//! `servo-harness survey` runs them in groups. Tests that start processes or threads can
//! depend on timing, so they run often; the other ones run a few times. What was found
//! survives an interruption: the same command goes on from there.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail, ensure};
use servo_harness::report::summary::{Row, Summary};

use crate::support::{cargo, workspace};

/// The end of the help.
const DURATION: &str = "\
Expect about ten hours on two processors: a run of all integration tests takes some eight \
minutes, the load makes that two to three times as long, and there are 30 runs. `--runs 3` \
takes about an hour. The same command goes on after an interruption. \
Exit status: 0 if every run of every test passed, 1 otherwise.";

/// Options of `cargo xtask survey`.
#[derive(Debug, clap::Args)]
#[command(after_help = DURATION)]
pub(crate) struct Args {
    /// Runs of each test that starts processes or threads.
    #[arg(long, value_name = "N", default_value_t = 30)]
    runs: u32,
    /// Runs of each other test.
    #[arg(long, value_name = "N", default_value_t = 3)]
    rest: u32,
    /// Threads that compute beside the tests.
    #[arg(long, value_name = "N", default_value_t = 3)]
    load: usize,
    /// How long a run of a test may take, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    timeout: u32,
    /// Only tests with one of these in their names (`PACKAGE::TARGET$TEST`).
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Forget what was found before.
    #[arg(long)]
    fresh: bool,
    /// Where results are kept [default: `survey` beside the workspace's builds].
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Go on in the background and write to `DIR/log`; the same command without it shows
    /// what was found once that has ended.
    #[arg(long)]
    background: bool,
}

/// Tests that have the same number of runs.
struct Group {
    name: &'static str,
    runs: Runs,
    /// Options of `cargo test --workspace` that choose targets.
    targets: &'static [&'static str],
    /// Parts of names, one of which is in the name of each test; all tests if there are none.
    only: &'static [&'static str],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Runs {
    Many,
    Few,
}

/// Integration tests start programs. Of the unit tests, those of crates start threads or
/// processes whose subject these are.
const GROUPS: &[Group] = &[
    Group {
        name: "unit-tests",
        runs: Runs::Few,
        targets: &["--lib", "--bins"],
        only: &[],
    },
    Group {
        name: "unit-tests-with-threads",
        runs: Runs::Many,
        targets: &["--lib"],
        only: &[
            "rr-channel::rr_channel$",
            "rr-channel-log::rr_channel_log$",
            "ptrace-async::ptrace_async$",
            "servo-harness::servo_harness$",
        ],
    },
    Group {
        name: "integration-tests",
        runs: Runs::Many,
        targets: &["--test", "*"],
        only: &[],
    },
];

/// Runs the survey and prints the tests whose runs disagree or fail.
///
/// # Errors
///
/// When the tests do not build, or a group stops before its end.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let state = args
        .state
        .clone()
        .unwrap_or_else(|| workspace::target_dir().join("survey"));
    fs::create_dir_all(&state).with_context(|| format!("making {}", state.display()))?;
    if args.background {
        return in_background(&state);
    }
    let harness = cargo::program_of_tests("servo-harness")?;
    let mut odd = Vec::new();
    let mut tests = 0;
    for group in GROUPS {
        let Some(summary) = survey(args, group, &harness, &state.join(group.name))? else {
            continue;
        };
        tests += summary.tests.len();
        odd.extend(
            summary
                .tests
                .into_iter()
                .filter(|row| row.verdict() != "stable"),
        );
    }
    ensure!(tests > 0, "no test has such a name");
    for row in &odd {
        println!("{}", describe(row));
    }
    println!("survey: {tests} tests, {} not stable", odd.len());
    Ok(match odd.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Runs the tests of a group, or what is left of them; `None` if it has none of those chosen.
fn survey(
    args: &Args,
    group: &Group,
    harness: &Path,
    state: &Path,
) -> anyhow::Result<Option<Summary>> {
    println!("== {}", group.name);
    let filters = filters(group.only, &args.only);
    if filters.is_empty() && !args.only.is_empty() {
        return Ok(None);
    }
    let runs = match group.runs {
        Runs::Many => args.runs,
        Runs::Few => args.rest,
    };
    let mut command = Command::new(harness);
    command
        // All runs are made: an interval of the rate is not what is asked for.
        .args(["survey", "--json", "--precision", "0"])
        .args(["--runs", &runs.to_string()])
        .args(["--load", &args.load.to_string()])
        .args(["--timeout", &args.timeout.to_string()])
        .arg("--state")
        .arg(state);
    if args.fresh {
        command.arg("--fresh");
    }
    for only in filters {
        command.args(["--only", &only]);
    }
    command
        .args(["--", "cargo", "test", "--workspace"])
        .args(group.targets)
        .current_dir(workspace::root())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    let output = command.output().context("starting servo-harness")?;
    match output.status.code() {
        // 1: there are tests that are not stable.
        Some(0 | 1) => {}
        // It could not begin: the chosen tests are in another group.
        Some(125) if !args.only.is_empty() => return Ok(None),
        _ => bail!(
            "the survey of {} stopped before its end ({}): the same command goes on",
            group.name,
            output.status
        ),
    }
    let summary = serde_json::from_slice(&output.stdout);
    Ok(Some(
        summary.context("reading the summary of servo-harness")?,
    ))
}

/// The parts of names to ask for: those that the user chose, or else those of the group.
fn filters(of_group: &[&str], chosen: &[String]) -> Vec<String> {
    match chosen {
        [] => of_group.iter().map(|&part| part.to_owned()).collect(),
        chosen => chosen
            .iter()
            .filter(|name| of_group.is_empty() || of_group.iter().any(|part| name.contains(part)))
            .cloned()
            .collect(),
    }
}

fn describe(row: &Row) -> String {
    let plain = &row.plain;
    format!(
        "{}: {}: {} of {} runs as expected, {} crashed, {} timed out",
        row.verdict(),
        row.test,
        plain.expected,
        plain.runs,
        plain.crash,
        plain.timeout
    )
}

/// Starts the same command again, without a terminal.
fn in_background(state: &Path) -> anyhow::Result<ExitCode> {
    let path = state.join("log");
    let log = File::create(&path).with_context(|| format!("making {}", path.display()))?;
    let own = std::env::current_exe().context("asking for this program's path")?;
    let arguments = std::env::args_os().skip(1);
    let child = Command::new(own)
        .args(arguments.filter(|argument| argument != "--background"))
        .stdin(Stdio::null())
        .stdout(log.try_clone().context("sharing the log")?)
        .stderr(log)
        // A hang-up of the terminal does not reach it.
        .process_group(0)
        .spawn()
        .context("starting the survey")?;
    println!("process {} writes to {}", child.id(), path.display());
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_tests_are_asked_for_in_the_groups_that_may_have_them() {
        let chosen = ["rr-channel::rr_channel$replay".to_owned()];
        assert_eq!(filters(&[], &chosen), chosen);
        assert_eq!(filters(&["rr-channel::rr_channel$"], &chosen), chosen);
        assert!(filters(&["servo-harness::servo_harness$"], &chosen).is_empty());
        assert_eq!(filters(&["a$", "b$"], &[]), ["a$", "b$"]);
    }
}
