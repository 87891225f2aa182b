//! The content store: bytes by their digest.
//!
//! An existing blob is not written again. Its length is checked at every open, its digest at every
//! use of its bytes. A blob with a wrong digest is removed: the lookup is a miss, and the next
//! recording stores it again.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use super::{DAY, Result, Store, StoreError, copy, now, sharded};
use crate::model::fact::Digest;

/// Contents up to this length are read into memory (bytes), so that an existing blob is not
/// written just to find its digest.
const WHOLE: u64 = 1 << 20;

impl Store {
    /// Stores the first `length` bytes of `source`, whose position stays.
    ///
    /// # Errors
    /// [`StoreError::Changed`] if the file is shorter, [`StoreError::ReadOnly`],
    /// and [`StoreError::Io`] (a full disk, for example).
    pub fn put_file(&self, source: &File, length: u64) -> Result<Digest> {
        self.put_range(source, 0, length)
    }

    /// Stores `length` bytes of `source` from `offset` on, for an append.
    ///
    /// # Errors
    /// Same as [`Store::put_file`].
    pub fn put_range(&self, source: &File, offset: u64, length: u64) -> Result<Digest> {
        if self.read_only {
            return Err(StoreError::ReadOnly);
        }
        if length <= WHOLE {
            let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
            let digest = copy::hash_range(source, offset, length, |piece| {
                bytes.extend_from_slice(piece);
                Ok(())
            })
            .map_err(StoreError::io("read", &self.root))?
            .ok_or(StoreError::Changed)?;
            self.write_blob(&digest, &bytes)?;
            return Ok(digest);
        }
        let temporary = self.temporary()?;
        // A clone is a snapshot: hashing it cannot race with the file's writers.
        let whole = offset == 0 && source.metadata().is_ok_and(|meta| meta.len() == length);
        let cloned = whole && rustix::fs::ioctl_ficlone(temporary.as_file(), source).is_ok();
        let digest = if cloned {
            copy::hash_range(temporary.as_file(), 0, length, |_| Ok(()))
        } else {
            let mut file = copy::Sparse::new(temporary.as_file());
            copy::hash_range(source, offset, length, |piece| file.write(piece))
                .and_then(|digest| file.finish().map(|()| digest))
        }
        .map_err(StoreError::io("store", &self.root))?
        .ok_or(StoreError::Changed)?;
        if self.blob_length(&digest) != Some(length) {
            self.publish_blob(temporary, &digest, length)?;
        }
        Ok(digest)
    }

    /// Stores some bytes.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`] and [`StoreError::Io`].
    pub fn put_bytes(&self, bytes: &[u8]) -> Result<Digest> {
        if self.read_only {
            return Err(StoreError::ReadOnly);
        }
        let digest = copy::digest(bytes);
        self.write_blob(&digest, bytes)?;
        Ok(digest)
    }

