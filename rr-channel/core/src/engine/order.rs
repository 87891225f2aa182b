//! The order in which threads acquire a lock: a ticket per object.
//!
//! A lock in a `static` is made by the compiler, so it has no creator to be named after. It needs
//! none. The log says how many acquisitions of *this* lock came before, and a replay delays an
//! acquisition until that many have come. The count lives in the lock and moves with it; only the
//! holder changes it. Readers of a shared lock count too. Among themselves they need no order:
//! each ticket was drawn while its lock was held, so the order of tickets is a possible one.
//!
//! Mostly a thread acquires a lock that it held last, or that no thread held before. Such an
//! acquisition needs no ticket in the log: in a replay, too, no other thread can come in between.
//! The log has the ticket only where a lock changes hands. Only then the lock gets a name, after
//! the first thread that logs one. In a replay, a lock's name is learned from the first event that
//! has one.
//!
//! **Invariant:** [`Order::took`], [`Order::shared`] and, in a replay, [`Order::count`]
//! are called by a thread that holds the lock, except where threads only arrive.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use rr_channel_log::identity::{ChannelId, ThreadId};
use rr_channel_log::{Event, Op, Outcome};

use crate::engine::context::{self, Me};
use crate::recorder::places;

/// How often a lock has been acquired, and by whom last.
#[derive(Debug, Default)]
pub struct Order {
    word: AtomicU64,
    /// The name's creator and number, as in a [`Word`]; 0 while there is none, and [`LEFT_OUT`] if
    /// there is to be none.
    name: AtomicU64,
}

/// No name: numbers have fewer bits.
const LEFT_OUT: u64 = u64::MAX;

/// The last owner (24 bits), and the number of acquisitions (40 bits; after the
/// last number comes 1).
#[derive(Debug, Clone, Copy)]
pub struct Word(u64);

impl Word {
    const TICKET_BITS: u32 = 40;
    const TICKET_MASK: u64 = (1 << Self::TICKET_BITS) - 1;

    const fn new(owner: ThreadId, ticket: u64) -> Word {
        Word((owner.0 as u64) << Self::TICKET_BITS | ticket)
    }

    #[inline]
    pub const fn ticket(self) -> u64 {
        self.0 & Self::TICKET_MASK
    }

    #[inline]
    const fn owner(self) -> ThreadId {
        ThreadId((self.0 >> Self::TICKET_BITS) as u32)
    }

    /// Whether an acquisition by `id` after this one has `outcome`.
    pub fn agrees(self, outcome: Outcome, id: ThreadId) -> bool {
        match outcome {
            Outcome::First => self.ticket() == 0,
            Outcome::Again => self.ticket() > 0 && self.owner() == id,
            Outcome::Turn { ticket } => self.ticket() == ticket,
            _ => false,
        }
    }

    /// The word after an acquisition by `id`.
    #[inline]
    const fn after(self, id: ThreadId) -> Word {
        let ticket = self.ticket() + 1;
        Word::new(
            id,
            if ticket > Self::TICKET_MASK {
                1
            } else {
                ticket
            },
        )
    }
}

impl Order {
    /// The order of a lock that no thread has acquired yet.
    pub const fn new() -> Order {
        Order {
            word: AtomicU64::new(0),
            name: AtomicU64::new(0),
        }
    }

    fn word(&self) -> Word {
        Word(self.word.load(Relaxed))
    }

    /// The number of acquisitions so far.
    pub fn ticket(&self) -> u64 {
        Word(self.word.load(SeqCst)).ticket()
    }

    /// The last thread that acquired it, if there is one.
    #[inline]
    pub fn owner(&self) -> Option<ThreadId> {
        let word = Word(self.word.load(SeqCst));
        (word.ticket() > 0).then(|| word.owner())
    }

    /// Tells it from other locks while a thread uses it.
    pub fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Logs that the calling thread acquired the lock, which it holds exclusively. Acquisitions of
    /// a thread that cannot log any more do not count.
    #[inline]
    #[track_caller]
    pub fn took(&self, op: Op) {
        let word = self.word();
        if word.ticket() > 0 && context::log_expected(word.owner(), &Self::again(op)) {
            self.word.store(word.after(word.owner()).0, Relaxed);
            return;
        }
        context::log_with(|me| {
            let word = self.word();
            self.word.store(word.after(me.id()).0, Relaxed);
            self.event(op, word, me)
        });
    }

    /// Logs that the calling thread acquired the lock, which it shares with others.
    #[inline]
    #[track_caller]
    pub fn shared(&self, op: Op) {
        let word = self.word();
        let next = word.after(word.owner());
        if word.ticket() > 0
            && context::is_expected(word.owner(), &Self::again(op))
            && self
                .word
                .compare_exchange(word.0, next.0, Relaxed, Relaxed)
                .is_ok()
        {
            context::log(Self::again(op));
            return;
        }
        context::log_with(|me| {
            let mut word = self.word();
            while let Err(now) =
                self.word
                    .compare_exchange_weak(word.0, word.after(me.id()).0, Relaxed, Relaxed)
            {
                word = Word(now);
            }
            self.event(op, word, me)
        });
    }

