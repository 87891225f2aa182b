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

/// Record a program and every process that it starts, and replay the run exactly.
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
    /// Replay a recorded command: same programs, same inputs, no effect outside the replay.
    Replay(ReplayArgs),
    /// Print the records of a trace, one line each.
    Dump(dump::Args),
    /// Count the records, tasks, calls and files of a trace.
    Stats(dump::StatsArgs),
    /// Check a trace for damage, and whether the files that it needs are there.
    Fsck(check::FsckArgs),
    /// Copy the system files that a trace needs into the trace, so that another machine with the
    /// same processor features can replay it.
    Pack(check::PackArgs),
    /// Check whether this machine can record and replay programs, and explain each finding.
    Doctor(doctor::Args),
    /// List the traces in the directory of traces (`REPRISE_DIR`, else `~/.local/share/reprise`).
    Ls(places::LsArgs),
    /// Remove traces.
    Rm(RmArgs),
}

/// Options of `reprise record`.
#[derive(Debug, clap::Args)]
struct RecordArgs {
    /// Directory of the trace, which must not exist. Default: a new one in the directory of
    /// traces, named after the program.
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Store a digest of each process's memory at its exit, for replays to compare.
    #[arg(long)]
    digests: bool,
    /// How common calls are recorded: `auto` lets processes perform and log them without a stop,
    /// `stops` stops the process at each call.
    #[arg(long, value_name = "HOW", default_value = "auto")]
    interception: Interception,
    /// Treatment of the command when the trace cannot be written any more: `go-on` lets it
    /// run on unrecorded, `stop` kills it and every process that it started.
    #[arg(long, value_name = "WHAT", default_value = "go-on")]
    disk_full: DiskFull,
    /// Schedule threads and processes at random, one at a time, to provoke failures that depend
    /// on their order. The same seed gives similar runs, not equal ones; a replay repeats a run
    /// exactly.
    #[arg(
        long,
        value_name = "SEED",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "random"
    )]
    chaos: Option<Seed>,
    /// Print no summary at the end.
    #[arg(short, long)]
    quiet: bool,
    /// Command to record, with its arguments.
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Seed of the random scheduler: a number, or `random` for any.
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
    /// Processes perform and log calls themselves where that pays.
    Auto,
    /// The process stops at each call.
    Stops,
}

/// Treatment of the command when the trace cannot be written any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum DiskFull {
    /// The command runs on, unrecorded.
    GoOn,
    /// The command is killed.
    Stop,
}

/// Options of `reprise replay`.
#[derive(Debug, clap::Args)]
struct ReplayArgs {
    /// Trace to replay: a directory, or a name from `reprise ls`. Default: the latest trace.
    #[arg(value_name = "TRACE")]
    trace: Option<PathBuf>,
    /// Discard the output of the replayed programs.
    #[arg(long)]
    silent: bool,
    /// Print no summary at the end.
    #[arg(short, long)]
    quiet: bool,
}

/// Options of `reprise rm`.
#[derive(Debug, clap::Args)]
struct RmArgs {
    /// Traces to remove: directories, or names from `reprise ls`.
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
}

/// The meaning of the exit statuses, for the help.
const STATUSES: &str = "\
Exit status: that of the recorded or replayed command. If a signal killed the command, reprise
ends by the same signal.
  1    `fsck`, `pack`, `doctor`: something is damaged or missing
  123  `replay` reached the point where the recording was cut short
  124  `replay` diverged from the recording
  125  reprise itself failed
  126  the command to record cannot be executed
  127  the command to record was not found";

/// Exit status of a failure of reprise itself.
const FAILED: u8 = 125;
/// Exit status of a replay that diverged.
const DIVERGED: u8 = 124;
/// Exit status of a replay that reached the end of a recording that was cut short.
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
        // The reader of a pipe may close it early; that is no failure.
        if error.chain().any(pipe) {
            return ExitCode::SUCCESS;
        }
        eprintln!("reprise: {error:#}");
        ExitCode::from(FAILED)
    })
}
