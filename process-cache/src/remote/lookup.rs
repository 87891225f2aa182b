//! Looking a unit up in a remote cache.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};

use super::backend::{Backend, Entry, Failure, Result, Want};
use super::form::{self, Key, PathSet, Stored};
use super::{Remote, Running, lock};
use crate::fact::{Answer, Fact, Query};
use crate::key::Keyed;
use crate::outcome::Outcome;
use crate::roots::Roots;
use crate::store::{Incoming, Store, WeakKey};

/// Less than this (before anything is known of a result) is no time to ask.
const LEAST: Duration = Duration::from_millis(2);
/// Fetching may take this much longer than running would.
const GRACE: Duration = Duration::from_millis(500);
/// A batch of the decision tree that a result becomes part of, at first.
const BATCH: usize = 32;

/// The answers that a result depends on.
type Answered = Vec<(PathSet, Vec<Answer>)>;

impl Remote {
    /// A result whose facts all hold, if there is one; by then it is in the store,
    /// with its contents.
    ///
    /// # Errors
    /// Why a result was refused, in words.
    pub(super) fn lookup(
        &self,
        keyed: &Keyed,
        ask: &mut dyn FnMut(&Query) -> Answer,
    ) -> Result<Option<Box<Outcome>>, String> {
        if !self.reads() || self.store.is_read_only() {
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
        let moved = Roots::current().zip(keyed.moved);
        let found = match moved {
            Some((roots, key)) => {
                let mut ask = |query: &Query| roots.ask(query, ask);
                self.find(&running, (&key, Some(roots)), keyed, end, &mut ask)
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
        (key, roots): (&WeakKey, Option<&Roots>),
        keyed: &Keyed,
        end: Instant,
        ask: &mut dyn FnMut(&Query) -> Answer,
    ) -> Result<Option<Box<Outcome>>, Stop> {
        let [backend, _] = &running.backends;
        let sets = wait(running, end, sets(backend, key))?;
        let Some(answered) = answer(sets, end, ask)? else {
            return Ok(None);
        };
        let keys: Vec<Option<Key>> = answered
            .iter()
            .map(|(set, answers)| Key::of_result(key, set, answers))
            .collect();
        let found = wait(running, end, result(backend, &keys))?;
        let Some((index, bytes)) = found else {
            return Ok(None);
        };
        let mut stored = form::decode_result(&bytes).map_err(Stop::refused)?;
        let here = match roots {
            Some(roots) => {
                let outcome = roots.effects_here(&stored.outcome).map_err(Stop::refused)?;
                let contents = stored.contents.clone();
                &Stored { outcome, contents }
            }
            None => &stored,
        };
        self.bounds
            .check(here, &keyed.inherited)
            .map_err(Stop::refused)?;
        // From here on we know what it saves.
        let end = end + GRACE + Duration::from_micros(stored.outcome.wall_us);
        let bytes = wait(running, end, contents(backend, &self.store, &stored))?;
        self.counts.bytes.fetch_add(bytes, Ordering::Relaxed);
        let Some((PathSet(queries), answers)) = answered.into_iter().nth(index) else {
            return Ok(None);
        };
        let facts = queries.into_iter().zip(answers);
        let facts = facts.map(|(query, answer)| Fact { query, answer });
        stored.outcome.facts = facts.collect();
        let batches = batches(&stored.outcome.facts);
        self.store
            .record(key, batches, &stored.outcome)
            .map_err(|error| Stop::Failure(error.into()))?;
        let Some(roots) = roots else {
            return Ok(Some(Box::new(stored.outcome)));
        };
        // That it does not fit this place is no reason to complain.
        Ok(roots.admit(stored.outcome, keyed).ok().map(Box::new))
    }
}

/// Why a lookup ends without an answer.
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

/// The path sets of a weak key.
async fn sets(backend: &Backend, key: &WeakKey) -> Result<Vec<PathSet>, Stop> {
    let Some(entry) = backend.entry(Key::of_sets(key)).await? else {
        return Ok(Vec::new());
    };
    let Some(bytes) = blob(backend, entry).await? else {
        return Ok(Vec::new());
    };
    let sets = form::decode_sets(&bytes).map_err(Stop::refused)?;
    match sets.iter().find_map(PathSet::odd) {
        Some(query) => Err(Stop::Refused(format!("it asks {query:?}"))),
        None => Ok(sets),
    }
}

/// Answers all questions, each once; `None` if there are none.
fn answer(
    sets: Vec<PathSet>,
    end: Instant,
    ask: &mut dyn FnMut(&Query) -> Answer,
) -> Result<Option<Answered>, Stop> {
    let mut known: FxHashMap<Query, Answer> = FxHashMap::default();
    let mut answered = Vec::with_capacity(sets.len());
    for set in sets {
        let mut answers = Vec::with_capacity(set.0.len());
        for query in &set.0 {
            let answer = match known.get(query) {
                Some(answer) => answer.clone(),
                None => {
                    if Instant::now() > end {
                        return Err(Stop::Failure(Failure::Slow));
                    }
                    let answer = ask(query);
                    known.insert(query.clone(), answer.clone());
                    answer
                }
            };
            answers.push(answer);
        }
        answered.push((set, answers));
    }
    Ok(Some(answered).filter(|answered| !answered.is_empty()))
}

/// The newest result among these, and which of them it is.
async fn result(backend: &Backend, keys: &[Option<Key>]) -> Result<Option<(usize, Vec<u8>)>, Stop> {
    let mut tasks = tokio::task::JoinSet::new();
    for (index, key) in keys.iter().enumerate() {
        let (backend, Some(key)) = (backend.clone(), *key) else {
            continue;
        };
        tasks.spawn(async move { (index, backend.entry(key).await) });
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

/// An entry's blob, verified; `None` if it got lost.
async fn blob(backend: &Backend, entry: Entry) -> Result<Option<Vec<u8>>> {
    match entry.inlined {
        Some(bytes) => Ok(Some(bytes)),
        None if entry.blob.size > form::MAX_PACKED => {
            Err(Failure::Wrong("a blob is too large".to_owned()))
        }
        None => match backend.bytes(entry.blob).await {
            Err(Failure::Missing) => Ok(None),
            bytes => bytes.map(Some),
        },
    }
}

/// Fetches what the store does not have, and returns how many bytes that were.
async fn contents(backend: &Backend, store: &Arc<Store>, stored: &Stored) -> Result<u64, Stop> {
    let needed: FxHashSet<_> = super::check::contents(&stored.outcome).collect();
    let mut wants = Vec::new();
    let mut bytes = 0;
    for content in &stored.contents {
        let is_needed = needed.contains(&(content.digest, content.length));
        if !is_needed || store.blob_length(&content.digest) == Some(content.length) {
            continue;
        }
        bytes += content.length;
        wants.push(Want {
            wire: content.wire(),
            into: Incoming::new(store, content.digest, content.length).map_err(Failure::from)?,
        });
    }
    if !wants.is_empty() {
        backend.fetch(wants).await?;
    }
    Ok(bytes)
}

/// Facts in batches as a recorded unit has them, each twice as long as the one
/// before.
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
