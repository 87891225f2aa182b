//! `cargo reprise replay`: calls cargo as for the recording, and sums up the replays.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde::Serialize;

use super::cause;
use crate::reprise::project::cargo::{Project, Shared};
use crate::reprise::runner::{self, Mode, Replay, Replays, RunnerOptions};
use crate::reprise::store::chaos::Seeds;
use crate::reprise::store::{self, Ending, Store};

/// Options of a replay.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Number of the recording [default: the last one]
    recording: Option<u32>,
    /// Number of replays; only the output of the first that differs is shown
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    times: u64,
    /// End a replay with status 86 as soon as a thread desynchronises
    #[arg(long)]
    stop: bool,
    /// Do not wait for the deadlines that passed in the recorded run; code that reads the clock may
    /// desynchronise
    #[arg(long)]
    fast_timeouts: bool,
    /// Delay threads at random, differently in each replay; a replay must not depend on it
    #[arg(
        long,
        value_name = "SEED",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = ""
    )]
    chaos: Option<Seeds>,
    /// Write the results of the replays to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Manifest of the project [default: that of the current directory]
    #[arg(long, value_name = "PATH")]
    manifest_path: Option<String>,
}

/// The results of all replays.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct Summary {
    recording: u32,
    /// Replays of processes; each process counts.
    replays: u64,
    /// Of them, those that ended as the recording did.
    as_recorded: u64,
    /// Those in which something desynchronised.
    desynchronised: u64,
    /// Those in which all recorded events came about again, and nothing desynchronised.
    faithful: u64,
    /// Those that a signal or the like ended before they could tell.
    cut_off: u64,
    processes: Vec<ProcessSummary>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct ProcessSummary {
    process: String,
    #[serde(flatten)]
    replays: Replays,
}

/// The arguments that name the same project again.
pub(crate) fn project_of(manifest_path: Option<&String>) -> anyhow::Result<Project> {
    let mut args: Vec<String> = Vec::new();
    if let Some(path) = manifest_path {
        args = vec!["--manifest-path".to_owned(), path.clone()];
    }
    Project::find(Shared::take(&mut args))
}

/// Replays a recording.
///
/// # Errors
/// If there is no such recording, or it could not be replayed at all.
pub(crate) fn run(args: &Args) -> anyhow::Result<Ending> {
    let here = project_of(args.manifest_path.as_ref())?;
    let entry = Store::below(&here.dir).find(args.recording)?;
    let call = entry.call()?;
    let number = entry.number;
    entry
        .check(&call)
        .with_context(|| format!("recording {number} cannot be replayed"))?;
    std::env::set_current_dir(&call.dir).with_context(|| {
        format!(
            "cannot change to {}, where it was recorded",
            call.dir.display()
        )
    })?;
    let mut rest = call.args.clone();
    let project = Project::find(Shared::take(&mut rest))?;
    let patched = project.patch()?;

    let scratch = here.dir.join(format!("replay-{}", std::process::id()));
    fs::create_dir_all(&scratch)?;
    let runner = runner::arguments(
        Mode::Replay,
        &entry.dir,
        &scratch,
        args.times,
        RunnerOptions {
            chaos: args.chaos.map(|seeds| seeds.nth(1, None)),
            stop: args.stop,
            fast_timeouts: args.fast_timeouts,
            ..RunnerOptions::default()
        },
    )?;
    let status = project
        .run(&patched, &call.subcommand, &rest, &runner)?
        .status();
    let ending = runner::end(status)?;
    let mut summary = Summary {
        recording: entry.number,
        ..Summary::default()
    };
    for key in entry.processes()?.into_keys() {
        let path = scratch.join(&key).join("replays.json");
        if path.exists() {
            summary.add(key, store::read(&path)?);
        }
    }
    fs::remove_dir_all(&scratch)?;
    // Otherwise cargo has said why.
    ensure!(
        summary.replays > 0,
        "no process of recording {} was replayed ({ending})",
        entry.number
    );
    if let Some(path) = &args.json {
        store::write(Path::new(path), &summary)?;
    }
    summary.tell();
    for line in summary.explain(&project, &entry.dir) {
        eprintln!("reprise: {line}");
    }
    Ok(if args.times == 1 {
        ending
    } else {
        Ending::Exit(i32::from(!summary.is_good()))
    })
}

impl Summary {
    fn add(&mut self, process: String, replays: Replays) {
        let count = |test: &dyn Fn(&Replay) -> bool| {
            replays.replays.iter().filter(|replay| test(replay)).count() as u64
        };
        self.replays += replays.replays.len() as u64;
        self.as_recorded += count(&|replay| Some(replay.ending) == replays.recorded);
        self.desynchronised += count(&|replay| !replay.desyncs.is_empty());
        self.faithful += count(&Replay::is_faithful);
        self.cut_off += count(&|replay| replay.events.is_none());
        self.processes.push(ProcessSummary { process, replays });
    }

    const fn is_good(&self) -> bool {
        self.as_recorded == self.replays && self.desynchronised == 0
    }

    /// Explains the first desynchronisation in the first replay that has one.
    fn explain(&self, project: &Project, recording: &Path) -> Vec<String> {
        let first = self.processes.iter().find_map(|process| {
            let mut replays = process.replays.replays.iter();
            let desync = replays.find_map(|replay| replay.desyncs.first())?;
            Some((process, desync))
        });
        let Some((process, desync)) = first else {
            return Vec::new();
        };
        let log = store::log_dir(&recording.join(&process.process));
        cause::explain(project, &log, desync, process.replays.rebuilt)
    }

    fn tell(&self) {
        eprintln!(
            "reprise: recording {}: {} of {} replays ended as recorded, {} desynchronised, \
             {} used every event{}",
            self.recording,
            self.as_recorded,
            self.replays,
            self.desynchronised,
            self.faithful,
            match self.cut_off {
                0 => String::new(),
                count => format!(", {count} ended before they could tell"),
            }
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_counts_each_replay() {
        let replay = |ending, desyncs: &[&str], events| Replay {
            ending,
            desyncs: desyncs.iter().map(|text| (*text).to_owned()).collect(),
            left: Vec::new(),
            events,
        };
        let mut summary = Summary::default();
        summary.add(
            "p/lib".to_owned(),
            Replays {
                recorded: Some(Ending::Exit(101)),
                rebuilt: false,
                replays: vec![
                    replay(Ending::Exit(101), &[], Some((5, 5))),
                    replay(Ending::Exit(101), &[], Some((4, 5))),
                    replay(Ending::Exit(0), &["x"], Some((5, 5))),
                    replay(Ending::Signal(6), &[], None),
                ],
            },
        );
        assert_eq!(
            (
                summary.replays,
                summary.as_recorded,
                summary.desynchronised,
                summary.faithful,
                summary.cut_off
            ),
            (4, 2, 1, 1, 1)
        );
        assert!(!summary.is_good());
    }
}
