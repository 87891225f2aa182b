//! Remote cache: shares results between machines.
//!
//! Two backends exist: a server of the Bazel Remote Execution API ([`grpc`]), or a shared
//! directory ([`directory`]). The dependencies of a unit are unknown before it has run, so a
//! lookup has two steps. The weak key leads to the newest *path sets*, which are queries without
//! answers; the client answers them, and the answers give the key of the result ([`codec`]). A hit
//! takes two round trips: path sets, then result and contents, which are requested while the
//! client answers. It takes one round trip if the server inlines the newest result with the path
//! sets ([`bundle`]). The result is then stored as if it had been recorded locally.
//!
//! | step | modules |
//! |---|---|
//! | what the user asks for | [`settings`] |
//! | looking a unit up | `lookup`, [`check`] |
//! | putting a unit there, in the background | `upload` |
//! | how it travels | [`codec`], [`bundle`], [`digest`], [`protocol`], [`grpc`], [`directory`] |
//! | who drives the requests; when to stop asking | `runtime`, [`breaker`] |
//!
//! **Invariants.** A build never fails because of a remote cache, and never waits for it longer
//! than [`breaker::Patience`] allows. Received data is untrusted: only results that [`check`]
//! accepts are restored, and only contents with the requested digest.

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

/// The command waits for these.
const LOOKUPS: Retries = Retries {
    pause: Duration::from_millis(10),
    count: 1,
};
/// The command does not wait for these.
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
    /// Registers own threads; `None` before anything is traced.
    background: Mutex<Option<HostThreads>>,
    reading: Mutex<Breaker>,
    /// A result that was found and is not in the store yet.
    found: Mutex<Option<Found>>,
    patience: Mutex<Patience>,
    uploads: Arc<Uploads>,
    counts: Counts,
    trouble: Arc<Trouble>,
}

/// A prepared address, or the failure.
#[derive(Debug)]
enum Prepared {
    Server(Box<grpc::Prepared>),
    Directory(Directory),
    Nowhere,
}

/// A result in the form for [`Store::record`].
type Found = (WeakKey, Vec<Vec<Fact>>, Outcome);

/// A runtime with its backends.
#[derive(Debug, Clone)]
struct Running {
    engine: Arc<Engine>,
    /// One for lookups, and one for uploads.
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
    /// Whether there was any failure.
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

/// Summary of a remote cache for the end of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Units skipped with a remote result.
    pub hits: u64,
    /// Units without a remote result.
    pub misses: u64,
    /// Results that were refused.
    pub refused: u64,
    /// Bytes of downloaded contents.
    pub received_bytes: u64,
    /// Uploaded results.
    pub stored: u64,
    /// Results not uploaded, because of a failure or the time limit.
    pub not_stored: u64,
    /// Bytes of uploaded contents.
    pub sent_bytes: u64,
    /// Errors, one line each.
    pub trouble: Vec<String>,
}

/// Looks up a unit in the store, and on a miss in the remote cache.
///
/// # Errors
/// Same as [`Store::lookup`].
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
        // The difference from a result of another directory says more.
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
    /// Prepares the remote cache without sending a request. Call it while the process has one
    /// thread.
    pub fn new(settings: Settings, store: Arc<Store>) -> Self {
        let trouble = Arc::new(Trouble::default());
        if store.is_read_only() {
            // No result is recorded that could be uploaded.
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

    /// Starts to connect without waiting or sending a request. Until [`Remote::suspend`] the
    /// process has a second thread.
    pub fn begin(&self) {
        if let Prepared::Server(server) = &self.place
            && self.reads()
        {
            server.begin();
            // A failure here occurs again where it is needed.
            let _ = self.running();
        }
    }

    /// Whether lookups are enabled.
    pub fn reads(&self) -> bool {
        self.settings.mode.reads() && lock(&self.reading).allows(Instant::now())
    }

    /// Whether uploads are enabled.
    pub fn writes(&self) -> bool {
        self.settings.mode.writes() && !matches!(self.place, Prepared::Nowhere)
    }

    /// Allows the use of results before they are in the store, until [`Remote::suspend`].
    /// [`Remote::keep`] stores them.
    pub fn hold(&self) {
        if self.reads() {
            self.store.write_behind();
        }
    }

    /// Whether a result was found that is not in the store yet.
    pub fn holds(&self) -> bool {
        lock(&self.found).is_some()
    }

    /// Whether a background process stores the found results.
    pub fn keeps_behind(&self) -> bool {
        self.settings.keep == Keep::Behind
    }

    /// Stores the found results.
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

    /// Closes all connections, before the process forks.
    pub fn disconnect(&self) {
        *lock(&self.engine) = None;
        if let Prepared::Server(server) = &self.place {
            server.stop();
        }
    }

    /// Closes all connections and drops results that are not stored, before the process forks.
    pub fn suspend(&self) {
        self.disconnect();
        self.store.drop_pending_contents();
        *lock(&self.found) = None;
    }

    /// From now on a separate thread does the work.
    pub fn enter(&self, background: HostThreads) {
        self.suspend();
        *lock(&self.background) = Some(background);
    }

    /// Waits for pending uploads, and ends.
    pub fn finish(&self) {
        if let Some(running) = lock(&self.engine).take() {
            let uploads = self.uploads.clone();
            let (wait, patience) = (self.settings.wait, self.settings.patience);
            let finish = async move { uploads.finish(wait, patience).await };
            running.engine.block_on(finish);
        }
    }

    /// Returns a summary of its use in this run.
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

    /// Returns lines for the end of a run: the failures.
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

    /// Returns the runtime for requests, which is started if needed.
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

    /// Notes a failed lookup.
    fn failed(&self, failure: &Failure) {
        let mut reading = lock(&self.reading);
        match failure {
            Failure::Forbidden(_) => reading.gave_up(),
            Failure::Missing | Failure::Wrong(_) | Failure::Local(_) => {}
            _ => reading.failed(Instant::now()),
        }
        drop(reading);
        // A content that the server has lost is no failure of the connection.
        if *failure != Failure::Missing {
            self.trouble.note(failure.to_string());
        }
    }
}
