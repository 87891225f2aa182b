//! Limits the use of a failing or slow remote cache.
//!
//! Two mechanisms keep a bad remote cache from slowing a build down. The [`Breaker`] stops
//! requests to one that fails, and retries after increasing pauses. [`Patience`] limits the time
//! that a build waits for a slow one: to a share of the build's duration, plus the time that its
//! results have saved.
//!
//! Neither reads a clock: the time is an argument.

use std::time::{Duration, Instant};

/// Number of consecutive failures that are tolerated.
const CHANCES: u32 = 2;
/// The first and the longest pause.
const PAUSE: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(160);

/// Counts consecutive failures.
#[derive(Debug, Default)]
pub struct Breaker {
    failures: u32,
    opened: u32,
    until: Option<Instant>,
    for_good: bool,
}

impl Breaker {
    /// Whether a request is allowed.
    pub fn allows(&self, now: Instant) -> bool {
        !self.for_good && self.until.is_none_or(|until| now >= until)
    }

    /// Notes a successful request.
    pub fn succeeded(&mut self) {
        self.failures = 0;
        self.until = None;
    }

    /// Notes a failed request.
    pub fn failed(&mut self, now: Instant) {
        self.failures += 1;
        // After a pause, one failure is enough.
        if self.failures > CHANCES || self.until.is_some() {
            let pause = PAUSE.saturating_mul(1 << self.opened.min(10)).min(LONGEST);
            self.until = Some(now + pause);
            self.opened += 1;
        }
    }

    /// Notes a permanent failure: the server does not exist, or access is denied.
    pub fn gave_up(&mut self) {
        self.for_good = true;
    }
}

/// The share of a build's time that may be waiting: one part in this number.
const PART: u32 = 20;

/// Limits the waiting time of a build.
#[derive(Debug)]
pub struct Patience {
    began: Instant,
    advance: Duration,
    spent: Duration,
    saved: Duration,
}

impl Patience {
    /// Creates it for a build that starts now. The build may wait for `advance` before its
    /// duration is known.
    pub fn new(now: Instant, advance: Duration) -> Self {
        Self {
            began: now,
            advance,
            spent: Duration::ZERO,
            saved: Duration::ZERO,
        }
    }

    /// Returns how long the build may wait now.
    pub fn left(&self, now: Instant) -> Duration {
        let part = now.saturating_duration_since(self.began) / PART;
        (self.advance + part + self.saved).saturating_sub(self.spent)
    }

    /// Adds waiting time.
    pub fn spent(&mut self, time: Duration) {
        self.spent += time;
    }

    /// Adds the saved time of a skipped program.
    pub fn saved(&mut self, time: Duration) {
        self.saved += time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_that_fails_is_asked_again_after_pauses_that_grow() {
        let start = Instant::now();
        let mut breaker = Breaker::default();
        breaker.failed(start);
        breaker.failed(start);
        assert!(breaker.allows(start), "that was chance");
        breaker.failed(start);
        assert!(!breaker.allows(start));
        assert!(!breaker.allows(start + PAUSE - Duration::from_millis(1)));
        let again = start + PAUSE;
        assert!(breaker.allows(again));
        breaker.failed(again);
        assert!(!breaker.allows(again + PAUSE));
        assert!(breaker.allows(again + 2 * PAUSE));
        breaker.succeeded();
        assert!(breaker.allows(again));
        for _ in 0..100 {
            breaker.failed(again);
        }
        assert!(breaker.allows(again + LONGEST));
    }

    #[test]
    fn a_success_resets_the_count_of_failures() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        for _ in 0..10 {
            breaker.failed(now);
            breaker.succeeded();
        }
        assert!(breaker.allows(now));
    }

    #[test]
    fn a_permanent_failure_is_not_retried() {
        let mut breaker = Breaker::default();
        breaker.gave_up();
        assert!(!breaker.allows(Instant::now() + Duration::from_secs(1_000_000)));
    }

    #[test]
    fn waiting_is_limited_to_an_advance_a_share_and_the_saved_time() {
        const ADVANCE: Duration = Duration::from_secs(1);
        let start = Instant::now();
        let mut patience = Patience::new(start, ADVANCE);
        assert_eq!(patience.left(start), ADVANCE);
        patience.spent(ADVANCE);
        assert_eq!(patience.left(start), Duration::ZERO);
        patience.spent(ADVANCE);
        assert_eq!(patience.left(start), Duration::ZERO);
        let later = start + ADVANCE * PART * 2;
        assert_eq!(patience.left(later), ADVANCE);
        patience.saved(Duration::from_secs(5));
        assert_eq!(patience.left(start), Duration::from_secs(4));
    }
}
