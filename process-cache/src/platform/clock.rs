//! Times for display, and for comparison with file times.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Maximal length of one tick of the kernel's clock, and of the pauses while waiting for it.
const TICK: Duration = Duration::from_millis(20);
const PAUSE: Duration = Duration::from_micros(200);

/// Returns the range of change times that the kernel may give to files now (ns since the epoch).
/// The kernel takes them from a clock that changes once per tick, or from a finer one.
pub fn window() -> (i64, i64) {
    (now(ClockId::RealtimeCoarse), now(ClockId::Realtime))
}

/// Returns the time on a clock that is never set (ns).
pub fn running() -> u64 {
    now(ClockId::Monotonic).max(0).cast_unsigned()
}

/// Waits until new changes have change times above `time`, and returns the first such time. Waits
/// for at most one tick if the clock was set back.
pub fn tick_after(time: i64) -> i64 {
    let mut waited = Duration::ZERO;
    loop {
        let tick = now(ClockId::RealtimeCoarse);
        if tick > time || waited > TICK {
            return tick;
        }
        std::thread::sleep(PAUSE);
        waited += PAUSE;
    }
}

fn now(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec
        .saturating_mul(1_000_000_000)
        .saturating_add(time.tv_nsec)
}

/// Formats µs since the epoch as date and time of day by the local clock: `2026-03-01 12:30:05`.
pub fn local(us: u64) -> String {
    let seconds = i64::try_from(us / 1_000_000).unwrap_or(i64::MAX);
    crate::platform::os::local_time(seconds).map_or_else(
        || format!("{seconds} s"),
        |[year, month, day, hour, minute, second]| {
            format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
        },
    )
}

/// Formats the time since then: `3 min ago`.
pub fn ago(us: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_secs());
    let seconds = now.saturating_sub(us / 1_000_000);
    match seconds {
        0..=1 => "just now".to_owned(),
        2..=119 => format!("{seconds} s ago"),
        120..=7199 => format!("{} min ago", seconds / 60),
        7200..=172_799 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86400),
    }
}
