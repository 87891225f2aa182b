//! Requests to a remote cache of any kind.

use std::io::{Cursor, Read};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::codec::Key;
use super::digest::{Function, Wire};
use crate::model::fact::Digest;
use crate::store::{Incoming, Store, StoreError};

/// Why a request to a remote cache failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The server does not answer, or the connection broke.
    #[error("{0}")]
    Unreachable(String),
    /// The time limit has passed.
    #[error("no answer in time")]
    Slow,
    /// The server accepts no more data.
    #[error("it is full: {0}")]
    Full(String),
    /// Access is denied, or the request is not supported: a retry does not help.
    #[error("{0}")]
    Forbidden(String),
    /// The answer is wrong.
    #[error("{0}")]
    Wrong(String),
    /// The server has lost a content.
    #[error("it has lost a content")]
    Missing,
    /// The local store failed.
    #[error("{0}")]
    Local(String),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Mismatch(_) => Self::Wrong(error.to_string()),
            error => Self::Local(error.to_string()),
        }
    }
}

/// The result of a request.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// The entry under a key: a blob, and the contents that must be kept with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The blob.
    pub blob: Wire,
    /// The blob itself, if it was inlined.
    pub inlined: Option<Vec<u8>>,
    /// The contents.
    pub contents: Vec<Wire>,
    /// Another, optional blob ([`super::bundle`]), and its bytes if they were inlined.
    pub beside: Option<(Wire, Option<Vec<u8>>)>,
}

/// A requested content and its destination.
#[derive(Debug)]
pub struct Want {
    /// Its digest at the remote cache.
    pub wire: Wire,
    /// Its destination.
    pub into: Incoming,
}

/// A content for upload.
#[derive(Debug)]
pub struct Offer {
    /// Its digest at the remote cache.
    pub wire: Wire,
    /// Its source.
    pub source: Source,
}

/// The source of a content for upload.
#[derive(Debug)]
pub enum Source {
    /// In memory.
    Bytes(Vec<u8>),
    /// In the local store, under this digest.
    Stored(Arc<Store>, Digest),
}

impl Offer {
    /// Opens the content for reading.
    ///
    /// # Errors
    /// [`Failure::Local`].
    pub fn open(self) -> Result<Box<dyn Read + Send>> {
        Ok(match self.source {
            Source::Bytes(bytes) => Box::new(Cursor::new(bytes)),
            Source::Stored(store, digest) => Box::new(store.open_blob(&digest, self.wire.size)?),
        })
    }
}

/// The future answer to a request.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// A remote cache shared by several tasks.
pub type SharedBackend = Arc<dyn Backend>;

/// A remote cache. Each request can end in a [`Failure`].
pub trait Backend: std::fmt::Debug + Send + Sync {
    /// Requests the digest function.
    fn function(&self) -> Reply<'_, Function>;

    /// Requests the entry under a key; with `beside`, also the blob next to it if the server can
    /// inline that.
    fn entry(&self, key: Key, beside: bool) -> Reply<'_, Option<Entry>>;

    /// Whether entries may have a second blob.
    fn has_beside(&self) -> bool;

    /// Stores an entry under a key.
    fn set_entry(&self, key: Key, entry: Entry) -> Reply<'_, ()>;

    /// Returns those contents that the server does not have.
    fn missing(&self, wires: Vec<Wire>) -> Reply<'_, Vec<Wire>>;

    /// Reads the bytes of a blob into memory without verification, which `bytes` adds.
    fn read(&self, wire: Wire) -> Reply<'_, Vec<u8>>;

    /// Downloads contents. After a failure some may have arrived.
    fn fetch(&self, wants: Vec<Want>) -> Reply<'_, ()>;

    /// Uploads contents. After a failure some may have been stored.
    fn store(&self, offers: Vec<Offer>) -> Reply<'_, ()>;

    /// Whether the server accepts writes.
    fn is_writable(&self) -> Reply<'_, bool>;
}

impl dyn Backend {
    /// Reads the bytes of a blob into memory and verifies them.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn bytes(&self, wire: Wire) -> Result<Vec<u8>> {
        let bytes = self.read(wire).await?;
        if self.function().await?.of(&bytes) == wire {
            Ok(bytes)
        } else {
            Err(Failure::Wrong("a blob has another digest".to_owned()))
        }
    }
}

/// The number of retries after a failure, and their pauses.
#[derive(Debug, Clone, Copy)]
pub struct Retries {
    /// The first pause; each further one is three times as long.
    pub pause: Duration,
    /// Maximal number of retries.
    pub count: u32,
}
