#![expect(unsafe_code, reason = "lock_api's traits are unsafe to implement")]
//! A raw condition variable.
//!
//! **Safety** rests on: a waiting thread holds the mutex, which is unlocked and locked again
//! exactly once: by upstream's condition variable, or here around a wait that is replayed.

use std::fmt;
use std::mem;
use std::time::{Duration, Instant};

use ::parking_lot_13 as raw;
use lock_api_5 as lock_api;
use lock_api_5::{RawCondvar as _, RawCondvarTimed as _, RawMutex as _};
use rr_channel_log::{Op, Outcome};

use super::RawMutex;
use super::mutex::Acquired;
use crate::raw_locks::{Count, acquire, after, log};
use rr_channel_core::engine::chaos;
use rr_channel_core::engine::replay::{Native, Woken};
use rr_channel_core::engine::session::{Session, session};
use rr_channel_core::engine::shown;
use rr_channel_core::engine::signal::{LastSignal, Signal};
use rr_channel_core::platform::apart::apart;

/// A raw condition variable, of which [`Condvar`](super::Condvar) is made.
pub struct RawCondvar {
    raw: raw::RawCondvar,
    /// While recording: the last notification.
    last: LastSignal,
}

impl RawCondvar {
    #[inline]
    #[track_caller]
    fn notify(&self, wake: impl FnOnce() -> usize) -> usize {
        match session() {
            Session::Off => return wake(),
            Session::Record(_) => {
                chaos::point();
                self.last.set(Signal::next());
            }
            Session::Replay(engine) => self.last.set(engine.signal()),
        }
        let woken = wake();
        match session() {
            Session::Replay(engine) => engine
                .recall_number(Op::Notify)
                .map_or_else(|| notified(woken), |woken| woken as usize),
            _ => notified(woken),
        }
    }

    /// Waits until `deadline` at most; whether it was as long as that.
    ///
    /// # Safety
    /// The caller holds the mutex.
    #[track_caller]
    unsafe fn wait_as(
        &self,
        op: Op,
        mutex: &RawMutex,
        guard: &mut Acquired,
        deadline: Option<Instant>,
    ) -> bool {
        let sleep = |guard: &mut Acquired| match deadline {
            // SAFETY: the caller's promise; upstream's mutex is held whenever ours is, and is
            // so again afterwards.
            None => unsafe {
                self.raw.wait(&mutex.raw, guard);
                false
            },
            Some(deadline) => apart(|| {
                // SAFETY: as above.
                unsafe {
                    self.raw
                        .wait_until(&mutex.raw, guard, &shown::to_real(deadline))
                }
            }),
        };
        match session() {
            Session::Off => sleep(guard),
            Session::Record(_) => {
                let timed_out = sleep(guard);
                self.log_wait(op, timed_out);
                mutex.order.took(Op::Relock);
                timed_out
            }
            Session::Replay(engine) => match engine.waking(op) {
                Some(waking) => {
                    // SAFETY: the caller's promise; it is locked again below.
                    unsafe { mutex.raw.unlock(mem::take(guard)) };
                    let native = deadline.map_or(Native::Block, |deadline| {
                        Native::Until(shown::to_real(deadline))
                    });
                    let woken = engine.wake(waking, native);
                    *guard = acquire(&mutex.order, Op::Relock, Count::Took, || mutex.raw.lock());
                    woken == Woken::TimedOut
                }
                None => {
                    let timed_out = sleep(guard);
                    self.log_wait(op, timed_out);
                    engine.taken(Op::Relock, &mutex.order);
                    timed_out
                }
            },
        }
    }

    fn log_wait(&self, op: Op, timed_out: bool) {
        let outcome = if timed_out {
            Outcome::Timeout
        } else {
            self.last.get().outcome()
        };
        log(op, outcome);
    }
}

// SAFETY: as the raw one, with the mutex that is held whenever its own is.
unsafe impl lock_api::RawCondvar for RawCondvar {
    const INIT: Self = RawCondvar {
        raw: raw::RawCondvar::INIT,
        last: LastSignal::new(),
    };

    type RawMutex = RawMutex;

    #[track_caller]
    unsafe fn wait(&self, mutex: &RawMutex, guard: &mut Acquired) {
        // SAFETY: the caller holds the mutex.
        unsafe { self.wait_as(Op::Wait, mutex, guard, None) };
    }

    #[track_caller]
    fn notify_one(&self) -> bool {
        self.notify(|| self.raw.notify_one().into()) != 0
    }

    #[track_caller]
    fn notify_all(&self) -> usize {
        self.notify(|| self.raw.notify_all())
    }
}

// SAFETY: as the raw one.
unsafe impl lock_api::RawCondvarTimed for RawCondvar {
    fn checked_duration_to_instant(timeout: &Duration) -> Option<Instant> {
        after(*timeout)
    }

    #[track_caller]
    unsafe fn wait_until(&self, mutex: &RawMutex, guard: &mut Acquired, timeout: &Instant) -> bool {
        // SAFETY: the caller holds the mutex.
        unsafe { self.wait_as(Op::WaitTimeout, mutex, guard, Some(*timeout)) }
    }

    #[track_caller]
    unsafe fn wait_for(&self, mutex: &RawMutex, guard: &mut Acquired, timeout: &Duration) -> bool {
        let deadline = Self::checked_duration_to_instant(timeout);
        // SAFETY: the caller holds the mutex.
        unsafe { self.wait_as(Op::WaitTimeout, mutex, guard, deadline) }
    }
}

/// Logs how many threads a notification woke, and returns it.
#[track_caller]
fn notified(woken: usize) -> usize {
    log(Op::Notify, Outcome::Value(woken as u64));
    woken
}

impl fmt::Debug for RawCondvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawCondvar").finish_non_exhaustive()
    }
}
