//! Keeping a store within bounds, and counting what it holds.
//!
//! Contents and trees are evicted one by one, least recently used first; a tree
//! that loses a content is a miss when it is next asked for, and is recorded
//! anew. The marks of use are modification times, renewed by a hit at most once
//! a day, so a hit in a well-used store writes nothing.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW};

use super::error::{Result, StoreError};
use super::{Store, now};

/// How much a store holds unless the user says otherwise: 10 GiB.
pub const DEFAULT_MAX_BYTES: u64 = 10 << 30;

/// A file in `tmp/` that nobody has written for this long (in seconds) was left
/// by a process that was killed.
const ABANDONED: u64 = 60 * 60;

/// What a store holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Weak keys with at least one result.
    pub entries: u64,
    /// Contents.
    pub blobs: u64,
    /// Bytes of both.
    pub bytes: u64,
}

/// What a collection removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GcReport {
    /// What was removed.
    pub removed: Stats,
    /// What is left.
    pub kept: Stats,
}

/// One file below `blobs/` or `units/`.
struct Item {
    used: u64,
    bytes: u64,
    entry: bool,
    path: PathBuf,
}

impl Stats {
    fn add(&mut self, item: &Item) {
        *(if item.entry {
            &mut self.entries
        } else {
            &mut self.blobs
        }) += 1;
        self.bytes += item.bytes;
    }
}

impl Store {
    /// Counts what is there; reads every directory of the store.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn stats(&self) -> Result<Stats> {
        let mut stats = Stats::default();
        self.items()?.iter().for_each(|item| stats.add(item));
        Ok(stats)
    }

    /// Removes what has not been used for `max_age`, and then what has not been
    /// used for longest until at most `max_bytes` are left.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`], [`StoreError::Io`].
    pub fn gc(&self, max_bytes: u64, max_age: Option<Duration>) -> Result<GcReport> {
        let _lock = self.lock("gc")?;
        self.remove_abandoned();
        let mut items = self.items()?;
        items.sort_by_key(|item| std::cmp::Reverse(item.used));
        let oldest = max_age.map_or(0, |age| now().saturating_sub(age.as_secs()));
        let mut report = GcReport::default();
        let mut full = false;
        for item in &items {
            full |= report.kept.bytes + item.bytes > max_bytes;
            if !full && item.used >= oldest {
                report.kept.add(item);
            } else if fs::remove_file(&item.path).is_ok() {
                report.removed.add(item);
            }
        }
        self.write_usage(report.kept.bytes)?;
        Ok(report)
    }

    /// Called at the end of a run: collects if the store has outgrown
    /// `max_bytes`. Costs nothing if this process stored nothing, and otherwise
    /// one small file, except when there is something to collect.
    ///
    /// # Errors
    /// As [`Store::gc`].
    pub fn maintain(&self, max_bytes: u64) -> Result<Option<GcReport>> {
        let written = self.written.swap(0, Ordering::Relaxed);
        if written == 0 || self.read_only {
            return Ok(None);
        }
        {
            let Some(_lock) = self.try_lock("usage")? else {
                // Another process is counting; ours go with the next ones.
                self.written.fetch_add(written, Ordering::Relaxed);
                return Ok(None);
            };
            let known = fs::read_to_string(self.usage_path())
                .ok()
                .and_then(|text| text.trim().parse::<u64>().ok());
            let total = match known {
                Some(bytes) => bytes.saturating_add(written),
                None => self.stats()?.bytes,
            };
            self.write_usage(total)?;
            if total <= max_bytes {
                return Ok(None);
            }
        }
        // Some room, so that the next run need not collect again.
        self.gc(max_bytes / 10 * 9, None).map(Some)
    }

    /// Removes all results, contents, digests and images.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`], [`StoreError::Io`].
    pub fn clear(&self) -> Result<()> {
        let _lock = self.lock("gc")?;
        for name in ["units", "blobs", "digests", "usage", super::IMAGES] {
            let path = self.root.join(name);
            let removed = match fs::remove_file(&path) {
                Err(error) if error.kind() == io::ErrorKind::IsADirectory => remove_tree(&path),
                result => result,
            };
            match removed {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(StoreError::io("remove", &path)(error));
                }
                _ => {}
            }
        }
        self.remove_abandoned();
        Ok(())
    }

    fn usage_path(&self) -> PathBuf {
        self.root.join("usage")
    }

    /// In place: making a file can cost more than all else at the end of a run,
    /// and what cannot be read is counted anew.
    fn write_usage(&self, bytes: u64) -> Result<()> {
        let path = self.usage_path();
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(self.mode & 0o666 | 0o600)
            .open(&path)
            .and_then(|file| file.write_all_at(format!("{bytes:20}\n").as_bytes(), 0))
            .map_err(StoreError::io("write", &path))
    }

    fn items(&self) -> Result<Vec<Item>> {
        let mut items = Vec::new();
        for (name, entry) in [("blobs", false), ("units", true)] {
            for shard in read_dir(&self.root.join(name))? {
                for file in read_dir(&shard.path())? {
                    // Removed meanwhile by another process: not there.
                    let Ok(metadata) = file.metadata() else {
                        continue;
                    };
                    if metadata.is_file() {
                        items.push(Item {
                            used: u64::try_from(metadata.mtime()).unwrap_or_default(),
                            bytes: metadata.len(),
                            entry,
                            path: file.path(),
                        });
                    }
                }
            }
        }
        Ok(items)
    }

    fn remove_abandoned(&self) {
        for file in read_dir(&self.root.join("tmp")).unwrap_or_default() {
            let old = file.metadata().is_ok_and(|metadata| {
                let written = u64::try_from(metadata.mtime()).unwrap_or_default();
                now().saturating_sub(written) > ABANDONED
            });
            if old {
                let _ = fs::remove_file(file.path());
            }
        }
    }
}

