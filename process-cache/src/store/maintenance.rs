//! Keeps a store within its limits, and counts its contents.
//!
//! Contents and trees are evicted one by one, least recently used first. A tree without a content
//! is a miss at the next lookup, and is recorded again. Use marks are modification times. A hit
//! renews them at most once a day, so a hit in a frequently used store writes nothing.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW};

use super::error::{Result, StoreError};
use super::{Store, now};
use crate::model::limits::Limits;

/// Interval between searches for old files, in seconds.
const WEEK: u64 = 7 * 24 * 60 * 60;

/// Age at which an unwritten file in `tmp/` counts as left by a killed process (seconds).
const ABANDONED: u64 = 60 * 60;

/// The size of a store's contents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Weak keys with at least one result.
    pub entries: u64,
    /// Contents.
    pub blobs: u64,
    /// Bytes of both.
    pub bytes: u64,
}

/// The result of a garbage collection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GcReport {
    /// The removed contents.
    pub removed: Stats,
    /// The remaining contents.
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
    /// Counts the contents; reads every directory of the store.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn stats(&self) -> Result<Stats> {
        let mut stats = Stats::default();
        self.items()?.iter().for_each(|item| stats.add(item));
        Ok(stats)
    }

    /// Removes files unused for `max_age`, and then the least recently used ones until at most
    /// `max_bytes` remain.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`], [`StoreError::Io`].
    pub fn gc(&self, limits: Limits) -> Result<GcReport> {
        let lock = self.lock("gc")?;
        self.remove_abandoned();
        let report = self.sort_out(limits, &mut |item| fs::remove_file(&item.path).is_ok())?;
        self.write_usage(report.kept.bytes)?;
        // Its time tells when this was last done.
        let _ = lock.set_modified(std::time::SystemTime::now());
        Ok(report)
    }

    /// Returns the result of [`Store::gc`] without removing anything.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn gc_preview(&self, limits: Limits) -> Result<GcReport> {
        self.sort_out(limits, &mut |_| true)
    }

    fn sort_out(&self, limits: Limits, remove: &mut dyn FnMut(&Item) -> bool) -> Result<GcReport> {
        let mut items = self.items()?;
        items.sort_by_key(|item| std::cmp::Reverse(item.used));
        let oldest = limits
            .max_age
            .map_or(0, |age| now().saturating_sub(age.as_secs()));
        let mut report = GcReport::default();
        let mut full = false;
        for item in &items {
            full |= report.kept.bytes + item.bytes > limits.max_bytes;
            if !full && item.used >= oldest {
                report.kept.add(item);
            } else if remove(item) {
                report.removed.add(item);
            }
        }
        Ok(report)
    }

    /// Returns, at the end of a run, whether it is time to [tidy up](Store::tidy). This costs
    /// nothing if this process stored nothing, and otherwise one small file.
    ///
    /// # Errors
    /// Same as [`Store::gc`].
    pub fn account(&self, limits: Limits) -> Result<bool> {
        let written = self.written.swap(0, Ordering::Relaxed);
        if written == 0 || self.read_only {
            return Ok(false);
        }
        let Some(_lock) = self.try_lock("usage")? else {
            // Another process is counting; these bytes are counted next time.
            self.written.fetch_add(written, Ordering::Relaxed);
            return Ok(false);
        };
        let known = fs::read_to_string(self.usage_path())
            .ok()
            .and_then(|text| text.trim().parse::<u64>().ok());
        let total = match known {
            Some(bytes) => bytes.saturating_add(written),
            None => self.stats()?.bytes,
        };
        self.write_usage(total)?;
        if total > limits.max_bytes {
            return Ok(true);
        }
        let path = self.root.join("locks").join("gc");
        match fs::metadata(&path) {
            Ok(last) => {
                let last = u64::try_from(last.mtime()).unwrap_or_default();
                Ok(limits.max_age.is_some() && now().saturating_sub(last) > WEEK)
            }
            // A new store: the first search is a week from now.
            Err(_) => self.lock_file("gc").map(|_| false),
        }
    }

    /// Collects below the limits, so that the next run need not collect.
    ///
    /// # Errors
    /// Same as [`Store::gc`].
    pub fn tidy(&self, limits: Limits) -> Result<GcReport> {
        self.gc(Limits {
            max_bytes: limits.max_bytes / 10 * 9,
            ..limits
        })
    }

    /// Removes all results, contents, digests and images.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`], [`StoreError::Io`].
    pub fn clear(&self) -> Result<()> {
        let _lock = self.lock("gc")?;
        self.remove_everything()
    }

    /// Empties the store in `dir`, of any format, so that this version can use it.
    ///
    /// # Errors
    /// [`StoreError::Io`]; a directory that is no store is not changed.
    pub fn clear_any(dir: &Path) -> Result<()> {
        match Self::open(dir) {
            Ok(store) => store.clear(),
            Err(StoreError::UnknownFormat { .. }) => {
                let store = Self::at(dir.to_owned(), false);
                store.remove_everything()?;
                let path = dir.join("format");
                fs::remove_file(&path).map_err(StoreError::io("remove", &path))?;
                Self::open(dir).map(drop)
            }
            Err(error) => Err(error),
        }
    }

    fn remove_everything(&self) -> Result<()> {
        for name in [
            "units",
            "blobs",
            "digests",
            "usage",
            super::journal::JOURNAL,
            super::IMAGES,
            super::path_free::ROOTS,
        ] {
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

    /// Overwrites the file: creating one can cost more than all other work at the end of a run. An
    /// unreadable file is counted anew.
    fn write_usage(&self, bytes: u64) -> Result<()> {
        let path = self.usage_path();
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(self.mode & 0o666 | 0o600)
            .open(&path)
            .inspect(|file| self.share(file))
            .and_then(|file| file.write_all_at(format!("{bytes:20}\n").as_bytes(), 0))
            .map_err(StoreError::io("write", &path))
    }

    fn items(&self) -> Result<Vec<Item>> {
        let mut items = Vec::new();
        for (name, entry) in [("blobs", false), ("units", true)] {
            for shard in read_dir(&self.root.join(name))? {
                for file in read_dir(&shard.path())? {
                    // Another process removed it meanwhile.
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

/// Marks a file as used now; failures of users without permission are ignored.
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

/// Removes a directory tree in which other processes may still create files.
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

/// Returns the entries of a directory; none if it does not exist.
pub(super) fn read_dir(path: &Path) -> Result<Vec<fs::DirEntry>> {
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
    use std::time::Duration;

    use super::*;

    fn store() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        (dir, store)
    }

    fn set_age(store: &Store, digest: &crate::model::fact::Digest, seconds: u64) {
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
        let report = store
            .gc(Limits {
                max_bytes: 150,
                max_age: None,
            })
            .unwrap();
        assert_eq!((report.removed.blobs, report.kept.bytes), (1, 100));
        assert!(!store.contains(&old) && store.contains(&new));
    }

    #[test]
    fn blobs_above_the_maximum_age_are_removed_within_the_size_limit() {
        let (_dir, store) = store();
        let old = store.put_bytes(b"old").unwrap();
        let new = store.put_bytes(b"new").unwrap();
        set_age(&store, &old, 1000);
        store
            .gc(Limits {
                max_bytes: u64::MAX,
                max_age: Some(Duration::from_secs(100)),
            })
            .unwrap();
        assert!(!store.contains(&old) && store.contains(&new));
    }

    #[test]
    fn use_renews_a_stale_mark() {
        let (_dir, store) = store();
        let digest = store.put_bytes(b"x").unwrap();
        set_age(&store, &digest, 3 * super::super::DAY);
        assert!(store.contains(&digest));
        store
            .gc(Limits {
                max_bytes: u64::MAX,
                max_age: Some(Duration::from_secs(100)),
            })
            .unwrap();
        assert!(store.contains(&digest));
    }

    #[test]
    fn a_run_that_outgrows_the_bound_collects() {
        let (_dir, store) = store();
        let limits = Limits {
            max_bytes: 100,
            max_age: None,
        };
        assert!(!store.account(limits).unwrap());
        store.put_bytes(&[1; 80]).unwrap();
        assert!(!store.account(limits).unwrap());
        store.put_bytes(&[2; 80]).unwrap();
        assert!(store.account(limits).unwrap());
        assert_eq!(store.gc_preview(limits).unwrap().kept.bytes, 80);
        assert_eq!(store.stats().unwrap().blobs, 2);
        assert_eq!(store.tidy(limits).unwrap().kept.bytes, 80);
        assert_eq!(store.stats().unwrap().blobs, 1);
    }

    #[test]
    fn old_blobs_are_searched_once_a_week() {
        let (_dir, store) = store();
        let limits = Limits::default();
        store.put_bytes(b"x").unwrap();
        assert!(!store.account(limits).unwrap());
        let lock = fs::File::open(store.root.join("locks/gc")).unwrap();
        let long_ago = std::time::SystemTime::now() - Duration::from_secs(2 * WEEK);
        lock.set_modified(long_ago).unwrap();
        // A process that stored nothing need not tidy up.
        assert!(!store.account(limits).unwrap());
        store.put_bytes(b"y").unwrap();
        assert!(store.account(limits).unwrap());
        store.tidy(limits).unwrap();
        store.put_bytes(b"z").unwrap();
        assert!(!store.account(limits).unwrap());
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
