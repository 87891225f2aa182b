//! Contents that are used before they are stored.
//!
//! A result that arrives from elsewhere is put in place from memory, while its contents
//! are written into the store beside that: nobody waits for them twice. What is held
//! has been verified, and counts as stored for whoever asks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use super::{Result, Store};
use crate::fact::Digest;

/// As much is held, in bytes; what comes then is stored at once.
const LIMIT: usize = 64 << 20;

/// What is held; nothing as long as nobody wants that.
#[derive(Debug, Default)]
pub(super) struct Held(Mutex<Option<Contents>>);

#[derive(Debug, Default)]
struct Contents {
    bytes: FxHashMap<Digest, Arc<Vec<u8>>>,
    size: usize,
}

impl Held {
    fn lock(&self) -> MutexGuard<'_, Option<Contents>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, digest: &Digest) -> Option<Arc<Vec<u8>>> {
        self.lock().as_ref()?.bytes.get(digest).cloned()
    }

    /// Takes some bytes, or gives them back.
    fn take(&self, digest: Digest, bytes: Vec<u8>) -> Option<Vec<u8>> {
        match &mut *self.lock() {
            Some(held) if held.size + bytes.len() <= LIMIT => {
                held.size += bytes.len();
                held.bytes.insert(digest, Arc::new(bytes));
                None
            }
            _ => Some(bytes),
        }
    }
}

impl Store {
    /// From now on contents that arrive from elsewhere are held.
    pub fn hold(&self) {
        self.held.lock().get_or_insert_default();
    }

    /// Whether contents that arrive are held.
    pub fn is_holding(&self) -> bool {
        self.held.lock().is_some()
    }

    /// Drops what is held, and holds nothing more.
    pub fn let_go(&self) {
        *self.held.lock() = None;
    }

    /// Stores what is held, which stays at hand.
    ///
    /// # Errors
    /// As [`Store::put_bytes`].
    pub fn settle(&self) -> Result<()> {
        let held: Vec<(Digest, Arc<Vec<u8>>)> = match &*self.held.lock() {
            Some(held) => held.bytes.iter().map(|(d, b)| (*d, b.clone())).collect(),
            None => return Ok(()),
        };
        held.iter()
            .try_for_each(|(digest, bytes)| self.write_blob(digest, bytes))
    }

    /// A content of this length that is held.
    pub(crate) fn held(&self, digest: &Digest, length: u64) -> Option<Arc<Vec<u8>>> {
        self.held
            .get(digest)
            .filter(|bytes| bytes.len() as u64 == length)
    }

    /// Stores a content that was verified, now or later.
    pub(super) fn take_in(&self, digest: Digest, bytes: Vec<u8>) -> Result<()> {
        match self.held.take(digest, bytes) {
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
    fn what_is_held_is_stored_when_it_settles_and_there_before() {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(dir.path().join("store")).unwrap());
        store.hold();
        let digest = arrive(&store, b"abc");
        assert!(!is_in_place(&store, &digest));
        assert!(store.contains(&digest));
        assert_eq!(store.get_bytes(&digest).unwrap(), b"abc");
        assert_eq!(&store.held(&digest, 3).unwrap()[..], b"abc");
        assert!(store.held(&digest, 4).is_none(), "of another length");
        store.settle().unwrap();
        assert!(is_in_place(&store, &digest));
        store.let_go();
        assert!(store.held(&digest, 3).is_none());
        assert_eq!(store.get_bytes(&digest).unwrap(), b"abc");
    }

    #[test]
    fn what_is_opened_is_stored() {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(dir.path().join("store")).unwrap());
        store.hold();
        let digest = arrive(&store, b"abc");
        let mut found = String::new();
        let mut file = store.open_blob(&digest, 3).unwrap();
        file.read_to_string(&mut found).unwrap();
        assert_eq!(found, "abc");
    }

    #[test]
    fn what_is_let_go_was_never_there() {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(dir.path().join("store")).unwrap());
        store.hold();
        let digest = arrive(&store, b"abc");
        store.let_go();
        assert!(!store.contains(&digest));
        let digest = arrive(&store, b"abc");
        assert!(is_in_place(&store, &digest), "nothing is held any more");
    }
}
