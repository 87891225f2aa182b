//! A condition variable.

use std::fmt;
use std::time::Duration;

use rr_channel_log::{Op, Outcome};

use super::{LockResult, MutexGuard, PoisonError, WaitTimeoutResult, log};
use crate::engine::allocator::session_for;
use crate::engine::chaos;
use crate::engine::replay::{Native, Woken};
use crate::engine::session::{Session, session};
use crate::engine::signal::{LastSignal, Signal};
use crate::platform::apart::apart;
use crate::platform::clock;

/// A condition variable. See [`std::sync::Condvar`].
///
/// ```
/// use rr_channel::sync::{Condvar, Mutex};
/// use rr_channel::thread;
///
/// static READY: Mutex<bool> = Mutex::new(false);
/// static CHANGED: Condvar = Condvar::new();
///
/// thread::spawn(|| {
///     *READY.lock().unwrap() = true;
///     CHANGED.notify_one();
/// });
/// let mut ready = READY.lock().unwrap();
/// while !*ready {
///     ready = CHANGED.wait(ready).unwrap();
/// }
/// ```
#[derive(Default)]
pub struct Condvar {
    raw: std::sync::Condvar,
    /// While recording: the last notification.
    last: LastSignal,
}

impl Condvar {
    /// Creates a condition variable without waiting threads.
    #[inline]
    pub const fn new() -> Self {
        Condvar {
            raw: std::sync::Condvar::new(),
            last: LastSignal::new(),
        }
    }

