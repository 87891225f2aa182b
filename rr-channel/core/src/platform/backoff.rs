//! Spinning and yielding before a thread sleeps.
//!
//! The awaited thread may run on another processor, and be done in less time than falling
//! asleep takes; or it may need this processor, and be done after a yield. Both sides of a
//! bounded channel depend on that: if each slept at once, they would wake each other for every
//! single message.
//!
//! On a busy machine a yield gives the processor to unrelated threads, which may run for some
//! milliseconds; that adds up where threads alternate. So the time that a yield takes is
//! measured, and after a long one there are no yields for some time.

use std::hint;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use super::clock;

/// How often others are let run.
const TURNS: u32 = 4;
/// How long others may run, where they are let run for the sake of this process.
const SHORT: Duration = Duration::from_micros(100);
/// How often a busy machine is not asked again.
const PATIENCE: u32 = 64;

/// How often others are not to be let run.
static BUSY: AtomicU32 = AtomicU32::new(0);

/// Tries again and again, for a little while.
pub fn retry_before_sleep<R>(mut attempt: impl FnMut() -> Option<R>) -> Option<R> {
    for step in 0..=6 {
        (0..1 << step).for_each(|_| hint::spin_loop());
        if let Some(found) = attempt() {
            return Some(found);
        }
    }
    let busy = BUSY.load(Relaxed);
    if busy > 0 {
        BUSY.store(busy - 1, Relaxed);
        return None;
    }
    for _ in 0..TURNS {
        let before = clock::now();
        thread::yield_now();
        let found = attempt();
        if clock::elapsed(before) > SHORT {
            BUSY.store(PATIENCE, Relaxed);
            return found;
        }
        if found.is_some() {
            return found;
        }
    }
    None
}
