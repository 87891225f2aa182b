//! The command line of `rr-channel`.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};

use super::diff::Diff;
use super::dump;
use super::replayed::{self, REPORT};
use super::source::Source;
use super::stats::Stats;
use super::timeline::Timeline;
use super::topology::Topology;

/// Shows recordings of channels, threads and locks.
///
/// Exit status: 0 on success; 1 if a log is damaged or, for `diff`, if the recordings differ;
/// 2 if there is nothing to show.
#[derive(Debug, Parser)]
#[command(name = "rr-channel", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Write JSON; `dump` writes one line per event
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List every event
    Dump {
        /// A recording, or one thread's log
        recording: PathBuf,
    },
    /// Count the events of each kind
    Stats {
        /// A recording, or one thread's log
        recording: PathBuf,
    },
    /// Show where two recordings start to differ
    Diff {
        /// A recording
        first: PathBuf,
        /// Another one
        second: PathBuf,
    },
    /// Show which threads send to each other and which share locks
    Topology {
        /// A recording, or one thread's log
        recording: PathBuf,
    },
    /// Draw threads, events and messages as a page for a browser
    Timeline {
        /// A recording, or one thread's log
        recording: PathBuf,
        /// Write to this file instead of standard output
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Show at most this many events of each thread; the rest is counted
        #[arg(long, value_name = "N", default_value_t = 20_000)]
        limit: u64,
        /// Show where a replay left the recording: what it wrote to this file, which
        /// `RR_CHANNEL_REPORT` named; if there is none, what `cargo reprise replay` has
        /// left
        #[arg(long, value_name = "FILE")]
        report: Option<PathBuf>,
    },
}

/// The exit status where something differs, or is damaged.
const DIFFERS: u8 = 1;
/// The exit status where there is nothing to show.
const FAILED: u8 = 2;

/// Runs the command line.
pub(super) fn run() -> ExitCode {
    let cli = Cli::parse();
    let mut out = BufWriter::new(io::stdout().lock());
    let result = show(&cli, &mut out).and_then(|code| {
        out.flush()?;
        Ok(code)
    });
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rr-channel: {error:#}");
            ExitCode::from(FAILED)
        }
    }
}

/// Whether nobody wants to read any more.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        let json = cause
            .downcast_ref::<serde_json::Error>()
            .and_then(serde_json::Error::io_error_kind);
        io.or(json) == Some(ErrorKind::BrokenPipe)
    })
}

fn show(cli: &Cli, out: &mut dyn Write) -> anyhow::Result<u8> {
    let mut differs = false;
    let sources = match &cli.command {
        Command::Dump { recording } => {
            let mut source = Source::open(recording)?;
            match cli.json {
                true => dump::json(&mut source, out)?,
                false => dump::text(&mut source, out)?,
            }
            vec![source]
        }
        Command::Stats { recording } => {
            let mut source = Source::open(recording)?;
            let stats = Stats::of(&mut source)?;
            match cli.json {
                true => json(&stats, out)?,
                false => stats.text(out)?,
            }
            vec![source]
        }
        Command::Topology { recording } => {
            let mut source = Source::open(recording)?;
            let topology = Topology::of(&mut source)?;
            match cli.json {
                true => json(&topology, out)?,
                false => topology.text(out)?,
            }
            vec![source]
        }
        Command::Timeline {
            recording,
            output,
            limit,
            report,
        } => {
            let mut source = Source::open(recording)?;
            let found = source.dir.as_ref().map(|dir| dir.join(REPORT));
            let report = report.clone().or(found.filter(|report| report.exists()));
            let replayed = report.as_deref().map(replayed::read).transpose()?;
            let timeline = Timeline::of(&mut source, *limit, replayed.unwrap_or_default())?;
            let write = |out: &mut dyn Write| match cli.json {
                true => json(&timeline, out),
                false => timeline.page(out),
            };
            match output {
                Some(path) => to_file(path, write)?,
                None => write(out)?,
            }
            vec![source]
        }
        Command::Diff { first, second } => {
            let (mut left, mut right) = (Source::open(first)?, Source::open(second)?);
            let diff = Diff::of(&mut left, &mut right);
            differs = !diff.is_empty();
            match cli.json {
                true => json(&diff, out)?,
                false => diff.text(out)?,
            }
            vec![left, right]
        }
    };
    out.flush()?;
    let problems: Vec<_> = sources.iter().flat_map(|source| &source.problems).collect();
    for problem in &problems {
        eprintln!("rr-channel: {problem}");
    }
    Ok(if differs || !problems.is_empty() {
        DIFFERS
    } else {
        0
    })
}

fn to_file(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let failed = || format!("cannot write {}", path.display());
    let mut out = BufWriter::new(File::create(path).with_context(failed)?);
    write(&mut out).with_context(failed)?;
    out.flush().with_context(failed)
}

fn json(value: &impl serde::Serialize, out: &mut dyn Write) -> anyhow::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)?;
    Ok(())
}
