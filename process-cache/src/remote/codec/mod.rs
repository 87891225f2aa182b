//! The encoded entries of a unit in a remote cache.
//!
//! *Path sets* are lists of queries without answers, the newest first, under the weak key. The
//! answers to all queries of one set give the strong key of the *result*: an outcome, and the
//! remote digests of its contents. *Hints* are stored next to the path sets. A hint names the
//! likely result for given answers to queries about the project itself, so that the client can
//! request it while it answers the other queries.
//!
//! Both are a header (`"pcq"` or `"pcr"`, a version byte) and postcard data, compressed with zstd.
//! They are untrusted: for any bytes, decoding returns an error or a value within the limits
//! below. [`super::check`] checks what the values mean.

use std::io::Read;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::digest::Wire;
use crate::model::fact::{Answer, Digest, Query};
use crate::model::outcome::Outcome;
use crate::model::path::FilePath;
use crate::model::weak_key::WeakKey;
use crate::policy::base_dirs::MARK;
use crate::relocation::is_note;

/// Part of every key: results of other versions are not found.
pub(crate) const VERSION: u8 = 8;
const SETS: &[u8; 3] = b"pcq";
const RESULT: &[u8; 3] = b"pcr";
/// Maximal number of path sets under one weak key.
pub const MAX_SETS: usize = 6;
/// Maximal number of hints next to them.
pub const MAX_HINTS: usize = 3;
/// Maximal number of contents in a hint. Every lookup of its unit reads it.
pub const MAX_HINTED: usize = 512;
/// Maximal decompressed length, in bytes.
pub const MAX_UNPACKED: u64 = 16 << 20;
/// Maximal compressed length, in bytes.
pub const MAX_PACKED: u64 = 8 << 20;
/// Maximal number of queries in all sets, and of contents and effects in a result.
pub const MAX_ITEMS: usize = 200_000;
/// The compression level of zstd: a higher one costs more than it saves.
const LEVEL: i32 = 1;

/// Why bytes are no valid path sets or result.
#[derive(Debug, thiserror::Error)]
pub enum FormError {
    /// The data has another header.
    #[error("it is not one of pcache's")]
    Magic,
    /// Another version wrote it.
    #[error("version {0} wrote it")]
    Version(u8),
    /// It is longer than any encoded value.
    #[error("it is too large")]
    Large,
    /// It is damaged.
    #[error("it is damaged: {0}")]
    Damaged(String),
}

/// Queries, sorted and without duplicates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathSet(
    #[serde(deserialize_with = "crate::platform::bounded::list::<_, _, MAX_ITEMS>")] pub Vec<Query>,
);

impl PathSet {
    /// Creates a set from queries in any order.
    pub fn new(mut queries: Vec<Query>) -> Self {
        queries.sort_unstable();
        queries.dedup();
        Self(queries)
    }

    /// Returns a query that no client would ask.
    pub fn odd(&self) -> Option<&Query> {
        self.0.iter().find(|query| !is_askable(query))
    }

    /// Returns queries about paths outside system directories, which differ more often.
    pub fn near(&self) -> impl Iterator<Item = &Query> {
        self.0.iter().filter(|query| is_near(query))
    }
}

/// The likely result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hint {
    /// The key given by the answers to the near queries ([`Key::of_near`]).
    pub near: Key,
    /// The key of the result.
    pub result: Key,
    /// The contents that it needs.
    #[serde(deserialize_with = "crate::platform::bounded::list::<_, _, MAX_HINTED>")]
    pub contents: Vec<Content>,
}

/// The entry under a weak key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sets {
    /// The path sets, the newest first.
    #[serde(deserialize_with = "crate::platform::bounded::list::<_, _, MAX_SETS>")]
    pub sets: Vec<PathSet>,
    /// The hints, the newest first.
    #[serde(deserialize_with = "crate::platform::bounded::list::<_, _, MAX_HINTS>")]
    pub hints: Vec<Hint>,
}

/// System directories.
const FAR: [&[u8]; 9] = [
    b"/usr/", b"/lib", b"/bin/", b"/sbin/", b"/etc/", b"/opt/", b"/proc/", b"/sys/", b"/dev/",
];

fn is_near(query: &Query) -> bool {
    let is_far = |path: &FilePath| {
        FAR.iter().any(|far| path.as_bytes().starts_with(far))
            && !path.as_bytes().starts_with(b"/dev/shm/")
    };
    !matches!(query, Query::Order(_)) && !query.paths().iter().any(is_far)
}

/// Whether a query is about absolute paths, as local queries are, or about base directories.
fn is_askable(query: &Query) -> bool {
    if is_note(query) {
        return true;
    }
    let one = |path: &FilePath| {
        let bytes = path.as_bytes();
        let plain = bytes.strip_prefix(MARK).unwrap_or(bytes);
        bytes.first() == Some(&b'/') && !plain.contains(&0) && bytes.len() < 1 << 16
    };
    let is_named = match query {
        Query::Xattr { name, .. } => !name.contains(&0) && name.len() < 256,
        _ => true,
    };
    is_named && query.paths().iter().all(one)
}

/// A result in transfer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stored {
    /// The outcome of the unit.
    pub outcome: Outcome,
    /// All contents that the outcome names.
    #[serde(deserialize_with = "crate::platform::bounded::list::<_, _, MAX_ITEMS>")]
    pub contents: Vec<Content>,
}

