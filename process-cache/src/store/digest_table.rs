//! Cached digests: an unchanged file costs one stat instead of a read.
//!
//! A file is identified by device, inode, size, modification and change time. As in git's index, a
//! file that was hashed within [`SETTLE`](crate::model::file_key::SETTLE) of its last change is
//! *racily clean*. A later write within the same tick of the kernel's clock leaves all five values
//! unchanged, so such a digest is used once and not stored. The coarse clock that stamps files has
//! ticks of at most 10 ms; 100 ms leave a margin for a busy machine. On a file system with times
//! in whole seconds (both times end in nine zeros), the interval is two seconds.
//!
//! The digests of this run are in memory. The file of [`super::table_file`] has the others, and is
//! read page by page on demand.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

use rustc_hash::{FxHashMap, FxHashSet};

use super::table_file::{Reader, Record, write};
use super::{DAY, now};
use crate::model::fact::Digest;
use crate::model::file_key::FileKey;
use crate::platform::lock::lock;

/// Age at which a record's use mark is renewed (days).
const RENEW: u32 = 7;
const SHARDS: usize = 16;

/// How far a digest may be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// Depends on the clock: hashing began at this time (ns since the epoch, real-time clock). The
    /// digest of a racily clean file is not stored.
    HashedAt(i64),
    /// For this run, because the caller knows that no other process writes the file: it is traced
    /// or has just been restored. Never stored.
    ThisRun,
}

/// Digests by [`FileKey`], with a byte of flags that the caller defines.
#[derive(Debug)]
pub struct DigestTable {
    path: PathBuf,
    read_only: bool,
    reader: OnceLock<Option<Reader>>,
    fresh: [Mutex<FxHashMap<(u64, u64), Fresh>>; SHARDS],
    suspended: Mutex<FxHashSet<(u64, u64)>>,
    any_suspended: AtomicBool,
}

/// A digest that this run found or renewed.
#[derive(Debug, Clone, Copy)]
struct Fresh {
    record: Record,
    persistent: bool,
}

impl DigestTable {
    /// Creates a table for this file, which need not exist; nothing is read before the first
    /// query.
    pub fn open(path: impl Into<PathBuf>, read_only: bool) -> Self {
        Self {
            path: path.into(),
            read_only,
            reader: OnceLock::new(),
            fresh: std::array::from_fn(|_| Mutex::default()),
            suspended: Mutex::default(),
            any_suspended: AtomicBool::new(false),
        }
    }

    /// Creates a table without a file.
    pub fn in_memory() -> Self {
        Self::open("", true)
    }

    /// Returns the digest and flags of the file in this state, if known.
    pub fn get(&self, key: &FileKey) -> Option<(Digest, u8)> {
        let id = (key.device, key.inode);
        if self.is_suspended(id) {
            return None;
        }
        if let Some(fresh) = self.shard(id).get(&id)
            && fresh.record.key == *key
        {
            return Some((fresh.record.digest, fresh.record.flags));
        }
        let reader = self.reader.get_or_init(|| Reader::open(&self.path));
        let mut record = reader.as_ref()?.get(key)?;
        let today = today();
        if record.used.saturating_add(RENEW) <= today && !self.read_only {
            record.used = today;
            let fresh = Fresh {
                record,
                persistent: true,
            };
            self.shard(id).insert(id, fresh);
        }
        Some((record.digest, record.flags))
    }

    /// Stores a digest if `trust` allows; returns whether it does.
    pub fn insert(&self, key: &FileKey, digest: Digest, flags: u8, trust: Trust) -> bool {
        let id = (key.device, key.inode);
        let persistent = match trust {
            Trust::HashedAt(time) if key.settled(time) => true,
            Trust::HashedAt(_) => return false,
            Trust::ThisRun => false,
        };
        if self.is_suspended(id) {
            return false;
        }
        let record = Record {
            key: *key,
            digest,
            flags,
            used: today(),
        };
        self.shard(id).insert(id, Fresh { record, persistent });
        true
    }

    /// Until [`DigestTable::resume`], no digest of this file is returned or stored: it is mapped
    /// writable and shared, and a write to a dirty page changes neither of its times.
    pub fn suspend(&self, device: u64, inode: u64) {
        let id = (device, inode);
        self.shard(id).remove(&id);
        lock(&self.suspended).insert(id);
        self.any_suspended.store(true, Ordering::Release);
    }

