//! Results of other machines, and for other machines: a remote cache.
//!
//! The engines exist already: a server that speaks the Bazel Remote Execution API
//! ([`grpc`]), or a directory that is shared ([`directory`]). What a unit depends on is
//! not known before it has run, so a result is found in two steps: under the weak key
//! stand the newest *path sets*, questions without answers; we answer them, and the
//! answers lead to the key of the result ([`codec`]). A hit is two round trips: path
//! sets, then result and contents, which are on their way while we answer; or one, where
//! the newest result came along with the path sets ([`bundle`]). It is then stored as if
//! we had recorded it.
//!
//! | step | modules |
//! |---|---|
//! | what the user asks for | [`settings`] |
//! | looking a unit up | `lookup`, [`check`] |
//! | putting a unit there, in the background | `upload` |
//! | how it travels | [`codec`], [`bundle`], [`digest`], [`protocol`], [`grpc`], [`directory`] |
//! | who drives the requests; when to stop asking | `runtime`, [`breaker`] |
//!
//! **Invariants.** The build never fails because of a remote cache, and never waits
//! for it longer than [`breaker::Patience`] allows. What comes from there is data
//! from a stranger: nothing is established that [`check`] has not let pass, and no
//! content that has not the digest that was asked for.

pub mod breaker;
pub mod bundle;
pub mod check;
pub mod codec;
pub mod digest;
pub mod directory;
pub mod grpc;
mod lookup;
pub mod protocol;
mod resolve;
mod runtime;
pub mod settings;
mod upload;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ptrace_async::runtime::HostThreads;
use serde::Serialize;

use self::breaker::{Breaker, Patience};
use self::check::Bounds;
use self::directory::Directory;
use self::protocol::{Failure, Retries, SharedBackend};
use self::runtime::Engine;
use self::settings::{Keep, Place, Settings};
use self::upload::Uploads;
use crate::key::Keyed;
use crate::model::fact::{Answer, Fact, Query};
use crate::model::miss::Miss;
use crate::model::outcome::Outcome;
use crate::model::weak_key::WeakKey;
use crate::platform::lock::lock;
use crate::relocation::Relocation;
use crate::store::{Lookup, Store};

/// Somebody waits for these.
const LOOKUPS: Retries = Retries {
    pause: Duration::from_millis(10),
    count: 1,
};
/// Nobody waits for these.
const UPLOADS: Retries = Retries {
    pause: Duration::from_millis(100),
    count: 3,
};

/// A remote cache in use.
#[derive(Debug)]
pub struct Remote {
    settings: Settings,
    store: Arc<Store>,
    bounds: Bounds,
    place: Prepared,
    engine: Mutex<Option<Running>>,
    /// Where a thread of ours enters itself; none before anything is traced.
    background: Mutex<Option<HostThreads>>,
    reading: Mutex<Breaker>,
    /// A result that was found and is not in the store yet.
    found: Mutex<Option<Found>>,
    patience: Mutex<Patience>,
    uploads: Arc<Uploads>,
    counts: Counts,
    trouble: Arc<Trouble>,
}

/// A place that was looked up, if it could be.
#[derive(Debug)]
enum Prepared {
    Server(Box<grpc::Prepared>),
    Directory(Directory),
    Nowhere,
}

/// A result, as [`Store::record`] takes it.
type Found = (WeakKey, Vec<Vec<Fact>>, Outcome);

/// An engine with what it serves.
#[derive(Debug, Clone)]
struct Running {
    engine: Arc<Engine>,
    /// For lookups, and for uploads.
    backends: [SharedBackend; 2],
}

/// Counts of lookups by result.
#[derive(Debug, Default)]
struct Counts {
    hits: AtomicU64,
    misses: AtomicU64,
    refused: AtomicU64,
    bytes: AtomicU64,
}

/// The first error of each kind.
#[derive(Debug, Default)]
struct Trouble {
    said: Mutex<Vec<String>>,
    /// It was in the way at least once.
    any: AtomicBool,
}

impl Trouble {
    fn note(&self, text: String) {
        self.any.store(true, Ordering::Relaxed);
        let mut said = lock(&self.said);
        if said.len() < 3 && !said.contains(&text) {
            said.push(text);
        }
    }
}

