//! The program that cargo calls to run an executable, which records or replays it.
//!
//! The runner starts the executable through one more call of this program ([`execute`]), which
//! becomes it. So the environment can name the recorded process by its id, and no other process
//! is taken for it. Processes that the executable starts get their identity from it.

use std::collections::hash_map::DefaultHasher;
use std::fs::{self, File, OpenOptions};
use std::hash::{Hash, Hasher};
use std::io::{ErrorKind, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{env, io};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use super::project::cargo::CHANNEL;
use super::store::chaos::Chaos;
use super::store::{self, Ending, Process};
use crate::ending::end_by;
use crate::log_tool::replayed::REPORT;
use crate::minimize::{self, Minimum, Options, Replayed, Verdict};
use crate::report;

/// The task of the runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Mode {
    Record,
    Replay,
    Minimize,
}

/// The part of a message that is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Payload {
    Hash,
    Bytes,
}

impl Payload {
    const fn as_str(self) -> &'static str {
        match self {
            Payload::Hash => "hash",
            Payload::Bytes => "bytes",
        }
    }
}

/// How to record, or to minimize.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RunnerOptions<'a> {
    pub(super) chaos: Option<Chaos>,
    /// Record places in the source; it is where [`Project::source`] says.
    ///
    /// [`Project::source`]: crate::reprise::project::Project::source
    pub(super) places: Option<&'a str>,
    pub(super) payload: Option<Payload>,
    /// To replay: end where a thread leaves its log.
    pub(super) stop: bool,
    /// To replay: time out at once.
    pub(super) fast_timeouts: bool,
    /// To minimize: the recording that fails.
    pub(super) failing: Option<&'a Path>,
}

/// The runner's command line, which [`arguments`](Runner::arguments) makes.
#[derive(Debug, clap::Args)]
pub(super) struct Runner {
    /// The chaos to record in, or that of the first replay: a seed, and perhaps a length.
    #[arg(long)]
    chaos: Option<Chaos>,
    /// Record places in the source, which is there.
    #[arg(long)]
    places: Option<String>,
    /// Record what messages hold.
    #[arg(long)]
    payload: Option<Payload>,
    /// End a replay where a thread leaves its log.
    #[arg(long)]
    stop: bool,
    /// Have a replay time out at once where the recorded run timed out.
    #[arg(long)]
    fast_timeouts: bool,
    /// The recording that fails, where `recording` passes.
    #[arg(long)]
    failing: Option<PathBuf>,
    mode: Mode,
    /// The recording's directory.
    recording: PathBuf,
    /// A directory for what this call of cargo does.
    scratch: PathBuf,
    /// How often to replay, at most.
    times: u64,
    executable: PathBuf,
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

/// The result of one replay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Replay {
    /// How the process ended.
    pub(super) ending: Ending,
    /// The desynchronisations, in their order.
    pub(super) desyncs: Vec<String>,
    /// Threads whose logs were not used up at the exit.
    pub(super) left: Vec<String>,
    /// The events that came about again, and all; `None` if the process was cut off.
    pub(super) events: Option<(u64, u64)>,
}

/// All replays of one process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Replays {
    /// How it ended when it was recorded.
    pub(super) recorded: Option<Ending>,
    /// Whether the executable is another one.
    pub(super) rebuilt: bool,
    pub(super) replays: Vec<Replay>,
}

impl Replay {
    /// Nothing desynchronised, and every recorded event came about again.
    pub(super) fn is_faithful(&self) -> bool {
        self.desyncs.is_empty()
            && self
                .events
                .is_some_and(|(consumed, total)| consumed == total)
    }
}

impl Runner {
    /// The executable, in a process that knows that it is meant.
    pub(super) fn meant(&self, mode: &str, log: &Path) -> Command {
        // This program, also if its file was replaced meanwhile.
        let mut command = Command::new("/proc/self/exe");
        command
            .args(["execute", "--"])
            .arg(&self.executable)
            .args(&self.args)
            .env_remove(CHANNEL)
            .env("RR_CHANNEL", mode)
            .env("RR_CHANNEL_LOG", log);
        command
    }
}

