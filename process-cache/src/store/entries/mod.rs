//! Results by weak key: one file per key, holding its decision tree.
//!
//! A new result is appended as a tree of its own, until there are many: then they are merged into
//! one tree, which replaces the file by rename. Both happen under the shard's lock. Readers need
//! no lock: an incomplete frame is ignored. One file is better than an object per node: a lookup
//! is one open and one read. Data shared by units (paths of headers) compresses to a few bytes
//! each in every tree. Appending is better than rewriting: adding a result of a hundred facts to
//! one of a thousand takes a tenth of the time. It also makes no new file, which can take half a
//! millisecond.

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

/// Outcomes up to this length (bytes) are stored in the tree itself.
const INLINE: usize = 1024;
/// A larger file loses its older half (bytes).
const MAX_TREE: usize = 32 << 20;
/// The maximal length of a file for a quick check (bytes).
const GLANCE: u64 = 64 << 10;
/// The maximal number of trees in a file.
const MAX_FRAMES: usize = 8;

/// The result of a lookup.
#[derive(Debug)]
pub enum Lookup {
    /// A result whose facts all hold (they are in [`Outcome::facts`], in the
    /// order of the tree) and whose contents are all in the store.
    Hit(Box<Outcome>),
    /// No result.
    Miss(Miss),
}

/// A result as it is stored.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// Identifies it among the results of its key; later ones are larger.
    pub serial: u64,
    /// Facts on which it depends, in the order of observation.
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
    /// Looks up a result under `key` whose facts all hold. Calls `ask` only for needed queries,
    /// and once for each.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the store cannot be read. Damaged contents are a
    /// [`Miss::Incomplete`].
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
                        // A lost use mark costs at most an early eviction.
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

    /// Returns a miss if a quick check shows that `key` has no result: none is recorded, or an
    /// existing file rules out each of them.
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

    /// Adds a result under `key`: the facts on which it depends, in batches in the order of
    /// observation (within a batch, the order does not count), and its outcome. The contents that
    /// `outcome` names must be in the store.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`], [`StoreError::Contradiction`],
    /// [`StoreError::UnknownAnswer`], [`StoreError::Io`].
    ///
    /// Returns its serial number in [`Store::results`].
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

    /// Returns all results under `key`: serial numbers, facts and outcomes (`None` if lost),
    /// oldest first. For display: lookups decode less.
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

    /// Adds all results of a tree under `key`, as the newest.
    pub(super) fn absorb(&self, key: &WeakKey, tree: &Tree) -> Result<()> {
        let name = key.0.to_string();
        let _lock = self.lock(&name[..SHARD])?;
        let mut all = self.merged(key)?;
        all.absorb(tree);
        self.rewrite(key, all)
    }

    /// Appends a frame, if there are others and it still fits.
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
            // An incomplete frame is ignored, but the next one would follow it.
            let _ = file.set_len(end);
            StoreError::io("write", &path)(error)
        })?;
        self.written
            .fetch_add(frame.len() as u64, Ordering::Relaxed);
        Ok(true)
    }

    /// Replaces the file by one with this tree. The caller has the lock.
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

    /// Replaces the file by one with these bytes. The caller has the lock.
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

    /// Returns all results as one tree. Unreadable ones are omitted.
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

    /// Reads the file of a key, if there is one.
    fn read(&self, key: &WeakKey) -> Result<Option<Vec<u8>>> {
        let path = self.tree_path(key);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::io("read", &path)(error)),
        }
    }

    /// Returns a leaf's outcome if all its contents exist.
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

/// Returns a query that the result's own effects answer differently, if the result depends on the
/// absence of a file that it makes.
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

/// Returns where the frames of a file end, if that is the end of the file and another frame is
/// allowed.
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

/// Returns a new serial number for a result; later ones are larger.
fn serial() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

/// Checks untrusted bytes as stored trees or an outcome, headers included; never panics.
///
/// # Errors
/// Returns the first defect.
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

/// Decodes bodies without their checksums, for fuzzing.
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