/// The report about a remote cache at the end of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Units that were skipped with a result from there.
    pub hits: u64,
    /// Units that had no result there.
    pub misses: u64,
    /// Results that were refused.
    pub refused: u64,
    /// Bytes of contents that came from there.
    pub received_bytes: u64,
    /// Results that were put there.
    pub stored: u64,
    /// Results that were not, because it failed or time was up.
    pub not_stored: u64,
    /// Bytes of contents that were sent there.
    pub sent_bytes: u64,
    /// Errors, one line each.
    pub trouble: Vec<String>,
}

/// Looks a unit up in the store, and where it has no result, in the remote cache.
///
/// # Errors
/// As [`Store::lookup`].
pub fn lookup(
    (remote, relocation): (Option<&Remote>, Option<&Relocation>),
    store: &Store,
    keyed: &Keyed,
    ask: &mut dyn FnMut(&Query) -> Answer,
) -> crate::store::Result<Lookup> {
    let moved = match relocation {
        Some(relocation) => relocation.lookup(store, keyed, ask)?,
        None => Lookup::Miss(Miss::NoEntry),
    };
    if matches!(moved, Lookup::Hit(_)) {
        return Ok(moved);
    }
    let local = match store.lookup(&keyed.key, ask)? {
        // What differs from a result of another place says more.
        Lookup::Miss(Miss::NoEntry) => moved,
        local => local,
    };
    let (Lookup::Miss(_), Some(remote)) = (&local, remote) else {
        return Ok(local);
    };
    Ok(match remote.lookup(relocation, keyed, ask) {
        Ok(Some(outcome)) => Lookup::Hit(outcome),
        Ok(None) => local,
        Err(refused) => Lookup::Miss(Miss::Incomplete(refused)),
    })
}

impl Remote {
    /// Makes ready what is needed to ask; nothing is asked yet. To be called while the
    /// process has one thread.
    pub fn new(settings: Settings, store: Arc<Store>) -> Self {
        let trouble = Arc::new(Trouble::default());
        if store.is_read_only() {
            // Nothing is recorded that could be put there.
            store.write_behind();
        }
        let mut reading = Breaker::default();
        let prepared = match &settings.place {
            Place::Directory(path) => Ok(Prepared::Directory(Directory::new(path.clone()))),
            Place::Server(address) => resolve::addresses(address)
                .and_then(|found| grpc::prepare(address, found, &settings))
                .map(|prepared| Prepared::Server(Box::new(prepared))),
        };
        let place = prepared.unwrap_or_else(|failure| {
            trouble.note(failure.to_string());
            reading.gave_up();
            Prepared::Nowhere
        });
        Self {
            bounds: Bounds::new(settings.roots.clone()),
            uploads: Arc::new(Uploads::new(store.clone(), trouble.clone())),
            patience: Mutex::new(Patience::new(Instant::now(), settings.patience)),
            settings,
            store,
            place,
            engine: Mutex::default(),
            background: Mutex::default(),
            reading: Mutex::new(reading),
            found: Mutex::default(),
            counts: Counts::default(),
            trouble,
        }
    }

    /// ExecContext to connect, and waits for nothing; nothing is asked yet. Until
    /// [`Remote::suspend`] the process has another thread.
    pub fn begin(&self) {
        if let Prepared::Server(server) = &self.place
            && self.reads()
        {
            server.begin();
            // What fails here fails again where it is needed.
            let _ = self.running();
        }
    }

    /// Whether it may be asked for results at all.
    pub fn reads(&self) -> bool {
        self.settings.mode.reads() && lock(&self.reading).allows(Instant::now())
    }

    /// Whether results are put there.
    pub fn writes(&self) -> bool {
        self.settings.mode.writes() && !matches!(self.place, Prepared::Nowhere)
    }

    /// From now on, what is found need not be in the store before it is used: until
    /// [`Remote::suspend`], and somebody calls [`Remote::keep`].
    pub fn hold(&self) {
        if self.reads() {
            self.store.write_behind();
        }
    }