    /// Unlocks the mutex, waits to be notified, and locks the mutex again. May return
    /// without a notification.
    ///
    /// # Errors
    /// If the mutex is poisoned when it is locked again; the error holds the guard.
    #[track_caller]
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let MutexGuard { lock, raw } = guard;
        match session_for(lock.order()) {
            Session::Off => lock.guard(self.raw.wait(raw)),
            Session::Record(_) => {
                let raw = self.raw.wait(raw);
                log(Op::Wait, self.last.get().outcome());
                lock.order().took(Op::Relock);
                lock.guard(raw)
            }
            Session::Replay(engine) => match engine.waking(Op::Wait) {
                Some(waking) => {
                    drop(raw);
                    engine.wake(waking, Native::Block);
                    lock.lock_in_turn(engine, Op::Relock)
                }
                None => {
                    let raw = self.raw.wait(raw);
                    log(Op::Wait, self.last.get().outcome());
                    engine.taken(Op::Relock, lock.order());
                    lock.guard(raw)
                }
            },
        }
    }

    /// Waits while `condition` is true, as [`wait`](Condvar::wait) does.
    ///
    /// # Errors
    /// If the mutex is poisoned when it is locked again; the error holds the guard.
    #[track_caller]
    pub fn wait_while<'a, T, F>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: F,
    ) -> LockResult<MutexGuard<'a, T>>
    where
        F: FnMut(&mut T) -> bool,
    {
        while condition(&mut *guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    /// Waits at most for `dur`, as [`wait`](Condvar::wait) does, and says whether it was
    /// that long.
    ///
    /// # Errors
    /// If the mutex is poisoned when it is locked again; the error holds the guard.
    #[track_caller]
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        dur: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let MutexGuard { lock, raw } = guard;
        let native = |result| match result {
            Ok((raw, timeout)) => (Ok(raw), timeout),
            Err(error) => {
                let (raw, timeout) = PoisonError::into_inner(error);
                (Err(PoisonError::new(raw)), timeout)
            }
        };
        let (guard, timeout) = match session_for(lock.order()) {
            Session::Off => {
                let (raw, timeout) = native(self.raw.wait_timeout(raw, dur));
                (lock.guard(raw), timeout)
            }
            Session::Record(_) => {
                let (raw, timeout) = native(apart(|| self.raw.wait_timeout(raw, dur)));
                log(Op::WaitTimeout, self.woken(timeout.timed_out()));
                lock.order().took(Op::Relock);
                (lock.guard(raw), timeout)
            }
            Session::Replay(engine) => match engine.waking(Op::WaitTimeout) {
                Some(waking) => {
                    drop(raw);
                    let until = clock::now()
                        .checked_add(dur)
                        .map_or(Native::Block, Native::Until);
                    let woken = engine.wake(waking, until);
                    let guard = lock.lock_in_turn(engine, Op::Relock);
                    (guard, timeout_result(woken == Woken::TimedOut))
                }
                None => {
                    let (raw, timeout) = native(apart(|| self.raw.wait_timeout(raw, dur)));
                    log(Op::WaitTimeout, self.woken(timeout.timed_out()));
                    engine.taken(Op::Relock, lock.order());
                    (lock.guard(raw), timeout)
                }
            },
        };
        super::map(guard, |guard| (guard, timeout))
    }

    /// As [`wait_timeout`](Condvar::wait_timeout), in milliseconds; `false` if it was
    /// that long.
    ///
    /// # Errors
    /// If the mutex is poisoned when it is locked again; the error holds the guard.
    #[deprecated(note = "replaced by `Condvar::wait_timeout`")]
    #[track_caller]
    pub fn wait_timeout_ms<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        ms: u32,
    ) -> LockResult<(MutexGuard<'a, T>, bool)> {
        let result = self.wait_timeout(guard, Duration::from_millis(ms.into()));
        super::map(result, |(guard, timeout)| (guard, !timeout.timed_out()))
    }

    /// Waits while `condition` is true and at most for `dur`, and says whether it was
    /// still true in the end.
    ///
    /// # Errors
    /// If the mutex is poisoned when it is locked again; the error holds the guard.
    #[track_caller]
    pub fn wait_timeout_while<'a, T, F>(
        &self,
        mut guard: MutexGuard<'a, T>,
        dur: Duration,
        mut condition: F,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)>
    where
        F: FnMut(&mut T) -> bool,
    {
        if let Session::Off = session() {
            let MutexGuard { lock, raw } = guard;
            let result = self.raw.wait_timeout_while(raw, dur, condition);
            return super::map(result, |(raw, timeout)| (MutexGuard { lock, raw }, timeout));
        }
        // Each turn of the loop waits, so the recorded events decide when it ends, and not the
        // duration of its parts.
        let start = clock::now();
        let mut timed_out = false;
        loop {
            if !condition(&mut *guard) {
                return Ok((guard, timeout_result(false)));
            }
            if timed_out {
                return Ok((guard, timeout_result(true)));
            }
            let timeout;
            (guard, timeout) =
                self.wait_timeout(guard, dur.saturating_sub(clock::elapsed(start)))?;
            timed_out = timeout.timed_out();
        }
    }

    /// Wakes one thread that waits.
    #[track_caller]
    pub fn notify_one(&self) {
        self.signal();
        self.raw.notify_one();
    }

    /// Wakes all threads that wait.
    #[track_caller]
    pub fn notify_all(&self) {
        self.signal();
        self.raw.notify_all();
    }

    fn signal(&self) {
        match session() {
            Session::Off => {}
            Session::Record(_) => {
                chaos::point();
                self.last.set(Signal::next());
            }
            Session::Replay(engine) => self.last.set(engine.signal()),
        }
    }

    /// The outcome of a timed wait.
    fn woken(&self, timed_out: bool) -> Outcome {
        if timed_out {
            Outcome::Timeout
        } else {
            self.last.get().outcome()
        }
    }
}

/// One that `std` does not let us make: the result of a wait that has nothing to wait
/// for, or no time.
fn timeout_result(timed_out: bool) -> WaitTimeoutResult {
    let lock = std::sync::Mutex::new(());
    let guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
    let result =
        std::sync::Condvar::new().wait_timeout_while(guard, Duration::ZERO, |()| timed_out);
    result.unwrap_or_else(PoisonError::into_inner).1
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_timed_waits_can_be_made() {
        assert!(timeout_result(true).timed_out());
        assert!(!timeout_result(false).timed_out());
    }
}
