#![expect(unsafe_code, reason = "threads are parked at an address")]
//! A condition variable.
//!
//! Upstream's takes guards of upstream's mutex only, so threads are parked here.
//!
//! **Safety** rests on: threads park and are unparked at the address of a [`Condvar`], where
//! nothing else of the parking lot is. The functions called while its queue is locked do nothing,
//! and the one called after that only unlocks a mutex that its caller holds.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lock_api::RawMutex as _;
use parking_lot_core::{DEFAULT_PARK_TOKEN, DEFAULT_UNPARK_TOKEN};
use rr_channel_log::{Op, Outcome};

use super::{MutexGuard, RawMutex};
use crate::raw_locks::{Count, acquire, after, log};
use rr_channel_core::engine::chaos;
use rr_channel_core::engine::replay::{Native, Woken};
use rr_channel_core::engine::session::{Session, session};
use rr_channel_core::engine::shown;
use rr_channel_core::engine::signal::{LastSignal, Signal};
use rr_channel_core::platform::apart::apart;

/// Whether a wait was as long as it was allowed to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether it was.
    #[must_use]
    pub const fn timed_out(self) -> bool {
        self.0
    }
}

/// A condition variable.
#[derive(Default)]
pub struct Condvar {
    /// Threads that wait or are about to. A notification that is to reach a thread finds
    /// it counted: the mutex is unlocked after that.
    waiters: AtomicUsize,
    /// While recording: the last notification.
    last: LastSignal,
}

impl Condvar {
    /// Creates a condition variable without waiting threads.
    #[inline]
    pub const fn new() -> Self {
        Condvar {
            waiters: AtomicUsize::new(0),
            last: LastSignal::new(),
        }
    }

    /// Wakes one thread that waits; whether there was one.
    #[track_caller]
    pub fn notify_one(&self) -> bool {
        self.notify(|key| {
            // SAFETY: the key is this condition variable's address; the callback does nothing.
            let result = unsafe { parking_lot_core::unpark_one(key, |_| DEFAULT_UNPARK_TOKEN) };
            result.unparked_threads
        }) != 0
    }

    /// Wakes all threads that wait; how many these were.
    #[track_caller]
    pub fn notify_all(&self) -> usize {
        self.notify(|key| {
            // SAFETY: as above.
            unsafe { parking_lot_core::unpark_all(key, DEFAULT_UNPARK_TOKEN) }
        })
    }

    #[inline]
    #[track_caller]
    fn notify(&self, wake: impl FnOnce(usize) -> usize) -> usize {
        match session() {
            Session::Off => {}
            Session::Record(_) => {
                chaos::point();
                self.last.set(Signal::next());
            }
            Session::Replay(engine) => self.last.set(engine.signal()),
        }
        let woken = if self.waiters.load(Ordering::Relaxed) == 0 {
            0
        } else {
            wake(self.key())
        };
        match session() {
            Session::Off => woken,
            Session::Record(_) => notified(woken),
            Session::Replay(engine) => engine
                .recall_number(Op::Notify)
                .map_or_else(|| notified(woken), |woken| woken as usize),
        }
    }

