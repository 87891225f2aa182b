//! Acquiring a raw lock of parking_lot's in each mode.

use std::thread;
use std::time::{Duration, Instant};

use rr_channel_log::{Event, Op, Outcome};

use rr_channel_core::engine::allocator::session_for;
use rr_channel_core::engine::chaos;
use rr_channel_core::engine::context;
use rr_channel_core::engine::order::Order;
use rr_channel_core::engine::replay::{self, Turn};
use rr_channel_core::engine::session::{Session, session};
use rr_channel_core::engine::shown;
use rr_channel_core::platform::apart::apart;
use rr_channel_core::platform::clock as real_clock;

/// How an acquisition is counted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Count {
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

/// Acquires the lock that `lock` locks; returns the result of `lock`.
#[inline]
#[track_caller]
pub(crate) fn acquire<G>(order: &Order, op: Op, count: Count, lock: impl FnOnce() -> G) -> G {
    match session_for(order) {
        Session::Off => lock(),
        Session::Record(_) => {
            chaos::point();
            let guard = lock();
            count.acquired(order, op);
            guard
        }
        Session::Replay(engine) => {
            engine.turn(op, order);
            let guard = lock();
            engine.taken(op, order);
            guard
        }
    }
}

/// Attempts to acquire the lock that `try_lock` locks, until `deadline` if there is one; `lock`
/// waits without a limit. Returns the result of the successful attempt; `None` if there was none.
#[inline]
#[track_caller]
pub(crate) fn attempt<G>(
    order: &Order,
    op: Op,
    count: Count,
    deadline: Option<Instant>,
    try_lock: impl FnOnce() -> Option<G>,
    lock: impl FnOnce() -> G,
) -> Option<G> {
    match session_for(order) {
        Session::Off => try_lock(),
        Session::Record(_) => {
            chaos::point();
            // How often the lock looks at a clock meanwhile is its own affair.
            let acquired = match deadline {
                Some(_) => apart(try_lock),
                None => try_lock(),
            };
            if acquired.is_some() {
                count.acquired(order, op);
            } else {
                log(op, Outcome::Busy);
            }
            acquired
        }
        Session::Replay(engine) => match engine.turn(op, order) {
            Turn::Mine => {
                let guard = lock();
                engine.taken(op, order);
                Some(guard)
            }
            Turn::Busy => {
                // Not before its time, which the program may look at.
                if let Some(deadline) = deadline.filter(|_| !replay::is_fast()) {
                    let left =
                        shown::to_real(deadline).saturating_duration_since(real_clock::now());
                    thread::sleep(left);
                }
                None
            }
            Turn::Live => {
                let acquired = try_lock();
                if acquired.is_some() {
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
pub(crate) fn observe(op: Op, look: impl Fn() -> u64) -> u64 {
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
pub(crate) fn log(op: Op, outcome: Outcome) {
    context::log(Event {
        op,
        channel: None,
        outcome,
    });
}

/// When so much time has passed, as the program sees it; `None` if that cannot be represented.
pub(crate) fn after(timeout: Duration) -> Option<Instant> {
    shown::to_shown(real_clock::now()).checked_add(timeout)
}
