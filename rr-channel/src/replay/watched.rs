//! Which locks and the like somebody waits for, at a glance.
//!
//! Whoever acquires a lock looks here whether that is waited for, and takes the world's
//! lock only if so. Objects share counters, so a look may be in vain; none is missed:
//! who waits first counts here and then looks at the object, who changes the object looks
//! here afterwards, all by sequentially consistent accesses, so one of the two sees the
//! other.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use super::world::Watch;

const COUNTERS: usize = 256;

static WATCHED: [AtomicU32; COUNTERS] = [const { AtomicU32::new(0) }; COUNTERS];

/// Objects lie at multiples of 8 bytes, and mostly of more.
const fn counter(address: usize) -> &'static AtomicU32 {
    &WATCHED[((address >> 4) ^ (address >> 12)) % COUNTERS]
}

/// Somebody is about to wait.
pub(super) fn begin(watch: Watch) {
    if let Watch::Object(address) = watch {
        counter(address).fetch_add(1, SeqCst);
    }
}

/// Somebody waits no longer.
pub(super) fn end(watch: Watch) {
    if let Watch::Object(address) = watch {
        counter(address).fetch_sub(1, SeqCst);
    }
}

/// Whether somebody may wait for the object at `address`.
#[inline]
pub(super) fn is_watched(address: usize) -> bool {
    counter(address).load(SeqCst) > 0
}
