//! Results by weak key: one file per key, holding its decision tree.
//!
//! A result is a tree of its own behind those that are there, until they are
//! many: then they become one, which replaces the file by rename. Both happen
//! under the shard's lock. Readers need no lock: what is being added is not a
//! whole frame yet. One file beats an object per node: a lookup is one open and
//! one read, and what units share (paths of headers) compresses to a few bytes
//! each in every tree. Adding beats rewriting: a result of a hundred facts beside
//! one of a thousand takes a tenth of the time, and no new file, which can take
//! half a millisecond.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use rustc_hash::{FxHashMap, FxHashSet};

use super::codec::Opened;
use super::error::{Result, StoreError};
use super::tree::{self, Leaf, MAX_LEAVES, NearMiss, OutcomeRef, Tree, canonical};
use super::{DAY, SHARD, Store, codec, now, sharded};
use crate::model::fact::{Answer, Fact, Query};
use crate::model::miss::Miss;
use crate::model::outcome::{Effect, Outcome, StreamData};
use crate::model::path::FilePath;
use crate::model::weak_key::WeakKey;

/// Outcomes up to this length are kept in the tree itself.
const INLINE: usize = 1024;
/// A file that grows beyond this loses its older half.
const MAX_TREE: usize = 32 << 20;
/// A file up to this length is read in passing.
const GLANCE: u64 = 64 << 10;
/// How many trees there are in a file at most.
const MAX_FRAMES: usize = 8;

/// The result of a lookup.
#[derive(Debug)]
pub enum Lookup {
    /// A result whose facts all hold (they are in [`Outcome::facts`], in the
    /// order of the tree) and whose contents are all in the store.
    Hit(Box<Outcome>),
    /// None.
    Miss(Miss),
}

/// A result as it is stored.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// Names it among those of its key; later ones are larger.
    pub serial: u64,
    /// The facts that it depends on, in the order of observation.
    pub facts: Vec<Fact>,
    /// Its outcome, if all of its contents are in the store.
    pub outcome: Option<Outcome>,
}

impl NearMiss {
    fn into_miss(self) -> Miss {
        Miss::Changed {
            query: self.query,
            recorded: self.recorded,
            found: self.found,
        }
    }
}

impl Store {
    /// Looks for a result under `key` whose facts all hold, asking `ask` only
    /// what is needed and nothing twice.
    ///
    /// # Errors
    /// [`StoreError::Io`] where the store cannot be read. Damaged contents are
    /// a [`Miss::Incomplete`].
    pub fn lookup(&self, key: &WeakKey, ask: &mut dyn FnMut(&Query) -> Answer) -> Result<Lookup> {
        let Some(bytes) = self.read(key)? else {
            return Ok(Lookup::Miss(Miss::NoEntry));
        };
        let (frames, rest) = codec::frames(&bytes);
        let mut incomplete = rest.map(|damage| damage.to_string());
        let mut known: FxHashMap<Query, Answer> = FxHashMap::default();
        let several = frames.len() > 1;
        let mut ask = |query: &Query| {
            if !several {
                return ask(query);
            }
            if let Some(answer) = known.get(query) {
                return answer.clone();
            }
            let answer = ask(query);
            known.insert(query.clone(), answer.clone());
            answer
        };
        let mut nearest: Option<Box<NearMiss>> = None;
        // The newest first.
        for frame in frames.iter().rev() {
            let opened = match Opened::of(frame) {
                Ok(opened) => opened,
                Err(damage) => {
                    incomplete = Some(damage.to_string());
                    continue;
                }
            };
            if !self.explains
                && let Some(near) = tree::ruled_out(&opened.absent, &mut ask)
            {
                nearest.get_or_insert(near);
                continue;
            }
            let tree = match opened.tree() {
                Ok(tree) => tree,
                Err(damage) => {
                    incomplete = Some(damage.to_string());
                    continue;
                }
            };
            let mut accept = |leaf: &Leaf| match self.outcome(leaf) {
                Ok(outcome) => Some((outcome, leaf.serial, leaf.used)),
                Err(reason) => {
                    incomplete = Some(reason);
                    None
                }
            };
            match tree::lookup(&tree, &mut ask, &mut accept) {
                Ok(((mut outcome, serial, used), facts)) => {
                    if used < today() && !self.read_only {
                        // Losing a use mark costs at most an early eviction.
                        let _ = self.mark_leaf(key, serial);
                    }
                    outcome.facts = facts;
                    return Ok(Lookup::Hit(Box::new(outcome)));
                }
                Err(Some(near)) if nearest.as_ref().is_none_or(|best| near.depth > best.depth) => {
                    nearest = Some(near);
                }
                Err(_) => {}
            }
        }
        Ok(Lookup::Miss(match (incomplete, nearest) {
            (Some(reason), _) => Miss::Incomplete(reason),
            (None, Some(near)) => near.into_miss(),
            (None, None) => Miss::NoEntry,
        }))
    }

