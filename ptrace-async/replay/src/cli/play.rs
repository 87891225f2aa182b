//! `reprise record` and `reprise replay`.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use ptrace_async::runtime::Program;

use super::{CUT_SHORT, DIVERGED, DiskFull, FAILED, Interception, RecordArgs, ReplayArgs, places};
use crate::platform::machine::Machine;
use crate::platform::os;
use crate::record::Recording;
use crate::trace::event::Ending;
use crate::trace::{Directory, FORMAT, Header, Tail};
use crate::{record, replay};

pub(super) fn record(args: &RecordArgs) -> anyhow::Result<ExitCode> {
    let mut program = Program::new(&args.command)?;
    let path = match &args.output {
        Some(path) => path.clone(),
        None => places::fresh(&args.command[0])?,
    };
    let header = header(args);
    program.default_signals.extend(os::ignore_signals());
    let directory = Directory::create(&path, &header)?;
    if places::note(&path).is_err() {
        // A user who names the trace finds it all the same.
        eprintln!(
            "reprise: cannot mark {} as the latest trace: name it when you replay it",
            path.display()
        );
    }
    let recording =
        record::record(&program, directory, options(args)).context("cannot record the command")?;
    if !recording.has_begun {
        let _ = std::fs::remove_dir_all(&path);
        return not_executed(&program, &args.command[0], &recording);
    }
    report(args, &path, &recording);
    let killed = Some(Ending::Killed(libc::SIGKILL));
    if recording.lost.is_some() && args.disk_full == DiskFull::Stop && recording.ending == killed {
        return Ok(ExitCode::from(FAILED));
    }
    match recording.ending {
        Some(ending) => end(ending),
        None => bail!("the command did not start: its process ended before it executed a program"),
    }
}

fn header(args: &RecordArgs) -> Header {
    Header {
        format: FORMAT,
        command: args
            .command
            .iter()
            .map(|argument| argument.to_string_lossy().into_owned())
            .collect(),
        directory: std::env::current_dir()
            .map(|dir| dir.to_string_lossy().into_owned())
            .unwrap_or_default(),
        started: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
        machine: Machine::here(),
        digests: args.digests,
        chaos: args.chaos.map(|seed| seed.0),
    }
}

fn options(args: &RecordArgs) -> record::Options {
    record::Options {
        digests: args.digests,
        stops: args.interception == Interception::Stops,
        chaos: args.chaos.map(|seed| seed.0),
        hints_directory: places::cache(),
        on_loss: match args.disk_full {
            DiskFull::GoOn => record::OnLoss::GoOn,
            DiskFull::Stop => record::OnLoss::Stop,
        },
    }
}

/// Reports why the command was not executed, with the exit status of a shell.
fn not_executed(
    program: &Program,
    name: &std::ffi::OsStr,
    recording: &Recording,
) -> anyhow::Result<ExitCode> {
    if let Some(ending @ Ending::Killed(_)) = recording.ending {
        // A signal killed the process before it executed the command.
        return end(ending);
    }
    let name = name.to_string_lossy();
    let is_there = program.candidates.iter().any(|candidate| {
        let path = std::ffi::OsStr::from_bytes(candidate.as_bytes());
        Path::new(path).exists()
    });
    if is_there {
        let why = recording.refused.keys().next();
        let why = why.map_or_else(String::new, |(_, reason)| format!(": {reason}"));
        eprintln!("reprise: {name} cannot be executed{why}");
        return Ok(ExitCode::from(126));
    }
    eprintln!("reprise: {name}: command not found");
    Ok(ExitCode::from(127))
}

/// Reports at the end of a recording: refused calls, changed files, losses, the trace.
fn report(args: &RecordArgs, path: &Path, recording: &Recording) {
    for ((name, reason), count) in &recording.refused {
        if !args.quiet {
            eprintln!("reprise: refused {name} ({count} times): {reason}");
        }
    }
    for path in recording.outside_changes.iter().filter(|_| !args.quiet) {
        eprintln!(
            "reprise: {} was changed by a process that is not recorded while recorded programs \
             had it mapped: a replay may diverge",
            path.display()
        );
    }
    let trace = path.display();
    match (&recording.lost, &recording.written) {
        // This was reported when it happened, but perhaps long ago.
        (Some(_), _) if args.quiet => {}
        (Some(reason), _) => {
            eprintln!("reprise: {trace} holds only the beginning of the run: {reason}");
        }
        (None, Err(error)) => {
            eprintln!("reprise: the end of the recording could not be written: {error}");
        }
        (None, Ok(bytes)) if !args.quiet => {
            let chaos = args
                .chaos
                .map(|seed| format!(", --chaos={}", seed.0))
                .unwrap_or_default();
            eprintln!(
                "reprise: recorded to {trace} ({} KiB{chaos})",
                bytes.div_ceil(1024)
            );
        }
        (None, Ok(_)) => {}
    }
}

pub(super) fn replay(args: &ReplayArgs) -> anyhow::Result<ExitCode> {
    let path = places::find(args.trace.as_deref())?;
    let (directory, header) = Directory::open(&path)?;
    if let Some(objection) = Machine::here().objection(&header.machine) {
        bail!("{} cannot be replayed here: {objection}", path.display());
    }
    let output = if args.silent {
        replay::Output::Discard
    } else {
        replay::Output::Print
    };
    let options = replay::Options { output };
    let outcome = replay::replay(directory, options)
        .with_context(|| format!("cannot replay {}", path.display()))?;
    if let Some(error) = outcome.error {
        return Err(error.into());
    }
    if let Some(divergence) = outcome.divergence {
        eprintln!("reprise: {}", divergence.report());
        eprintln!(
            "reprise: a replay diverges where an input was not recorded; docs/reprise-limits.md \
             lists these inputs"
        );
        return Ok(ExitCode::from(DIVERGED));
    }
    let Some(tail) = outcome.tail else {
        bail!("the replay could not be started");
    };
    if let Some(error) = outcome.unprinted {
        return Err(error).context("cannot print the command's output");
    }
    if tail != Tail::Whole {
        eprintln!(
            "reprise: the recording ends here, after {} records: its recorder was killed, or could not \
             write on, before all processes had ended",
            outcome.records
        );
        return Ok(ExitCode::from(CUT_SHORT));
    }
    if !args.quiet {
        eprintln!("reprise: replayed {} records", outcome.records);
    }
    match outcome.ending {
        Some(ending) => end(ending),
        None => bail!("the trace does not say how the command ended: check it with `reprise fsck`"),
    }
}

/// Ends as the command did.
fn end(ending: Ending) -> anyhow::Result<ExitCode> {
    match ending {
        Ending::Exited(status) => Ok(ExitCode::from(status as u8)),
        Ending::Killed(signal) => os::die_by(signal),
        Ending::Superseded => Ok(ExitCode::from(FAILED)),
    }
}