    /// Unlocks the mutex, waits to be notified, and locks the mutex again.
    #[track_caller]
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        self.wait_as(Op::Wait, guard, None);
    }

    /// As [`wait`](Condvar::wait), until `timeout` at most.
    #[track_caller]
    pub fn wait_until<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        timeout: Instant,
    ) -> WaitTimeoutResult {
        self.wait_as(Op::WaitTimeout, guard, Some(timeout))
    }

    /// As [`wait`](Condvar::wait), for as long as `timeout` at most.
    #[track_caller]
    pub fn wait_for<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        timeout: Duration,
    ) -> WaitTimeoutResult {
        let deadline = after(timeout);
        self.wait_as(Op::WaitTimeout, guard, deadline)
    }

    /// Waits while `condition` is true.
    #[track_caller]
    pub fn wait_while<T, F>(&self, guard: &mut MutexGuard<'_, T>, mut condition: F)
    where
        T: ?Sized,
        F: FnMut(&mut T) -> bool,
    {
        while condition(&mut **guard) {
            self.wait(guard);
        }
    }

    /// Waits while `condition` is true, until `timeout` at most.
    #[track_caller]
    pub fn wait_while_until<T, F>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        condition: F,
        timeout: Instant,
    ) -> WaitTimeoutResult
    where
        T: ?Sized,
        F: FnMut(&mut T) -> bool,
    {
        self.wait_while_as(guard, condition, Some(timeout))
    }

    /// Waits while `condition` is true, for as long as `timeout` at most.
    #[track_caller]
    pub fn wait_while_for<T, F>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        condition: F,
        timeout: Duration,
    ) -> WaitTimeoutResult
    where
        T: ?Sized,
        F: FnMut(&mut T) -> bool,
    {
        self.wait_while_as(guard, condition, after(timeout))
    }

    #[track_caller]
    fn wait_while_as<T, F>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: F,
        deadline: Option<Instant>,
    ) -> WaitTimeoutResult
    where
        T: ?Sized,
        F: FnMut(&mut T) -> bool,
    {
        let mut result = WaitTimeoutResult(false);
        while !result.timed_out() && condition(&mut **guard) {
            result = self.wait_as(Op::WaitTimeout, guard, deadline);
        }
        result
    }

    #[track_caller]
    fn wait_as<T: ?Sized>(
        &self,
        op: Op,
        guard: &mut MutexGuard<'_, T>,
        deadline: Option<Instant>,
    ) -> WaitTimeoutResult {
        // SAFETY: the raw mutex is unlocked and locked again below, as the guard, which
        // is borrowed meanwhile, finds it.
        let mutex = unsafe { MutexGuard::mutex(guard).raw() };
        let woken = match session() {
            Session::Off => {
                let woken = self.sleep(mutex, deadline);
                mutex.raw.lock();
                woken
            }
            Session::Record(_) => {
                let woken = self.sleep(mutex, deadline);
                mutex.raw.lock();
                self.log_wait(op, woken);
                mutex.order.took(Op::Relock);
                woken
            }
            Session::Replay(engine) => match engine.waking(op) {
                Some(waking) => {
                    // SAFETY: the caller's guard says that it holds the mutex.
                    unsafe { mutex.raw.unlock() };
                    let native = deadline.map_or(Native::Block, |deadline| {
                        Native::Until(shown::to_real(deadline))
                    });
                    let woken = engine.wake(waking, native);
                    acquire(&mutex.order, Op::Relock, Count::Took, || mutex.raw.lock());
                    woken != Woken::TimedOut
                }
                None => {
                    let woken = self.sleep(mutex, deadline);
                    mutex.raw.lock();
                    self.log_wait(op, woken);
                    engine.taken(Op::Relock, &mutex.order);
                    woken
                }
            },
        };
        WaitTimeoutResult(!woken)
    }

    fn log_wait(&self, op: Op, woken: bool) {
        let outcome = if woken {
            self.last.get().outcome()
        } else {
            Outcome::Timeout
        };
        log(op, outcome);
    }

    /// Unlocks the mutex, which the calling thread holds, and sleeps; `false` if until the
    /// deadline.
    fn sleep(&self, mutex: &RawMutex, deadline: Option<Instant>) -> bool {
        self.waiters.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the key is this condition variable's address. The caller holds the mutex,
        // which is unlocked once, when the queue is not locked any more.
        let result = apart(|| unsafe {
            parking_lot_core::park(
                self.key(),
                || true,
                || mutex.raw.unlock(),
                |_, _| {},
                DEFAULT_PARK_TOKEN,
                deadline.map(shown::to_real),
            )
        });
        self.waiters.fetch_sub(1, Ordering::Relaxed);
        result.is_unparked()
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

/// Logs how many threads a notification woke, and returns it.
fn notified(woken: usize) -> usize {
    log(Op::Notify, Outcome::Value(woken as u64));
    woken
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Condvar { .. }")
    }
}