    /// That there is no result under `key`, if that is seen at a glance: nothing is
    /// recorded, or each result is ruled out by something that is there now.
    pub fn miss_at_once(
        &self,
        key: &WeakKey,
        ask: &mut dyn FnMut(&Query) -> Answer,
    ) -> Option<Miss> {
        let file = match File::open(self.tree_path(key)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(Miss::NoEntry),
            Err(_) => return None,
        };
        if self.explains || file.metadata().ok()?.len() > GLANCE {
            return None;
        }
        let mut bytes = Vec::with_capacity(GLANCE as usize);
        file.take(GLANCE).read_to_end(&mut bytes).ok()?;
        let (frames, None) = codec::frames(&bytes) else {
            return None;
        };
        let mut newest = None;
        for frame in frames.iter().rev() {
            let opened = Opened::of(frame).ok()?;
            let ruled_out = tree::ruled_out(&opened.absent, &mut *ask)?;
            newest.get_or_insert(ruled_out);
        }
        Some(newest.map_or(Miss::NoEntry, |near| near.into_miss()))
    }

    /// Adds a result under `key`: the facts it depends on, in batches in the
    /// order of observation (within a batch, order means nothing), and what it
    /// leaves behind. The contents that `outcome` names must be in the store.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`], [`StoreError::Contradiction`],
    /// [`StoreError::UnknownAnswer`], [`StoreError::Io`].
    ///
    /// Returns the number that [`Store::results`] has for it.
    pub fn record(&self, key: &WeakKey, batches: Vec<Vec<Fact>>, outcome: &Outcome) -> Result<u64> {
        if self.read_only {
            return Err(StoreError::ReadOnly);
        }
        let batches = canonical(batches)?;
        let absent = ruled_out_by_itself(&batches, outcome);
        let bytes = codec::encode_outcome(outcome).map_err(encode_error)?;
        let outcome = if bytes.len() <= INLINE {
            OutcomeRef::Inline(bytes)
        } else {
            OutcomeRef::Stored(self.put_bytes(&bytes)?)
        };
        let name = key.0.to_string();
        let _lock = self.lock(&name[..SHARD])?;
        let serial = serial();
        let mut tree = Tree::from_serial(serial);
        tree.insert(batches, outcome, absent, today());
        let frame = codec::encode_tree(&tree).map_err(encode_error)?;
        if self.append(key, &frame)? {
            return Ok(serial);
        }
        let mut all = self.merged(key)?;
        if all.nodes.is_empty() {
            self.replace(key, &frame)?;
        } else {
            all.absorb(&tree);
            self.rewrite(key, all)?;
        }
        Ok(serial)
    }

