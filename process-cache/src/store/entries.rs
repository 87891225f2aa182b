//! Results by weak key: one file per key, holding its decision tree.
//!
//! A tree is rewritten as a whole, under its shard's lock and by rename, so
//! readers need no lock. One file beats an object per node: a lookup is one
//! open and one read, and what units share (paths of headers) compresses to a
//! few bytes each in every tree.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use super::error::{Result, StoreError};
use super::tree::{Leaf, MAX_LEAVES, OutcomeRef, Tree, canonical};
use super::{DAY, SHARD, Store, codec, now, sharded};
use crate::fact::{Answer, Digest, Fact, Query, TimeUse};
use crate::outcome::{Effect, Outcome, StreamData};
use crate::path::FilePath;

/// Outcomes up to this length are kept in the tree itself.
const INLINE: usize = 1024;
/// A tree that grows beyond this loses its older half.
const MAX_TREE: usize = 32 << 20;

/// What identifies a unit before it has looked at anything: the digest of its
/// program, arguments, environment and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WeakKey(pub Digest);

/// What a lookup found.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "one is made per process, and taken apart at once"
)]
pub enum Lookup {
    /// A result whose facts all hold (they are in [`Outcome::facts`], in the
    /// order of the tree) and whose contents are all in the store.
    Hit(Box<Outcome>),
    /// None.
    Miss(Miss),
}

/// Why there is no result.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "one is made per process, and taken apart at once"
)]
pub enum Miss {
    /// The unit has not been recorded.
    NoEntry,
    /// A fact differs from the recorded result that came closest.
    Changed {
        /// What was asked.
        query: Query,
        /// The answer that the recorded result needs.
        recorded: Answer,
        /// The answer now.
        found: Answer,
    },
    /// A result would have fitted, but something of it is missing or damaged.
    Incomplete(String),
}

impl Store {
    /// Looks for a result under `key` whose facts all hold, asking `ask` only
    /// what is needed and nothing twice.
    ///
    /// # Errors
    /// [`StoreError::Io`] where the store cannot be read. Damaged contents are
    /// a [`Miss::Incomplete`].
    pub fn lookup(&self, key: &WeakKey, ask: &mut dyn FnMut(&Query) -> Answer) -> Result<Lookup> {
        let tree = match self.read_tree(key)? {
            Ok(Some(tree)) => tree,
            Ok(None) => return Ok(Lookup::Miss(Miss::NoEntry)),
            Err(damage) => return Ok(Lookup::Miss(Miss::Incomplete(damage))),
        };
        let mut incomplete = None;
        let mut accept = |leaf: &Leaf| match self.outcome(leaf) {
            Ok(outcome) => Some((outcome, leaf.serial, leaf.used)),
            Err(reason) => {
                incomplete = Some(reason);
                None
            }
        };
        let found = tree.lookup(ask, &mut accept);
        Ok(match (found, incomplete) {
            (Ok(((mut outcome, serial, used), facts)), _) => {
                if used < today() && !self.read_only {
                    // Losing a use mark costs at most an early eviction.
                    let _ = self.mark_leaf(key, serial);
                }
                outcome.facts = facts;
                Lookup::Hit(Box::new(outcome))
            }
            (Err(_), Some(reason)) => Lookup::Miss(Miss::Incomplete(reason)),
            (Err(Some(near)), None) => Lookup::Miss(Miss::Changed {
                query: near.query,
                recorded: near.recorded,
                found: near.found,
            }),
            (Err(None), None) => Lookup::Miss(Miss::NoEntry),
        })
    }

    /// The files whose contents results under `key` depend on, or on whose
    /// absence.
    pub fn inputs(&self, key: &WeakKey) -> Vec<FilePath> {
        let tree = self.read_tree(key).ok().and_then(Result::ok).flatten();
        let queries = tree.map(|tree| tree.queries).unwrap_or_default();
        let path = |query| match query {
            Query::Content(path)
            | Query::Stat {
                path,
                time: TimeUse::Order,
                ..
            } => Some(path),
            _ => None,
        };
        queries.into_iter().filter_map(path).collect()
    }

    /// Adds a result under `key`: the facts it depends on, in batches in the
    /// order of observation (within a batch, order means nothing), and what it
    /// leaves behind. The contents that `outcome` names must be in the store.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`], [`StoreError::Contradiction`],
    /// [`StoreError::UnknownAnswer`], [`StoreError::Io`].
    pub fn record(&self, key: &WeakKey, batches: Vec<Vec<Fact>>, outcome: &Outcome) -> Result<()> {
        if self.read_only {
            return Err(StoreError::ReadOnly);
        }
        let batches = canonical(batches)?;
        let bytes = codec::encode_outcome(outcome).map_err(encode_error)?;
        let outcome = if bytes.len() <= INLINE {
            OutcomeRef::Inline(bytes)
        } else {
            OutcomeRef::Stored(self.put_bytes(&bytes)?)
        };
        self.update(key, |tree| {
            tree.insert(&batches, outcome, today());
            true
        })
    }

