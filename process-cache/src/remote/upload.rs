//! Uploads results to a remote cache in the background.
//!
//! Contents are uploaded first, then the result, then the path set that leads to it: a client that
//! finds one finds the next. An entry under a weak key is read, extended and written back. A
//! concurrent extension by another client may be lost; its next result adds it again.

use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};
use tokio::sync::{Mutex as Turn, Notify, Semaphore};

use super::breaker::Breaker;
use super::check::{contents, is_shareable};
use super::codec::{
    self, Content, Hint, Key, MAX_HINTED, MAX_HINTS, MAX_SETS, PathSet, Sets, Stored,
};
use super::digest::{Function, Wire};
use super::protocol::{Entry, Failure, Offer, Result, SharedBackend, Source};
use super::{Remote, Trouble, bundle};
use crate::model::fact::{Answer, Digest, Fact, Query};
use crate::model::outcome::Outcome;
use crate::model::weak_key::WeakKey;
use crate::platform::lock::lock;
use crate::store::{Store, hash_file};

/// Maximal number of concurrent uploads.
const AT_ONCE: usize = 4;
/// Maximal number of waiting uploads: a slow server must not fill the memory.
const QUEUE: u64 = 4096;
/// A server that does not answer for this time (plus the time to send a content at a megabyte a
/// second) is given up at the end, unless the user sets a longer time.
const STALL: Duration = Duration::from_secs(3);
/// Number of locks that serialise results with the same key.
const TURNS: usize = 16;

/// Pending uploads.
#[derive(Debug)]
pub(super) struct Uploads {
    store: Arc<Store>,
    trouble: Arc<Trouble>,
    breaker: Mutex<Breaker>,
    slots: Semaphore,
    turns: [Turn<()>; TURNS],
    /// Contents known to be on the server.
    present: Mutex<FxHashSet<Wire>>,
    /// Remote digests of contents, if their computation has to read the content.
    names: Mutex<FxHashMap<Digest, Wire>>,
    open: AtomicU64,
    /// Notifies of progress: an answered request, or a finished upload.
    done: Notify,
    /// Length of the longest uploaded content, in bytes.
    longest: AtomicU64,
    stored: AtomicU64,
    not_stored: AtomicU64,
    sent: AtomicU64,
}

/// A result to upload.
struct Upload {
    key: WeakKey,
    set: PathSet,
    answers: Vec<Answer>,
    outcome: Outcome,
}

/// A hint, and the bundle of its result if there is one.
type Hinted = (Hint, Option<Vec<u8>>);

impl Remote {
    /// Uploads a result later. Its contents are in the store.
    pub fn publish(&self, key: &WeakKey, batches: &[Vec<Fact>], outcome: &Outcome) {
        if !self.writes() || !is_shareable(outcome) {
            return;
        }
        let uploads = &self.uploads;
        let is_full = uploads.open.load(Ordering::Relaxed) >= QUEUE;
        if is_full || !lock(&uploads.breaker).allows(Instant::now()) {
            uploads.not_stored.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let running = match self.running() {
            Ok(running) => running,
            Err(failure) => {
                uploads.failed(&failure);
                return;
            }
        };
        // Sorted and without duplicates, as a path set.
        let mut facts: Vec<&Fact> = batches.iter().flatten().collect();
        facts.sort_by(|a, b| a.query.cmp(&b.query));
        facts.dedup_by(|a, b| a.query == b.query);
        let upload = Upload {
            key: *key,
            set: PathSet::new(facts.iter().map(|fact| fact.query.clone()).collect()),
            answers: facts.iter().map(|fact| fact.answer.clone()).collect(),
            outcome: outcome.clone(),
        };
        uploads.open.fetch_add(1, Ordering::Relaxed);
        let uploads = uploads.clone();
        let [_, backend] = running.backends;
        let _unwatched = running.engine.spawn(async move {
            match uploads.put(&backend, upload).await {
                Ok(()) => {
                    uploads.stored.fetch_add(1, Ordering::Relaxed);
                    lock(&uploads.breaker).succeeded();
                }
                Err(failure) => uploads.failed(&failure),
            }
            uploads.open.fetch_sub(1, Ordering::Relaxed);
            uploads.done.notify_waiters();
        });
    }
}

impl Uploads {
    pub(super) fn new(store: Arc<Store>, trouble: Arc<Trouble>) -> Self {
        Self {
            store,
            trouble,
            breaker: Mutex::default(),
            slots: Semaphore::new(AT_ONCE),
            turns: std::array::from_fn(|_| Turn::new(())),
            present: Mutex::default(),
            names: Mutex::default(),
            open: AtomicU64::new(0),
            done: Notify::new(),
            longest: AtomicU64::new(0),
            stored: AtomicU64::new(0),
            not_stored: AtomicU64::new(0),
            sent: AtomicU64::new(0),
        }
    }

