//! Write-behind: contents are used before they are stored.
//!
//! A downloaded result is restored from memory, and its contents are written into the store
//! afterwards, so that the command does not wait for two writes. Pending contents have been
//! verified, and count as stored for all readers. In a read-only store, contents stay pending
//! until there is no room for more.

use std::ops::{Deref, Range};
use std::sync::{Arc, Mutex, MutexGuard};

use rustc_hash::FxHashMap;

use super::{Result, Store};
use crate::model::fact::Digest;
use crate::platform::lock::lock;

/// Maximal size of pending contents (bytes); further contents are stored at once.
pub(super) const LIMIT: usize = 64 << 20;

/// Shared bytes in memory, or a part of them.
#[derive(Debug, Clone)]
pub struct Shared {
    whole: Arc<Vec<u8>>,
    part: Range<usize>,
}

impl Shared {
    /// Returns a part, which must lie within the whole.
    ///
    /// # Panics
    /// Panics if it does not.
    pub fn part(whole: Arc<Vec<u8>>, part: Range<usize>) -> Self {
        assert!(part.start <= part.end && part.end <= whole.len());
        Self { whole, part }
    }
}

impl Deref for Shared {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.whole[self.part.clone()]
    }
}

impl From<Vec<u8>> for Shared {
    fn from(bytes: Vec<u8>) -> Self {
        let part = 0..bytes.len();
        Self::part(Arc::new(bytes), part)
    }
}

/// Pending contents; `None` while write-behind is off.
#[derive(Debug, Default)]
pub(super) struct WriteBehind {
    contents: Mutex<Option<PendingContents>>,
}

#[derive(Debug, Default)]
struct PendingContents {
    bytes: FxHashMap<Digest, Shared>,
    size: usize,
    /// Digests that are not stored yet.
    left: Vec<Digest>,
}

impl WriteBehind {
    fn lock(&self) -> MutexGuard<'_, Option<PendingContents>> {
        lock(&self.contents)
    }

    pub(super) fn get(&self, digest: &Digest) -> Option<Shared> {
        self.lock().as_ref()?.bytes.get(digest).cloned()
    }

    /// Takes some bytes, or returns them if there is no room; with `making_room`, drops all others
    /// first.
    fn take(&self, digest: Digest, bytes: Shared, making_room: bool) -> Option<Shared> {
        let held = &mut *self.lock();
        if let Some(contents) = held
            && making_room
            && contents.size + bytes.len() > LIMIT
        {
            *contents = PendingContents::default();
        }
        match held {
            Some(held) if held.size + bytes.len() <= LIMIT => {
                held.size += bytes.len();
                if held.bytes.insert(digest, bytes).is_none() {
                    held.left.push(digest);
                }
                None
            }
            _ => Some(bytes),
        }
    }

    /// Returns a content that is not stored yet, and counts it as stored.
    fn next(&self) -> Option<(Digest, Shared)> {
        let mut held = self.lock();
        let contents = held.as_mut()?;
        let digest = contents.left.pop()?;
        contents.bytes.get(&digest).map(|b| (digest, b.clone()))
    }

    /// Handles a content that could not be stored.
    fn failed(&self, digest: Digest) {
        if let Some(contents) = &mut *self.lock() {
            contents.left.push(digest);
        }
    }
}

impl Store {
    /// Makes later downloads pending.
    pub fn write_behind(&self) {
        self.pending.lock().get_or_insert_default();
    }

    /// Whether downloads become pending.
    pub fn is_writing_behind(&self) -> bool {
        self.pending.lock().is_some()
    }

    /// Drops pending contents and stops write-behind, unless the store is read-only.
    pub fn drop_pending_contents(&self) {
        *self.pending.lock() = self.read_only.then(PendingContents::default);
    }

    /// Stores pending contents, which stay in memory, until an error occurs.
    ///
    /// # Errors
    /// Same as [`Store::put_bytes`].
    pub fn write_pending(&self) -> Result<()> {
        if self.read_only {
            return Ok(());
        }
        while let Some((digest, bytes)) = self.pending.next() {
            self.write_blob(&digest, &bytes)
                .inspect_err(|_| self.pending.failed(digest))?;
        }
        Ok(())
    }

    /// Returns a pending content of this length.
    pub(crate) fn pending_content(&self, digest: &Digest, length: u64) -> Option<Shared> {
        self.pending
            .get(digest)
            .filter(|bytes| bytes.len() as u64 == length)
    }

    /// Stores a content that was verified, now or later.
    pub(super) fn add_pending(&self, digest: Digest, bytes: Shared) -> Result<()> {
        match self.pending.take(digest, bytes, self.read_only) {
            None => Ok(()),
            Some(bytes) => self.write_blob(&digest, &bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;
    use crate::store::{Incoming, copy};

    fn arrive(store: &Arc<Store>, bytes: &[u8]) -> Digest {
        let digest = copy::digest(bytes);
        let mut incoming = Incoming::new(store, digest, bytes.len() as u64).unwrap();
        incoming.write_all(bytes).unwrap();
        incoming.finish().unwrap();
        digest
    }

    fn is_in_place(store: &Store, digest: &Digest) -> bool {
        let other = Store::open(store.dir()).unwrap();
        other.contains(digest)
    }

    #[test]
    fn pending_contents_are_readable_and_written_later() {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(dir.path().join("store")).unwrap());
        store.write_behind();
        let digest = arrive(&store, b"abc");
        assert!(!is_in_place(&store, &digest));
        assert!(store.contains(&digest));
        assert_eq!(store.get_bytes(&digest).unwrap(), b"abc");
        assert_eq!(&store.pending_content(&digest, 3).unwrap()[..], b"abc");
        assert!(
            store.pending_content(&digest, 4).is_none(),
            "of another length"
        );
        store.write_pending().unwrap();
        assert!(is_in_place(&store, &digest));
        store.drop_pending_contents();
        assert!(store.pending_content(&digest, 3).is_none());
        assert_eq!(store.get_bytes(&digest).unwrap(), b"abc");
    }

    #[test]
    fn an_opened_pending_content_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(dir.path().join("store")).unwrap());
        store.write_behind();
        let digest = arrive(&store, b"abc");
        let mut found = String::new();
        let mut file = store.open_blob(&digest, 3).unwrap();
        file.read_to_string(&mut found).unwrap();
        assert_eq!(found, "abc");
    }

    #[test]
    fn dropped_pending_contents_are_absent() {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(dir.path().join("store")).unwrap());
        store.write_behind();
        let digest = arrive(&store, b"abc");
        store.drop_pending_contents();
        assert!(!store.contains(&digest));
        let digest = arrive(&store, b"abc");
        assert!(is_in_place(&store, &digest), "nothing is held any more");
    }
}
