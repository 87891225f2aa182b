//! Looks up a unit in a remote cache.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};
use tokio::task::JoinHandle;

use super::bundle::Bundle;
use super::codec::{self, Content, Hint, Key, PathSet, Sets, Stored};
use super::digest::Wire;
use super::protocol::{Entry, Failure, Result, SharedBackend, Want};
use super::{Remote, Running};
use crate::key::Keyed;
use crate::model::fact::{Answer, Fact, Query};
use crate::model::outcome::Outcome;
use crate::model::weak_key::WeakKey;
use crate::platform::lock::lock;
use crate::relocation::Relocation;
use crate::store::{Incoming, Shared, Store};

/// Minimal remaining time for a request, before a result is known.
const LEAST: Duration = Duration::from_millis(2);
/// Extra time that a download may take beyond the duration of the program.
const GRACE: Duration = Duration::from_millis(500);
/// Maximal size of contents downloaded before the result is known, in bytes.
const EARLY: u64 = 64 << 20;
/// Initial number of facts in a batch of the stored decision tree.
const BATCH: usize = 32;

impl Remote {
    /// Looks for a result whose facts all hold. When this returns, the result is in the store with
    /// its contents.
    ///
    /// # Errors
    /// The reason why a result was refused.
    pub(super) fn lookup(
        &self,
        relocation: Option<&Relocation>,
        keyed: &Keyed,
        ask: &mut dyn FnMut(&Query) -> Answer,
    ) -> Result<Option<Box<Outcome>>, String> {
        if !self.reads() {
            return Ok(None);
        }
        let began = Instant::now();
        let left = lock(&self.patience).left(began);
        if left < LEAST {
            return Ok(None);
        }
        let running = match self.running() {
            Ok(running) => running,
            Err(failure) => {
                self.failed(&failure);
                return Ok(None);
            }
        };
        let end = began + left;
        let moved = relocation.zip(keyed.moved);
        let found = match moved {
            Some((relocation, key)) => {
                let mut ask = |query: &Query| relocation.ask(query, ask);
                self.find(&running, (&key, Some(relocation)), keyed, end, &mut ask)
            }
            None => Ok(None),
        };
        let found = match found {
            Ok(None) => self.find(&running, (&keyed.key, None), keyed, end, ask),
            found => found,
        };
        lock(&self.patience).spent(began.elapsed());
        match found {
            Ok(found) => {
                lock(&self.reading).succeeded();
                let counter = match &found {
                    Some(_) => &self.counts.hits,
                    None => &self.counts.misses,
                };
                counter.fetch_add(1, Ordering::Relaxed);
                if let Some(outcome) = &found {
                    let saved = Duration::from_micros(outcome.wall_us);
                    lock(&self.patience).saved(saved);
                }
                Ok(found)
            }
            Err(Stop::Failure(failure)) => {
                self.counts.misses.fetch_add(1, Ordering::Relaxed);
                self.failed(&failure);
                Ok(None)
            }
            Err(Stop::Refused(reason)) => {
                self.counts.refused.fetch_add(1, Ordering::Relaxed);
                let reason = format!("a result from the remote cache was refused: {reason}");
                self.trouble.note(reason.clone());
                Err(reason)
            }
        }
    }

