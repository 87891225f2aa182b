//! Acquiring a raw lock in each mode.

use std::thread;
use std::time::Instant;

use crate::chaos;
use crate::context;
use crate::log::{Event, Op, Outcome};
use crate::order::Order;
use crate::replay::Turn;
use crate::session::{Session, session};

/// How an acquisition is counted.
#[derive(Debug, Clone, Copy)]
pub(super) enum Count {
    /// It is exclusive.
    Took,
    /// It is not.
    Shared,
}

impl Count {
    // Not a function pointer: that would have no caller.
    #[inline(always)]
    #[track_caller]
    fn acquired(self, order: &Order, op: Op) {
        match self {
            Count::Took => order.took(op),
            Count::Shared => order.shared(op),
        }
    }
}

/// Acquires what `lock` locks.
#[inline]
#[track_caller]
pub(super) fn acquire(order: &Order, op: Op, count: Count, lock: impl FnOnce()) {
    match session() {
        Session::Off => lock(),
        Session::Record(_) => {
            chaos::point();
            lock();
            count.acquired(order, op);
        }
        Session::Replay(engine) => {
            engine.turn(op, order);
            lock();
            engine.taken(op, order);
        }
    }
}

/// Attempts to acquire what `try_lock` locks, until `deadline` if there is one; `lock` does so
/// for as long as it takes.
#[inline]
#[track_caller]
pub(super) fn attempt(
    order: &Order,
    op: Op,
    count: Count,
    deadline: Option<Instant>,
    try_lock: impl FnOnce() -> bool,
    lock: impl FnOnce(),
) -> bool {
    match session() {
        Session::Off => try_lock(),
        Session::Record(_) => {
            chaos::point();
            let acquired = try_lock();
            if acquired {
                count.acquired(order, op);
            } else {
                log(op, Outcome::Busy);
            }
            acquired
        }
        Session::Replay(engine) => match engine.turn(op, order) {
            Turn::Mine => {
                lock();
                engine.taken(op, order);
                true
            }
            Turn::Busy => {
                // Not before its time, which the program may look at.
                if let Some(deadline) = deadline {
                    thread::sleep(deadline.saturating_duration_since(Instant::now()));
                }
                false
            }
            Turn::Live => {
                let acquired = try_lock();
                if acquired {
                    engine.taken(op, order);
                } else {
                    log(op, Outcome::Busy);
                }
                acquired
            }
        },
    }
}

/// An observation, as recorded.
#[track_caller]
pub(super) fn observe(op: Op, look: impl Fn() -> u64) -> u64 {
    match session() {
        Session::Off => look(),
        Session::Record(_) => {
            chaos::point();
            observed(op, look())
        }
        Session::Replay(engine) => engine
            .recall_number(op)
            .unwrap_or_else(|| observed(op, look())),
    }
}

fn observed(op: Op, value: u64) -> u64 {
    log(op, Outcome::Value(value));
    value
}

/// Logs an outcome that needs no name.
#[track_caller]
pub(super) fn log(op: Op, outcome: Outcome) {
    context::log(Event {
        op,
        channel: None,
        outcome,
    });
}
