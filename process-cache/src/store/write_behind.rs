//! PendingContents that are used before they are stored.
//!
//! A result that arrives from elsewhere is put in place from memory, and its contents are
//! written into the store afterwards: nobody waits for them twice. What is held
//! has been verified, and counts as stored for whoever asks. Where a store is only read,
//! contents are held until there is no room for more.

use std::ops::{Deref, Range};
use std::sync::{Arc, Mutex, MutexGuard};

use rustc_hash::FxHashMap;

use super::{Result, Store};
use crate::model::fact::Digest;
use crate::platform::lock::lock;

/// As much is held, in bytes; what comes then is stored at once.
pub(super) const LIMIT: usize = 64 << 20;

/// Bytes in memory that several have, or a part of them.
#[derive(Debug, Clone)]
pub struct Shared {
    whole: Arc<Vec<u8>>,
    part: Range<usize>,
}

impl Shared {
    /// A part, which must lie within the whole.
    ///
    /// # Panics
    /// If it does not.
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

/// Contents that wait to be written; `None` while write-behind is off.
#[derive(Debug, Default)]
pub(super) struct WriteBehind {
    contents: Mutex<Option<PendingContents>>,
}

#[derive(Debug, Default)]
struct PendingContents {
    bytes: FxHashMap<Digest, Shared>,
    size: usize,
    /// Those that are not stored.
    left: Vec<Digest>,
}

impl WriteBehind {
    fn lock(&self) -> MutexGuard<'_, Option<PendingContents>> {
        lock(&self.contents)
    }

    pub(super) fn get(&self, digest: &Digest) -> Option<Shared> {
        self.lock().as_ref()?.bytes.get(digest).cloned()
    }

    /// Takes some bytes, or gives them back; with `making_room`, drops all others first
    /// where there is no room.
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

    /// One that is not stored, and is taken for stored from here on.
    fn next(&self) -> Option<(Digest, Shared)> {
        let mut held = self.lock();
        let contents = held.as_mut()?;
        let digest = contents.left.pop()?;
        contents.bytes.get(&digest).map(|b| (digest, b.clone()))
    }

    /// One was not stored after all.
    fn failed(&self, digest: Digest) {
        if let Some(contents) = &mut *self.lock() {
            contents.left.push(digest);
        }
    }
}

impl Store {
    /// From now on contents that arrive from elsewhere are held.
    pub fn write_behind(&self) {
        self.pending.lock().get_or_insert_default();
    }

    /// Whether contents that arrive are held.
    pub fn is_writing_behind(&self) -> bool {
        self.pending.lock().is_some()
    }

    /// Drops what is held, and holds nothing more, unless the store is only read.
    pub fn drop_pending_contents(&self) {
        *self.pending.lock() = self.read_only.then(PendingContents::default);
    }

    /// Stores what is held, which stays at hand, until something cannot be stored.
    ///
    /// # Errors
    /// As [`Store::put_bytes`].
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

    /// A content of this length that is held.
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
