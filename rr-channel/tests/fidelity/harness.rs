//! Runs one program in a process of its own, in one of the modes.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use rr_channel::log::{Event, RecordedThread, Recording};

use crate::common;

/// One finished run.
pub(crate) struct Run {
    pub(crate) status: ExitStatus,
    pub(crate) stderr: String,
    /// The lines that the program's threads printed.
    pub(crate) outcome: Vec<String>,
    /// The replay's report.
    pub(crate) report: Option<String>,
}

pub(crate) struct Start(Command);

impl Run {
    pub(crate) fn of(program: &str) -> Start {
        let mut command = common::program(program);
        command.env_remove("DIVERGE");
        Start(command)
    }
}

impl Start {
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.0.env(name, value);
        self
    }

    /// No file may grow beyond so many times 512 bytes.
    pub(crate) fn limited(self, blocks: u32) -> Self {
        let mut command = Command::new("sh");
        command
            .args(["-c", "ulimit -f $1; shift; exec \"$@\"", "sh"])
            .arg(blocks.to_string())
            .arg(self.0.get_program())
            .args(self.0.get_args());
        for (name, value) in self.0.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Start(command)
    }

    pub(crate) fn finish(mut self) -> Run {
        let output = self.0.output().unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        let lines = |mark: &str| -> Vec<String> {
            stdout
                .lines()
                .filter_map(|line| line.split_once(mark))
                .map(|l| l.1.to_owned())
                .collect()
        };
        Run {
            status: output.status,
            stderr: String::from_utf8(output.stderr).unwrap(),
            outcome: lines("outcome: "),
            report: lines("report: ").pop(),
        }
    }
}

pub(crate) fn off(program: &str) -> Run {
    Run::of(program).finish()
}

pub(crate) fn record(program: &str, dir: &Path) -> Run {
    Run::of(program)
        .env("RR_CHANNEL", "record")
        .env("RR_CHANNEL_LOG", dir)
        .finish()
}

pub(crate) fn replay(program: &str, dir: &Path) -> Run {
    replaying(program, dir).finish()
}

fn replaying(program: &str, dir: &Path) -> Start {
    Run::of(program)
        .env("RR_CHANNEL", "replay")
        .env("RR_CHANNEL_LOG", dir)
}

/// The directories of a recording's processes.
fn recordings_in(dir: &Path) -> Vec<PathBuf> {
    let recording = Recording::open(dir).unwrap();
    let mut all = vec![PathBuf::new()];
    for process in recording.processes() {
        let Some(part) = recording.dir_of(*process) else {
            continue;
        };
        let below = part.strip_prefix(dir).unwrap();
        all.extend(recordings_in(&part).iter().map(|part| below.join(part)));
    }
    all
}

/// A replay that is recorded again, in `again`.
pub(crate) fn record_again(program: &str, dir: &Path, again: &Path) -> Start {
    replaying(program, dir).env("RR_CHANNEL_NEW_LOG", again)
}

/// The events of each thread of a recording that are in the order of its others.
pub(crate) fn events(dir: &Path) -> BTreeMap<String, Vec<Event>> {
    let recording = Recording::open(dir).unwrap();
    let log = |thread: &RecordedThread| {
        let log = recording.log(thread).unwrap();
        let events = log.events().map(Result::unwrap);
        let events = events.filter(|event| !event.op.is_apart()).collect();
        (log.dti().to_string(), events)
    };
    recording.threads().iter().map(log).collect()
}

/// A recording of a run that is perturbed.
pub(crate) fn record_in_chaos(program: &str, dir: &Path, seed: u32) -> Run {
    Run::of(program)
        .env("RR_CHANNEL", "record")
        .env("RR_CHANNEL_LOG", dir)
        .env("RR_CHANNEL_CHAOS", seed.to_string())
        .finish()
}

/// Several recordings of `program`, every other one of them in chaos, each replayed
/// several times, every other time in chaos: every replay has its recording's outcome, and
/// used its whole log without a desynchronisation. The first replay is recorded again, which
/// makes the same recording.
///
/// `RR_CHANNEL_TEST_RUNS` sets the number of runs (recordings by replays of each).
/// `RR_CHANNEL_TEST_PLAIN` sets the maximum of plain runs until one has another outcome than the
/// first one (none, if unset).
pub(crate) fn check(program: &str) {
    check_processes(program, 1);
}

/// The same of a program that has at least so many processes that are recorded. Each
/// uses its whole log, or as much of it as there is time for before it is killed.
pub(crate) fn check_processes(program: &str, processes: usize) {
    let runs = std::env::var("RR_CHANNEL_TEST_RUNS").unwrap_or_default();
    let (recordings, replays) = runs
        .split_once('x')
        .and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)))
        .unwrap_or((2, 3));
    let mut outcomes = HashSet::new();
    for number in 0..recordings {
        let dir = tempfile::tempdir().unwrap();
        let recorded = match number % 2 {
            0 => record(program, dir.path()),
            _ => record_in_chaos(program, dir.path(), number),
        };
        assert!(recorded.status.success(), "{}", recorded.stderr);
        assert!(!recorded.outcome.is_empty());
        let recordings = recordings_in(dir.path());
        assert!(recordings.len() >= processes, "{recordings:?}");
        for number in 0..replays {
            let again = dir.path().join("again");
            let reports = tempfile::tempdir().unwrap();
            let mut run = match number {
                0 => record_again(program, dir.path(), &again),
                _ => replaying(program, dir.path()),
            };
            if number % 2 == 1 {
                run = run.env("RR_CHANNEL_CHAOS", number.to_string());
            }
            let report = reports.path().join("report");
            let replayed = run.env("RR_CHANNEL_REPORT", report).finish();
            assert!(replayed.status.success(), "{}", replayed.stderr);
            assert_eq!(replayed.outcome, recorded.outcome, "{}", replayed.stderr);
            assert_eq!(
                replayed.report.as_deref(),
                Some("faithful"),
                "{}",
                replayed.stderr
            );
            if number == 0 {
                for part in &recordings {
                    assert_eq!(events(&again.join(part)), events(&dir.path().join(part)));
                }
            }
            let reports = fs::read_dir(reports.path()).unwrap();
            let reports: Vec<_> = reports.map(|entry| entry.unwrap().path()).collect();
            assert_eq!(reports.len(), recordings.len());
            for path in reports {
                let report = fs::read_to_string(&path).unwrap();
                assert!(
                    !report.contains("desync") && !report.contains("left"),
                    "{}: {report}",
                    path.display()
                );
            }
        }
        outcomes.insert(recorded.outcome);
    }
    eprintln!(
        "{program}: {} outcomes in {recordings} recordings{}",
        outcomes.len(),
        plain(program)
    );
}

/// After how many plain runs there was another outcome than the first, in words.
fn plain(program: &str) -> String {
    let most = std::env::var("RR_CHANNEL_TEST_PLAIN").ok();
    let Some(most) = most
        .and_then(|most| most.parse().ok())
        .filter(|most| *most > 1_u32)
    else {
        return String::new();
    };
    let first = off(program).outcome;
    match (2..=most).find(|_| off(program).outcome != first) {
        Some(run) => format!(", 2 in {run} plain runs"),
        None => format!(", 1 in {most} plain runs"),
    }
}
