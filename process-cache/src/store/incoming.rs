//! Receives a content piece by piece from an untrusted source.

use std::io::{self, Write};
use std::sync::Arc;

use super::write_behind::LIMIT;
use super::{Result, Shared, Store, StoreError, copy};
use crate::model::fact::Digest;

/// Contents up to this length are received in memory (bytes).
const WHOLE: u64 = 1 << 20;

/// A content in transfer to the store. It is stored only if its length and digest are as
/// announced.
#[derive(Debug)]
pub struct Incoming {
    store: Arc<Store>,
    digest: Digest,
    length: u64,
    hasher: Box<blake3::Hasher>,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Memory(Vec<u8>),
    File(Box<tempfile::NamedTempFile>),
}

impl Incoming {
    /// Prepares for a content of this digest and length (bytes).
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`], also for a content too long for the memory of a read-only store,
    /// and [`StoreError::Io`].
    pub fn new(store: &Arc<Store>, digest: Digest, length: u64) -> Result<Self> {
        let limit = match store.is_read_only() {
            true if store.is_writing_behind() => LIMIT as u64,
            true => return Err(StoreError::ReadOnly),
            false => WHOLE,
        };
        let place = if length <= limit {
            Place::Memory(Vec::new())
        } else {
            Place::File(Box::new(store.temporary()?))
        };
        Ok(Self {
            store: store.clone(),
            digest,
            length,
            hasher: Box::default(),
            place,
        })
    }

    /// Returns the announced length (bytes).
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Stores a content that was received in one piece.
    ///
    /// # Errors
    /// Same as [`Incoming::finish`].
    pub fn whole(mut self, bytes: Shared) -> Result<()> {
        if bytes.len() as u64 != self.length {
            return Err(StoreError::Mismatch(self.digest));
        }
        if let Place::File(_) = self.place {
            self.write_all(&bytes)
                .map_err(StoreError::io("store", self.store.dir()))?;
            return self.finish();
        }
        if copy::digest(&bytes) != self.digest {
            return Err(StoreError::Mismatch(self.digest));
        }
        self.store.add_pending(self.digest, bytes)
    }

    /// Stores the content.
    ///
    /// # Errors
    /// [`StoreError::Mismatch`] if it differs from the announcement, and [`StoreError::Io`].
    pub fn finish(self) -> Result<()> {
        let found = Digest(*self.hasher.finalize().as_bytes());
        if self.hasher.count() != self.length || found != self.digest {
            return Err(StoreError::Mismatch(self.digest));
        }
        match self.place {
            Place::Memory(bytes) => self.store.add_pending(self.digest, bytes.into()),
            Place::File(file) => self.store.publish_blob(*file, &self.digest, self.length),
        }
    }
}

impl Write for Incoming {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let after = self.hasher.count() + piece.len() as u64;
        if after > self.length {
            return Err(io::Error::other(StoreError::Mismatch(self.digest)));
        }
        match &mut self.place {
            Place::Memory(bytes) => bytes.extend_from_slice(piece),
            Place::File(file) => file.write_all(piece)?,
        }
        self.hasher.update(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::copy;

    /// Stores `bytes` under the announced digest of `announced`.
    fn arrive(announced: &[u8], bytes: &[u8]) -> Result<(), String> {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(dir.path().join("store")).unwrap());
        let digest = copy::digest(announced);
        let mut incoming = Incoming::new(&store, digest, announced.len() as u64).unwrap();
        let result = bytes
            .chunks(70_000)
            .try_for_each(|piece| incoming.write_all(piece))
            .map_err(|error| error.to_string())
            .and_then(|()| incoming.finish().map_err(|error| error.to_string()));
        let whole = Incoming::new(&store, digest, announced.len() as u64).unwrap();
        assert_eq!(whole.whole(bytes.to_vec().into()).is_ok(), result.is_ok());
        match &result {
            Ok(()) => assert_eq!(store.get_bytes(&digest).unwrap(), announced),
            Err(_) => assert!(!store.contains(&digest)),
        }
        let left = std::fs::read_dir(store.dir().join("tmp")).unwrap().count();
        assert_eq!(left, 0, "nothing is left over");
        result
    }

    #[test]
    fn a_download_must_match_its_announced_digest() {
        for length in [0, 1, 1 << 20, (1 << 20) + 1, 3 << 20] {
            let bytes: Vec<u8> = (0..length).map(|n: u32| (n % 253) as u8).collect();
            arrive(&bytes, &bytes).unwrap();
            let mut wrong = bytes.clone();
            wrong.push(7);
            assert!(arrive(&bytes, &wrong).is_err(), "longer than {length}");
            if length > 0 {
                assert!(
                    arrive(&bytes, &bytes[1..]).is_err(),
                    "shorter than {length}"
                );
                wrong.truncate(length as usize);
                wrong[length as usize / 2] ^= 1;
                assert!(arrive(&bytes, &wrong).is_err(), "other than {length}");
            }
        }
    }
}
