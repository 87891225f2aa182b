//! The engine that records the order of messages and locks: `rr-channel`.
//!
//! A cargo project is patched as `cargo reprise` does it, and built again; other programs,
//! and projects that use `rr-channel` by themselves, are run as they are.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use rr_channel_log::Recording;
use rr_channel_tools::log_tool;
use rr_channel_tools::reprise::{PatchedProject, Reported};

use super::large_pieces::rewrite;
use super::{Engine, RecordOptions, Replayed};
use crate::sandbox::{Job, Ran};
use crate::source::{Cargo, Search, Source, Test};

/// See the module.
#[derive(Debug)]
pub(crate) struct Messages {
    project: Option<PatchedProject>,
    records_std: bool,
}

/// The name of the engine.
pub(super) const NAME: &str = "rr-channel";
/// The name of the engine that records the locks, channels and threads of `std`, too.
pub(super) const NAME_WITH_STD: &str = "rr-channel-std";

impl Messages {
    /// The engine for tests of this source. With `records_std`, it records what `std` has, too, if
    /// the project is patched.
    ///
    /// # Errors
    /// If they are of a cargo project that cannot be patched.
    pub(crate) fn of(source: &Source, records_std: bool) -> anyhow::Result<Messages> {
        let project = match source.of_cargo().or_else(|| source.of_nextest()) {
            Some(args) if !uses_it_itself(args)? => Some(
                PatchedProject::find(args, source.except(), records_std)
                    .context("this project cannot be recorded with rr-channel")?,
            ),
            _ => None,
        };
        Ok(Messages {
            records_std: records_std && project.is_some(),
            project,
        })
    }
}

/// Whether the project depends on `rr-channel`, and needs no patch.
fn uses_it_itself(args: &[String]) -> anyhow::Result<bool> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["tree", "--quiet", "--invert", "rr-channel", "--depth", "0"]);
    let mut args = args.iter().take_while(|arg| *arg != "--");
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--offline" | "--locked" | "--frozen" => {
                command.arg(arg);
            }
            "--manifest-path" => {
                command.arg(arg).args(args.next());
            }
            arg if arg.starts_with("--manifest-path=") => {
                command.arg(arg);
            }
            _ => {}
        }
    }
    let output = command.output().context("cannot start cargo")?;
    // It fails where there is no such package, or no project: that comes up again.
    Ok(output.status.success() && !output.stdout.is_empty())
}

impl Messages {
    /// The command that replays a log, which need not be in a recording's directory.
    pub(crate) fn replay_log(&self, test: &Test, log: &Path, scratch: &Path) -> Job {
        test.job
            .clone()
            .knowing_itself("RR_CHANNEL_PROCESS")
            .with("RR_CHANNEL", "replay")
            .with("RR_CHANNEL_LOG", log)
            .with("RR_CHANNEL_REPORT", scratch.join(REPORT))
    }
}

struct Patched<'a>(&'a PatchedProject);

impl Cargo for Patched<'_> {
    fn test(&self, args: &[String], runner: &[String]) -> anyhow::Result<Command> {
        // What chooses the targets, if the user did not; the rest it has.
        let options: Vec<String> = args
            .iter()
            .filter(|arg| *arg == "--tests")
            .take(1)
            .cloned()
            .collect();
        self.0.test(&options, runner)
    }

    fn nextest_list(&self, options: &[&str], _: &[String]) -> Command {
        self.0.nextest_list(options)
    }
}

/// How the lines begin that a recorder writes where it cannot record.
const LOSSES: [&str; 3] = [
    "cannot record ",
    "recording of thread ",
    "cannot close the log ",
];

/// The executables of these tests.
fn executables(tests: &[Test]) -> BTreeSet<&PathBuf> {
    tests.iter().map(|test| &test.job.program).collect()
}

const LOG: &str = "log";
const REPORT: &str = "report";