    fn find(
        &self,
        running: &Running,
        (key, relocation): (&WeakKey, Option<&Relocation>),
        keyed: &Keyed,
        end: Instant,
        ask: &mut dyn FnMut(&Query) -> Answer,
    ) -> Result<Option<Box<Outcome>>, Stop> {
        let [backend, _] = &running.backends;
        let (mut sets, bundle) = wait(running, end, sets(backend, key))?;
        let mut asking = Asking::new(end, ask);
        let bundle = opening(running, &sets, bundle);
        let early = self.early(running, key, (&sets, bundle), &mut asking)?;
        let mut answered = asking.all(&sets.sets)?;
        let keys = sets.sets.iter().zip(&answered);
        let keys: Vec<Option<Key>> = keys
            .map(|(set, answers)| Key::of_result(key, set, answers))
            .collect();
        let Some((index, bytes)) = self.result(running, end, &keys, early)? else {
            return Ok(None);
        };
        let mut stored = codec::decode_result(&bytes).map_err(Stop::refused)?;
        let here = match relocation {
            Some(relocation) => {
                let outcome = relocation
                    .effects_here(&stored.outcome)
                    .map_err(Stop::refused)?;
                let contents = stored.contents.clone();
                &Stored { outcome, contents }
            }
            None => &stored,
        };
        self.bounds
            .check(here, &keyed.inherited)
            .map_err(Stop::refused)?;
        // From here on the saved time is known.
        let end = end + GRACE + Duration::from_micros(stored.outcome.wall_us);
        let named: FxHashSet<_> = super::check::contents(&stored.outcome).collect();
        let needed = stored.contents.iter();
        let needed = needed.filter(|content| named.contains(&(content.digest, content.length)));
        let wants = wants(&self.store, needed)?;
        let bytes = wait(running, end, fetch(backend, wants))?;
        self.counts.bytes.fetch_add(bytes, Ordering::Relaxed);
        let (PathSet(queries), answers) =
            (sets.sets.swap_remove(index), answered.swap_remove(index));
        let facts = queries.into_iter().zip(answers);
        let facts = facts.map(|(query, answer)| Fact { query, answer });
        stored.outcome.facts = facts.collect();
        let batches = batches(&stored.outcome.facts);
        self.record(key, batches, &stored.outcome)?;
        let Some(relocation) = relocation else {
            return Ok(Some(Box::new(stored.outcome)));
        };
        // A result that does not fit this directory is no failure.
        let admitted = relocation.admit(&self.store, stored.outcome, keyed);
        Ok(admitted.ok().map(Box::new))
    }

    /// Requests the result that a hint names, if the near queries have the expected answers.
    fn early<'s>(
        &self,
        running: &Running,
        key: &WeakKey,
        (sets, mut bundle): (&'s Sets, Option<Opening>),
        asking: &mut Asking<'_, 's>,
    ) -> Result<Option<Early>, Stop> {
        if sets.hints.is_empty() {
            return Ok(None);
        }
        for set in &sets.sets {
            let near: Vec<&Query> = set.near().collect();
            let answers: Result<Vec<Answer>, Stop> =
                near.iter().map(|query| asking.one(query)).collect();
            let near = Key::of_near(key, &near, &answers?);
            let hint = sets.hints.iter().find(|hint| Some(hint.near) == near);
            let Some(hint) = hint else { continue };
            let size = hint.contents.iter().map(|content| content.length);
            if size.fold(0, u64::saturating_add) > EARLY {
                return Ok(None);
            }
            let [backend, _] = &running.backends;
            let (backend, key) = (backend.clone(), hint.result);
            let wants = wants(&self.store, hint.contents.iter())?;
            // The bundle belongs to the newest result.
            let bundle = bundle.take_if(|_| sets.hints.first() == Some(hint));
            let hint = hint.clone();
            let task = async move {
                let wants = match bundled(&hint, bundle, wants).await {
                    Ok((bundle, fetched)) => return Some((bundle.result, fetched)),
                    Err(wants) => wants,
                };
                let keys = [Some(key)];
                let (found, fetched) =
                    tokio::join!(result(&backend, &keys), fetch(&backend, wants));
                // A failed request is repeated later, and fails again.
                let (_, bytes) = found.ok().flatten()?;
                Some((bytes, fetched.unwrap_or(0)))
            };
            let task = running.engine.spawn(task);
            return Ok(task.map(|task| Early { key, task }));
        }
        Ok(None)
    }

    /// Returns the newest result among these, and its index.
    fn result(
        &self,
        running: &Running,
        end: Instant,
        keys: &[Option<Key>],
        early: Option<Early>,
    ) -> Result<Option<(usize, Vec<u8>)>, Stop> {
        if let Some(mut early) = early
            && let Some(index) = keys.iter().position(|key| *key == Some(early.key))
            && let Some((bytes, fetched)) = wait(running, end, early.done())?
        {
            self.counts.bytes.fetch_add(fetched, Ordering::Relaxed);
            return Ok(Some((index, bytes)));
        }
        let [backend, _] = &running.backends;
        wait(running, end, result(backend, keys))
    }

