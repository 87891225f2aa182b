//! Requests to a remote cache, and what they are about, whatever it is.

use std::io::{Cursor, Read};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::codec::Key;
use super::digest::{Function, Wire};
use crate::model::fact::Digest;
use crate::store::{Incoming, Store, StoreError};

/// Why a remote cache did not do what it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Nobody answers, or the connection broke.
    #[error("{0}")]
    Unreachable(String),
    /// It took longer than we wait.
    #[error("no answer in time")]
    Slow,
    /// It takes nothing more.
    #[error("it is full: {0}")]
    Full(String),
    /// We may not, or it cannot: asking again does not help.
    #[error("{0}")]
    Forbidden(String),
    /// It answered, and the answer is wrong.
    #[error("{0}")]
    Wrong(String),
    /// It has lost a content.
    #[error("it has lost a content")]
    Missing,
    /// Our own store failed.
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

/// The results of remote caches.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// The entry under a key: a blob, and the contents that must not get lost before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The blob.
    pub blob: Wire,
    /// The blob itself, if it came along.
    pub inlined: Option<Vec<u8>>,
    /// The contents.
    pub contents: Vec<Wire>,
    /// Another blob, which nobody needs ([`super::bundle`]), and its bytes, if they came
    /// along.
    pub beside: Option<(Wire, Option<Vec<u8>>)>,
}

/// A content that is wanted, and where it goes.
#[derive(Debug)]
pub struct Want {
    /// Its digest at the remote cache.
    pub wire: Wire,
    /// Where it goes.
    pub into: Incoming,
}

/// A content that is offered.
#[derive(Debug)]
pub struct Offer {
    /// Its digest at the remote cache.
    pub wire: Wire,
    /// Where it is.
    pub source: Source,
}

/// Where an offered content is.
#[derive(Debug)]
pub enum Source {
    /// In memory.
    Bytes(Vec<u8>),
    /// In our store, under this digest.
    Stored(Arc<Store>, Digest),
}

impl Offer {
    /// The content as something to read.
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

/// The answer to a request, once it arrives.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// A remote cache that several tasks use.
pub type SharedBackend = Arc<dyn Backend>;

/// A remote cache. Each request can end in a [`Failure`].
pub trait Backend: std::fmt::Debug + Send + Sync {
    /// Asks how it digests.
    fn function(&self) -> Reply<'_, Function>;

    /// Asks what stands under a key; with the blob beside it if the server can send that
    /// along.
    fn entry(&self, key: Key, beside: bool) -> Reply<'_, Option<Entry>>;

    /// Whether entries may have another blob beside them.
    fn has_beside(&self) -> bool;

    /// Puts something under a key.
    fn set_entry(&self, key: Key, entry: Entry) -> Reply<'_, ()>;

    /// Asks which of these it does not have.
    fn missing(&self, wires: Vec<Wire>) -> Reply<'_, Vec<Wire>>;

    /// Reads the bytes of a blob that goes into memory. They are not verified:
    /// `bytes` does that.
    fn read(&self, wire: Wire) -> Reply<'_, Vec<u8>>;

    /// Fetches contents. After a failure some may have arrived.
    fn fetch(&self, wants: Vec<Want>) -> Reply<'_, ()>;

    /// Stores contents. After a failure some may have been stored.
    fn store(&self, offers: Vec<Offer>) -> Reply<'_, ()>;

    /// Asks whether it takes anything.
    fn is_writable(&self) -> Reply<'_, bool>;
}

impl dyn Backend {
    /// The bytes of a blob that goes into memory, verified.
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

/// How often, and after what pauses, something that failed is tried again.
#[derive(Debug, Clone, Copy)]
pub struct Retries {
    /// The first pause; each further one is three times as long.
    pub pause: Duration,
    /// How many there are.
    pub count: u32,
}