    /// All results under `key`: their numbers, facts and outcomes (none where that
    /// is lost), oldest first. For people: lookups need not decode as much.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn results(&self, key: &WeakKey) -> Result<Vec<Recorded>> {
        let tree = self.merged(key)?;
        let mut results: Vec<Recorded> = tree
            .results()
            .into_iter()
            .map(|(batches, leaf)| Recorded {
                serial: leaf.serial,
                facts: batches.into_iter().flatten().collect(),
                outcome: self.outcome(leaf).ok(),
            })
            .collect();
        results.sort_by_key(|result| result.serial);
        Ok(results)
    }

    /// Takes in all results of a tree under `key`, as the newest.
    pub(super) fn absorb(&self, key: &WeakKey, tree: &Tree) -> Result<()> {
        let name = key.0.to_string();
        let _lock = self.lock(&name[..SHARD])?;
        let mut all = self.merged(key)?;
        all.absorb(tree);
        self.rewrite(key, all)
    }

    /// Puts a frame behind the others, if there are others and it still fits.
    fn append(&self, key: &WeakKey, frame: &[u8]) -> Result<bool> {
        let path = self.tree_path(key);
        let Ok(file) = File::options().read(true).write(true).open(&path) else {
            return Ok(false);
        };
        let Some(end) = end_of_frames(&file) else {
            return Ok(false);
        };
        if end + frame.len() as u64 > MAX_TREE as u64 {
            return Ok(false);
        }
        file.write_all_at(frame, end).map_err(|error| {
            // Half a frame is none, but the next one would stand behind it.
            let _ = file.set_len(end);
            StoreError::io("write", &path)(error)
        })?;
        self.written
            .fetch_add(frame.len() as u64, Ordering::Relaxed);
        Ok(true)
    }

    /// Writes a tree in the place of what is there. The caller has the lock.
    fn rewrite(&self, key: &WeakKey, mut tree: Tree) -> Result<()> {
        tree.shrink(MAX_LEAVES);
        let mut bytes = codec::encode_tree(&tree).map_err(encode_error)?;
        let mut limit = tree.leaves().count().min(MAX_LEAVES);
        while bytes.len() > MAX_TREE && limit > 1 {
            limit /= 2;
            tree.shrink(limit);
            bytes = codec::encode_tree(&tree).map_err(encode_error)?;
        }
        self.replace(key, &bytes)
    }

    /// Puts these bytes in the place of what is there. The caller has the lock.
    fn replace(&self, key: &WeakKey, bytes: &[u8]) -> Result<()> {
        let path = self.tree_path(key);
        let mut file = self.temporary()?;
        file.write_all(bytes)
            .map_err(StoreError::io("write", &path))?;
        self.written
            .fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.publish(file.into_temp_path(), &path)
    }

    fn mark_leaf(&self, key: &WeakKey, serial: u64) -> Result<()> {
        let name = key.0.to_string();
        let _lock = self.lock(&name[..SHARD])?;
        let mut tree = self.merged(key)?;
        if tree.touch(serial, today()) {
            self.rewrite(key, tree)?;
        }
        Ok(())
    }

    /// All results as one tree. What cannot be read is left out.
    fn merged(&self, key: &WeakKey) -> Result<Tree> {
        let bytes = self.read(key)?.unwrap_or_default();
        let (frames, _) = codec::frames(&bytes);
        let mut trees = frames
            .iter()
            .filter_map(|frame| codec::decode_tree(frame).ok());
        let mut merged = trees.next().unwrap_or_default();
        for tree in trees {
            merged.absorb(&tree);
        }
        Ok(merged)
    }

    /// The file of a key, if there is one.
    fn read(&self, key: &WeakKey) -> Result<Option<Vec<u8>>> {
        let path = self.tree_path(key);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
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
            StreamData::Inline(_) | StreamData::Place(_) => None,
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

/// The question that a result's own effects answer otherwise, if it depends on
/// the absence of something that it makes.
fn ruled_out_by_itself(batches: &[Vec<Fact>], outcome: &Outcome) -> Option<Query> {
    let effects = outcome.effects.iter();
    let made: FxHashSet<&FilePath> = effects
        .filter_map(|effect| match effect {
            Effect::Write { path, .. }
            | Effect::Append { path, .. }
            | Effect::MakeDir { path, .. } => Some(path),
            _ => None,
        })
        .collect();
    let facts = batches.iter().flatten();
    facts
        .filter(|fact| fact.answer == Answer::Error(libc::ENOENT))
        .filter_map(|fact| fact.query.presence())
        .find(|presence| matches!(presence, Query::Kind { path, .. } if made.contains(path)))
}

/// Where the frames of a file end, if that is where the file ends, and there may
/// be another one.
fn end_of_frames(file: &File) -> Option<u64> {
    let length = file.metadata().ok()?.len();
    let mut end = 0;
    for _ in 0..MAX_FRAMES - 1 {
        let mut header = [0; codec::HEADER];
        file.read_exact_at(&mut header, end).ok()?;
        end = end.checked_add(codec::frame_len(&header).ok()?)?;
        if end == length {
            return Some(end);
        }
    }
    None
}

/// Names a result in its file; later ones are larger.
fn serial() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

/// Checks bytes that claim to be stored trees or an outcome, headers included;
/// never panics.
///
/// # Errors
/// What is wrong with them.
#[doc(hidden)]
pub fn check_entry(bytes: &[u8]) -> Result<(), String> {
    let (frames, rest) = codec::frames(bytes);
    if let Some(damage) = rest {
        return Err(damage.to_string());
    }
    for frame in frames {
        if let Err(error) = codec::decode_tree(frame) {
            return codec::decode_outcome(frame)
                .map(drop)
                .map_err(|_| error.to_string());
        }
    }
    Ok(())
}

/// Decodes the bodies behind the checksums, which a fuzzer cannot get past.
#[doc(hidden)]
pub fn check_entry_body(body: &[u8]) {
    if let Ok(tree) = codec::decode_tree_body(body) {
        let _ = tree::lookup(&tree, &mut |_| Answer::Error(0), &mut |leaf| {
            Some(leaf.serial)
        });
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
