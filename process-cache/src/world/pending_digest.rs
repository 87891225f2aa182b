//! Digests in computation.
//!
//! A file that a program opens is part of its precondition, and the program must not wait for the
//! digest. A [`PendingDigest`] represents the digest until a worker has computed it. The end of
//! the unit waits for it, and so does a writer that is about to change the file.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use rustc_hash::FxHashMap;
use rustix::fs::Stat;

use crate::model::fact::{Answer, Digest};
use crate::model::file_key::FileKey;
use crate::model::path::FilePath;
use crate::platform::clock;
use crate::platform::lock::{lock, wait};
use crate::world::World;

/// The content of one file at one time.
#[derive(Debug)]
pub struct PendingDigest {
    path: FilePath,
    key: Option<FileKey>,
    state: Mutex<Progress>,
    done: Condvar,
    /// See [`PendingDigest::invalidate`].
    invalidated: AtomicBool,
    /// See [`PendingDigest::assume_unchanged`].
    assumed_unchanged: AtomicBool,
    /// Time at which the file was last found in that state ([`clock::running`]).
    confirmed: AtomicU64,
}

#[derive(Debug)]
struct Progress {
    result: Option<Result<Digest, String>>,
    /// Whether a thread waits for it.
    awaited: bool,
}

impl PendingDigest {
    /// Whether both belong to the same state of the same file.
    pub fn is_same_as(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
            || (self.key.is_some() && self.key == other.key)
            || matches!((self.peek(), other.peek()), (Some(Ok(a)), Some(Ok(b))) if a == b)
    }

    /// Returns the state of the file with this content.
    pub fn key(&self) -> Option<&FileKey> {
        self.key.as_ref()
    }

    /// Notes that the file was found in another state, so that a reader may have read other
    /// content.
    pub fn invalidate(&self) {
        self.invalidated.store(true, Ordering::Relaxed);
    }

    /// Whether it was [invalidated](Self::invalidate).
    pub fn is_invalidated(&self) -> bool {
        self.invalidated.load(Ordering::Relaxed)
    }

    /// Notes that no traced process has changed the file, or will without examining it before.
    pub fn assume_unchanged(&self) {
        self.assumed_unchanged.store(true, Ordering::Relaxed);
    }

    /// Whether [`PendingDigest::assume_unchanged`] was called.
    pub fn is_assumed_unchanged(&self) -> bool {
        self.assumed_unchanged.load(Ordering::Relaxed)
    }

    /// Whether the file at `path` was in this state after `since` ([`clock::running`]).
    pub fn was_unchanged_since(&self, path: &FilePath, since: u64) -> bool {
        if self.confirmed.load(Ordering::Relaxed) >= since {
            return true;
        }
        let now = clock::running();
        let found = rustix::fs::stat(path.as_path());
        let holds = found.is_ok_and(|stat| FileKey::of(&stat) == self.key);
        if holds {
            self.confirm(now);
        }
        holds
    }

    /// Notes that the file was found in this state at time `now` or later.
    pub fn confirm(&self, now: u64) {
        self.confirmed.fetch_max(now, Ordering::Relaxed);
    }

    /// Whether the computation failed.
    pub fn has_failed(&self) -> bool {
        matches!(self.state().result, Some(Err(_)))
    }

    /// Whether the digest is still being computed.
    pub fn is_pending(&self) -> bool {
        self.peek().is_none()
    }

    fn state(&self) -> MutexGuard<'_, Progress> {
        lock(&self.state)
    }

    fn peek(&self) -> Option<Result<Digest, String>> {
        self.state().result.clone()
    }

    /// Computes the digest (on a worker).
    pub fn compute(&self, world: &World) {
        let result = match world.digest_with_key(&self.path) {
            Ok((digest, key)) if key == self.key => Ok(digest),
            Ok(_) => Err(format!("{} changed while it was read", self.path.display())),
            Err(error) => Err(format!("{}: {error}", self.path.display())),
        };
        self.resolve(result);
    }

    fn resolve(&self, result: Result<Digest, String>) {
        let mut state = self.state();
        state.result = Some(result);
        if state.awaited {
            self.done.notify_all();
        }
    }

    /// Waits for the digest and returns it.
    ///
    /// # Errors
    /// The reason why it is not known.
    pub fn wait(&self) -> Result<Digest, String> {
        let mut state = self.state();
        loop {
            if let Some(result) = &state.result {
                return result.clone();
            }
            state.awaited = true;
            state = wait(&self.done, state);
        }
    }

    /// Waits for the digest and returns it as an answer.
    pub fn answer(&self) -> Answer {
        match self.wait() {
            Ok(digest) => Answer::File(digest),
            Err(reason) => Answer::Unknown(reason),
        }
    }
}

/// All contents of a session by file state.
#[derive(Debug, Default)]
pub struct PendingDigests {
    by_key: FxHashMap<FileKey, Arc<PendingDigest>>,
}

impl PendingDigests {
    /// Returns the content of the regular file at `path`, which `stat` describes. If the second
    /// value is true, the digest is unknown and not in computation: the caller must have
    /// [`PendingDigest::compute`] run.
    pub fn get(&mut self, world: &World, path: &Path, stat: &Stat) -> (Arc<PendingDigest>, bool) {
        let key = FileKey::of(stat);
        let known = key.as_ref().and_then(|key| self.by_key.get(key));
        // The file is in that state now, whatever happened in between.
        if let Some(known) = known.filter(|known| !known.is_invalidated()) {
            return (known.clone(), false);
        }
        let digest = world.known(path, stat);
        let pending = digest.is_none();
        let content = Arc::new(PendingDigest {
            path: FilePath::from(path),
            key,
            state: Mutex::new(Progress {
                result: digest.map(Ok),
                awaited: false,
            }),
            done: Condvar::new(),
            invalidated: AtomicBool::new(false),
            assumed_unchanged: AtomicBool::new(false),
            confirmed: AtomicU64::new(0),
        });
        if let Some(key) = key {
            self.by_key.insert(key, content.clone());
        }
        (content, pending)
    }

    /// Confirms this state at time `now`, before a traced process changes the file: finished
    /// readers need no further check.
    pub fn confirm(&self, stat: &Stat, now: u64) {
        if let Some(content) = FileKey::of(stat).and_then(|key| self.by_key.get(&key)) {
            content.confirm(now);
        }
    }

    /// Returns a digest of this file state that is still in computation.
    pub fn pending(&self, stat: &Stat) -> Option<Arc<PendingDigest>> {
        let content = self.by_key.get(&FileKey::of(stat)?)?;
        content.is_pending().then(|| content.clone())
    }

    /// Forgets the content of a file that is about to be written: it says nothing about the next
    /// state, even if the times are equal.
    pub fn forget(&mut self, stat: &Stat) {
        if let Some(key) = FileKey::of(stat) {
            self.by_key.remove(&key);
        }
    }
}