/// The arguments with which cargo is to call the runner.
pub(super) fn arguments(
    mode: Mode,
    recording: &Path,
    scratch: &Path,
    times: u64,
    how: RunnerOptions<'_>,
) -> anyhow::Result<Vec<String>> {
    let program = env::current_exe().context("cannot find the path of this program")?;
    let mode = match mode {
        Mode::Record => "record",
        Mode::Replay => "replay",
        Mode::Minimize => "minimize",
    };
    let text = |path: &Path| match path.to_str() {
        Some(text) => Ok(text.to_owned()),
        None => bail!(
            "the path {} is not UTF-8, which cargo's options must be",
            path.display()
        ),
    };
    let mut arguments = vec![text(&program)?, "runner".to_owned()];
    arguments.extend(how.chaos.map(|chaos| format!("--chaos={chaos}")));
    arguments.extend(how.places.map(|source| format!("--places={source}")));
    arguments.extend(
        how.payload
            .map(|what| format!("--payload={}", what.as_str())),
    );
    if how.stop {
        arguments.push("--stop".to_owned());
    }
    if how.fast_timeouts {
        arguments.push("--fast-timeouts".to_owned());
    }
    if let Some(failing) = how.failing {
        arguments.push(format!("--failing={}", text(failing)?));
    }
    arguments.extend([
        mode.to_owned(),
        text(recording)?,
        text(scratch)?,
        times.to_string(),
        // All that follows is the program's.
        "--".to_owned(),
    ]);
    Ok(arguments)
}

/// Runs the executable.
///
/// # Errors
/// If it could not be run as asked.
pub(super) fn run(runner: &Runner) -> anyhow::Result<Ending> {
    // Documentation tests: all have one name, and run in no order.
    if runner
        .executable
        .file_stem()
        .is_some_and(|name| name == "rust_out")
    {
        return end(plain(runner).status());
    }
    let package = env::var("CARGO_PKG_NAME").unwrap_or_default();
    let key = store::key(&package, &runner.executable, &runner.args);
    let key = claim(&runner.scratch, &key)?;
    let dir = runner.recording.join(&key);
    match runner.mode {
        Mode::Record => record(runner, &dir),
        Mode::Replay => replay(runner, &dir, &key),
        Mode::Minimize => minimize(runner, &dir, &key),
    }
}

/// A key of this process's own: executables that run again get a number.
fn claim(scratch: &Path, key: &Path) -> anyhow::Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    for number in 1.. {
        let mark = scratch.join(format!("{:016x}-{number}", hasher.finish()));
        match OpenOptions::new().write(true).create_new(true).open(&mark) {
            Ok(_) if number == 1 => return Ok(key.to_owned()),
            Ok(_) => {
                let mut name = key.file_name().unwrap_or_default().to_owned();
                name.push(format!("-{number}"));
                return Ok(key.with_file_name(name));
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot make {}", mark.display()));
            }
        }
    }
    bail!("an executable ran more often than can be numbered")
}

/// The executable as it is.
fn plain(runner: &Runner) -> Command {
    let mut command = Command::new(&runner.executable);
    command.args(&runner.args).env_remove(CHANNEL);
    command
}

/// Becomes the executable.
///
/// # Errors
/// If it cannot be executed; else there is no return.
pub(super) fn execute(executable: &Path, args: &[String]) -> anyhow::Result<Ending> {
    let error = Command::new(executable)
        .args(args)
        .env("RR_CHANNEL_PROCESS", std::process::id().to_string())
        .exec();
    Err(error).with_context(|| format!("cannot execute {}", executable.display()))
}

fn record(runner: &Runner, dir: &Path) -> anyhow::Result<Ending> {
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let file = dir.join("process.json");
    let mut process = Process {
        executable: runner.executable.clone(),
        digest: digest(&runner.executable)?,
        args: runner.args.clone(),
        ending: None,
    };
    store::write(&file, &process)?;
    let mut command = runner.meant("record", &store::log_dir(dir));
    if let Some(chaos) = runner.chaos {
        command.env("RR_CHANNEL_CHAOS", chaos.to_string());
    }
    if let Some(source) = &runner.places {
        command
            .env("RR_CHANNEL_PLACES", "1")
            .env("RR_CHANNEL_PROJECT", source);
    }
    if let Some(payload) = runner.payload {
        command.env("RR_CHANNEL_PAYLOAD", payload.as_str());
    }
    let ending = end(command.status())?;
    process.ending = Some(ending);
    store::write(&file, &process)?;
    Ok(ending)
}