    /// Logs that it is the calling thread's turn, with ticket and name also where the thread had it
    /// last. Others may have theirs at the same time.
    #[cold]
    #[track_caller]
    pub fn numbered(&self, op: Op, operation: u32) {
        context::log_with(|me| {
            let before = self.count(me.id());
            of_operation(self.turn(op, before.ticket(), me), operation)
        });
    }

    /// As [`numbered`](Order::numbered), of a turn that was counted after `before`.
    #[cold]
    #[track_caller]
    pub fn drawn(&self, op: Op, operation: u32, before: Word) {
        context::log_with(|me| of_operation(self.turn(op, before.ticket(), me), operation));
    }

    /// Logs an outcome that has no ticket, with a name.
    #[cold]
    #[track_caller]
    pub fn named(&self, op: Op, operation: u32, outcome: Outcome) {
        context::log_with(|me| {
            let event = Event {
                op,
                channel: self.name_by(me),
                outcome,
            };
            of_operation(event, operation)
        });
    }

    /// Logs that the calling thread acquired the lock after `before`, in a replay.
    #[track_caller]
    pub fn log(&self, op: Op, before: Word) {
        context::log_with(|me| self.event(op, before, me));
    }

    #[inline]
    const fn again(op: Op) -> Event {
        Event {
            op,
            channel: None,
            outcome: Outcome::Again,
        }
    }

    #[track_caller]
    fn event(&self, op: Op, before: Word, me: &mut Me<'_>) -> Event {
        if places::is_on() {
            return self.turn(op, before.ticket(), me);
        }
        let outcome = if before.ticket() == 0 {
            Outcome::First
        } else if before.owner() == me.id() {
            return Self::again(op);
        } else {
            return self.turn(op, before.ticket(), me);
        };
        Event {
            op,
            channel: None,
            outcome,
        }
    }

    #[cold]
    #[track_caller]
    fn turn(&self, op: Op, ticket: u64, me: &mut Me<'_>) -> Event {
        Event {
            op,
            channel: self.name_by(me),
            outcome: Outcome::Turn { ticket },
        }
    }

    /// The lock's name, which it gets from `me` if it has none.
    fn name_by(&self, me: &mut Me<'_>) -> Option<ChannelId> {
        if self.name().is_none()
            && let Some(name) = me.next_lock()
        {
            self.learn(name);
        }
        self.name()
    }

    /// Counts an acquisition by `id`, in a replay; returns the word before it. A caller that looks
    /// afterwards for waiting threads sees all that began to wait before.
    #[inline]
    pub fn count(&self, id: ThreadId) -> Word {
        let mut word = self.word();
        loop {
            let next = word.after(id);
            match self
                .word
                .compare_exchange_weak(word.0, next.0, SeqCst, Relaxed)
            {
                Ok(_) => return word,
                Err(now) => word = Word(now),
            }
        }
    }

    /// Whether acquisitions are not recorded: see [`allocator`](crate::engine::allocator).
    #[inline]
    pub fn is_left_out(&self) -> bool {
        self.name.load(Relaxed) == LEFT_OUT
    }

    /// From here on, acquisitions are not recorded.
    pub fn leave_out(&self) {
        self.name.store(LEFT_OUT, Relaxed);
    }

    /// The lock's name, if it has one yet.
    pub fn name(&self) -> Option<ChannelId> {
        let name = Word(self.name.load(Relaxed));
        (name.0 != 0 && name.0 != LEFT_OUT).then(|| ChannelId {
            creator: name.owner(),
            number: name.ticket() as u32,
        })
    }

    /// Names the lock, if it has no name.
    pub fn learn(&self, name: ChannelId) {
        let name = name.object();
        let name = Word::new(name.creator, name.number.into());
        let _ = self.name.compare_exchange(0, name.0, Relaxed, Relaxed);
    }
}

/// The event of one of several operations on its object.
fn of_operation(event: Event, operation: u32) -> Event {
    Event {
        channel: event.channel.map(|name| name.with_operation(operation)),
        ..event
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acquisition_counts_and_changes_the_owner() {
        let order = Order::new();
        assert_eq!((order.owner(), order.ticket()), (None, 0));
        order.count(ThreadId(3));
        order.count(ThreadId(0));
        assert_eq!((order.owner(), order.ticket()), (Some(ThreadId(0)), 2));
    }

    #[test]
    fn the_count_never_comes_back_to_nothing() {
        let last = Word::new(ThreadId(7), Word::TICKET_MASK);
        let next = last.after(ThreadId(8));
        assert_eq!((next.owner(), next.ticket()), (ThreadId(8), 1));
    }

    #[test]
    fn a_lock_keeps_its_name() {
        let order = Order::new();
        assert_eq!(order.name(), None);
        let name = |number| ChannelId {
            creator: ThreadId(0),
            number,
        };
        order.learn(name(1));
        order.learn(name(2));
        assert_eq!(order.name(), Some(name(1)));
    }
}
