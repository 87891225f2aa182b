//! The few events that are expected to come next, one after the other and then again.
//!
//! Both sides walk it: a recording compares each event with the expected one
//! ([`Hot`](crate::Hot)), and a replay is told the next event ([`Ahead`](crate::Ahead)).

use std::cell::Cell;

use crate::event::{Event, Symbol};

/// How many events are foreseen at most.
pub(crate) const AHEAD: usize = 4;

/// The code of no event.
const COLD: u64 = u64::MAX;
/// A place where none is ever expected.
const COLD_AT: u8 = 2 * AHEAD as u8 - 1;

/// One expected event.
#[derive(Debug, Clone)]
pub(crate) struct Expected {
    code: Cell<u64>,
    object: Cell<u64>,
    number: Cell<u64>,
    step: Cell<u64>,
    /// The position of the event after it.
    next: Cell<u8>,
}

/// Expected events, and which of them comes next.
#[derive(Debug, Clone)]
pub(crate) struct Ring {
    /// The first [`AHEAD`] at most are used; the rest is cold for good. A power of two, so that
    /// no index is out of bounds.
    expected: [Expected; 2 * AHEAD],
    next: Cell<u8>,
}

impl Ring {
    /// No expectations.
    pub(crate) const fn new() -> Ring {
        Ring {
            expected: [const {
                Expected {
                    code: Cell::new(COLD),
                    object: Cell::new(0),
                    number: Cell::new(0),
                    step: Cell::new(0),
                    next: Cell::new(0),
                }
            }; 2 * AHEAD],
            next: Cell::new(COLD_AT),
        }
    }

    #[inline(always)]
    fn next(&self) -> &Expected {
        &self.expected[usize::from(self.next.get()) % (2 * AHEAD)]
    }

    /// Whether the event of `symbol` and `number` is expected.
    #[inline(always)]
    pub(crate) fn expects(&self, symbol: Symbol, number: u64) -> bool {
        let expected = self.next();
        symbol.code == expected.code.get()
            && symbol.object == expected.object.get()
            && number == expected.number.get()
    }

    /// The parameter and number of the expected event, if its symbol is `symbol` but for the
    /// parameter.
    #[inline(always)]
    pub(crate) fn expected(&self, symbol: Symbol) -> Option<(u32, u64)> {
        let expected = self.next();
        let symbol = Symbol {
            code: symbol.code | u64::from(u32::MAX) << 32,
            ..symbol
        };
        let code = expected.code.get();
        (symbol.code == code | u64::from(u32::MAX) << 32 && symbol.object == expected.object.get())
            .then(|| ((code >> 32) as u32, expected.number.get()))
    }

    /// The event that is expected; `None` if there is none.
    #[inline]
    pub(crate) fn event(&self) -> Option<Event> {
        let expected = self.next();
        let symbol = Symbol {
            code: expected.code.get(),
            object: expected.object.get(),
        };
        symbol.join(expected.number.get())
    }

    /// Advances to the next event after the expected one happened.
    #[inline(always)]
    pub(crate) fn turn(&self) {
        let expected = self.next();
        let number = expected.number.get();
        expected
            .number
            .set(number.wrapping_add(expected.step.get()));
        self.next.set(expected.next.get());
    }

    /// Expects the event of `symbol` and `number`, which grows by `step` each time, as
    /// the one at `at`, and after it the one at `next`.
    #[inline]
    pub(crate) fn expect(&self, at: usize, symbol: Symbol, number: u64, step: u64, next: usize) {
        let expected = &self.expected[at];
        expected.code.set(symbol.code);
        expected.object.set(symbol.object);
        expected.number.set(number);
        expected.step.set(step);
        expected.next.set(next as u8);
    }

    /// Expects what `other` expects.
    #[inline]
    pub(crate) fn copy(&self, other: &Ring) {
        for (at, expected) in other.expected.iter().take(AHEAD).enumerate() {
            let symbol = Symbol {
                code: expected.code.get(),
                object: expected.object.get(),
            };
            let (number, step) = (expected.number.get(), expected.step.get());
            self.expect(at, symbol, number, step, expected.next.get().into());
        }
        self.next.set(other.next.get());
    }

    /// Goes to the first one.
    #[inline]
    pub(crate) fn begin(&self) {
        self.next.set(0);
    }

    /// Expects nothing any more.
    #[inline(always)]
    pub(crate) fn cool(&self) {
        self.next.set(COLD_AT);
    }
}
