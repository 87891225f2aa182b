//! The identity and state of a file, as stat(2) tells them.

use rustix::fs::Stat;

/// How long (in ns) a file must have been left alone before it was hashed.
pub const SETTLE: i64 = 100_000_000;
/// The same for file systems that keep whole seconds.
const SETTLE_SECONDS: i64 = 2_000_000_000;

/// Identifies one state of a file: device, inode, size and times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileKey {
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
    /// Length in bytes.
    pub size: u64,
    /// Modification time in ns since the epoch.
    pub modified: i64,
    /// Change time in ns since the epoch.
    pub changed: i64,
}

impl FileKey {
    /// The key of a file as stat tells it; `None` where a time cannot be told
    /// in 64 bits of nanoseconds.
    pub fn of(stat: &Stat) -> Option<Self> {
        Some(Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: u64::try_from(stat.st_size).ok()?,
            modified: nanoseconds(stat.st_mtime, stat.st_mtime_nsec)?,
            changed: nanoseconds(stat.st_ctime, stat.st_ctime_nsec)?,
        })
    }

    /// Whether the file had been left alone long enough at `time`.
    pub(crate) fn settled(&self, time: i64) -> bool {
        let whole_seconds = self.modified % 1_000_000_000 == 0 && self.changed % 1_000_000_000 == 0;
        let settle = if whole_seconds {
            SETTLE_SECONDS
        } else {
            SETTLE
        };
        let before = time.saturating_sub(settle);
        self.modified < before && self.changed < before
    }
}

fn nanoseconds(seconds: i64, rest: u64) -> Option<i64> {
    seconds
        .checked_mul(1_000_000_000)?
        .checked_add(i64::try_from(rest).ok()?)
}
