//! The programs of `rr-channel`'s tests, replayed many more times than the tests do.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context;

use crate::support::cargo;
use crate::support::load::Load;

/// Options of `cargo xtask fidelity`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How often each program is recorded.
    #[arg(long, default_value_t = 1)]
    recordings: u32,
    /// How often each recording is replayed.
    #[arg(long, default_value_t = 1000)]
    replays: u32,
    /// How many plain runs there are of each program at most, until one has another outcome
    /// than the first one.
    #[arg(long, default_value_t = 0)]
    plain: u32,
    /// Keep all processors busy meanwhile.
    #[arg(long)]
    load: bool,
    /// Only the tests with one of these in their names; all, those of rayon's pools (`pool`) and
    /// those of tokio's tasks (`tasks`), if there is none.
    filter: Vec<String>,
}

/// The result of one program.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    program: String,
    outcomes: u32,
    /// After how many plain runs there were so many outcomes, if there were any.
    plain: Option<String>,
}

/// Runs the tests, one at a time, and shows how many outcomes each program had.
///
/// # Errors
///
/// When cargo cannot be started; tests that fail have said so.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let is_asked =
        |filter: &str| args.filter.is_empty() || args.filter.iter().any(|asked| asked == filter);
    let mut tests = vec![("rr-channel", "fidelity")];
    for (filter, name) in [("pool", "rayon"), ("tasks", "tokio")] {
        if is_asked(filter) {
            tests.push(("rr-channel-tools", name));
        }
    }
    // Before the processors are busy.
    for (package, name) in &tests {
        let status = of_tests(package, name).arg("--no-run").status();
        let status = status.context("starting `cargo test`")?;
        anyhow::ensure!(status.success(), "the tests do not build");
    }
    let _load = args.load.then(Load::start);
    let mut rows = Vec::new();
    let mut all_passed = true;
    for (package, name) in tests {
        all_passed &= test(args, package, name, &mut rows)?;
    }
    let replays = args.recordings * args.replays;
    println!("| program | plain | recordings | outcomes | replays, all the same |");
    println!("|---|---|---|---|---|");
    for Row {
        program,
        outcomes,
        plain,
    } in &rows
    {
        println!(
            "| {program} | {} | {} | {outcomes} | {replays} |",
            plain.as_deref().unwrap_or("-"),
            args.recordings
        );
    }
    Ok(if all_passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The command for one set of tests.
fn of_tests(package: &str, name: &str) -> Command {
    let mut command = cargo::command();
    command
        .args(["test", "--release", "--package", package])
        .args(["--test", name]);
    command
}

/// Runs one set of tests; whether they passed.
fn test(args: &Args, package: &str, name: &str, rows: &mut Vec<Row>) -> anyhow::Result<bool> {
    let mut command = of_tests(package, name);
    command
        .arg("--")
        .args(&args.filter)
        .args(["--test-threads=1", "--nocapture"])
        .env(
            "RR_CHANNEL_TEST_RUNS",
            format!("{}x{}", args.recordings, args.replays),
        )
        .env("RR_CHANNEL_TEST_PLAIN", args.plain.to_string())
        .stderr(Stdio::piped());
    let mut child = command.spawn().context("starting `cargo test`")?;
    let stderr = child.stderr.take().context("cargo has no output")?;
    for line in BufReader::new(stderr).lines() {
        let line = line.context("reading what the tests say")?;
        match row(&line) {
            Some(row) => rows.push(row),
            None => eprintln!("{line}"),
        }
    }
    Ok(child.wait()?.success())
}

/// Reads `PROGRAM: N outcomes in M recordings`, and what follows of plain runs.
fn row(line: &str) -> Option<Row> {
    let (program, rest) = line.rsplit_once(": ")?;
    let (outcomes, rest) = rest.split_once(" outcomes in ")?;
    let (_, plain) = rest.split_once(" recordings")?;
    Some(Row {
        program: program.to_owned(),
        outcomes: outcomes.parse().ok()?,
        plain: plain
            .strip_prefix(", ")
            .and_then(|plain| plain.strip_suffix(" plain runs"))
            .map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_test_says_of_its_program_is_read() {
        let read = row("ipc set: 2 outcomes in 3 recordings, 2 in 7 plain runs");
        let program = "ipc set".to_owned();
        assert_eq!(
            read,
            Some(Row {
                program,
                outcomes: 2,
                plain: Some("2 in 7".to_owned())
            })
        );
        assert_eq!(row("test result: ok"), None);
    }
}
