//! Notifications: the last one that had happened when a thread woke.
//!
//! A woken thread logs the last notification of the object that it waited for. That may be a later
//! one than the one that woke it, but it had happened by then. A replay that waits for it does not
//! wait for anything that depends on this wake-up.

use std::sync::atomic::{AtomicU64, Ordering};

use rr_channel_log::Outcome;
use rr_channel_log::identity::ThreadId;

use crate::engine::context;
use crate::recorder::tag::Tag;

/// A thread's notification, by its number, in the form of a [`Tag`]; number 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signal(Tag);

impl Signal {
    /// No notification.
    pub const NONE: Signal = Signal(Tag::new(ThreadId(0), 0));

    /// The calling thread's next one.
    pub fn next() -> Signal {
        let (id, number) = context::next_signal();
        Signal::new(id, number)
    }

    pub const fn new(id: ThreadId, number: u64) -> Signal {
        Signal(Tag::new(id, number))
    }

    pub const fn outcome(self) -> Outcome {
        Outcome::Woken {
            sender: self.0.sender(),
            number: self.0.number(),
        }
    }
}

/// The last notification, of whomever.
#[derive(Debug, Default)]
pub struct LastSignal(AtomicU64);

impl LastSignal {
    pub const fn new() -> Self {
        LastSignal(AtomicU64::new(Signal::NONE.0.bits()))
    }

    pub fn get(&self) -> Signal {
        Signal(Tag::from_bits(self.0.load(Ordering::Acquire)))
    }

    /// To be called before any thread is woken.
    pub fn set(&self, signal: Signal) {
        self.0.store(signal.0.bits(), Ordering::Release);
    }
}
