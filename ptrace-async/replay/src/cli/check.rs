//! `reprise fsck` and `reprise pack`.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use super::places;
use crate::trace::{Directory, fsck, pack};

/// Options of `reprise fsck`.
#[derive(Debug, clap::Args)]
pub(super) struct FsckArgs {
    /// Trace: a directory, or a name from `reprise ls`. Default: the latest trace.
    #[arg(value_name = "TRACE")]
    trace: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Options of `reprise pack`.
#[derive(Debug, clap::Args)]
pub(super) struct PackArgs {
    /// Trace: a directory, or a name from `reprise ls`. Default: the latest trace.
    #[arg(value_name = "TRACE")]
    trace: Option<PathBuf>,
}

/// Something is wrong with the trace.
const UNSOUND: u8 = 1;

pub(super) fn fsck(args: &FsckArgs) -> anyhow::Result<ExitCode> {
    let (directory, _) = Directory::open(places::find(args.trace.as_deref())?)?;
    let report = fsck::check(&directory)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &report)?;
        writeln!(out)?;
    } else {
        for problem in &report.problems {
            match problem.record {
                Some(record) => writeln!(out, "record {record}: {}", problem.what)?,
                None => writeln!(out, "{}", problem.what)?,
            }
        }
        if report.more_problems > 0 {
            writeln!(out, "... and {} more", report.more_problems)?;
        }
        writeln!(
            out,
            "{} records in {} blocks, {} files, {} of them in the trace{}: {}",
            report.records,
            report.blocks,
            report.files,
            report.stored,
            if report.whole { "" } else { "; cut short" },
            if report.is_sound() {
                "sound"
            } else {
                "damaged"
            }
        )?;
    }
    Ok(if report.is_sound() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(UNSOUND)
    })
}

pub(super) fn pack(args: &PackArgs) -> anyhow::Result<ExitCode> {
    let path = places::find(args.trace.as_deref())?;
    let (mut directory, _) = Directory::open(&path)?;
    let outcome = pack::pack(&mut directory)?;
    for missing in &outcome.missing {
        eprintln!("reprise: {missing}");
    }
    eprintln!(
        "reprise: copied {} files ({} KiB) into {}{}",
        outcome.files,
        outcome.bytes.div_ceil(1024),
        path.display(),
        if outcome.missing.is_empty() {
            ", which needs no file of this system any more"
        } else {
            ""
        }
    );
    Ok(if outcome.missing.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(UNSOUND)
    })
}
