//! Errors of a store.

use std::io;
use std::path::{Path, PathBuf};

use crate::model::fact::{Digest, Query};

/// A failure of the store. No such error fails the command: the caller runs it without the cache,
/// or does not store its result.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The directory holds a store of a format that this version cannot read.
    #[error("the cache {} was made by another version of pcache ({found:?}); use another directory, or empty it: pcache clear --cache-dir {}", dir.display(), dir.display())]
    UnknownFormat {
        /// The store's directory.
        dir: PathBuf,
        /// The first line of its format file.
        found: String,
    },
    /// The store is open for reading only.
    #[error("the cache is read-only")]
    ReadOnly,
    /// A system call failed.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// The operation that failed, as a verb.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system error.
        source: io::Error,
    },
    /// The length of the file was not as expected, or the file changed while it was copied.
    #[error("the file changed while it was stored")]
    Changed,
    /// No blob has this digest.
    #[error("blob {0} is not in the cache")]
    Missing(Digest),
    /// The blob's bytes had another digest; it has been removed.
    #[error("blob {0} was damaged and has been removed")]
    Damaged(Digest),
    /// A received content differs from its announced digest.
    #[error("the data received for blob {0} has another digest")]
    Mismatch(Digest),
    /// The facts contain two answers to one query, so they can never hold.
    #[error("two answers were recorded for {0:?}")]
    Contradiction(Box<Query>),
    /// A fact's answer is unknown, so it can never hold.
    #[error("the answer to {0:?} is not known: {1}")]
    UnknownAnswer(Box<Query>, String),
    /// A value could not be encoded.
    #[error("cannot encode the result: {0}")]
    Encode(String),
}

impl StoreError {
    /// Wraps an I/O error with the operation and the file.
    pub(crate) fn io<E: Into<io::Error>>(
        what: &'static str,
        path: &Path,
    ) -> impl FnOnce(E) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            what,
            path,
            source: source.into(),
        }
    }
}

/// The store's results.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;