    /// Returns the numbers of uploaded and failed results, and of bytes sent.
    pub(super) fn counts(&self) -> (u64, u64, u64) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (
            count(&self.stored),
            count(&self.not_stored),
            count(&self.sent),
        )
    }

    /// Waits for all uploads, but at most for `wait`, and not for a server that has stopped
    /// answering. The remaining uploads are dropped.
    pub(super) async fn finish(&self, wait: Duration, patience: Duration) {
        let all = async {
            loop {
                let done = self.done.notified();
                if self.open.load(Ordering::Relaxed) == 0 {
                    return;
                }
                let moving = Duration::from_micros(self.longest.load(Ordering::Relaxed));
                if tokio::time::timeout(patience.max(STALL) + moving, done)
                    .await
                    .is_err()
                {
                    return;
                }
            }
        };
        // Unfinished uploads are counted below.
        let _ = tokio::time::timeout(wait, all).await;
        let left = self.open.load(Ordering::Relaxed);
        self.not_stored.fetch_add(left, Ordering::Relaxed);
    }

    fn failed(&self, failure: &Failure) {
        self.not_stored.fetch_add(1, Ordering::Relaxed);
        let mut breaker = lock(&self.breaker);
        match failure {
            Failure::Forbidden(_) => breaker.gave_up(),
            Failure::Local(_) => {}
            _ => breaker.failed(Instant::now()),
        }
        drop(breaker);
        self.trouble.note(failure.to_string());
    }

    async fn put(self: &Arc<Self>, backend: &SharedBackend, upload: Upload) -> Result<()> {
        let closed = |_| Failure::Local("it has ended".to_owned());
        let _slot = self.slots.acquire().await.map_err(closed)?;
        if !lock(&self.breaker).allows(Instant::now()) {
            return Err(Failure::Unreachable("it did not answer before".to_owned()));
        }
        if !backend.is_writable().await? {
            return Err(Failure::Forbidden("it takes no results".to_owned()));
        }
        let Some(key) = Key::of_result(&upload.key, &upload.set, &upload.answers) else {
            return Err(Failure::Local("an answer is not known".to_owned()));
        };
        let function = backend.function().await?;
        let (uploads, outcome) = (self.clone(), upload.outcome);
        let named = tokio::task::spawn_blocking(move || uploads.name(outcome, function));
        let stored = named
            .await
            .map_err(|error| Failure::Local(error.to_string()))??;
        let blob = codec::encode_result(&stored).map_err(too_large)?;
        let entry = Entry {
            blob: function.of(&blob),
            inlined: None,
            contents: stored.contents.iter().map(Content::wire).collect(),
            beside: None,
        };
        let mut offers: Vec<Offer> = stored
            .contents
            .iter()
            .map(|content| Offer {
                wire: content.wire(),
                source: Source::Stored(self.store.clone(), content.digest),
            })
            .collect();
        let lengths = stored.contents.iter().map(|content| content.length);
        let mut beside = None;
        if backend.has_beside() && bundle::is_worth(lengths) {
            let (uploads, blob) = (self.clone(), blob.clone());
            let contents = stored.contents.clone();
            let bundle = tokio::task::spawn_blocking(move || uploads.bundle(key, &blob, &contents));
            beside = bundle
                .await
                .map_err(|error| Failure::Local(error.to_string()))??;
        }
        offers.push(Offer {
            wire: entry.blob,
            source: Source::Bytes(blob),
        });
        let hint = hint(&upload.key, (&upload.set, &upload.answers), key, &stored);
        self.send(backend, offers).await?;
        backend.set_entry(key, entry).await?;
        let hint = hint.map(|hint| (hint, beside));
        self.add_set(backend, function, upload.key, (upload.set, hint))
            .await
    }

    /// Returns a result with its contents, if these are short.
    fn bundle(&self, key: Key, result: &[u8], contents: &[Content]) -> Result<Option<Vec<u8>>> {
        let mut plain = Vec::new();
        for content in contents {
            let mut file = self.store.open_blob(&content.digest, content.length)?;
            file.read_to_end(&mut plain).map_err(local)?;
        }
        bundle::encode(key, result, &plain).map_err(local)
    }

    /// Computes the remote digests of all contents of an outcome.
    fn name(&self, outcome: Outcome, function: Function) -> Result<Stored> {
        let mut listed = FxHashSet::default();
        let mut named = Vec::new();
        for (digest, length) in contents(&outcome) {
            if !listed.insert(digest) {
                continue;
            }
            let known = lock(&self.names).get(&digest).copied();
            let wire = match (function, known) {
                (Function::Blake3, _) => Wire {
                    hash: digest.0,
                    size: length,
                },
                (_, Some(wire)) => wire,
                (function, None) => {
                    let file = self.store.open_blob(&digest, length)?;
                    let mut hasher = function.hasher();
                    let found = hash_file(&file, length, |piece| hasher.update(piece));
                    if !matches!(found, Ok(Some(found)) if found == digest) {
                        return Err(Failure::Local(self.store.discard(&digest).to_string()));
                    }
                    let wire = hasher.finish();
                    lock(&self.names).insert(digest, wire);
                    wire
                }
            };
            named.push(Content {
                digest,
                hash: wire.hash,
                length,
            });
        }
        Ok(Stored {
            outcome,
            contents: named,
        })
    }

