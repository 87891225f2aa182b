//! Attempts, where a lock is held without a value that says so.

use std::time::Instant;

use rr_channel_log::Op;

use crate::raw_locks::{self, Count};
use rr_channel_core::engine::order::Order;

/// As [`raw_locks::attempt`], where a lock is held without a value that says so; whether it was.
#[inline]
#[track_caller]
pub(super) fn attempt(
    order: &Order,
    op: Op,
    count: Count,
    deadline: Option<Instant>,
    try_lock: impl FnOnce() -> bool,
    lock: impl FnOnce(),
) -> bool {
    let try_lock = || try_lock().then_some(());
    raw_locks::attempt(order, op, count, deadline, try_lock, lock).is_some()
}
