//! An initialization that runs once.

use std::cell::Cell;
use std::fmt;
use std::sync;
use std::sync::atomic::{AtomicBool, Ordering};

use rr_channel_log::{Op, Outcome};

use super::{OnceState, log, observed};
use crate::engine::allocator::session_for;
use crate::engine::chaos;
use crate::engine::order::Order;
use crate::engine::replay::{Engine, OnceTurn};
use crate::engine::session::Session;

/// A global initialization that runs once. See [`std::sync::Once`].
///
/// ```
/// use rr_channel::sync::Once;
///
/// static START: Once = Once::new();
/// let mut runs = 0;
/// START.call_once(|| runs += 1);
/// START.call_once(|| runs += 1);
/// assert_eq!((runs, START.is_completed()), (1, true));
/// ```
pub struct Once {
    attempts: Attempts,
    raw: sync::Once,
}

impl Once {
    /// Creates one that has not run.
    #[inline]
    #[expect(clippy::new_without_default, reason = "std's has no Default either")]
    pub const fn new() -> Self {
        Once {
            attempts: Attempts::new(),
            raw: sync::Once::new(),
        }
    }

    crate::once_calls!(&OnceState);

    /// Whether something has run here to its end.
    #[inline]
    #[track_caller]
    pub fn is_completed(&self) -> bool {
        match session_for(&self.attempts.order) {
            Session::Off => self.raw.is_completed(),
            Session::Record(_) => observed(Op::IsCompleted, self.raw.is_completed()),
            Session::Replay(engine) => {
                let is_completed = || self.raw.is_completed();
                engine
                    .recall(Op::IsCompleted, &self.attempts.order, Some(&is_completed))
                    .unwrap_or_else(|| observed(Op::IsCompleted, is_completed()))
            }
        }
    }

    crate::once_waits!();

    #[track_caller]
    fn turn(&self, engine: &Engine) -> OnceTurn {
        self.attempts.turn(engine, || self.raw.is_completed())
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}

/// The attempts at an initialization: one, unless it panics.
#[derive(Debug, Default)]
pub struct Attempts {
    /// The order in which threads made them.
    pub order: Order,
    /// In a replay: one has panicked.
    failed: AtomicBool,
}

impl Attempts {
    /// None yet.
    pub const fn new() -> Self {
        Attempts {
            order: Order::new(),
            failed: AtomicBool::new(false),
        }
    }

    /// Logs the outcome of `call`, which gets a function to be called at the beginning of the
    /// initialization.
    #[track_caller]
    pub fn record<R>(&self, call: impl FnOnce(&dyn Fn()) -> R) -> R {
        chaos::point();
        watch(|| self.order.took(Op::CallOnce), || true, call)
    }

    /// Runs `call` in a replay that says `turn`. For a thread that is live, or whose turn a live
    /// thread has done already, the outcome is logged as [`record`](Attempts::record) does. The
    /// beginning is logged by [`perform`](Attempts::perform).
    pub fn follow<R>(&self, turn: OnceTurn, call: impl FnOnce(&dyn Fn()) -> R) -> R {
        match turn {
            OnceTurn::Live => watch(|| {}, || true, call),
            OnceTurn::Mine => watch(|| {}, Engine::came_too_late, call),
            OnceTurn::Done | OnceTurn::Poisoned => call(&|| {}),
        }
    }

    /// Waits for the log's entry and returns it.
    #[track_caller]
    pub fn turn(&self, engine: &Engine, is_done: impl Fn() -> bool) -> OnceTurn {
        let has_failed = || self.failed.load(Ordering::Relaxed);
        engine.once(Op::CallOnce, &self.order, is_done, has_failed)
    }

    /// Runs an initialization that is the calling thread's to run, in a replay.
    pub fn perform<R>(&self, engine: &Engine, f: impl FnOnce() -> R) -> R {
        /// Notifies threads that wait for a failure.
        struct Failure<'a>(&'a Attempts, &'a Engine);
        impl Drop for Failure<'_> {
            fn drop(&mut self) {
                self.0.failed.store(true, Ordering::Relaxed);
                self.1.touched(&self.0.order);
            }
        }
        engine.taken(Op::CallOnce, &self.order);
        let failure = Failure(self, engine);
        let result = f();
        std::mem::forget(failure);
        result
    }
}

/// Logs the outcome of `call`, unless `call` begins an initialization, which `begin` logs, or the
/// outcome need not be logged.
fn watch<R>(begin: impl Fn(), is_logged: fn() -> bool, call: impl FnOnce(&dyn Fn()) -> R) -> R {
    /// Logs an initialization by others when `call` is over.
    struct Call {
        is_logged: fn() -> bool,
        began: Cell<bool>,
        returned: Cell<bool>,
    }
    impl Drop for Call {
        fn drop(&mut self) {
            if self.began.get() || !(self.is_logged)() {
                return;
            }
            let outcome = if self.returned.get() {
                Outcome::Done
            } else {
                Outcome::Poisoned
            };
            log(Op::CallOnce, outcome);
        }
    }
    let state = Call {
        is_logged,
        began: Cell::new(false),
        returned: Cell::new(false),
    };
    let result = call(&|| {
        state.began.set(true);
        begin();
    });
    state.returned.set(true);
    result
}
