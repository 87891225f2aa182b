//! The workspace's own `pcache`: building it, reading its report.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use serde::Deserialize;

use crate::support::cargo;

/// The part of pcache's report that is counted.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Report {
    /// Exec-units seen.
    pub(crate) units: u64,
    /// Of them, those skipped.
    pub(crate) hits: u64,
    /// Why the whole command was not stored, if it ran and was not.
    #[serde(skip)]
    pub(crate) not_stored: Option<String>,
    /// Why the whole command was not skipped, if it was not.
    #[serde(skip)]
    pub(crate) missed: Option<String>,
    /// The summary of a remote cache, if one was used.
    #[serde(skip)]
    pub(crate) remote: Option<serde_json::Value>,
}

impl Report {
    /// Reads what `--json` wrote; nothing there counts as nothing seen.
    pub(crate) fn read(path: &Path) -> Self {
        #[derive(Deserialize)]
        struct Whole {
            summary: Report,
            #[serde(default)]
            units: Vec<Unit>,
            #[serde(default)]
            remote: Option<serde_json::Value>,
        }
        #[derive(Deserialize)]
        struct Unit {
            depth: u32,
            #[serde(default)]
            reason: Option<String>,
            #[serde(default)]
            miss: Option<String>,
        }
        std::fs::read(path)
            .ok()
            .and_then(|json| serde_json::from_slice::<Whole>(&json).ok())
            .map(|whole| {
                let first = whole.units.into_iter().find(|unit| unit.depth == 0);
                let (not_stored, missed) =
                    first.map_or((None, None), |unit| (unit.reason, unit.miss));
                Self {
                    not_stored,
                    missed,
                    remote: whole.remote,
                    ..whole.summary
                }
            })
            .unwrap_or_default()
    }
}

/// How pcache is to be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Build {
    /// As the tests build it, which is quick.
    Test,
    /// Optimised.
    Release,
    /// Optimised, with the defects that can be switched on.
    Planted,
    /// Optimised, with frame pointers, in a directory of its own.
    Profiled,
}

/// Options of what tries one pcache in trees of its own.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Tested {
    /// The pcache to test; built from the workspace when absent.
    #[arg(long, value_name = "PATH")]
    pcache: Option<PathBuf>,
    /// Where trees and stores live while they are tested; the directory for temporary files when
    /// absent.
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
}

impl Tested {
    /// Tests `pcache`, and puts trees where temporary files live.
    pub(crate) fn new(pcache: PathBuf) -> Self {
        Self {
            pcache: Some(pcache),
            work: None,
        }
    }

    /// Puts the trees into `work`.
    pub(crate) fn at(mut self, work: PathBuf) -> Self {
        self.work = Some(work);
        self
    }

    /// Returns the pcache to test, which is built as `how` says where none is named.
    ///
    /// # Errors
    ///
    /// When it is not there or does not build.
    pub(crate) fn program(&self, how: Build) -> anyhow::Result<PathBuf> {
        match &self.pcache {
            Some(path) => path
                .canonicalize()
                .with_context(|| format!("looking for {}", path.display())),
            None => build(how),
        }
    }

    /// Makes a directory for the trees, whose name begins with `prefix`.
    ///
    /// # Errors
    ///
    /// When it cannot be made.
    pub(crate) fn scratch(&self, prefix: &str) -> anyhow::Result<tempfile::TempDir> {
        let work = self.work.clone().unwrap_or_else(std::env::temp_dir);
        std::fs::create_dir_all(&work).with_context(|| format!("making {}", work.display()))?;
        tempfile::Builder::new()
            .prefix(prefix)
            .tempdir_in(&work)
            .with_context(|| format!("making a directory in {}", work.display()))
    }
}

/// Builds pcache and returns the program's path.
///
/// # Errors
///
/// When it does not build.
pub(crate) fn build(how: Build) -> anyhow::Result<PathBuf> {
    if how == Build::Test {
        return cargo::program_of_tests("pcache");
    }
    let mut command = cargo::building("rustc");
    command.args(["--package", "process-cache", "--bin", "pcache", "--release"]);
    if how == Build::Planted {
        command.args(["--features", "planted-defects"]);
    }
    if how == Build::Profiled {
        let target = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/profiled");
        command.args(["--target-dir", target]);
        command.env("RUSTFLAGS", "-C force-frame-pointers=yes");
    }
    if how == Build::Release && has_static_libc() {
        // As `examples/demo.sh` does.
        command.args(["--", "-C", "target-feature=+crt-static"]);
        command.args(["-C", "relocation-model=static"]);
    }
    cargo::built(&mut command, "pcache")
}

/// Whether the C compiler finds a static C library: it says the bare name if
/// not.
fn has_static_libc() -> bool {
    std::process::Command::new("cc")
        .arg("-print-file-name=libc.a")
        .output()
        .is_ok_and(|output| output.stdout.contains(&b'/'))
}

/// Whether a pcache injects errors, as only one that is built for tests does.
///
/// # Errors
///
/// When it cannot be started.
pub(crate) fn injects_errors(program: &Path) -> anyhow::Result<bool> {
    let store = tempfile::tempdir()?;
    let status = Command::new(program)
        .args(["--quiet", "--", "sh", "-c", "cd / 2> /dev/null || exit 7"])
        .env("PCACHE_DIR", store.path())
        .env("PCACHE_INJECT", "chdir:EIO:1")
        .status()
        .with_context(|| format!("starting {}", program.display()))?;
    Ok(status.code() == Some(7))
}
