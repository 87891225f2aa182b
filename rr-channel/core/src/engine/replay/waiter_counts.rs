//! Whether a thread waits for a lock or another object, at a glance.
//!
//! A thread that acquires a lock checks here whether another one waits for it, and takes the
//! world's lock only then. Objects share counters, so a check may be in vain; no waiter is
//! missed: a waiter first counts itself here and then looks at the object, and a thread that
//! changes the object checks here afterwards. All accesses are sequentially consistent, so one
//! of the two sees the other.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use super::world::Watch;

const COUNTERS: usize = 256;

static WATCHED: [AtomicU32; COUNTERS] = [const { AtomicU32::new(0) }; COUNTERS];

/// Objects lie at multiples of 8 bytes, and mostly of more.
const fn counter(address: usize) -> &'static AtomicU32 {
    &WATCHED[((address >> 4) ^ (address >> 12)) % COUNTERS]
}

/// A thread is about to wait.
pub(super) fn begin(watch: Watch) {
    if let Watch::Object(address) = watch {
        counter(address).fetch_add(1, SeqCst);
    }
}

/// A thread waits no longer.
pub(super) fn end(watch: Watch) {
    if let Watch::Object(address) = watch {
        counter(address).fetch_sub(1, SeqCst);
    }
}

/// Whether a thread may wait for the object at `address`.
#[inline]
pub(super) fn is_watched(address: usize) -> bool {
    counter(address).load(SeqCst) > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::order::Order;
    use rr_channel_log::identity::ThreadId;
    use std::sync::{Condvar, Mutex};
    use std::thread;

    /// If one of the two is not told, this does not end; miri finds it.
    #[test]
    fn threads_that_alternate_at_a_lock_are_notified() {
        let count = if cfg!(miri) { 10 } else { 2000 };
        let order = &Order::new();
        let (told, world) = &(Condvar::new(), Mutex::new(0));
        let turns = |parity: u32| {
            for ticket in (0..count).filter(|ticket| ticket % 2 == u64::from(parity)) {
                let watch = Watch::Object(order.address());
                if order.ticket() != ticket {
                    let mut times = world.lock().unwrap();
                    begin(watch);
                    while order.ticket() != ticket {
                        let before = *times;
                        times = told.wait_while(times, |times| *times == before).unwrap();
                    }
                    end(watch);
                }
                order.count(ThreadId(parity));
                if is_watched(order.address()) {
                    *world.lock().unwrap() += 1;
                    told.notify_all();
                }
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| turns(1));
            turns(0);
        });
        assert_eq!(order.ticket(), count);
    }
}