    /// Uploads contents that the server does not have.
    async fn send(&self, backend: &SharedBackend, mut offers: Vec<Offer>) -> Result<()> {
        {
            let present = lock(&self.present);
            offers.retain(|offer| !present.contains(&offer.wire));
        }
        let wires: Vec<Wire> = offers.iter().map(|offer| offer.wire).collect();
        if wires.is_empty() {
            return Ok(());
        }
        let missing = backend.missing(wires.clone()).await?;
        self.done.notify_waiters();
        let missing: FxHashSet<Wire> = missing.into_iter().collect();
        offers.retain(|offer| missing.contains(&offer.wire));
        let sizes = offers.iter().map(|offer| offer.wire.size);
        let longest = sizes.clone().max().unwrap_or(0);
        let bytes = sizes.sum();
        self.longest.fetch_max(longest, Ordering::Relaxed);
        backend.store(offers).await?;
        self.done.notify_waiters();
        self.sent.fetch_add(bytes, Ordering::Relaxed);
        lock(&self.present).extend(wires);
        Ok(())
    }

    /// Adds a path set before the existing ones, a hint to the others, and the bundle next to
    /// them.
    async fn add_set(
        &self,
        backend: &SharedBackend,
        function: Function,
        key: WeakKey,
        (set, hint): (PathSet, Option<Hinted>),
    ) -> Result<()> {
        let turn = usize::from(key.0.0[0]) % TURNS;
        let _turn = self.turns[turn].lock().await;
        let place = Key::of_sets(&key);
        // An unreadable entry is replaced.
        let mut sets = match backend.entry(place, false).await {
            Ok(Some(Entry {
                inlined: Some(bytes),
                ..
            })) => codec::decode_sets(&bytes).unwrap_or_default(),
            Ok(Some(entry)) => match backend.bytes(entry.blob).await {
                Ok(bytes) => codec::decode_sets(&bytes).unwrap_or_default(),
                Err(Failure::Missing | Failure::Wrong(_)) => Sets::default(),
                Err(failure) => return Err(failure),
            },
            Ok(None) | Err(Failure::Wrong(_)) => Sets::default(),
            Err(failure) => return Err(failure),
        };
        sets.sets.retain(|set| set.odd().is_none());
        let (hint, beside) = hint.unzip();
        let is_hinted = hint.is_none() || sets.hints.first() == hint.as_ref();
        if sets.sets.contains(&set) {
            if is_hinted {
                return Ok(());
            }
        } else {
            sets.sets.insert(0, set);
            sets.sets.truncate(MAX_SETS);
        }
        if let Some(hint) = hint {
            sets.hints.retain(|other| other.near != hint.near);
            sets.hints.insert(0, hint);
            sets.hints.truncate(MAX_HINTS);
        }
        let blob = codec::encode_sets(&sets).map_err(too_large)?;
        let beside = beside.flatten().map(|bytes| (function.of(&bytes), bytes));
        let entry = Entry {
            blob: function.of(&blob),
            inlined: None,
            contents: Vec::new(),
            beside: beside.as_ref().map(|(wire, _)| (*wire, None)),
        };
        let blobs = [Some((entry.blob, blob)), beside];
        let offers = blobs.into_iter().flatten().map(|(wire, bytes)| Offer {
            wire,
            source: Source::Bytes(bytes),
        });
        self.send(backend, offers.collect()).await?;
        backend.set_entry(place, entry).await
    }
}

/// Returns a hint with which a lookup recognises this result early; `None` if it is not
/// worthwhile.
fn hint(
    key: &WeakKey,
    (set, answers): (&PathSet, &[Answer]),
    result: Key,
    stored: &Stored,
) -> Option<Hint> {
    if stored.contents.len() > MAX_HINTED {
        return None;
    }
    let known: FxHashMap<&Query, &Answer> = set.0.iter().zip(answers).collect();
    let near: Vec<&Query> = set.near().collect();
    let answers = near.iter().map(|query| known.get(query).copied().cloned());
    let answers: Option<Vec<Answer>> = answers.collect();
    Some(Hint {
        near: Key::of_near(key, &near, &answers?)?,
        result,
        contents: stored.contents.clone(),
    })
}

#[expect(clippy::needless_pass_by_value, reason = "it is given to map_err")]
fn local(error: std::io::Error) -> Failure {
    Failure::Local(error.to_string())
}

#[expect(clippy::needless_pass_by_value, reason = "it is given to map_err")]
fn too_large(error: codec::FormError) -> Failure {
    Failure::Local(format!("a result cannot be packed: {error}"))
}
