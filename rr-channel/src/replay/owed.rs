//! What other processes are known to have received from this one.
//!
//! A process may exit while some of its threads still send, and what they send is not
//! logged: in a replay the exit might come first, and another process wait in vain for
//! what it has received in the recorded run. That is in the other one's log. So an exit
//! waits until it has been sent, though not for long: a thread that has left its log may
//! never send it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::lock;
use crate::identity::{ProcessPath, Root, ThreadId};
use crate::log::{Outcome, Recording};
use crate::process::Home;
use crate::session::{Session, session};
use crate::sys;
use crate::tag::Tag;

/// Processes whose logs are looked at, at most.
const MOST: usize = 32;
/// How often an exit looks, a millisecond apart.
const LOOKS: usize = 1000;

#[derive(Debug, Default)]
pub(crate) struct Owed {
    is_left: AtomicBool,
    /// For each thread, the number of the last message that somebody received.
    left: Mutex<FxHashMap<ThreadId, u64>>,
}

impl Owed {
    /// What the process at `home` owes to the others of its recording.
    pub(crate) fn of(home: &Home) -> Self {
        let depth = home.path.numbers().len();
        // Damage is found by whoever replays what is damaged.
        let all = home.dir.ancestors().nth(depth).map(Recording::tree);
        let all = all.and_then(Result::ok).unwrap_or_default();
        let mut left = FxHashMap::default();
        if (2..=MOST).contains(&all.len()) {
            for (path, recording) in &all {
                if *path != home.path {
                    received(recording, &home.path, &mut left);
                }
            }
        }
        Owed {
            is_left: AtomicBool::new(!left.is_empty()),
            left: Mutex::new(left),
        }
    }

    /// A message was sent.
    pub(crate) fn sent(&self, tag: Tag) {
        if !self.is_left.load(Relaxed) {
            return;
        }
        let mut left = lock(&self.left);
        left.retain(|sender, number| *sender != tag.sender() || *number > tag.number());
        self.is_left.store(!left.is_empty(), Relaxed);
    }
}

/// Adds what a process has received from another one.
fn received(recording: &Recording, from: &ProcessPath, last: &mut FxHashMap<ThreadId, u64>) {
    let threads = recording.threads().iter();
    let senders: FxHashMap<ThreadId, ThreadId> = threads
        .filter_map(|thread| match thread.dti.root() {
            Root::Elsewhere {
                process,
                thread: id,
            } if process == from => Some((thread.id, *id)),
            _ => None,
        })
        .collect();
    if senders.is_empty() {
        return;
    }
    let logs = recording.threads().iter();
    for log in logs.filter_map(|thread| recording.log(thread).ok()) {
        for event in log.events().map_while(Result::ok) {
            if let Outcome::Message { sender, number } = event.outcome
                && let Some(sender) = senders.get(&sender)
            {
                let last = last.entry(*sender).or_default();
                *last = number.max(*last);
            }
        }
    }
}

/// Waits until this process has sent what it owes.
pub(crate) extern "C" fn settle() {
    if sys::is_forked() {
        return;
    }
    if let Session::Replay(engine) = session() {
        for _ in 0..LOOKS {
            if !engine.owed.is_left.load(Relaxed) {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}
