//! Paths that can be serialised with any bytes.
//!
//! A Unix path is bytes, not text. Facts and outcomes contain thousands of paths and are cloned on
//! their way to the store, so a [`FilePath`] is shared and immutable. Paths are the keys of most
//! maps of a run, so each contains its hash: a lookup of a known path hashes no bytes.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::ffi::OsStr;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An immutable path, cheap to clone, stored as bytes (a Unix path need not be
/// UTF-8).
///
/// Equality and order are those of the bytes, so `a//b` and `a/b` differ: a fact is queried again
/// exactly as the program named it.
///
/// Binary formats keep the bytes. Human-readable formats are for display only and replace bytes
/// that are not UTF-8 by replacement characters.
///
/// ```
/// use process_cache::model::path::FilePath;
/// let path = FilePath::from("/usr/include/stdio.h");
/// assert_eq!(path.parent(), Some("/usr/include".as_ref()));
/// assert_eq!(path.as_bytes().len(), 20);
/// ```
#[derive(Clone)]
pub struct FilePath {
    bytes: Arc<[u8]>,
    hash: u64,
}

impl FilePath {
    fn new(bytes: &[u8]) -> Self {
        Asked::new(bytes).to_owned()
    }

    /// Returns the path as bytes, without a terminating NUL.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns a path that shares memory with this one if both are equal.
    pub fn or_same(&self, path: &Path) -> Self {
        match path.as_os_str().as_bytes() == self.as_bytes() {
            true => self.clone(),
            false => Self::from(path),
        }
    }

    /// Whether the path lies below a directory, of which it has the same spelling.
    pub fn is_below(&self, directory: &Self) -> bool {
        let (own, above) = (self.as_bytes(), directory.as_bytes());
        own.len() > above.len() && own[above.len()] == b'/' && own.starts_with(above)
    }

    /// Returns the path below `to` that this one has when the directory `from` becomes `to`;
    /// `None` if it is not below `from`.
    ///
    /// ```
    /// use process_cache::model::path::FilePath;
    /// let [from, to] = ["/a", "/b/c"].map(FilePath::from);
    /// assert_eq!(FilePath::from("/a/x").moved(&from, &to), Some(FilePath::from("/b/c/x")));
    /// assert_eq!(FilePath::from("/ab/x").moved(&from, &to), None);
    /// ```
    pub fn moved(&self, from: &Self, to: &Self) -> Option<Self> {
        let rest = self
            .is_below(from)
            .then(|| &self.as_bytes()[from.as_bytes().len()..])?;
        Some(Self::new(&[to.as_bytes(), rest].concat()))
    }

    /// Returns the path as a [`Path`].
    pub fn as_path(&self) -> &Path {
        self
    }
}

/// A borrowed path for lookups among [`FilePath`]s.
///
/// ```
/// use std::collections::HashSet;
/// use process_cache::model::path::{Asked, FilePath};
/// let known = HashSet::from([FilePath::from("/usr")]);
/// assert!(known.contains(Asked::new(b"/usr").key()));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Asked<'b> {
    bytes: &'b [u8],
    hash: u64,
}

impl<'b> Asked<'b> {
    /// Creates one from bytes.
    pub fn new(bytes: &'b [u8]) -> Self {
        let hash = xxhash_rust::xxh3::xxh3_64(bytes);
        Self { bytes, hash }
    }

    /// Returns the key for collections of [`FilePath`]s.
    pub fn key(&self) -> &(dyn Key + 'b) {
        self
    }

    fn to_owned(self) -> FilePath {
        FilePath {
            bytes: Arc::from(self.bytes),
            hash: self.hash,
        }
    }
}

impl<'b> From<&'b Path> for Asked<'b> {
    fn from(path: &'b Path) -> Self {
        Self::new(path.as_os_str().as_bytes())
    }
}

/// A key that equals a [`FilePath`] if its bytes do.
pub trait Key {
    /// Returns the bytes and their hash.
    fn parts(&self) -> (&[u8], u64);
}

impl Key for Asked<'_> {
    fn parts(&self) -> (&[u8], u64) {
        (self.bytes, self.hash)
    }
}

impl Key for FilePath {
    fn parts(&self) -> (&[u8], u64) {
        (&self.bytes, self.hash)
    }
}

impl Hash for dyn Key + '_ {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.parts().1);
    }
}

impl PartialEq for dyn Key + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.parts().0 == other.parts().0
    }
}

impl Eq for dyn Key + '_ {}

impl<'b> Borrow<dyn Key + 'b> for FilePath {
    fn borrow(&self) -> &(dyn Key + 'b) {
        self
    }
}

impl Hash for FilePath {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl PartialEq for FilePath {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
            && (Arc::ptr_eq(&self.bytes, &other.bytes) || self.bytes == other.bytes)
    }
}

impl Eq for FilePath {}

impl PartialOrd for FilePath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for FilePath {
    fn cmp(&self, other: &Self) -> Ordering {
        self.bytes.cmp(&other.bytes)
    }
}

impl Default for FilePath {
    /// Returns an empty path.
    fn default() -> Self {
        Self::new(b"")
    }
}

impl Deref for FilePath {
    type Target = Path;

    fn deref(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.bytes))
    }
}

impl AsRef<Path> for FilePath {
    fn as_ref(&self) -> &Path {
        self
    }
}

impl From<&Path> for FilePath {
    fn from(path: &Path) -> Self {
        Self::new(path.as_os_str().as_bytes())
    }
}

impl From<PathBuf> for FilePath {
    fn from(path: PathBuf) -> Self {
        Self::from(path.as_path())
    }
}

impl From<&str> for FilePath {
    fn from(path: &str) -> Self {
        Self::from(Path::new(path))
    }
}

impl From<&[u8]> for FilePath {
    fn from(path: &[u8]) -> Self {
        Self::new(path)
    }
}

impl fmt::Debug for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.display())
    }
}

impl Serialize for FilePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(&self.display())
        } else {
            serializer.serialize_bytes(&self.bytes)
        }
    }
}

impl<'de> Deserialize<'de> for FilePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            deserializer.deserialize_str(Bytes)
        } else {
            deserializer.deserialize_bytes(Bytes)
        }
    }
}

/// Deserialises bytes in any representation of the format.
struct Bytes;

impl<'de> Visitor<'de> for Bytes {
    type Value = FilePath;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a path")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<FilePath, E> {
        Ok(FilePath::from(bytes))
    }

    fn visit_str<E>(self, text: &str) -> Result<FilePath, E> {
        Ok(FilePath::from(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<FilePath, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = seq.next_element::<u8>()? {
            bytes.push(byte);
        }
        Ok(FilePath::from(bytes.as_slice()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_not_text_survive_a_binary_format() {
        let path = FilePath::from(&b"/tmp/\xff\xfe\n"[..]);
        let bytes = postcard::to_stdvec(&path).unwrap();
        assert_eq!(postcard::from_bytes::<FilePath>(&bytes).unwrap(), path);
    }

    #[test]
    fn text_survives_a_human_readable_format() {
        let path = FilePath::from("/tmp/ä b");
        let json = serde_json::to_string(&path).unwrap();
        assert_eq!(serde_json::from_str::<FilePath>(&json).unwrap(), path);
    }
}
