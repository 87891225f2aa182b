//! What a remote cache can do, whatever it is.

use std::io::{Cursor, Read};
use std::sync::Arc;
use std::time::Duration;

use super::codec::Key;
use super::digest::{Function, Wire};
use super::directory::Directory;
use super::grpc::Client;
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

/// What stands under a key: a blob, and the contents that must not get lost before
/// it.
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
    /// What the remote calls it.
    pub wire: Wire,
    /// Where it goes.
    pub into: Incoming,
}

/// A content that is offered.
#[derive(Debug)]
pub struct Offer {
    /// What the remote calls it.
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

/// A remote cache.
#[derive(Debug, Clone)]
pub enum Backend {
    /// A server that speaks the Remote Execution API.
    Grpc(Box<Client>),
    /// A directory that several machines see.
    Directory(Directory),
}

impl Backend {
    /// How it digests.
    ///
    /// # Errors
    /// As all others: [`Failure`].
    pub async fn function(&self) -> Result<Function> {
        match self {
            Self::Grpc(client) => Ok(client.server().await?.function),
            Self::Directory(_) => Ok(Function::Blake3),
        }
    }

    /// What stands under a key; with the blob beside it if the server can send that along.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn entry(&self, key: Key, beside: bool) -> Result<Option<Entry>> {
        match self {
            Self::Grpc(client) => client.entry(key, beside).await,
            Self::Directory(directory) => directory.entry(key),
        }
    }

    /// Whether entries may have another blob beside them.
    pub fn has_beside(&self) -> bool {
        matches!(self, Self::Grpc(_))
    }

    /// Puts something under a key.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn set_entry(&self, key: Key, entry: Entry) -> Result<()> {
        match self {
            Self::Grpc(client) => client.set_entry(key, entry).await,
            Self::Directory(directory) => directory.set_entry(key, &entry),
        }
    }

    /// Which of these it does not have.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn missing(&self, wires: Vec<Wire>) -> Result<Vec<Wire>> {
        match self {
            Self::Grpc(client) => client.missing(wires).await,
            Self::Directory(directory) => Ok(directory.missing(wires)),
        }
    }

    /// The bytes of a blob that goes into memory, verified.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn bytes(&self, wire: Wire) -> Result<Vec<u8>> {
        let bytes = match self {
            Self::Grpc(client) => client.bytes(wire).await?,
            Self::Directory(directory) => directory.bytes(wire)?,
        };
        if self.function().await?.of(&bytes) == wire {
            Ok(bytes)
        } else {
            Err(Failure::Wrong("a blob has another digest".to_owned()))
        }
    }

    /// Fetches contents.
    ///
    /// # Errors
    /// [`Failure`]; some may have arrived.
    pub async fn fetch(&self, wants: Vec<Want>) -> Result<()> {
        match self {
            Self::Grpc(client) => client.fetch(wants).await,
            Self::Directory(directory) => directory.fetch(wants),
        }
    }

    /// Stores contents.
    ///
    /// # Errors
    /// [`Failure`]; some may have been stored.
    pub async fn store(&self, offers: Vec<Offer>) -> Result<()> {
        match self {
            Self::Grpc(client) => client.store(offers).await,
            Self::Directory(directory) => directory.store(offers),
        }
    }

    /// Whether it takes anything.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn is_writable(&self) -> Result<bool> {
        match self {
            Self::Grpc(client) => Ok(client.server().await?.takes_entries),
            Self::Directory(_) => Ok(true),
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
