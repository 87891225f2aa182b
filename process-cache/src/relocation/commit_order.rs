//! The order in which units commit their results.
//!
//! Facts about a part decide whether the unit that contains it can move, and several threads
//! commit. So each unit takes a ticket when it ends. A unit that lacks information about a part
//! waits for all earlier tickets.
//!
//! **Invariant:** tickets are taken in the order in which the work on them begins, so that no work
//! waits for work that has no thread yet.

use crate::platform::lock::{lock, wait};
use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// The tickets that are not finished.
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

/// A ticket; it is finished when this is dropped.
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
    /// Takes the next ticket.
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

    /// Waits until all earlier tickets are finished.
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
