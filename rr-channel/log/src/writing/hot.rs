#![expect(
    unsafe_code,
    reason = "counts an event by one store through a pointer into the log's mapping"
)]
//! The few events that a thread is expected to log next, available without a look into its log.
//!
//! Repeated events of a thread (receive the next message of the same sender; take its own lock;
//! select, receive and send) are counted here. Each costs a comparison, a few additions, and one
//! store to the file's state word, which makes the event survive the process. All other events go
//! through the [`Writer`](super::Writer), which first takes the counted events into its log.
//!
//! **Safety** rests on: `place` is dereferenced only where an event was expected, and the ring
//! expects none except between [`Hot::arm`] and [`Hot::disarm`]. The caller of `arm` promises to
//! keep the mapping in place until it disarms, on the same thread (`Hot` is not `Sync`). The word
//! is only accessed as an atomic one.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::event::Symbol;
use crate::format::MAX_RUN;
use crate::prediction::Ring;

/// A thread's expectations, and the count of those that came true.
#[derive(Debug)]
pub struct Hot {
    pub(super) ring: Ring,
    /// The parts of the state word: body length and open run.
    state: Cell<u64>,
    /// The number of events, but those that are apart, without those of the open run.
    before_run: Cell<u64>,
    place: Cell<*const AtomicU64>,
}

impl Default for Hot {
    fn default() -> Self {
        Hot::new()
    }
}

impl Hot {
    /// No expectations.
    pub const fn new() -> Hot {
        Hot {
            ring: Ring::new(),
            state: Cell::new(0),
            before_run: Cell::new(0),
            place: Cell::new(ptr::null()),
        }
    }

    /// Whether the event of `symbol` and `number` is expected.
    #[inline(always)]
    pub fn expects(&self, symbol: Symbol, number: u64) -> bool {
        self.ring.expects(symbol, number)
    }

    /// Counts the event of `symbol` and `number`, if it is expected.
    #[inline(always)]
    pub fn hit(&self, symbol: Symbol, number: u64) -> bool {
        if !self.expects(symbol, number) {
            return false;
        }
        let state = self.state.get() + 1;
        if state & MAX_RUN == 0 {
            return false;
        }
        self.state.set(state);
        self.ring.turn();
        // SAFETY: an event was expected, so this is armed, and the caller that armed it keeps the
        // word in place (see `arm`).
        unsafe { (*self.place.get()).store(state.to_le(), Ordering::Release) };
        true
    }

    /// How many events the thread has logged, but those that are [apart](crate::Op::is_apart);
    /// `None` if no event is expected.
    ///
    /// Events that are apart must not be given to [`hit`](Self::hit).
    #[inline]
    pub fn position(&self) -> Option<u64> {
        let run = self.state.get() & MAX_RUN;
        (!self.place.get().is_null()).then(|| self.before_run.get().wrapping_add(run))
    }

    /// Makes this count from now on, when the state word at `place` holds `state`, after `count`
    /// events.
    ///
    /// # Safety
    /// `place` is valid for atomic stores until this is disarmed, and nobody else
    /// stores there meanwhile.
    #[inline]
    pub(super) unsafe fn arm(&self, state: u64, count: u64, place: *const AtomicU64) {
        self.ring.begin();
        self.before_run.set(count.wrapping_sub(state & MAX_RUN));
        self.state.set(state);
        self.place.set(place);
    }

    /// Expects no event any more; returns the current state word, if an event was expected.
    #[inline]
    pub fn disarm(&self) -> Option<u64> {
        self.ring.cool();
        let armed = !self.place.replace(ptr::null()).is_null();
        armed.then(|| self.state.get())
    }
}