    /// Ends [`DigestTable::suspend`]: later digests can be stored.
    pub fn resume(&self, device: u64, inode: u64) {
        let mut suspended = lock(&self.suspended);
        suspended.remove(&(device, inode));
        self.any_suspended
            .store(!suspended.is_empty(), Ordering::Release);
    }

    /// Merges the digests of this run into the file. Cheap if there is nothing new.
    ///
    /// # Errors
    /// An I/O error (a full disk); the table stays usable.
    pub fn flush(&self) -> std::io::Result<()> {
        if self.read_only {
            return Ok(());
        }
        let mut records = Vec::new();
        for shard in &self.fresh {
            for fresh in lock(shard).values_mut() {
                if std::mem::take(&mut fresh.persistent) {
                    records.push(fresh.record);
                }
            }
        }
        if records.is_empty() {
            return Ok(());
        }
        write(&self.path, &records)
    }

    fn is_suspended(&self, id: (u64, u64)) -> bool {
        self.any_suspended.load(Ordering::Acquire) && lock(&self.suspended).contains(&id)
    }

    fn shard(&self, id: (u64, u64)) -> MutexGuard<'_, FxHashMap<(u64, u64), Fresh>> {
        lock(&self.fresh[super::table_file::mix(id.0, id.1) as usize % SHARDS])
    }
}

fn today() -> u32 {
    u32::try_from(now() / DAY).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::file_key::SETTLE;

    const SECOND: i64 = 1_000_000_000;

    fn key(modified: i64) -> FileKey {
        FileKey {
            device: 1,
            inode: 2,
            size: 3,
            modified,
            changed: modified,
        }
    }

    fn table() -> (tempfile::TempDir, DigestTable) {
        let dir = tempfile::tempdir().unwrap();
        let table = DigestTable::open(dir.path().join("digests"), false);
        (dir, table)
    }

    #[test]
    fn a_digest_survives_the_run() {
        let (dir, table) = table();
        let (key, digest) = (key(5 * SECOND + 1), Digest([9; 32]));
        assert!(table.insert(&key, digest, 4, Trust::HashedAt(9 * SECOND)));
        table.flush().unwrap();
        let next = DigestTable::open(dir.path().join("digests"), true);
        assert_eq!(next.get(&key), Some((digest, 4)));
        assert_eq!(next.get(&FileKey { size: 4, ..key }), None);
    }

    #[test]
    fn a_file_that_was_just_written_is_not_trusted() {
        let (_dir, table) = table();
        let key = key(5 * SECOND + 1);
        for (after, trusted) in [(0, false), (SETTLE, false), (SETTLE + 1, true)] {
            let trust = Trust::HashedAt(key.modified + after);
            assert_eq!(table.insert(&key, Digest([0; 32]), 0, trust), trusted);
        }
    }

    #[test]
    fn times_of_whole_seconds_are_trusted_later() {
        let key = key(5 * SECOND);
        assert!(!key.settled(6 * SECOND));
        assert!(key.settled(8 * SECOND));
    }

    #[test]
    fn digests_trusted_for_one_run_are_not_saved() {
        let (dir, table) = table();
        let key = key(5 * SECOND);
        table.insert(&key, Digest([9; 32]), 0, Trust::ThisRun);
        assert!(table.get(&key).is_some());
        table.flush().unwrap();
        assert!(!dir.path().join("digests").exists());
    }

    #[test]
    fn runs_at_the_same_time_keep_each_others_digests() {
        let (dir, _) = table();
        let path = dir.path().join("digests");
        let file = |n: u64| FileKey {
            inode: n,
            ..key(5 * SECOND)
        };
        std::thread::scope(|scope| {
            for run in 0..8 {
                let path = &path;
                scope.spawn(move || {
                    for n in 0..50 {
                        let table = DigestTable::open(path, false);
                        let trust = Trust::HashedAt(i64::MAX);
                        table.insert(&file(run * 50 + n), Digest([1; 32]), 0, trust);
                        table.flush().unwrap();
                    }
                });
            }
        });
        let table = DigestTable::open(&path, true);
        let found = (0..400).filter(|&n| table.get(&file(n)).is_some()).count();
        assert_eq!(found, 400);
    }
}
