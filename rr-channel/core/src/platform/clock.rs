//! The time as it is, where a program may be shown the time of a recording.

use std::time::{Duration, Instant};

use super::apart::apart;

/// The instant that it is.
#[inline]
pub fn now() -> Instant {
    apart(Instant::now)
}

/// How long ago `since` was, an instant of [`now`].
#[inline]
pub fn elapsed(since: Instant) -> Duration {
    now().saturating_duration_since(since)
}
