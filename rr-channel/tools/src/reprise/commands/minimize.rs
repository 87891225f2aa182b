//! `cargo reprise minimize`: compares a recording that fails with one that passes.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use serde::Serialize;

use super::replay::project_of;
use crate::minimize::Minimum;
use crate::plural::counted;
use crate::reprise::project::cargo::{Project, Shared};
use crate::reprise::runner::{self, Minimized, Mode, RunnerOptions};
use crate::reprise::store::{self, Call, Ending, Entry, Store};

/// Options of a search.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Number of the recording that passes [default: the last one with places]
    #[arg(long, value_name = "RECORDING")]
    passing: Option<u32>,
    /// Number of the recording that fails [default: the last one with places]
    #[arg(long, value_name = "RECORDING")]
    failing: Option<u32>,
    /// Replay at most this many edited recordings
    #[arg(long, value_name = "N", default_value_t = 300)]
    tries: u32,
    /// Write the result to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Manifest of the project [default: that of the current directory]
    #[arg(long, value_name = "PATH")]
    manifest_path: Option<String>,
}

/// The result.
#[derive(Debug, Serialize)]
struct Summary {
    passing: u32,
    failing: u32,
    /// The edited run that is left, as a recording.
    recording: Option<u32>,
    process: String,
    #[serde(flatten)]
    minimum: Minimum,
}

/// Searches, and says what was found. Fails if the answer does not hold.
///
/// # Errors
/// If there are no two such recordings, or there is no answer.
pub(crate) fn run(args: &Args) -> anyhow::Result<Ending> {
    let here = project_of(args.manifest_path.as_ref())?;
    let store = Store::below(&here.dir);
    let (failing, failed) = pick(&store, args.failing, None)?;
    let (passing, passed) = pick(&store, args.passing, Some(&failed))?;
    ensure!(
        (&passed.subcommand, &passed.args) == (&failed.subcommand, &failed.args),
        "recordings {} and {} were made by different cargo commands",
        passing.number,
        failing.number
    );
    eprintln!(
        "reprise: comparing recording {}, which fails, with recording {}, which passes",
        failing.number, passing.number
    );
    std::env::set_current_dir(&failed.dir).with_context(|| {
        let dir = failed.dir.display();
        format!("cannot change to {dir}, where it was recorded")
    })?;
    let mut rest = failed.args.clone();
    let project = Project::find(Shared::take(&mut rest))?;
    let patched = project.patch()?;
    let scratch = here.dir.join(format!("minimize-{}", std::process::id()));
    fs::create_dir_all(&scratch)?;
    let how = RunnerOptions {
        failing: Some(&failing.dir),
        ..RunnerOptions::default()
    };
    let times = u64::from(args.tries);
    let runner = runner::arguments(Mode::Minimize, &passing.dir, &scratch, times, how)?;
    let status = project
        .run(&patched, &failed.subcommand, &rest, &runner)?
        .status();
    let ending = runner::end(status)?;
    let mut found = Vec::new();
    for key in failing.processes()?.into_keys() {
        let path = scratch.join(&key).join("minimum.json");
        if path.exists() {
            found.push((key, store::read::<Minimized>(&path)?));
        }
    }
    let (process, minimum) = match found.pop() {
        Some((process, Minimized::Found(minimum))) => (process, minimum),
        Some((process, Minimized::Failed(why))) => bail!("{process}: {why}"),
        None => bail!(
            "every process ended alike in the two recordings ({ending}): record a run that fails"
        ),
    };
    let recording = keep(&store, &failing, &failed, &process, &scratch)?;
    fs::remove_dir_all(&scratch)?;
    let summary = Summary {
        passing: passing.number,
        failing: failing.number,
        recording,
        process,
        minimum,
    };
    if let Some(path) = &args.json {
        store::write(path, &summary)?;
    }
    summary.tell();
    let (replays, failures) = summary.minimum.confirmed;
    Ok(Ending::Exit(i32::from(replays != failures)))
}

/// The recording with this number, or the last one with places that passed, if `failed`
/// is another call of the same tests, or that failed.
fn pick(
    store: &Store,
    number: Option<u32>,
    failed: Option<&Call>,
) -> anyhow::Result<(Entry, Call)> {
    let fails = failed.is_none();
    let what = if fails { "fails" } else { "passes" };
    if let Some(number) = number {
        let entry = store.find(Some(number))?;
        let call = entry.call()?;
        ensure!(
            call.ending
                .is_some_and(|ending| (ending != Ending::Exit(0)) == fails),
            "recording {number} is not one that {what}"
        );
        ensure!(
            entry.has_places()?,
            "recording {number} has no source places: record with --places"
        );
        return Ok((entry, call));
    }
    for entry in store.list()?.into_iter().rev() {
        let Ok(call) = entry.call() else { continue };
        let is_wanted = call
            .ending
            .is_some_and(|ending| (ending != Ending::Exit(0)) == fails)
            && !call.edited
            && failed.is_none_or(|failed| {
                (&call.subcommand, &call.args) == (&failed.subcommand, &failed.args)
            });
        if is_wanted && entry.has_places()? {
            return Ok((entry, call));
        }
    }
    let until = if fails { "failure" } else { "success" };
    bail!(
        "there is no recording that {what}: \
         `cargo reprise test --places --until {until} -- ...` makes one"
    )
}

/// Keeps the edited run that is left as a recording of its own.
fn keep(
    store: &Store,
    failing: &Entry,
    failed: &Call,
    process: &str,
    scratch: &std::path::Path,
) -> anyhow::Result<Option<u32>> {
    let minimum = scratch.join(process).join("minimum");
    if !minimum.exists() {
        return Ok(None);
    }
    let entry = store.create()?;
    let dir = entry.dir.join(process);
    fs::create_dir_all(&dir)?;
    fs::copy(
        failing.dir.join(process).join("process.json"),
        dir.join("process.json"),
    )?;
    fs::rename(minimum, store::log_dir(&dir))?;
    entry.set_call(&Call {
        chaos: None,
        edited: true,
        size: None,
        ..failed.clone()
    })?;
    Ok(Some(entry.number))
}

impl Summary {
    fn tell(&self) {
        let minimum = &self.minimum;
        let (replays, failures) = minimum.confirmed;
        println!("the test fails when");
        for (at, decision) in minimum.decisions.iter().enumerate() {
            let and = if at == 0 { "    " } else { "and " };
            println!("  {and}{}", decision.text);
        }
        eprintln!(
            "reprise: needed: {} of {} differences, found in {}{}; {failures} of {replays} \
             replays with only those fail{}",
            counted(minimum.changes as u64, "decision"),
            minimum.differences,
            counted(minimum.tries.into(), "try").replace("trys", "tries"),
            match minimum.complete {
                true => "",
                false => " (--tries allows more)",
            },
            match self.recording {
                Some(number) => format!("; `cargo reprise replay {number}` replays it"),
                None => String::new(),
            }
        );
    }
}