    /// Reads, changes and writes a tree while no other process does.
    fn update(&self, key: &WeakKey, change: impl FnOnce(&mut Tree) -> bool) -> Result<()> {
        let path = self.tree_path(key);
        let name = key.0.to_string();
        let _lock = self.lock(&name[..SHARD])?;
        // What cannot be read is started afresh.
        let mut tree = self.read_tree(key)?.ok().flatten().unwrap_or_default();
        if !change(&mut tree) {
            return Ok(());
        }
        let mut bytes = codec::encode_tree(&tree).map_err(encode_error)?;
        let mut limit = tree.leaves().count().min(MAX_LEAVES);
        while bytes.len() > MAX_TREE && limit > 1 {
            limit /= 2;
            tree.shrink(limit);
            bytes = codec::encode_tree(&tree).map_err(encode_error)?;
        }
        let mut file = self.temporary()?;
        file.write_all(&bytes)
            .map_err(StoreError::io("write", &path))?;
        self.written
            .fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.publish(file.into_temp_path(), &path)
    }

    fn mark_leaf(&self, key: &WeakKey, serial: u64) -> Result<()> {
        self.update(key, |tree| tree.touch(serial, today()))
    }

    /// The tree; `None` if there is none; in the inner error, why it cannot be
    /// used.
    fn read_tree(&self, key: &WeakKey) -> Result<Result<Option<Tree>, String>> {
        let path = self.tree_path(key);
        match fs::read(&path) {
            Ok(bytes) => Ok(codec::decode_tree(&bytes)
                .map(Some)
                .map_err(|error| error.to_string())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Ok(None)),
            Err(error) => Err(StoreError::io("read", &path)(error)),
        }
    }

    /// A leaf's outcome if everything that it needs is there.
    fn outcome(&self, leaf: &Leaf) -> Result<Outcome, String> {
        let decoded = match &leaf.outcome {
            OutcomeRef::Inline(bytes) => codec::decode_outcome(bytes),
            OutcomeRef::Stored(digest) => {
                // Marks it as used.
                self.blob_length(digest);
                let bytes = self.get_bytes(digest).map_err(|error| error.to_string())?;
                codec::decode_outcome(&bytes)
            }
        };
        let outcome = decoded.map_err(|error| error.to_string())?;
        let effects = outcome.effects.iter().filter_map(|effect| match effect {
            Effect::Write {
                content, length, ..
            } => Some((content, *length)),
            Effect::Append { data, length, .. } => Some((data, *length)),
            _ => None,
        });
        let stream = outcome.stream.iter().filter_map(|chunk| match &chunk.data {
            StreamData::Stored(digest, length) => Some((digest, *length)),
            StreamData::Inline(_) => None,
        });
        for (digest, length) in effects.chain(stream) {
            match self.blob_length(digest) {
                Some(found) if found == length => {}
                Some(_) => return Err(self.discard(digest).to_string()),
                None => return Err(StoreError::Missing(*digest).to_string()),
            }
        }
        Ok(outcome)
    }

    fn tree_path(&self, key: &WeakKey) -> PathBuf {
        sharded(&self.root.join("units"), &key.0)
    }
}

/// Checks bytes that claim to be a stored tree or outcome, header included;
/// never panics.
///
/// # Errors
/// What is wrong with them.
#[doc(hidden)]
pub fn check_entry(bytes: &[u8]) -> Result<(), String> {
    match codec::decode_tree(bytes) {
        Ok(_) => Ok(()),
        Err(error) => codec::decode_outcome(bytes)
            .map(drop)
            .map_err(|_| error.to_string()),
    }
}

/// Decodes the bodies behind the checksums, which a fuzzer cannot get past.
#[doc(hidden)]
pub fn check_entry_body(body: &[u8]) {
    if let Ok(tree) = codec::decode_tree_body(body) {
        let _ = tree.lookup(&mut |_| Answer::Error(0), &mut |leaf| Some(leaf.serial));
        let mut smaller = tree;
        smaller.shrink(1);
        let _ = codec::encode_tree(&smaller);
    }
    let _ = codec::decode_outcome_body(body);
}

fn today() -> u32 {
    u32::try_from(now() / DAY).unwrap_or(u32::MAX)
}

fn encode_error(error: postcard::Error) -> StoreError {
    StoreError::Encode(error.to_string())
}

#[cfg(test)]
mod tests;