    /// Puts a result into the store, now or later.
    fn record(
        &self,
        key: &WeakKey,
        batches: Vec<Vec<Fact>>,
        outcome: &Outcome,
    ) -> Result<(), Stop> {
        if self.store.is_writing_behind() {
            *lock(&self.found) = Some((*key, batches, outcome.clone()));
            return Ok(());
        }
        let recorded = self.store.record(key, batches, outcome);
        recorded
            .map(drop)
            .map_err(|error| Stop::Failure(error.into()))
    }
}

/// A result requested before it is known to be the right one.
struct Early {
    key: Key,
    task: JoinHandle<Option<(Vec<u8>, u64)>>,
}

impl Early {
    async fn done(&mut self) -> Result<Option<(Vec<u8>, u64)>, Stop> {
        // After another failure, the result is requested again.
        Ok((&mut self.task).await.ok().flatten())
    }
}

impl Drop for Early {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Why a lookup ends without a result.
enum Stop {
    Failure(Failure),
    Refused(String),
}

impl Stop {
    #[expect(clippy::needless_pass_by_value, reason = "it is given to map_err")]
    fn refused(reason: impl ToString) -> Self {
        Self::Refused(reason.to_string())
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Wrong(what) => Self::Refused(what),
            failure => Self::Failure(failure),
        }
    }
}

/// Waits for an answer until `end`.
fn wait<T>(
    running: &Running,
    end: Instant,
    answer: impl Future<Output = Result<T, Stop>>,
) -> Result<T, Stop> {
    let limited = async { tokio::time::timeout_at(end.into(), answer).await };
    match running.engine.block_on(limited) {
        Some(Ok(answer)) => answer,
        Some(Err(_)) => Err(Stop::Failure(Failure::Slow)),
        None => Err(Stop::Failure(Failure::Local("it has ended".to_owned()))),
    }
}

/// Requests the path sets of a weak key, and the bundle if the server inlines it.
async fn sets(backend: &SharedBackend, key: &WeakKey) -> Result<(Sets, Option<Vec<u8>>), Stop> {
    let Some(mut entry) = backend.entry(Key::of_sets(key), true).await? else {
        return Ok(Default::default());
    };
    let bundle = entry.beside.take().and_then(|(_, bytes)| bytes);
    let Some(bytes) = blob(backend, entry).await? else {
        return Ok(Default::default());
    };
    let sets = codec::decode_sets(&bytes).map_err(Stop::refused)?;
    match sets.sets.iter().find_map(PathSet::odd) {
        Some(query) => Err(Stop::Refused(format!("it asks {query:?}"))),
        None => Ok((sets, bundle)),
    }
}

/// A bundle in decompression.
type Opening = JoinHandle<Option<(Bundle, Vec<Shared>)>>;

/// Decompresses a bundle in the background. It is dropped unless it has the right result. All its
/// data is available elsewhere, so defects do not matter.
fn opening(running: &Running, sets: &Sets, bundle: Option<Vec<u8>>) -> Option<Opening> {
    let (hint, sent) = (sets.hints.first()?.clone(), bundle?);
    running.engine.spawn(async move {
        let bundle = Bundle::decode(sent).ok()?;
        let lengths: Vec<u64> = hint.contents.iter().map(|content| content.length).collect();
        let contents = (bundle.key == hint.result).then(|| bundle.contents(&lengths));
        Some((bundle, contents?.ok()?))
    })
}

/// Takes the result that a hint names, and the wanted contents, from a bundle; otherwise returns
/// the wanted contents. Also returns the number of bytes taken.
async fn bundled(
    hint: &Hint,
    bundle: Option<Opening>,
    wants: Vec<Want>,
) -> Result<(Bundle, u64), Vec<Want>> {
    let Some(opening) = bundle else {
        return Err(wants);
    };
    let Ok(Some((bundle, contents))) = opening.await else {
        return Err(wants);
    };
    let contents = hint.contents.iter().map(Content::wire).zip(contents);
    let contents: FxHashMap<Wire, Shared> = contents.collect();
    let mut taken = 0;
    for Want { wire, into } in wants {
        let length = into.length();
        // A content with a wrong digest is requested separately.
        if let Some(bytes) = contents.get(&wire)
            && into.whole(bytes.clone()).is_ok()
        {
            taken += length;
        }
    }
    Ok((bundle, taken))
}

