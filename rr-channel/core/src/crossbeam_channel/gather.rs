//! Receivers of bounded channels let messages gather.
//!
//! Where a receiver on one processor keeps up with a sender on another one, both touch the same
//! few cache lines for each message. The sender writes into a slot that the receiver looks at, and
//! each look takes the line away from the sender. A message then takes 60 to 80 ns, three times as
//! long as one that lies there already. Upstream's own senders run ahead, so that this is rare; a
//! recording sender has more to do. A receiver that finds no message therefore looks away for up
//! to a microsecond, and then takes the messages that have come without asking again.
//!
//! It does so only where it helps. Where messages come one at a time, or answers are waited for,
//! it soon stops.

use std::hint;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering::Relaxed};

/// Below this capacity there is no room for more than a few.
const LEAST: usize = 16;
/// Pauses of the processor, some 25 ns each.
const SHORT: i32 = 8;
const LONG: i32 = 32;
/// So many are worth a pause.
const WORTH: usize = 4;
/// After a pause that was not worth it, so many receives do without.
const AFTER_PAUSE: i32 = 16;
/// So often there is one message and no more before that is looked for less often.
const ALONE: u32 = 16;
/// So many receives are then not looked at.
const AFTER_ALONE: i32 = 64;

/// A receiver's estimate of the stream of messages. Several threads that share a receiver may
/// spoil each other's estimates; that affects only time.
#[derive(Debug)]
pub(super) struct Gathering {
    is_on: bool,
    /// How many messages are there at least, if no other receiver takes them.
    stock: AtomicUsize,
    /// How long to pause when there is nothing; below zero, how many receives do without.
    patience: AtomicI32,
    /// How often in a row there was one message.
    alone: AtomicU32,
}

impl Gathering {
    /// Of a new receiver.
    pub(super) fn new(capacity: Option<usize>) -> Self {
        Self {
            is_on: capacity.is_some_and(|capacity| capacity >= LEAST),
            stock: AtomicUsize::new(0),
            patience: AtomicI32::new(SHORT),
            alone: AtomicU32::new(0),
        }
    }

    /// Before a receive that waits for as long as it takes; `len` says how many messages there
    /// are.
    #[inline(always)]
    pub(super) fn pause(&self, len: impl Fn() -> usize) {
        if !self.is_on {
            return;
        }
        match self.stock.load(Relaxed) {
            0 => self.look(len),
            stock => self.stock.store(stock - 1, Relaxed),
        }
    }

    #[inline(never)]
    fn look(&self, len: impl Fn() -> usize) {
        let patience = self.patience.load(Relaxed);
        if patience < 0 {
            let next = if patience == -1 { SHORT } else { patience + 1 };
            self.patience.store(next, Relaxed);
            return;
        }
        let mut stock = len();
        if stock == 0 {
            (0..patience).for_each(|_| hint::spin_loop());
            stock = len();
            let next = if stock >= WORTH {
                LONG.min(2 * patience)
            } else if patience > SHORT {
                SHORT
            } else {
                -AFTER_PAUSE
            };
            self.patience.store(next, Relaxed);
        }
        let alone = self.alone.load(Relaxed) + 1;
        if stock != 1 {
            self.alone.store(0, Relaxed);
        } else if alone < ALONE {
            self.alone.store(alone, Relaxed);
        } else {
            self.alone.store(0, Relaxed);
            self.patience.store(-AFTER_ALONE, Relaxed);
        }
        self.stock.store(stock.saturating_sub(1), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// How often it is asked how many there are, in that many receives, where there always
    /// are so many.
    fn asks(receives: u32, len: usize) -> u32 {
        let asked = Cell::new(0);
        let gathering = Gathering::new(Some(64));
        for _ in 0..receives {
            gathering.pause(|| {
                asked.set(asked.get() + 1);
                len
            });
        }
        asked.get()
    }

    #[test]
    fn messages_already_there_are_taken_without_asking() {
        assert_eq!(asks(100, 50), 2);
    }

    #[test]
    fn single_messages_are_asked_for_less_often() {
        // Sixteen times, and then 64 times not.
        assert_eq!(asks(800, 1), 160);
    }

    #[test]
    fn a_receiver_of_answers_does_not_pause() {
        // Before and after a pause, and then sixteen times not.
        assert_eq!(asks(1700, 0), 200);
    }

    #[test]
    fn a_small_channel_is_left_alone() {
        let gathering = Gathering::new(Some(1));
        gathering.pause(|| unreachable!());
    }
}
