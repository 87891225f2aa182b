//! A cell that is written once.

use std::fmt;
use std::sync;

use rr_channel_log::Op;

use super::observed;
use super::once::Attempts;
use crate::engine::allocator::session_for;
use crate::engine::chaos;
use crate::engine::replay::OnceTurn;
use crate::engine::session::Session;

/// A cell that is written once. See [`std::sync::OnceLock`].
///
/// ```
/// use rr_channel::sync::OnceLock;
///
/// static CELL: OnceLock<&str> = OnceLock::new();
/// assert_eq!(CELL.get(), None);
/// assert_eq!(*CELL.get_or_init(|| "first"), "first");
/// assert_eq!(CELL.set("second"), Err("second"));
/// ```
pub struct OnceLock<T> {
    attempts: Attempts,
    raw: sync::OnceLock<T>,
}

impl<T> OnceLock<T> {
    /// Creates an empty cell.
    #[inline]
    pub const fn new() -> Self {
        OnceLock {
            attempts: Attempts::new(),
            raw: sync::OnceLock::new(),
        }
    }

    /// The content; `None` if the cell is empty, or being written.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        match session_for(&self.attempts.order) {
            Session::Off => self.raw.get(),
            Session::Record(_) => {
                chaos::point();
                let value = self.raw.get();
                observed(Op::IsCompleted, value.is_some());
                value
            }
            Session::Replay(engine) => {
                let is_some = || self.raw.get().is_some();
                match engine.recall(Op::IsCompleted, &self.attempts.order, Some(&is_some)) {
                    Some(false) => None,
                    Some(true) => self.raw.get(),
                    None => {
                        let value = self.raw.get();
                        observed(Op::IsCompleted, value.is_some());
                        value
                    }
                }
            }
        }
    }

    /// The content, to which no other reference exists.
    #[inline]
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.raw.get_mut()
    }

    /// Blocks until the cell is written.
    #[inline]
    #[track_caller]
    pub fn wait(&self) -> &T {
        match session_for(&self.attempts.order) {
            Session::Off => {}
            Session::Record(_) => {
                self.attempts.record(|_| self.raw.wait());
            }
            Session::Replay(engine) => {
                let turn = self.attempts.turn(engine, || self.raw.get().is_some());
                self.attempts.follow(turn, |_| self.raw.wait());
            }
        }
        self.raw.wait()
    }

    /// Writes the cell.
    ///
    /// # Errors
    /// If it has been written; the error is `value`.
    #[inline]
    #[track_caller]
    pub fn set(&self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.initialize(|| value.take());
        value.map_or(Ok(()), Err)
    }

    /// The content, which is made by `f` if the cell is empty.
    ///
    /// # Panics
    /// If `f` panics; the cell stays empty.
    #[inline]
    #[track_caller]
    pub fn get_or_init<F: FnOnce() -> T>(&self, f: F) -> &T {
        match session_for(&self.attempts.order) {
            Session::Off => self.raw.get_or_init(f),
            _ => self.initialize(|| Some(f())),
        }
    }

    /// As [`get_or_init`](OnceLock::get_or_init), where `f` always returns something.
    #[track_caller]
    fn initialize(&self, f: impl FnOnce() -> Option<T>) -> &T {
        let f = || f().expect("each caller makes a value");
        match session_for(&self.attempts.order) {
            Session::Off => self.raw.get_or_init(f),
            Session::Record(_) => self.attempts.record(|begin| {
                self.raw.get_or_init(|| {
                    begin();
                    f()
                })
            }),
            Session::Replay(engine) => {
                let turn = self.attempts.turn(engine, || self.raw.get().is_some());
                if turn == OnceTurn::Done
                    && let Some(value) = self.raw.get()
                {
                    return value;
                }
                let value = self.attempts.follow(turn, |begin| {
                    self.raw.get_or_init(|| {
                        begin();
                        self.attempts.perform(engine, f)
                    })
                });
                engine.touched(&self.attempts.order);
                value
            }
        }
    }

    /// Consumes the cell and returns its content, if there is any.
    #[inline]
    pub fn into_inner(self) -> Option<T> {
        self.raw.into_inner()
    }

    /// Empties the cell.
    #[inline]
    #[track_caller]
    pub fn take(&mut self) -> Option<T> {
        self.raw.take()
    }

    pub(super) fn raw(&self) -> Option<&T> {
        self.raw.get()
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        OnceLock::new()
    }
}

impl<T: Clone> Clone for OnceLock<T> {
    fn clone(&self) -> Self {
        self.get().cloned().map_or_else(OnceLock::new, Self::from)
    }
}

impl<T> From<T> for OnceLock<T> {
    fn from(value: T) -> Self {
        OnceLock {
            attempts: Attempts::new(),
            raw: value.into(),
        }
    }
}

impl<T: PartialEq> PartialEq for OnceLock<T> {
    #[track_caller]
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl<T: Eq> Eq for OnceLock<T> {}

impl<T: fmt::Debug> fmt::Debug for OnceLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}
