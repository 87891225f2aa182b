//! The time that the program is shown in a replay, which is behind the real one.

use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rr_channel_log::Clock;

/// The time that a thread is to be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// This, in nanoseconds.
    Recorded(i64),
    /// The recording has no further read of the clock at this position and site.
    Between {
        /// The last read of the clock that the thread has passed without making it.
        passed: Option<i64>,
        /// The next read of the clock, at a later position, if that is at hand.
        next: Option<i64>,
    },
}

/// The time that the calling thread was shown last.
#[derive(Debug, Clone, Copy)]
struct Last {
    shown: i64,
    /// How far that was behind the real time.
    behind: i64,
}

/// No thread was shown a clock by now.
const UNKNOWN: i64 = i64::MIN;

thread_local! {
    static LAST: [Cell<Option<Last>>; Clock::COUNT] = const { [const { Cell::new(None) }; Clock::COUNT] };
}

/// How far behind the real time the thread was that was shown a clock last.
static BEHIND: [AtomicI64; Clock::COUNT] = [const { AtomicI64::new(UNKNOWN) }; Clock::COUNT];

/// A replay begins, whose recording showed this clock first so far behind the present.
pub fn begin(clock: Clock, behind: i64) {
    BEHIND[clock.number()].store(behind, Relaxed);
}

/// The real instant at which the program's time is `shown`.
pub fn to_real(shown: Instant) -> Instant {
    moved(shown, |behind| behind)
}

/// The instant that the program is to be shown at the instant `real`.
pub fn to_shown(real: Instant) -> Instant {
    moved(real, i64::wrapping_neg)
}

fn moved(instant: Instant, by: impl FnOnce(i64) -> i64) -> Instant {
    let by = match behind(Clock::Monotonic) {
        0 => return instant,
        behind => by(behind),
    };
    let distance = Duration::from_nanos(by.unsigned_abs());
    let moved = if by < 0 {
        instant.checked_sub(distance)
    } else {
        instant.checked_add(distance)
    };
    moved.unwrap_or(instant)
}

/// How far the calling thread's time is behind the real one, in nanoseconds.
pub fn behind(clock: Clock) -> i64 {
    let of_any = || BEHIND[clock.number()].load(Relaxed);
    let behind = last(clock).map_or_else(of_any, |last| last.behind);
    if behind == UNKNOWN { 0 } else { behind }
}

/// The last time that the calling thread was shown.
fn last(clock: Clock) -> Option<Last> {
    LAST.try_with(|last| last[clock.number()].get()).ok()?
}

/// Shows the calling thread what the recording has, or what follows from it.
pub fn show(clock: Clock, real: i64, shown: Shown) -> i64 {
    let number = clock.number();
    let (mut time, is_recorded) = match shown {
        Shown::Recorded(time) => (time, true),
        Shown::Between { passed, next } => {
            let mut time = real.wrapping_sub(behind(clock));
            if let Some(passed) = passed {
                time = time.max(passed);
            }
            (next.map_or(time, |next| time.min(next)), false)
        }
    };
    // A made-up time does not go back. A recorded one may: the last read may have been that of
    // another task, or of a library's own.
    if let Some(last) = last(clock)
        && clock == Clock::Monotonic
        && !is_recorded
    {
        time = time.max(last.shown);
    }
    let behind = real.wrapping_sub(time);
    let now = Last {
        shown: time,
        behind,
    };
    let _ = LAST.try_with(|last| last[number].set(Some(now)));
    BEHIND[number].store(behind, Relaxed);
    time
}
