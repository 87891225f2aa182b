//! `reprise dump` and `reprise stats`.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use ptrace_async::syscall::Syscall;

use super::places;
use crate::buffer;
use crate::trace::{Directory, Event, Reader, Tail, line};

/// Options of `reprise dump`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Trace to read: a directory, or a name from `reprise ls`. Default: the latest trace.
    #[arg(value_name = "TRACE")]
    trace: Option<PathBuf>,
    /// Print the records of this task only.
    #[arg(long, value_name = "NUMBER")]
    task: Option<u32>,
    /// Print one JSON object for each record, with its whole content.
    #[arg(long)]
    json: bool,
}

/// Options of `reprise stats`.
#[derive(Debug, clap::Args)]
pub(super) struct StatsArgs {
    /// Trace to read: a directory, or a name from `reprise ls`. Default: the latest trace.
    #[arg(value_name = "TRACE")]
    trace: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn dump(args: &Args) -> anyhow::Result<ExitCode> {
    let (directory, _) = Directory::open(places::find(args.trace.as_deref())?)?;
    let mut reader = Reader::open(&directory)?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for (number, record) in reader.by_ref().enumerate() {
        let record = record?;
        let shown = args.task.is_none_or(|task| record.task.0 == task);
        if shown && args.json {
            serde_json::to_writer(&mut out, &record)?;
            writeln!(out)?;
        } else if shown {
            writeln!(
                out,
                "{number:>8} {:>10.3} {:>4} {}",
                record.time as f64 / 1000.0,
                record.task.0,
                line::of(&record)
            )?;
        }
    }
    match reader.tail() {
        _ if args.json => {}
        Some(Tail::Cut(bytes)) => writeln!(
            out,
            "(cut short: {bytes} bytes of an incomplete block follow)"
        )?,
        Some(Tail::Open) => writeln!(out, "(cut short)")?,
        Some(Tail::Whole) | None => {}
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The counts of `reprise stats`.
#[derive(Debug, Default, serde::Serialize)]
struct Stats {
    records: u64,
    blocks: u64,
    bytes_on_disk: u64,
    bytes_of_memory: u64,
    tasks: u64,
    programs: u64,
    signals: u64,
    instructions: u64,
    points: u64,
    sites: u64,
    without_stops: u64,
    files: u64,
    files_stored: u64,
    whole: bool,
    calls: BTreeMap<&'static str, u64>,
}

pub(super) fn stats(args: &StatsArgs) -> anyhow::Result<ExitCode> {
    let (directory, _) = Directory::open(places::find(args.trace.as_deref())?)?;
    let mut reader = Reader::open(&directory)?;
    let mut stats = Stats {
        bytes_on_disk: std::fs::metadata(directory.events())?.len(),
        tasks: 1,
        ..Stats::default()
    };
    for record in reader.by_ref() {
        let record = record?;
        stats.records += 1;
        match &record.event {
            Event::Call(call) => *stats.calls.entry(Syscall::of(call.nr).name()).or_default() += 1,
            Event::Return(done) => {
                let bytes = done.writes.iter().map(|write| write.bytes.len() as u64);
                stats.bytes_of_memory += bytes.sum::<u64>();
            }
            Event::Buffered(buffered) => {
                for entry in buffer::entries(&buffered.log) {
                    if let Some(number) = entry.number {
                        stats.bytes_of_memory += entry.data.len() as u64;
                        stats.without_stops += 1;
                        *stats.calls.entry(Syscall::of(number).name()).or_default() += 1;
                    }
                }
            }
            Event::Patched(patched) => stats.sites += u64::from(patched.sites),
            Event::Image(_) => stats.programs += 1,
            Event::Spawned(_) => stats.tasks += 1,
            Event::Signal(_) => stats.signals += 1,
            Event::Instruction(_) => stats.instructions += 1,
            Event::Point(_) => stats.points += 1,
            Event::File(file) => {
                stats.files += 1;
                stats.files_stored += u64::from(file.stored.is_some());
            }
            Event::Started(_)
            | Event::Exit(_)
            | Event::Digest(_)
            | Event::Joined(_)
            | Event::Ended(_)
            | Event::Written(_)
            | Event::FileChanged(_)
            | Event::ChangedOutside(_) => {}
        }
    }
    stats.blocks = reader.blocks();
    stats.whole = reader.tail() == Some(Tail::Whole);
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &stats)?;
        writeln!(out)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut row = |what: &str, count: u64| writeln!(out, "{count:>10} {what}");
    row("records", stats.records)?;
    row("blocks", stats.blocks)?;
    row("KiB of records on disk", stats.bytes_on_disk.div_ceil(1024))?;
    row(
        "KiB of memory written by calls",
        stats.bytes_of_memory.div_ceil(1024),
    )?;
    row("tasks", stats.tasks)?;
    row("programs", stats.programs)?;
    row("signals handled", stats.signals)?;
    row(
        "trapped instructions (rdtsc, rdtscp, rdrand, rdseed)",
        stats.instructions,
    )?;
    row("execution points (stops between calls)", stats.points)?;
    row("calls recorded without a stop", stats.without_stops)?;
    row("patched call sites", stats.sites)?;
    row("files mapped", stats.files)?;
    row("of them stored with the trace", stats.files_stored)?;
    let mut calls: Vec<_> = stats.calls.iter().collect();
    calls.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), **name));
    for (name, count) in calls {
        row(name, *count)?;
    }
    if !stats.whole {
        writeln!(out, "the recording was cut short")?;
    }
    Ok(ExitCode::SUCCESS)
}
