//! The directory of traces, and the directory of hints that recordings keep for later ones.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};

use crate::trace::Directory;

fn set(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The directory of traces that are not put elsewhere.
pub(super) fn home() -> anyhow::Result<PathBuf> {
    if let Some(dir) = set("REPRISE_DIR") {
        return Ok(dir.into());
    }
    let data = match (set("XDG_DATA_HOME"), set("HOME")) {
        (Some(data), _) => PathBuf::from(data),
        (None, Some(home)) => PathBuf::from(home).join(".local/share"),
        (None, None) => {
            bail!("no directory for traces: set REPRISE_DIR, or name a directory with --output")
        }
    };
    Ok(data.join("reprise"))
}

/// The directory of what recordings learn for each other, if there is a place for it.
pub(super) fn cache() -> Option<PathBuf> {
    let cache = match (set("XDG_CACHE_HOME"), set("HOME")) {
        (Some(cache), _) => PathBuf::from(cache),
        (None, home) => PathBuf::from(home?).join(".cache"),
    };
    Some(cache.join("reprise"))
}

/// A directory for a new trace of a program.
pub(super) fn fresh(program: &OsStr) -> anyhow::Result<PathBuf> {
    let home = home()?;
    std::fs::create_dir_all(&home).with_context(|| format!("cannot create {}", home.display()))?;
    let name = Path::new(program).file_name().unwrap_or(program);
    for number in 0.. {
        let mut file = name.to_owned();
        file.push(format!("-{number}"));
        let path = home.join(file);
        if std::fs::symlink_metadata(&path).is_err() {
            return Ok(path);
        }
    }
    bail!(
        "no free trace name is left in {}: remove traces with `reprise rm`",
        home.display()
    )
}

/// Notes which trace is the latest.
pub(super) fn note(trace: &Path) -> anyhow::Result<()> {
    let home = home()?;
    std::fs::create_dir_all(&home)?;
    let trace = std::path::absolute(trace)?;
    let new = home.join(format!(".latest-{}", std::process::id()));
    std::os::unix::fs::symlink(&trace, &new)?;
    std::fs::rename(&new, home.join("latest"))?;
    Ok(())
}

/// The trace that is meant: a path, a name among those that are kept, or the latest.
pub(super) fn find(trace: Option<&Path>) -> anyhow::Result<PathBuf> {
    let Some(trace) = trace else {
        let latest = home()?.join("latest");
        if !latest.exists() {
            bail!("there is no trace yet: record one with `reprise record -- COMMAND`");
        }
        return Ok(latest);
    };
    if trace.exists() || trace.components().count() > 1 {
        return Ok(trace.to_owned());
    }
    Ok(home()?.join(trace))
}

/// Options of `reprise ls`.
#[derive(Debug, clap::Args)]
pub(super) struct LsArgs {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A line of `reprise ls`.
#[derive(Debug, serde::Serialize, PartialEq, Eq, PartialOrd, Ord)]
struct Listed {
    /// Seconds since 1970.
    started: u64,
    name: String,
    bytes: u64,
    command: Vec<String>,
}

/// `reprise ls`: the oldest first.
pub(super) fn list(args: &LsArgs) -> anyhow::Result<ExitCode> {
    let home = home()?;
    let entries = match std::fs::read_dir(&home) {
        Ok(entries) => Some(entries),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", home.display())),
    };
    let mut traces = Vec::new();
    for entry in entries.into_iter().flatten() {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            continue;
        }
        if let Ok((directory, header)) = Directory::open(entry.path()) {
            let events = std::fs::metadata(directory.events());
            traces.push(Listed {
                started: header.started,
                name: entry.file_name().to_string_lossy().into_owned(),
                bytes: events.map_or(0, |events| events.len()),
                command: header.command,
            });
        }
    }
    traces.sort();
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &traces)?;
        writeln!(out)?;
        return Ok(ExitCode::SUCCESS);
    }
    for trace in traces {
        let size = trace.bytes.div_ceil(1024);
        let command = trace.command.join(" ");
        writeln!(out, "{:24} {size:>8} KiB  {command}", trace.name)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `reprise rm`.
pub(super) fn remove(traces: &[PathBuf]) -> anyhow::Result<ExitCode> {
    for trace in traces {
        let path = find(Some(trace))?;
        // Nothing else is removed by mistake.
        Directory::open(&path)?;
        std::fs::remove_dir_all(&path)
            .with_context(|| format!("cannot remove {}", path.display()))?;
        let latest = home()?.join("latest");
        if std::fs::symlink_metadata(&latest).is_ok() && !latest.exists() {
            std::fs::remove_file(&latest)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
