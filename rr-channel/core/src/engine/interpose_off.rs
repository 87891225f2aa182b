//! Stands in for `interpose.rs` where `pthread_create` cannot be, or is not to be, defined:
//! threads that are not wrapped have no position, and are named by their thread names.

use crate::engine::context;
use crate::engine::seats::{self, Seat};
use crate::engine::session;
use crate::recorder::process::Variables;

/// Positions are worked out and not used.
pub(crate) const fn link() {
    let _: fn() -> Option<Seat> = context::next_seat;
    let _: fn() -> bool = seats::are_passed_over;
    let _: fn(Seat) = seats::take;
    let _: [fn() -> Option<Variables>; 2] = [session::next_process, session::next_program];
    let _: fn() -> Option<&'static Variables> = session::left_for_program;
    let _: fn(fn() -> i32) -> i32 = session::forking;
    let _: fn(u32, i32) = session::started;
}
