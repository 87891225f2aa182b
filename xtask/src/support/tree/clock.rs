//! Times of files, and what it takes to tell two of them apart.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use rustix::fs::{AtFlags, CWD, Timestamps};
use rustix::time::Timespec;

/// Nanoseconds since the epoch.
pub(crate) type Nanos = i128;

/// The clock that stamps files, read by writing one.
///
/// The kernel stamps files from a clock that moves once per timer tick, late
/// when the machine is busy, so the system's clock says little about it.
#[derive(Debug)]
pub(crate) struct FileClock {
    probe: PathBuf,
}

/// A point between two chapters of a story.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Boundary {
    /// No earlier write has a later time.
    pub(crate) before: Nanos,
    /// Later than `before`; no later write has an earlier time.
    pub(crate) after: Nanos,
}

impl FileClock {
    /// A clock for the file system that holds `probe`.
    pub(crate) fn new(probe: PathBuf) -> Self {
        Self { probe }
    }

    /// Waits until files written from now on get later modification times than
    /// those written before, which is what a build tool looks at.
    ///
    /// This is the one place that waits for time to pass, because the passing
    /// of time is what it makes sure of.
    ///
    /// # Errors
    ///
    /// When the probe cannot be written.
    pub(crate) fn advance(&self) -> anyhow::Result<Boundary> {
        let before = self.read()?;
        loop {
            let after = self.read()?;
            if after > before {
                return Ok(Boundary { before, after });
            }
            std::thread::sleep(Duration::from_micros(300));
        }
    }

    fn read(&self) -> anyhow::Result<Nanos> {
        fs::write(&self.probe, "x").context("writing the clock's file")?;
        let metadata = fs::metadata(&self.probe).context("reading the clock's file")?;
        Ok(modified(&metadata))
    }
}

/// A file's modification time.
pub(crate) fn modified(metadata: &fs::Metadata) -> Nanos {
    Nanos::from(metadata.mtime()) * 1_000_000_000 + Nanos::from(metadata.mtime_nsec())
}

/// Sets the modification time of `path`, of a symbolic link itself.
///
/// # Errors
///
/// When the path is missing or may not be changed.
pub(crate) fn set_modified(path: &Path, time: Nanos) -> anyhow::Result<()> {
    let time = Timespec {
        tv_sec: i64::try_from(time.div_euclid(1_000_000_000)).context("a time within range")?,
        tv_nsec: i64::try_from(time.rem_euclid(1_000_000_000)).context("a time within range")?,
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)
        .with_context(|| format!("setting the time of {}", path.display()))
}