    /// Returns the verified bytes of a blob.
    ///
    /// # Errors
    /// [`StoreError::Missing`], [`StoreError::Damaged`], [`StoreError::Io`].
    pub fn get_bytes(&self, digest: &Digest) -> Result<Vec<u8>> {
        if let Some(bytes) = self.pending.get(digest) {
            return Ok(bytes.to_vec());
        }
        let mut file = self.open_unchecked(digest)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)
            .map_err(StoreError::io("read", &self.blob_path(digest)))?;
        if copy::digest(&bytes) == *digest {
            Ok(bytes)
        } else {
            Err(self.discard(digest))
        }
    }

    /// Opens a blob whose length must be `length`. The bytes are not verified: the reader compares
    /// their digest and calls [`Store::discard`] if it differs.
    ///
    /// # Errors
    /// [`StoreError::Missing`], [`StoreError::Damaged`] for another length,
    /// [`StoreError::Io`].
    pub fn open_blob(&self, digest: &Digest, length: u64) -> Result<File> {
        let file = self.open_unchecked(digest)?;
        let found = file
            .metadata()
            .map_err(StoreError::io("read", &self.blob_path(digest)))?;
        if found.len() == length {
            Ok(file)
        } else {
            Err(self.discard(digest))
        }
    }

    /// Whether the blob exists; its bytes are not checked.
    pub fn contains(&self, digest: &Digest) -> bool {
        self.blob_length(digest).is_some()
    }

    /// Removes a blob with a wrong digest, and returns the corresponding error.
    pub fn discard(&self, digest: &Digest) -> StoreError {
        if !self.read_only {
            let _ = fs::remove_file(self.blob_path(digest));
        }
        StoreError::Damaged(*digest)
    }

    /// Returns the blob's length if it exists, and marks it as used.
    pub(crate) fn blob_length(&self, digest: &Digest) -> Option<u64> {
        match self.pending.get(digest) {
            Some(bytes) => Some(bytes.len() as u64),
            None => self.length_in_place(digest),
        }
    }

    /// Same as [`Store::blob_length`], only for blobs on disk.
    fn length_in_place(&self, digest: &Digest) -> Option<u64> {
        let path = self.blob_path(digest);
        let metadata = fs::metadata(&path).ok()?;
        let age = now().saturating_sub(u64::try_from(metadata.mtime()).unwrap_or_default());
        if age > DAY && !self.read_only {
            super::maintenance::mark_used(&path);
        }
        Some(metadata.len())
    }

    fn blob_path(&self, digest: &Digest) -> PathBuf {
        sharded(&self.root.join("blobs"), digest)
    }

    fn open_unchecked(&self, digest: &Digest) -> Result<File> {
        if let Some(bytes) = self.pending.get(digest) {
            self.write_blob(digest, &bytes)?;
        }
        let path = self.blob_path(digest);
        File::open(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => StoreError::Missing(*digest),
            _ => StoreError::io("open", &path)(error),
        })
    }

    pub(super) fn write_blob(&self, digest: &Digest, bytes: &[u8]) -> Result<()> {
        if self.length_in_place(digest) == Some(bytes.len() as u64) {
            return Ok(());
        }
        let mut temporary = self.temporary()?;
        temporary
            .write_all(bytes)
            .map_err(StoreError::io("store", temporary.path()))?;
        self.publish_blob(temporary, digest, bytes.len() as u64)
    }

    pub(super) fn publish_blob(
        &self,
        temporary: tempfile::NamedTempFile,
        digest: &Digest,
        length: u64,
    ) -> Result<()> {
        let readable = fs::Permissions::from_mode(self.mode & 0o444);
        temporary
            .as_file()
            .set_permissions(readable)
            .map_err(StoreError::io("store", temporary.path()))?;
        self.written.fetch_add(length, Ordering::Relaxed);
        self.publish(temporary.into_temp_path(), &self.blob_path(digest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    fn store() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("store")).unwrap();
        (dir, store)
    }

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn a_stored_blob_reads_back() {
        let (_dir, store) = store();
        for length in [0, 1, 4096, (1 << 20) + 1, 3 << 20] {
            let bytes: Vec<u8> = (0..length).map(|n: u32| (n % 251) as u8).collect();
            let digest = store.put_file(&file(&bytes), u64::from(length)).unwrap();
            assert_eq!(digest, copy::digest(&bytes));
            assert_eq!(store.get_bytes(&digest).unwrap(), bytes);
        }
    }

    #[test]
    fn a_range_is_stored_alone() {
        let (_dir, store) = store();
        let digest = store.put_range(&file(b"old new"), 4, 3).unwrap();
        assert_eq!(store.get_bytes(&digest).unwrap(), b"new");
    }

    #[test]
    fn a_file_that_shrank_is_not_stored() {
        let (_dir, store) = store();
        for length in [4, (1 << 20) + 4] {
            assert!(matches!(
                store.put_file(&file(b"abc"), length),
                Err(StoreError::Changed)
            ));
        }
    }

    #[test]
    fn a_present_blob_is_not_written_again() {
        let (_dir, store) = store();
        let digest = store.put_bytes(b"abc").unwrap();
        let inode = |digest| fs::metadata(store.blob_path(digest)).unwrap().ino();
        let before = inode(&digest);
        store.put_file(&file(b"abc"), 3).unwrap();
        assert_eq!(inode(&digest), before);
    }

    #[test]
    fn a_damaged_blob_is_removed_and_can_be_stored_again() {
        let (_dir, store) = store();
        let digest = store.put_bytes(b"abc").unwrap();
        let path = store.blob_path(&digest);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .write_all_at(b"x", 1)
            .unwrap();
        assert!(matches!(
            store.get_bytes(&digest),
            Err(StoreError::Damaged(_))
        ));
        assert!(matches!(
            store.get_bytes(&digest),
            Err(StoreError::Missing(_))
        ));
        store.put_bytes(b"abc").unwrap();
        assert_eq!(store.get_bytes(&digest).unwrap(), b"abc");
    }

    #[test]
    fn a_blob_of_another_length_is_damaged() {
        let (_dir, store) = store();
        let digest = store.put_bytes(b"abc").unwrap();
        assert!(store.open_blob(&digest, 3).is_ok());
        assert!(matches!(
            store.open_blob(&digest, 4),
            Err(StoreError::Damaged(_))
        ));
    }

    #[test]
    fn an_empty_shell_of_a_blob_is_replaced() {
        let (_dir, store) = store();
        let digest = copy::digest(b"abc");
        let path = store.blob_path(&digest);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
        store.put_bytes(b"abc").unwrap();
        assert_eq!(store.get_bytes(&digest).unwrap(), b"abc");
    }
}
