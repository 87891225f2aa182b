//! Paths that survive serialisation whatever bytes they hold.
//!
//! A Unix path is bytes, not text; facts and outcomes hold thousands of them
//! and are cloned while they move from the trace into the store, so a
//! [`FilePath`] is shared and immutable.

use std::borrow::Borrow;
use std::ffi::OsStr;
use std::fmt;
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An immutable path, cheap to clone, stored as bytes (a Unix path need not be
/// UTF-8).
///
/// Equality and order are those of the bytes, so `a//b` and `a/b` differ: a
/// fact is asked again exactly as the program asked it.
///
/// Binary formats keep the bytes. Human-readable formats are for people only:
/// there, what is not UTF-8 is shown with replacement characters.
///
/// ```
/// use process_cache::path::FilePath;
/// let path = FilePath::from("/usr/include/stdio.h");
/// assert_eq!(path.parent(), Some("/usr/include".as_ref()));
/// assert_eq!(path.as_bytes().len(), 20);
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FilePath(Arc<[u8]>);

impl FilePath {
    /// The path as bytes, without a terminating NUL.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// A path, shared with this one if both are the same.
    pub fn or_same(&self, path: &Path) -> Self {
        match path.as_os_str().as_bytes() == self.as_bytes() {
            true => self.clone(),
            false => Self::from(path),
        }
    }

    /// The path as a [`Path`].
    pub fn as_path(&self) -> &Path {
        self
    }
}

impl Default for FilePath {
    /// An empty path.
    fn default() -> Self {
        Self(Arc::from(&b""[..]))
    }
}

impl Deref for FilePath {
    type Target = Path;

    fn deref(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }
}

impl AsRef<Path> for FilePath {
    fn as_ref(&self) -> &Path {
        self
    }
}

impl Borrow<[u8]> for FilePath {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl From<&Path> for FilePath {
    fn from(path: &Path) -> Self {
        Self(Arc::from(path.as_os_str().as_bytes()))
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
        Self(Arc::from(path))
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
            serializer.serialize_bytes(&self.0)
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

/// Takes bytes in whatever form the format hands them out.
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