fn replay(runner: &Runner, dir: &Path, key: &Path) -> anyhow::Result<Ending> {
    let Ok(process) = store::read::<Process>(&dir.join("process.json")) else {
        eprintln!(
            "reprise: {} was not recorded: it runs without replay",
            key.display()
        );
        return end(plain(runner).status());
    };
    let log = store::log_dir(dir);
    let has_log = log.join("session").exists();
    let mut replays = Replays {
        recorded: process.ending,
        rebuilt: process.digest != digest(&runner.executable)?,
        replays: Vec::new(),
    };
    if replays.rebuilt {
        eprintln!(
            "reprise: {} was rebuilt since it was recorded: the replay may desynchronise",
            key.display()
        );
    }
    let state = runner.scratch.join(key);
    fs::create_dir_all(&state).with_context(|| format!("cannot make {}", state.display()))?;
    // What happens is recorded again, and kept of the first replay that went another way.
    let again = state.join("again");
    let mut kept = None;
    let mut odd = None;
    for number in 1..=runner.times {
        let report = state.join("report");
        let mut command = if has_log {
            let mut command = runner.meant("replay", &log);
            command.env("RR_CHANNEL_REPORT", &report);
            if kept.is_none() {
                command.env("RR_CHANNEL_NEW_LOG", &again);
            }
            if let Some(chaos) = runner.chaos {
                command.env("RR_CHANNEL_CHAOS", chaos.after(number - 1).to_string());
            }
            if runner.stop {
                command.env("RR_CHANNEL_DESYNC", "stop");
            }
            if runner.fast_timeouts {
                command.env("RR_CHANNEL_FAST_TIMEOUTS", "1");
            }
            command
        } else {
            plain(runner)
        };
        let output = state.join("output");
        if runner.times > 1 {
            let file = File::create(&output)?;
            command
                .stdin(Stdio::null())
                .stdout(file.try_clone()?)
                .stderr(file);
        }
        let ending = end(command.status())?;
        let replay = if has_log {
            let text = report::collect(&report);
            let _ = report::remove(&report);
            let replay = parse(ending, &text);
            if !replay.desyncs.is_empty() {
                // For a look at it. If it cannot be kept, it was at least said.
                let _ = fs::write(log.join(REPORT), &text);
                if kept.is_none() {
                    kept = keep(&again, &log.join(INSTEAD));
                }
            }
            let _ = fs::remove_dir_all(&again);
            replay
        } else {
            Replay {
                ending,
                desyncs: Vec::new(),
                left: Vec::new(),
                events: Some((0, 0)),
            }
        };
        let is_odd = replays.recorded != Some(ending) || !replay.desyncs.is_empty();
        if is_odd && odd.is_none() {
            odd = Some(ending);
            if runner.times > 1 {
                eprintln!(
                    "reprise: replay {number} of {} differs from the recording:",
                    key.display()
                );
                let _ = io::stderr().write_all(&fs::read(&output)?);
            }
        }
        replays.replays.push(replay);
        store::write(&state.join("replays.json"), &replays)?;
    }
    if let Some(kept) = kept {
        eprintln!("reprise: that replay was recorded in {}", kept.display());
    }
    Ok(odd
        .or(replays.recorded)
        .or(replays.replays.last().map(|replay| replay.ending))
        .unwrap_or(Ending::Exit(0)))
}

/// Where in a log's directory the recording of a replay is that left the log.
const INSTEAD: &str = "instead";

/// Keeps a recording in place of an earlier one. If it cannot be kept, there is none.
fn keep(recording: &Path, to: &Path) -> Option<PathBuf> {
    let _ = fs::remove_dir_all(to);
    fs::rename(recording, to).ok()?;
    Some(to.to_owned())
}

