#![expect(
    unsafe_code,
    reason = "counts an event by one store through a pointer into the log's mapping"
)]
//! The one event that a thread is expected to log next, at hand without a look into
//! its log.
//!
//! A thread that sees the same again and again (the next message of the same sender,
//! its own lock) counts it here: a comparison, two additions, and one store to the
//! file's state word, which makes it survive whatever comes. All else goes through the
//! [`Writer`](super::Writer), which first takes over what was counted.
//!
//! **Safety** rests on: `place` is dereferenced only where `code` matched, and `code` is
//! [`COLD`], which no event has, except between [`Hot::arm`] and [`Hot::disarm`]; who
//! arms promises to keep the mapping in place until it disarms, on the same thread
//! (`Hot` is not `Sync`). The word is only accessed as an atomic one.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use super::MAX_RUN;
use super::event::Symbol;

/// The code of no event.
const COLD: u64 = u64::MAX;

/// A thread's expectation, and the count of its coming true.
#[derive(Debug)]
pub(crate) struct Hot {
    code: Cell<u64>,
    object: Cell<u64>,
    number: Cell<u64>,
    step: Cell<u64>,
    /// What the state word holds: body length and open run.
    state: Cell<u64>,
    place: Cell<*const AtomicU64>,
}

impl Hot {
    /// No expectation.
    pub(crate) const fn new() -> Hot {
        Hot {
            code: Cell::new(COLD),
            object: Cell::new(0),
            number: Cell::new(0),
            step: Cell::new(0),
            state: Cell::new(0),
            place: Cell::new(ptr::null()),
        }
    }

    /// Whether the event of `symbol` and `number` is what is expected.
    #[inline(always)]
    pub(crate) fn expects(&self, symbol: Symbol, number: u64) -> bool {
        symbol.code == self.code.get()
            && symbol.object == self.object.get()
            && number == self.number.get()
    }

    /// Counts the event of `symbol` and `number`, if it is what is expected.
    #[inline(always)]
    pub(crate) fn hit(&self, symbol: Symbol, number: u64) -> bool {
        if !self.expects(symbol, number) {
            return false;
        }
        let state = self.state.get() + 1;
        if state & MAX_RUN == 0 {
            return false;
        }
        self.state.set(state);
        self.number
            .set(self.number.get().wrapping_add(self.step.get()));
        // SAFETY: `code` is not `COLD`, so this is armed, and whoever armed it keeps
        // the word in place (see `arm`).
        unsafe { (*self.place.get()).store(state.to_le(), Ordering::Release) };
        true
    }

    /// Expects `symbol` with `number`, which grows by `step` each time, when the state
    /// word at `place` holds `state`.
    ///
    /// # Safety
    /// `place` is valid for atomic stores until this is disarmed, and nobody else
    /// stores there meanwhile.
    pub(super) unsafe fn arm(
        &self,
        symbol: Symbol,
        number: u64,
        step: u64,
        state: u64,
        place: *const AtomicU64,
    ) {
        self.code.set(symbol.code);
        self.object.set(symbol.object);
        self.number.set(number);
        self.step.set(step);
        self.state.set(state);
        self.place.set(place);
    }

    /// Expects nothing any more; what the state word holds by now, if something was
    /// expected.
    pub(crate) fn disarm(&self) -> Option<u64> {
        let armed = self.code.replace(COLD) != COLD;
        self.place.set(ptr::null());
        armed.then(|| self.state.get())
    }
}
