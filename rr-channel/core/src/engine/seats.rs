//! Positions of threads that were not spawned through this crate: below their creators.

use std::cell::{Cell, RefCell};

use rr_channel_log::identity::Dti;

/// A new thread's place.
#[derive(Debug, Clone)]
pub struct Seat {
    pub dti: Dti,
    /// A thread name says more than the place.
    pub name_wins: bool,
}

thread_local! {
    static SEAT: RefCell<Option<Seat>> = const { RefCell::new(None) };
    static PASS: Cell<bool> = const { Cell::new(false) };
}

/// The calling thread's place, if it was created through our `pthread_create`.
pub fn seat() -> Option<Seat> {
    SEAT.try_with(|seat| seat.borrow().clone()).ok().flatten()
}

/// Runs `f`, in which created threads are given no place: they will be told.
pub fn without_seats<T>(f: impl FnOnce() -> T) -> T {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            PASS.set(self.0);
        }
    }
    let _restore = Restore(PASS.replace(true));
    f()
}

/// Whether created threads are given no place.
pub(super) fn are_passed_over() -> bool {
    PASS.get()
}

/// The calling thread, which is new, has this place.
pub(super) fn take(seat: Seat) {
    SEAT.with(|place| *place.borrow_mut() = Some(seat));
}
