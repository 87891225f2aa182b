//! Identity and state of a file from stat(2).

use rustix::fs::Stat;

/// How long (in ns) a file must be unchanged before its digest can be trusted.
pub const SETTLE: i64 = 100_000_000;
/// The same for file systems with times in whole seconds.
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
    /// Returns the key of a file; `None` if a time does not fit in 64 bits of nanoseconds.
    pub fn of(stat: &Stat) -> Option<Self> {
        Some(Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: u64::try_from(stat.st_size).ok()?,
            modified: nanoseconds(stat.st_mtime, stat.st_mtime_nsec)?,
            changed: nanoseconds(stat.st_ctime, stat.st_ctime_nsec)?,
        })
    }

    /// Whether the file had been unchanged for long enough at `time`.
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