fn log(recording: &Path) -> PathBuf {
    recording.join(LOG)
}

impl Engine for Messages {
    fn name(&self) -> &'static str {
        match self.records_std {
            true => NAME_WITH_STD,
            false => NAME,
        }
    }

    fn tests(&self, source: &Source, search: Search<'_>) -> anyhow::Result<Vec<Test>> {
        match &self.project {
            Some(project) => {
                let tests = source.tests_by(&Patched(project), search)?;
                for executable in executables(&tests) {
                    // If that fails, replays take longer.
                    let _ = rewrite(executable);
                }
                Ok(tests)
            }
            None => source.tests(search),
        }
    }

    fn even(&self, plain: &[Test]) -> anyhow::Result<()> {
        // Otherwise there is one executable for both.
        if self.project.is_some() {
            for executable in executables(plain) {
                rewrite(executable)
                    .with_context(|| format!("cannot write {} anew", executable.display()))?;
            }
        }
        Ok(())
    }

    fn record(&self, test: &Test, into: &Path, how: RecordOptions) -> Job {
        let mut job = test
            .job
            .clone()
            .knowing_itself("RR_CHANNEL_PROCESS")
            .with("RR_CHANNEL", "record")
            .with("RR_CHANNEL_LOG", log(into));
        if let Some(seed) = how.chaos {
            job = job.with("RR_CHANNEL_CHAOS", seed.to_string());
        }
        if how.places {
            job = job.with("RR_CHANNEL_PLACES", "1");
            if let Some(project) = &self.project {
                job = job.with("RR_CHANNEL_PROJECT", project.source());
            }
        }
        job
    }

    fn lost(&self, ran: &Ran) -> Option<String> {
        let said = ran.stderr.text();
        let mut lines = said
            .lines()
            .filter_map(|line| line.strip_prefix("rr-channel: "))
            .map(|line| match line.split_once(": ") {
                Some((name, rest)) if name.starts_with("process ") => rest,
                _ => line,
            });
        let is_loss = |line: &&str| LOSSES.iter().any(|loss| line.starts_with(loss));
        lines.find(is_loss).map(str::to_owned)
    }

    fn replay(&self, test: &Test, recording: &Path, scratch: &Path) -> Job {
        self.replay_log(test, &log(recording), scratch)
    }

    fn disturbed(&self, replay: Job) -> Job {
        let seed = RandomState::new().hash_one(0) >> 40;
        replay.with("RR_CHANNEL_CHAOS", seed.to_string())
    }

    fn replayed(&self, _: &Ran, scratch: &Path) -> Replayed {
        let reported = reported(scratch);
        Replayed {
            is_faithful: reported.desyncs.is_empty(),
            why: reported.desyncs,
            came: reported.events,
        }
    }

    fn events(&self, recording: &Path) -> anyhow::Result<Option<u64>> {
        let log = log(recording);
        if !log.join("session").exists() {
            return Ok(None);
        }
        let mut count = 0;
        for (_, recording) in Recording::tree(&log)? {
            for thread in recording.threads() {
                for event in recording.log(thread)?.events() {
                    event.with_context(|| format!("the log of {}", thread.dti))?;
                    count += 1;
                }
            }
        }
        Ok(Some(count))
    }

    fn in_words(&self, recording: &Path) -> anyhow::Result<String> {
        let mut text = Vec::new();
        log_tool::dump_by_name(&log(recording), &mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn difference(&self, old: &Path, new: &Path) -> anyhow::Result<String> {
        let mut text = Vec::new();
        log_tool::diff(&log(old), &log(new), &mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn uncovered(&self) -> Vec<String> {
        self.project
            .as_ref()
            .map_or_else(Vec::new, PatchedProject::uncovered)
    }
}

/// The report of a replay in this directory.
pub(crate) fn reported(scratch: &Path) -> Reported {
    Reported::read(&scratch.join(REPORT))
}