    /// Whether a result was found that is not in the store yet.
    pub fn holds(&self) -> bool {
        lock(&self.found).is_some()
    }

    /// Whether nobody waits until what was found is in the store.
    pub fn keeps_behind(&self) -> bool {
        self.settings.keep == Keep::Behind
    }

    /// Puts into the store what was found.
    pub fn keep(&self) {
        let Some((key, batches, outcome)) = lock(&self.found).take() else {
            return;
        };
        if self.store.is_read_only() {
            return;
        }
        let kept = self.store.write_pending();
        let kept = kept.and_then(|()| self.store.record(&key, batches, &outcome));
        if let Err(error) = kept {
            self.trouble
                .note(format!("results from there cannot be kept: {error}"));
        }
    }

    /// Ends all connections: the process is about to fork.
    pub fn disconnect(&self) {
        *lock(&self.engine) = None;
        if let Prepared::Server(server) = &self.place {
            server.stop();
        }
    }

    /// Ends all connections, and forgets what nobody kept: the process is about to fork.
    pub fn suspend(&self) {
        self.disconnect();
        self.store.drop_pending_contents();
        *lock(&self.found) = None;
    }

    /// From now on a thread of its own does the work.
    pub fn enter(&self, background: HostThreads) {
        self.suspend();
        *lock(&self.background) = Some(background);
    }

    /// Waits for what is still on its way there, and ends.
    pub fn finish(&self) {
        if let Some(running) = lock(&self.engine).take() {
            let uploads = self.uploads.clone();
            let (wait, patience) = (self.settings.wait, self.settings.patience);
            let finish = async move { uploads.finish(wait, patience).await };
            running.engine.block_on(finish);
        }
    }

    /// Summary of its use in this run.
    pub fn summary(&self) -> Summary {
        let (stored, not_stored, sent_bytes) = self.uploads.counts();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Summary {
            hits: count(&self.counts.hits),
            misses: count(&self.counts.misses),
            refused: count(&self.counts.refused),
            received_bytes: count(&self.counts.bytes),
            stored,
            not_stored,
            sent_bytes,
            trouble: lock(&self.trouble.said).clone(),
        }
    }

    /// Lines for the end of a run: what went wrong.
    pub fn complaints(&self) -> String {
        let summary = self.summary();
        let url = &self.settings.url;
        let mut lines = String::new();
        for text in &summary.trouble {
            lines.push_str(&format!("pcache: remote cache {url}: {text}\n"));
        }
        if summary.not_stored > 0 {
            let count = summary.not_stored;
            lines.push_str(&format!(
                "pcache: remote cache {url}: {count} results were not put there\n"
            ));
        }
        lines
    }

    /// The runtime that serves requests, started if need be.
    fn running(&self) -> Result<Running, Failure> {
        let mut engine = lock(&self.engine);
        if let Some(running) = &*engine {
            return Ok(running.clone());
        }
        let started = Engine::start(lock(&self.background).clone());
        let started = Arc::new(started.map_err(|error| Failure::Local(error.to_string()))?);
        let backend = |retries| match &self.place {
            Prepared::Server(prepared) => {
                Some(Arc::new(grpc::connect(prepared, retries)) as SharedBackend)
            }
            Prepared::Directory(directory) => Some(Arc::new(directory.clone()) as SharedBackend),
            Prepared::Nowhere => None,
        };
        let gone = || Failure::Unreachable("it has no address".to_owned());
        let make = |retries| started.make(|| backend(retries)).flatten().ok_or_else(gone);
        let running = Running {
            backends: [make(LOOKUPS)?, make(UPLOADS)?],
            engine: started,
        };
        *engine = Some(running.clone());
        Ok(running)
    }

    /// A lookup failed.
    fn failed(&self, failure: &Failure) {
        let mut reading = lock(&self.reading);
        match failure {
            Failure::Forbidden(_) => reading.gave_up(),
            Failure::Missing | Failure::Wrong(_) | Failure::Local(_) => {}
            _ => reading.failed(Instant::now()),
        }
        drop(reading);
        // That a content got lost there is its own affair.
        if *failure != Failure::Missing {
            self.trouble.note(failure.to_string());
        }
    }
}
