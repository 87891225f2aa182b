//! The library interface of `cargo reprise`: patched projects, and reports of replays.

use std::path::Path;
use std::process::Command;

use crate::report;
use crate::reprise::project::cargo::{EXCEPT, Patched, Project, STD, Shared};
use crate::reprise::runner;
use crate::reprise::store::Ending;

/// A project whose channels and locks record and replay, and how cargo is called for it.
#[derive(Debug)]
pub struct PatchedProject {
    project: Project,
    patched: Patched,
    rest: Vec<String>,
}

impl PatchedProject {
    /// Patches the project that cargo finds with these options of `cargo test`; crates that
    /// are named in `except` are left as they are. With `records_std`, locks, channels and
    /// threads of `std` are recorded as well.
    ///
    /// # Errors
    /// If there is none, or nothing to patch in it, or cargo does not use the patch.
    pub fn find(args: &[String], except: &[String], records_std: bool) -> anyhow::Result<Self> {
        let except = except.iter().map(|name| format!("{EXCEPT}={name}"));
        let std = records_std.then(|| STD.to_owned());
        let mut rest: Vec<String> = except.chain(std).chain(args.iter().cloned()).collect();
        let project = Project::find(Shared::take(&mut rest))?;
        let patched = project.patch()?;
        Ok(PatchedProject {
            project,
            patched,
            rest,
        })
    }

    /// A call of `cargo test`, with these options besides its own, that has each executable
    /// called by `runner`. An executable records or replays where `RR_CHANNEL` and the like are set for it (`rr_channel`).
    ///
    /// # Errors
    /// If the call cannot be put into words.
    pub fn test(&self, options: &[String], runner: &[String]) -> anyhow::Result<Command> {
        let args = [options, &self.rest].concat();
        self.project.run(&self.patched, "test", &args, runner)
    }

    /// A call of `cargo nextest list` with these options besides the project's own.
    pub fn nextest_list(&self, options: &[&str]) -> Command {
        let mut command = self.project.plainly(&self.patched, "nextest list");
        command.args(options).args(&self.rest);
        command
    }

    /// Where the source of the project is, for recordings with places (`RR_CHANNEL_PROJECT`).
    pub fn source(&self) -> String {
        self.project.source()
    }

    /// The parts of the project and its dependencies that are not recorded, in lines.
    pub fn uncovered(&self) -> Vec<String> {
        self.patched.coverage.summary()
    }
}

/// The report of a replay (`RR_CHANNEL_REPORT`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reported {
    /// The desynchronisations, in words; the first is where to look.
    pub desyncs: Vec<String>,
    /// The events that came about again, and all; `None` if the process was cut off.
    pub events: Option<(u64, u64)>,
}

impl Reported {
    /// Reads what a process has reported to `path`, and those that it started; what is not
    /// there or not understood is left out.
    pub fn read(path: &Path) -> Self {
        let replay = runner::parse(Ending::Exit(0), &report::collect(path));
        Reported {
            desyncs: replay.desyncs,
            events: replay.events,
        }
    }

    /// The threads that left their logs, and at which event.
    pub fn left(&self) -> Vec<(String, u64)> {
        let lines = self.desyncs.iter();
        lines.filter_map(|line| runner::left(line)).collect()
    }
}