/// A content with its local and remote digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// The local digest.
    pub digest: Digest,
    /// The digest at the server.
    pub hash: [u8; 32],
    /// Its length in bytes.
    pub length: u64,
}

impl Content {
    /// Returns its digest at the server.
    pub fn wire(&self) -> Wire {
        Wire {
            hash: self.hash,
            size: self.length,
        }
    }
}

/// The key of an entry in a remote cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Key(pub [u8; 32]);

impl Key {
    /// Returns the key of the path sets of a weak key.
    pub fn of_sets(key: &WeakKey) -> Self {
        Self::new("reprise pcache path sets", &[&key.0.0])
    }

    /// Returns the key of the result for these answers to a path set; `None` if one of them is
    /// unknown.
    pub fn of_result(key: &WeakKey, set: &PathSet, answers: &[Answer]) -> Option<Self> {
        Self::of_answers("reprise pcache result", key, set, answers)
    }

    /// Returns the key for these answers to a path set's near queries ([`Hint`]); `None` if one of
    /// them is unknown.
    pub fn of_near(key: &WeakKey, near: &[&Query], answers: &[Answer]) -> Option<Self> {
        Self::of_answers("reprise pcache near questions", key, near, answers)
    }

    fn of_answers(
        context: &str,
        key: &WeakKey,
        questions: &(impl Serialize + ?Sized),
        answers: &[Answer],
    ) -> Option<Self> {
        if answers.iter().any(|a| matches!(a, Answer::Unknown(_))) {
            return None;
        }
        let questions = postcard::to_stdvec(questions).ok()?;
        let answers = postcard::to_stdvec(answers).ok()?;
        Some(Self::new(context, &[&key.0.0, &questions, &answers]))
    }

    fn new(context: &str, parts: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key(context);
        hasher.update(&[VERSION]);
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self(*hasher.finalize().as_bytes())
    }
}

/// Encodes path sets, from the first one up to the limits.
///
/// # Errors
/// [`FormError::Large`] if not even the first fits.
pub fn encode_sets(sets: &Sets) -> Result<Vec<u8>, FormError> {
    let hints = &sets.hints[..sets.hints.len().min(MAX_HINTS)];
    let mut count = sets.sets.len().min(MAX_SETS);
    loop {
        let some = &sets.sets[..count];
        let questions: usize = some.iter().map(|set| set.0.len()).sum();
        let packed = if questions <= MAX_ITEMS {
            pack(SETS, &(some, hints))
        } else {
            Err(FormError::Large)
        };
        match packed {
            Err(FormError::Large) if count > 1 => count -= 1,
            packed => return packed,
        }
    }
}

/// Decodes path sets.
///
/// # Errors
/// The defect of the bytes.
pub fn decode_sets(bytes: &[u8]) -> Result<Sets, FormError> {
    let sets: Sets = unpack(SETS, bytes)?;
    let questions: usize = sets.sets.iter().map(|set| set.0.len()).sum();
    if questions > MAX_ITEMS {
        return Err(FormError::Large);
    }
    Ok(sets)
}

/// Encodes a result.
///
/// # Errors
/// [`FormError::Large`].
pub fn encode_result(stored: &Stored) -> Result<Vec<u8>, FormError> {
    pack(RESULT, stored)
}

/// Decodes a result.
///
/// # Errors
/// The defect of the bytes.
pub fn decode_result(bytes: &[u8]) -> Result<Stored, FormError> {
    unpack(RESULT, bytes)
}

fn damaged(error: impl std::fmt::Display) -> FormError {
    FormError::Damaged(error.to_string())
}

fn pack(magic: &[u8; 3], value: &(impl Serialize + ?Sized)) -> Result<Vec<u8>, FormError> {
    let plain = postcard::to_stdvec(value).map_err(damaged)?;
    if plain.len() as u64 > MAX_UNPACKED {
        return Err(FormError::Large);
    }
    let mut bytes = magic.to_vec();
    bytes.push(VERSION);
    bytes.extend(zstd::bulk::compress(&plain, LEVEL).map_err(damaged)?);
    if bytes.len() as u64 > MAX_PACKED {
        return Err(FormError::Large);
    }
    Ok(bytes)
}

fn unpack<T: DeserializeOwned>(magic: &[u8; 3], bytes: &[u8]) -> Result<T, FormError> {
    if bytes.len() as u64 > MAX_PACKED {
        return Err(FormError::Large);
    }
    let rest = bytes.strip_prefix(magic).ok_or(FormError::Magic)?;
    let (&version, packed) = rest.split_first().ok_or(FormError::Magic)?;
    if version != VERSION {
        return Err(FormError::Version(version));
    }
    let mut plain = Vec::new();
    zstd::stream::read::Decoder::new(packed)
        .map_err(damaged)?
        .take(MAX_UNPACKED + 1)
        .read_to_end(&mut plain)
        .map_err(damaged)?;
    if plain.len() as u64 > MAX_UNPACKED {
        return Err(FormError::Large);
    }
    match postcard::take_from_bytes(&plain) {
        Ok((value, [])) => Ok(value),
        Ok(_) => Err(FormError::Damaged("something follows its end".to_owned())),
        Err(error) => Err(damaged(error)),
    }
}

#[cfg(test)]
mod tests;
