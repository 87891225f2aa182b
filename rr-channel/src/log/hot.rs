#![expect(
    unsafe_code,
    reason = "counts an event by one store through a pointer into the log's mapping"
)]
//! The few events that a thread is expected to log next, at hand without a look into
//! its log.
//!
//! A thread that does the same again and again (receive the next message of the same
//! sender; take its own lock; select, receive and send) is counted here: a comparison,
//! a few additions, and one store to the file's state word, which makes the event
//! survive whatever comes. All else goes through the [`Writer`](super::Writer), which
//! first takes over what was counted.
//!
//! **Safety** rests on: `place` is dereferenced only where a code matched, and all codes
//! are [`COLD`], which no event has, except between [`Hot::arm`] and [`Hot::disarm`];
//! who arms promises to keep the mapping in place until it disarms, on the same thread
//! (`Hot` is not `Sync`). The word is only accessed as an atomic one.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use super::MAX_RUN;
use super::event::Symbol;

/// How many events are foreseen at most.
pub(super) const AHEAD: usize = 4;

/// The code of no event.
const COLD: u64 = u64::MAX;

/// One expected event.
#[derive(Debug)]
struct Expected {
    code: Cell<u64>,
    object: Cell<u64>,
    number: Cell<u64>,
    step: Cell<u64>,
    /// What comes after it.
    next: Cell<u8>,
}

/// A thread's expectations, and the count of those that came true.
#[derive(Debug)]
pub(crate) struct Hot {
    /// The first [`AHEAD`] at most are used; the rest stays cold. A power of two, so that
    /// no index is out of bounds.
    expected: [Expected; 2 * AHEAD],
    next: Cell<u8>,
    /// What the state word holds: body length and open run.
    state: Cell<u64>,
    place: Cell<*const AtomicU64>,
}

impl Hot {
    /// No expectations.
    pub(crate) const fn new() -> Hot {
        Hot {
            expected: [const {
                Expected {
                    code: Cell::new(COLD),
                    object: Cell::new(0),
                    number: Cell::new(0),
                    step: Cell::new(0),
                    next: Cell::new(0),
                }
            }; 2 * AHEAD],
            next: Cell::new(0),
            state: Cell::new(0),
            place: Cell::new(ptr::null()),
        }
    }

    #[inline(always)]
    fn next(&self) -> &Expected {
        &self.expected[usize::from(self.next.get()) % (2 * AHEAD)]
    }

    /// Whether the event of `symbol` and `number` is what is expected.
    #[inline(always)]
    pub(crate) fn expects(&self, symbol: Symbol, number: u64) -> bool {
        let expected = self.next();
        symbol.code == expected.code.get()
            && symbol.object == expected.object.get()
            && number == expected.number.get()
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
        let expected = self.next();
        expected
            .number
            .set(number.wrapping_add(expected.step.get()));
        self.next.set(expected.next.get());
        // SAFETY: the code was not `COLD`, so this is armed, and whoever armed it keeps
        // the word in place (see `arm`).
        unsafe { (*self.place.get()).store(state.to_le(), Ordering::Release) };
        true
    }

    /// Expects the event of `symbol` and `number`, which grows by `step` each time, as
    /// the one at `at`, and after it the one at `next`.
    pub(super) fn expect(&self, at: usize, symbol: Symbol, number: u64, step: u64, next: usize) {
        let expected = &self.expected[at];
        expected.code.set(symbol.code);
        expected.object.set(symbol.object);
        expected.number.set(number);
        expected.step.set(step);
        expected.next.set(next as u8);
    }

    /// Makes this count from now on, when the state word at `place` holds `state`.
    ///
    /// # Safety
    /// `place` is valid for atomic stores until this is disarmed, and nobody else
    /// stores there meanwhile.
    pub(super) unsafe fn arm(&self, state: u64, place: *const AtomicU64) {
        self.next.set(0);
        self.state.set(state);
        self.place.set(place);
    }

    /// Expects nothing any more; what the state word holds by now, if something was
    /// expected.
    pub(crate) fn disarm(&self) -> Option<u64> {
        for expected in &self.expected {
            expected.code.set(COLD);
        }
        let armed = !self.place.replace(ptr::null()).is_null();
        armed.then(|| self.state.get())
    }
}
