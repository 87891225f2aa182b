//! Locks and initializations of the program's memory allocator, which are not recorded.
//!
//! This crate allocates while it records and replays, in other places than the recorded run did.
//! A global allocator that takes a lock of the program's would then be called by this crate while
//! the calling thread holds that lock, or holds this crate's own locks in another order.
//!
//! The use of an allocator is found out: while this crate is at work, only the allocator can come
//! back to it on the same thread. An object that is used so is [marked](Order::leave_out), and
//! from then on it is the plain one. Each thread allocates a little before its first recorded
//! operation ([`try_out`]), so that objects are marked before they are used for the program, and
//! at the same place in a recording and in its replay. An object that the allocator uses for large
//! blocks only, say, may be recorded until it is marked.
//!
//! **Invariant:** no code of the program but its allocator runs inside of [`at_work`].

use std::cell::Cell;
use std::hint::black_box;

use crate::engine::context;
use crate::engine::order::Order;
use crate::engine::session::{Session, session};

/// The calling thread, as far as allocations matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It has not [tried out](try_out) the allocator.
    New,
    /// It runs the program.
    Ready,
    /// It works for this crate.
    AtWork,
}

thread_local! {
    static STATE: Cell<State> = const { Cell::new(State::New) };
}

/// The sizes that are tried out, in bytes. Allocators treat larger blocks one by one.
const SIZES: [usize; 7] = [8, 32, 128, 512, 2048, 8192, 32768];

static OFF: Session = Session::Off;

/// Work of the calling thread for this crate, until this is dropped.
#[derive(Debug)]
pub struct Work(State);

impl Work {
    /// From here on, the calling thread works for this crate.
    #[inline]
    pub fn begin() -> Self {
        Work(STATE.replace(State::AtWork))
    }
}

impl Drop for Work {
    #[inline]
    fn drop(&mut self) {
        STATE.set(self.0);
    }
}

/// Runs `f`, in which objects that are used are those of the allocator.
#[inline]
pub fn at_work<R>(f: impl FnOnce() -> R) -> R {
    let _work = Work::begin();
    f()
}

/// Whether the calling thread is [at work](at_work) for this crate.
#[inline]
pub fn is_at_work() -> bool {
    STATE.get() == State::AtWork
}

/// The session for an operation on the object with this order: [`Session::Off`] for one of the
/// allocator.
#[inline(always)]
pub fn session_for(order: &Order) -> &'static Session {
    let session = session();
    if let Session::Off = session {
        return session;
    }
    if STATE.get() == State::Ready && !order.is_left_out() {
        return session;
    }
    look_at(order, session)
}

#[cold]
#[inline(never)]
fn look_at(order: &Order, session: &'static Session) -> &'static Session {
    if !order.is_left_out() {
        match STATE.get() {
            State::AtWork => order.leave_out(),
            State::New => try_out(),
            State::Ready => {}
        }
    }
    if order.is_left_out() {
        return &OFF;
    }
    // Before the object is taken: this allocates.
    context::thread_or_last();
    session
}

/// Has the allocator use its objects.
fn try_out() {
    let work = Work::begin();
    for size in SIZES {
        let mut block = vec![0_u8; size];
        // Perhaps at another place.
        block.reserve_exact(2 * size);
        drop(black_box(block));
    }
    drop(work);
    STATE.set(State::Ready);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_during_work_is_left_out() {
        let (used, other) = (Order::new(), Order::new());
        at_work(|| {
            assert!(is_at_work());
            look_at(&used, &OFF);
        });
        assert!(!is_at_work());
        assert_eq!((used.is_left_out(), other.is_left_out()), (true, false));
    }
}
