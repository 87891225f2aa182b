//! The command line.

mod check;
mod doctor;
mod dump;
mod places;
mod play;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Record a program and all that it starts, and replay it exactly.
#[derive(Debug, Parser)]
#[command(name = "reprise", version, max_term_width = 100, after_help = STATUSES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a command and record it.
    Record(RecordArgs),
    /// Run a recorded command again: the same programs, the same inputs, no effect outside.
    Replay(ReplayArgs),
    /// Show what was recorded, one line for each event.
    Dump(dump::Args),
    /// Count what was recorded.
    Stats(dump::StatsArgs),
    /// Check that a trace is as it was written, and that its files are there.
    Fsck(check::FsckArgs),
    /// Copy the files of the system that a trace needs into it, so that it can be replayed
    /// on another machine with such a processor.
    Pack(check::PackArgs),
    /// Say what this machine allows, and what that means for recording and replaying.
    Doctor(doctor::Args),
    /// List the traces in the directory where they are kept.
    Ls(places::LsArgs),
    /// Remove traces.
    Rm(RmArgs),
}

/// Options of `reprise record`.
#[derive(Debug, clap::Args)]
struct RecordArgs {
    /// The trace's directory, which must not exist; by default one that is named after
    /// the program, where traces are kept.
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Digest the memory of each process when it exits, for replays to compare.
    #[arg(long)]
    digests: bool,
    /// How common calls are recorded: `auto` has processes perform and log them by
    /// themselves, `stops` stops the process for each.
    #[arg(long, value_name = "HOW", default_value = "auto")]
    interception: Interception,
    /// What becomes of the command when the trace cannot be written any more: `go-on` lets
    /// it run to its end, unrecorded, `stop` kills it and all that it has started.
    #[arg(long, value_name = "WHAT", default_value = "go-on")]
    disk_full: DiskFull,
    /// Give turns to threads and processes by chance, so that failures show that depend on
    /// their order; one of them runs at a time. The same seed makes similar runs, not the
    /// same; a replay repeats a run exactly.
    #[arg(
        long,
        value_name = "SEED",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "random"
    )]
    chaos: Option<Seed>,
    /// Say nothing at the end.
    #[arg(short, long)]
    quiet: bool,
    /// The command and its arguments.
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Where chance comes from: a number, or `random` for any.
#[derive(Debug, Clone, Copy)]
struct Seed(u64);

impl std::str::FromStr for Seed {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "random" => Ok(Self(fastrand::u64(..1 << 32))),
            number => number.parse().map(Self),
        }
    }
}

/// How common calls are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Interception {
    /// In the process where it pays.
    Auto,
    /// By stops.
    Stops,
}

/// What becomes of the command when the trace cannot be written any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum DiskFull {
    /// It goes on, unrecorded.
    GoOn,
    /// It is killed.
    Stop,
}

/// Options of `reprise replay`.
#[derive(Debug, clap::Args)]
struct ReplayArgs {
    /// The trace; by default the latest.
    #[arg(value_name = "TRACE")]
    trace: Option<PathBuf>,
    /// Do not print what the recorded programs printed.
    #[arg(long)]
    silent: bool,
    /// Say nothing at the end.
    #[arg(short, long)]
    quiet: bool,
}

/// Options of `reprise rm`.
#[derive(Debug, clap::Args)]
struct RmArgs {
    /// The traces.
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
}

/// What the exit statuses mean, for the help.
const STATUSES: &str = "\
Exit status: that of the recorded or replayed command (by the same signal, if one killed it).
  1    `fsck`, `pack`, `doctor`: something is damaged or missing
  123  `replay` came to where the recording was cut short
  124  `replay` went another way than was recorded
  125  reprise could not do its work
  126  the command to record cannot be executed
  127  the command to record is not found";

/// Our own failure.
const FAILED: u8 = 125;
/// A replay that went another way.
const DIVERGED: u8 = 124;
/// A replay that came to where its recording was cut short.
const CUT_SHORT: u8 = 123;

/// Runs the command line.
#[must_use]
pub fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Record(args) => play::record(&args),
        Command::Replay(args) => play::replay(&args),
        Command::Dump(args) => dump::dump(&args),
        Command::Stats(args) => dump::stats(&args),
        Command::Fsck(args) => check::fsck(&args),
        Command::Pack(args) => check::pack(&args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Ls(args) => places::list(&args),
        Command::Rm(args) => places::remove(&args.traces),
    };
    result.unwrap_or_else(|error| {
        let pipe = |cause: &(dyn std::error::Error + 'static)| {
            let io = cause.downcast_ref::<std::io::Error>();
            io.is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
        };
        // Whoever read what was shown has seen enough.
        if error.chain().any(pipe) {
            return ExitCode::SUCCESS;
        }
        eprintln!("reprise: {error:#}");
        ExitCode::from(FAILED)
    })
}
