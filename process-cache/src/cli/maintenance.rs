//! `gc`, `fsck`, `clear`, `export` and `import`: maintenance of the store.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde_json::json;

use super::{StoreArgs, directory, open};
use crate::model::limits::Limits;
use crate::policy::config::{Config, bytes};
use crate::store::{Stats, Store, export_file};

#[derive(Debug, Args)]
pub(super) struct GcArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Leave at most this much: bytes, or with K, M, G or T (default: as configured,
    /// 10G).
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    max_size: Option<u64>,
    /// Remove what has not been used for so many days (default: as configured, 60).
    #[arg(long, value_name = "DAYS")]
    max_age: Option<u64>,
    /// Only tell what would be removed.
    #[arg(long)]
    dry_run: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct FsckArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Remove what is damaged.
    #[arg(long)]
    repair: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct FileArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// The file, or `-` for standard output or input.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl FileArgs {
    fn is_stream(&self) -> bool {
        self.file.as_os_str() == "-"
    }
}

pub(super) fn export(args: &FileArgs) -> anyhow::Result<()> {
    let store = open(&args.store, true)?;
    let moved = if args.is_stream() {
        store.export(std::io::stdout().lock())?
    } else {
        export_file(&store, &args.file)?
    };
    eprintln!(
        "exported {} programs, {} contents",
        moved.keys, moved.contents
    );
    Ok(())
}

pub(super) fn import(args: &FileArgs) -> anyhow::Result<()> {
    let store = Arc::new(open(&args.store, false)?);
    let moved = if args.is_stream() {
        store.import(std::io::stdin().lock())?
    } else {
        let shown = || format!("cannot read {}", args.file.display());
        store.import(File::open(&args.file).with_context(shown)?)?
    };
    eprintln!(
        "imported {} programs, {} contents",
        moved.keys, moved.contents
    );
    Ok(())
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

pub(super) fn clear(args: &StoreArgs) -> anyhow::Result<()> {
    let dir = directory(args)?;
    Store::clear_any(&dir).with_context(|| format!("cannot empty {}", dir.display()))
}

pub(super) fn gc(args: &GcArgs) -> anyhow::Result<()> {
    let store = open(&args.store, args.dry_run)?;
    let configured = Config::load()?.limits().map_err(anyhow::Error::msg)?;
    let age = args
        .max_age
        .map(|days| Duration::from_secs(days.saturating_mul(24 * 60 * 60)));
    let limits = Limits {
        max_bytes: args.max_size.unwrap_or(configured.max_bytes),
        max_age: age.or(configured.max_age),
    };
    let report = if args.dry_run {
        store.gc_preview(limits)?
    } else {
        store.gc(limits)?
    };
    if args.json {
        let stats = |stats: Stats| json!({ "entries": stats.entries, "blobs": stats.blobs, "bytes": stats.bytes });
        let json = json!({
            "version": 1,
            "dry_run": args.dry_run,
            "removed": stats(report.removed),
            "kept": stats(report.kept),
        });
        println!("{json:#}");
    } else {
        let line = |what: &str, stats: Stats| {
            println!(
                "{what:<14}  {} programs, {} contents, {}",
                stats.entries,
                stats.blobs,
                mebibytes(stats.bytes)
            );
        };
        let what = if args.dry_run {
            "would remove"
        } else {
            "removed"
        };
        line(what, report.removed);
        line("kept", report.kept);
    }
    Ok(())
}

/// Returns whether nothing was damaged.
pub(super) fn fsck(args: &FsckArgs) -> anyhow::Result<bool> {
    let store = open(&args.store, !args.repair)?;
    let found = store.check(args.repair)?;
    if args.json {
        println!("{:#}", json!({ "version": 1, "findings": found }));
        return Ok(found.damaged.is_empty());
    }
    println!("contents        {} intact", found.blobs);
    println!(
        "programs        {} intact, with {} results",
        found.entries, found.results
    );
    println!("runs            {} remembered", found.runs);
    if found.foreign_runs > 0 {
        println!(
            "other versions  {} runs that another version of pcache wrote; they are not listed",
            found.foreign_runs
        );
    }
    if found.incomplete > 0 {
        println!(
            "incomplete      {} results have lost contents: they are recorded again when they are asked for",
            found.incomplete
        );
    }
    if found.interrupted > 0 {
        println!(
            "interrupted     {} pieces that somebody was writing; they are in nobody's way",
            found.interrupted
        );
    }
    for damage in &found.damaged {
        println!("damaged         {}: {}", damage.path.display(), damage.what);
    }
    if !found.damaged.is_empty() {
        println!(
            "{}",
            if args.repair {
                "what was damaged is removed"
            } else {
                "nothing damaged is ever used; pcache fsck --repair removes it"
            }
        );
    }
    Ok(found.damaged.is_empty())
}
