//! The order in which units record their results.
//!
//! What is known of a unit tells something about the one that it is part of, and several
//! threads record. So each has its turn from the moment when its unit ended, and whoever
//! misses something waits for those before it.
//!
//! **Invariant:** turns are taken in the order in which the work on them begins, so that
//! nobody waits for work that waits for a thread.

use crate::platform::lock::{lock, wait};
use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// The turns that are not over.
#[derive(Debug, Default)]
pub(super) struct CommitOrder {
    open: Mutex<Open>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    turns: BTreeSet<u64>,
}

/// A turn; it is over when this is dropped.
#[derive(Debug)]
pub struct CommitTicket {
    turns: Arc<CommitOrder>,
    number: u64,
}

impl CommitOrder {
    fn lock(&self) -> MutexGuard<'_, Open> {
        lock(&self.open)
    }
}

impl CommitTicket {
    /// The next one of these.
    pub(super) fn take(turns: Arc<CommitOrder>) -> Self {
        let number = {
            let mut open = turns.lock();
            let number = open.next;
            open.next += 1;
            open.turns.insert(number);
            number
        };
        Self { turns, number }
    }

    /// Waits until all turns before this one are over.
    pub(super) fn wait(&self) {
        let mut open = self.turns.lock();
        while open.turns.first().is_some_and(|first| *first < self.number) {
            let changed = &self.turns.changed;
            open = wait(changed, open);
        }
    }
}

impl Drop for CommitTicket {
    fn drop(&mut self) {
        self.turns.lock().turns.remove(&self.number);
        self.turns.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_commit_waits_only_for_earlier_commits() {
        let turns = Arc::<CommitOrder>::default();
        let [first, second, third] = [(); 3].map(|()| CommitTicket::take(turns.clone()));
        first.wait();
        let (told, is_told) = channel();
        let waiting = std::thread::spawn(move || {
            second.wait();
            told.send(()).unwrap();
        });
        assert!(is_told.try_recv().is_err());
        drop(first);
        is_told.recv().unwrap();
        waiting.join().unwrap();
        third.wait();
    }
}