/// Marks a file as used now; whoever may not is not the one to decide.
pub(super) fn mark_used(path: &Path) {
    let present = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_NOW,
    };
    let times = Timestamps {
        last_access: present,
        last_modification: present,
    };
    let _ = rustix::fs::utimensat(CWD, path, &times, AtFlags::empty());
}

/// Removes a directory tree into which other processes may still be writing.
fn remove_tree(path: &Path) -> io::Result<()> {
    let mut result = Ok(());
    for _ in 0..8 {
        result = fs::remove_dir_all(path);
        match &result {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            _ => break,
        }
    }
    result
}

/// The entries of a directory; none if it is not there.
fn read_dir(path: &Path) -> Result<Vec<fs::DirEntry>> {
    match fs::read_dir(path) {
        Ok(entries) => Ok(entries.filter_map(|entry| entry.ok()).collect()),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(Vec::new())
        }
        Err(error) => Err(StoreError::io("read", path)(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        (dir, store)
    }

    fn set_age(store: &Store, digest: &crate::fact::Digest, seconds: u64) {
        let path = super::super::sharded(&store.root.join("blobs"), digest);
        let time = std::time::SystemTime::now() - Duration::from_secs(seconds);
        let file = fs::File::open(path).unwrap();
        file.set_modified(time).unwrap();
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let (_dir, store) = store();
        let old = store.put_bytes(&[1; 100]).unwrap();
        let new = store.put_bytes(&[2; 100]).unwrap();
        set_age(&store, &old, 1000);
        let report = store.gc(150, None).unwrap();
        assert_eq!((report.removed.blobs, report.kept.bytes), (1, 100));
        assert!(!store.contains(&old) && store.contains(&new));
    }

    #[test]
    fn what_is_too_old_goes_even_where_there_is_room() {
        let (_dir, store) = store();
        let old = store.put_bytes(b"old").unwrap();
        let new = store.put_bytes(b"new").unwrap();
        set_age(&store, &old, 1000);
        store.gc(u64::MAX, Some(Duration::from_secs(100))).unwrap();
        assert!(!store.contains(&old) && store.contains(&new));
    }

    #[test]
    fn use_renews_a_stale_mark() {
        let (_dir, store) = store();
        let digest = store.put_bytes(b"x").unwrap();
        set_age(&store, &digest, 3 * super::super::DAY);
        assert!(store.contains(&digest));
        store.gc(u64::MAX, Some(Duration::from_secs(100))).unwrap();
        assert!(store.contains(&digest));
    }

    #[test]
    fn a_run_that_outgrows_the_bound_collects() {
        let (_dir, store) = store();
        assert_eq!(store.maintain(100).unwrap(), None);
        store.put_bytes(&[1; 80]).unwrap();
        assert_eq!(store.maintain(100).unwrap(), None);
        store.put_bytes(&[2; 80]).unwrap();
        let report = store.maintain(100).unwrap().unwrap();
        assert_eq!(report.kept.bytes, 80);
    }

    #[test]
    fn clearing_leaves_a_usable_store() {
        let (_dir, store) = store();
        let digest = store.put_bytes(b"x").unwrap();
        fs::create_dir(store.images()).unwrap();
        fs::write(store.images().join("libc.so.6-1"), "x").unwrap();
        store.clear().unwrap();
        assert!(!store.images().exists());
        assert_eq!(store.stats().unwrap(), Stats::default());
        assert!(!store.contains(&digest));
        store.put_bytes(b"x").unwrap();
        assert_eq!(store.stats().unwrap().blobs, 1);
    }
}
