//! Lists of contents that do not mention certain directories: one list for each set of
//! directories.
//!
//! A list is a header and digests, appended in one write. Truncated or damaged entries match no
//! content's digest.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use super::{Result, Store, StoreError};
use crate::model::fact::Digest;

/// The directory of the lists.
pub(super) const ROOTS: &str = "roots";
pub(super) const HEADER: &[u8; 8] = b"pcroots1";
/// A longer list is started again (bytes).
const LONGEST: u64 = 8 << 20;

impl Store {
    /// Returns contents known not to mention the directories with this name.
    pub fn clean_contents(&self, name: &Digest) -> Vec<Digest> {
        let bytes = fs::read(self.contains_paths(name)).unwrap_or_default();
        let digests = bytes.strip_prefix(HEADER).unwrap_or_default();
        let (digests, _) = digests.as_chunks::<32>();
        digests.iter().copied().map(Digest).collect()
    }

    /// Adds contents to such a list.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`], [`StoreError::Io`].
    pub fn add_clean_contents(&self, name: &Digest, contents: &[Digest]) -> Result<()> {
        if contents.is_empty() {
            return Ok(());
        }
        if self.read_only {
            return Err(StoreError::ReadOnly);
        }
        let _lock = self.lock(ROOTS)?;
        let path = self.contains_paths(name);
        let there = fs::metadata(&path).map_or(0, |file| file.len());
        let is_list = there >= HEADER.len() as u64 && there <= LONGEST;
        let mut bytes = Vec::new();
        if !is_list {
            bytes.extend_from_slice(HEADER);
        }
        for digest in contents {
            bytes.extend_from_slice(&digest.0);
        }
        let written = if is_list {
            // After the last complete entry.
            let whole = there - (there - HEADER.len() as u64) % 32;
            let file = fs::File::options().write(true).open(&path);
            file.and_then(|file| std::os::unix::fs::FileExt::write_all_at(&file, &bytes, whole))
                .map_err(StoreError::io("write", &path))
        } else {
            let mut file = self.temporary()?;
            file.write_all(&bytes)
                .map_err(StoreError::io("write", &path))?;
            self.publish(file.into_temp_path(), &path)
        };
        self.written
            .fetch_add(bytes.len() as u64, std::sync::atomic::Ordering::Relaxed);
        written
    }

    fn contains_paths(&self, name: &Digest) -> PathBuf {
        self.root.join(ROOTS).join(name.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_additions_are_read_and_truncated_ones_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let (name, other) = (Digest([1; 32]), Digest([2; 32]));
        let digest = |n: u8| Digest([n; 32]);
        assert_eq!(store.clean_contents(&name), []);
        store.add_clean_contents(&name, &[digest(7)]).unwrap();
        store
            .add_clean_contents(&name, &[digest(8), digest(9)])
            .unwrap();
        assert_eq!(store.clean_contents(&name), [7, 8, 9].map(digest));
        assert_eq!(store.clean_contents(&other), []);
        let path = store.contains_paths(&name);
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - 5]).unwrap();
        assert_eq!(store.clean_contents(&name), [7, 8].map(digest));
        store.add_clean_contents(&name, &[digest(3)]).unwrap();
        assert_eq!(store.clean_contents(&name), [7, 8, 3].map(digest));
        fs::write(&path, "nonsense").unwrap();
        assert_eq!(store.clean_contents(&name), []);
        store.clear().unwrap();
        assert!(!path.exists());
    }
}