/// Finds what makes the difference between two recordings of the executable.
fn minimize(runner: &Runner, dir: &Path, key: &Path) -> anyhow::Result<Ending> {
    let failing = runner
        .failing
        .as_ref()
        .context("the runner got no failing recording")?;
    let failing = failing.join(key);
    let state = runner.scratch.join(key);
    let processes = [dir, &failing].map(|dir| store::read::<Process>(&dir.join("process.json")));
    let [Ok(passed), Ok(failed)] = processes else {
        eprintln!(
            "reprise: {} is not in both recordings: it runs without replay",
            key.display()
        );
        return end(plain(runner).status());
    };
    if passed.ending == failed.ending {
        // Some other executable of the call is the one that failed.
        return Ok(passed.ending.unwrap_or(Ending::Exit(0)));
    }
    let digest = digest(&runner.executable)?;
    if passed.digest != digest || failed.digest != digest {
        bail!(
            "{} was rebuilt since it was recorded: record both runs again",
            key.display()
        );
    }
    fs::create_dir_all(&state).with_context(|| format!("cannot make {}", state.display()))?;
    let mut limit = LONGEST;
    let mut replay = |log: &Path| {
        let report = state.join("report");
        let mut command = runner.meant("replay", log);
        command
            .env("RR_CHANNEL_REPORT", &report)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let start = Instant::now();
        let ending = end_within(&mut command, limit)?;
        // The first one is the passing run, and says how long they take.
        limit = limit.min(SHORTEST + start.elapsed() * 20);
        let text = report::collect(&report);
        let _ = report::remove(&report);
        let desyncs = parse(Ending::Exit(0), &text).desyncs;
        Ok(Replayed {
            verdict: match ending {
                ending if ending.is_some() && ending == passed.ending => Verdict::Passes,
                ending if ending.is_some() && ending == failed.ending => Verdict::Fails,
                _ => Verdict::Unresolved,
            },
            left: desyncs.iter().filter_map(|line| left(line)).collect(),
        })
    };
    let options = Options {
        program: Some(&runner.executable),
        tries: u32::try_from(runner.times).unwrap_or(u32::MAX),
        confirm: 5,
    };
    let minimum = minimize::minimize(
        &store::log_dir(dir),
        &store::log_dir(&failing),
        &state,
        options,
        &mut replay,
    );
    let result = match minimum {
        Ok(minimum) => Minimized::Found(minimum),
        Err(error) => Minimized::Failed(format!("{error:#}")),
    };
    store::write(&state.join("minimum.json"), &result)?;
    Ok(Ending::Exit(0))
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Minimized {
    Found(Minimum),
    /// Why there is no answer.
    Failed(String),
}

/// How long a replay of unknown length may take, and one of next to none.
const LONGEST: Duration = Duration::from_secs(600);
const SHORTEST: Duration = Duration::from_secs(20);

/// How the process ended; `None` if it had to be ended after `limit`.
fn end_within(command: &mut Command, limit: Duration) -> anyhow::Result<Option<Ending>> {
    let mut child = command.spawn().context("cannot start the executable")?;
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return end(Ok(status)).map(Some);
        }
        if start.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// The thread that left its log, and at which event, of a line of a report.
pub(super) fn left(line: &str) -> Option<(String, u64)> {
    let (thread, rest) = line
        .strip_prefix("thread ")?
        .split_once(" desynchronised at event ")?;
    Some((thread.to_owned(), rest.split(':').next()?.parse().ok()?))
}

/// Reads what a replay reported (`rr_channel`, `RR_CHANNEL_REPORT`).
pub(super) fn parse(ending: Ending, text: &str) -> Replay {
    let lines = |kind: &str| -> Vec<String> {
        text.lines()
            .filter_map(|line| line.strip_prefix(kind))
            .map(str::to_owned)
            .collect()
    };
    let events = lines("end ").pop().and_then(|line| {
        let (consumed, total) = line.split_once(" of ")?;
        Some((consumed.parse().ok()?, total.parse().ok()?))
    });
    Replay {
        ending,
        desyncs: lines("desync "),
        left: lines("left "),
        events,
    }
}

fn digest(executable: &Path) -> anyhow::Result<String> {
    let mut hasher = blake3::Hasher::new();
    File::open(executable)
        .and_then(|file| hasher.update_reader(file).map(|_| ()))
        .with_context(|| format!("cannot read {}", executable.display()))?;
    Ok(hasher.finalize().to_hex().to_string())
}

pub(super) fn end(status: io::Result<ExitStatus>) -> anyhow::Result<Ending> {
    let status = status.context("cannot start the executable")?;
    Ok(match (status.code(), status.signal()) {
        (Some(code), _) => Ending::Exit(code),
        (None, Some(signal)) => Ending::Signal(signal),
        (None, None) => Ending::Exit(1),
    })
}

/// Ends this process as another one ended.
pub(super) fn end_as(ending: Ending) -> u8 {
    match ending {
        Ending::Exit(code) => u8::try_from(code).unwrap_or(1),
        Ending::Signal(number) => end_by(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let replay = parse(
            Ending::Exit(0),
            "desync thread main desynchronised at event 3: x\nleft main/~2 5 of 8\nend 13 of 16\n",
        );
        assert_eq!(replay.desyncs, ["thread main desynchronised at event 3: x"]);
        assert_eq!(replay.left, ["main/~2 5 of 8"]);
        assert_eq!(replay.events, Some((13, 16)));
        assert!(!replay.is_faithful());
        assert!(parse(Ending::Exit(0), "end 16 of 16\n").is_faithful());
    }

    #[test]
    fn the_thread_and_the_event_of_a_desynchronisation_are_read() {
        let line = "thread main/~2 desynchronised at event 3: recorded `recv on t0.c1: empty`";
        assert_eq!(left(line), Some(("main/~2".to_owned(), 3)));
        assert_eq!(left("thread main is fine"), None);
    }

    #[test]
    fn a_replay_that_was_cut_off_is_not_called_faithful() {
        for text in ["", "end 16", "end 16 of"] {
            assert!(!parse(Ending::Signal(9), text).is_faithful());
        }
    }

    #[test]
    fn an_executable_that_runs_again_gets_a_number() {
        let dir = tempfile::tempdir().unwrap();
        let claim = |key: &str| claim(dir.path(), Path::new(key)).unwrap();
        assert_eq!(claim("p/a"), Path::new("p/a"));
        assert_eq!(claim("p/b"), Path::new("p/b"));
        assert_eq!(claim("p/a"), Path::new("p/a-2"));
    }
}
