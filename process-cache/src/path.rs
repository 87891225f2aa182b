//! Paths that survive serialisation whatever bytes they hold.

use std::ffi::OsStr;
use std::fmt;
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An immutable path, cheap to clone, stored as bytes (a Unix path need not be
/// UTF-8).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FilePath(Arc<[u8]>);

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
            Ok(Self::from(String::deserialize(deserializer)?.as_str()))
        } else {
            let bytes: &[u8] = serde::Deserialize::deserialize(deserializer)?;
            Ok(Self(Arc::from(bytes)))
        }
    }
}