/// Asks each query once.
struct Asking<'a, 's> {
    known: FxHashMap<&'s Query, Answer>,
    end: Instant,
    ask: &'a mut dyn FnMut(&Query) -> Answer,
}

impl<'a, 's> Asking<'a, 's> {
    fn new(end: Instant, ask: &'a mut dyn FnMut(&Query) -> Answer) -> Self {
        let known = FxHashMap::default();
        Self { known, end, ask }
    }

    fn one(&mut self, query: &'s Query) -> Result<Answer, Stop> {
        if let Some(answer) = self.known.get(query) {
            return Ok(answer.clone());
        }
        if Instant::now() > self.end {
            return Err(Stop::Failure(Failure::Slow));
        }
        let answer = (self.ask)(query);
        self.known.insert(query, answer.clone());
        Ok(answer)
    }

    /// Returns the answers to all queries of each set.
    fn all(&mut self, sets: &'s [PathSet]) -> Result<Vec<Vec<Answer>>, Stop> {
        let answers = |set: &'s PathSet| set.0.iter().map(|query| self.one(query)).collect();
        sets.iter().map(answers).collect()
    }
}

/// Returns the newest result among these, and its index.
async fn result(
    backend: &SharedBackend,
    keys: &[Option<Key>],
) -> Result<Option<(usize, Vec<u8>)>, Stop> {
    let mut tasks = tokio::task::JoinSet::new();
    for (index, key) in keys.iter().enumerate() {
        let (backend, Some(key)) = (backend.clone(), *key) else {
            continue;
        };
        tasks.spawn(async move { (index, backend.entry(key, false).await) });
    }
    let mut found: Vec<(usize, Entry)> = Vec::new();
    let mut failure = None;
    while let Some(done) = tasks.join_next().await {
        match done {
            Ok((index, Ok(Some(entry)))) => found.push((index, entry)),
            Ok((_, Ok(None))) => {}
            Ok((_, Err(failed))) => failure = Some(failed),
            Err(error) => failure = Some(Failure::Local(error.to_string())),
        }
    }
    found.sort_by_key(|(index, _)| *index);
    let Some((index, entry)) = found.into_iter().next() else {
        return failure.map_or(Ok(None), |failure| Err(failure.into()));
    };
    Ok(blob(backend, entry).await?.map(|bytes| (index, bytes)))
}

/// Requests an entry's blob and verifies it; `None` if the server has lost it.
async fn blob(backend: &SharedBackend, entry: Entry) -> Result<Option<Vec<u8>>> {
    match entry.inlined {
        Some(bytes) => Ok(Some(bytes)),
        None if entry.blob.size > codec::MAX_PACKED => {
            Err(Failure::Wrong("a blob is too large".to_owned()))
        }
        None => match backend.bytes(entry.blob).await {
            Err(Failure::Missing) => Ok(None),
            bytes => bytes.map(Some),
        },
    }
}

/// Returns those contents that the store does not have.
fn wants<'a>(
    store: &Arc<Store>,
    contents: impl Iterator<Item = &'a Content>,
) -> Result<Vec<Want>, Stop> {
    let missing = |content: &&Content| store.blob_length(&content.digest) != Some(content.length);
    let want = |content: &Content| {
        Ok(Want {
            wire: content.wire(),
            into: Incoming::new(store, content.digest, content.length).map_err(Failure::from)?,
        })
    };
    contents.filter(missing).map(want).collect()
}

/// Downloads contents, and returns the number of bytes.
async fn fetch(backend: &SharedBackend, wants: Vec<Want>) -> Result<u64, Stop> {
    if wants.is_empty() {
        return Ok(0);
    }
    let bytes = wants.iter().map(|want| want.into.length()).sum();
    backend.fetch(wants).await?;
    Ok(bytes)
}

/// Splits facts into batches as for a recorded unit, each twice as long as the previous one.
fn batches(mut facts: &[Fact]) -> Vec<Vec<Fact>> {
    let mut batches = Vec::new();
    let mut size = BATCH;
    while !facts.is_empty() {
        let (batch, rest) = facts.split_at(size.min(facts.len()));
        batches.push(batch.to_vec());
        facts = rest;
        size *= 2;
    }
    batches
}
