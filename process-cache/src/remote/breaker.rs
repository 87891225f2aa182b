//! When a remote cache is left alone.
//!
//! Two things keep a bad remote from slowing a build down. The [`Breaker`] stops
//! asking one that fails, and tries again after pauses that grow. [`Patience`]
//! limits the time that a build waits for one that works and is slow: to a part of
//! how long the build runs, and what its answers have saved.
//!
//! Neither reads a clock: the time is an argument.

use std::time::{Duration, Instant};

/// As many failures in a row as are put down to chance.
const CHANCES: u32 = 2;
/// The first pause, and the longest.
const PAUSE: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(160);

/// Counts failures in a row.
#[derive(Debug, Default)]
pub struct Breaker {
    failures: u32,
    opened: u32,
    until: Option<Instant>,
    for_good: bool,
}

impl Breaker {
    /// Whether to ask at all.
    pub fn allows(&self, now: Instant) -> bool {
        !self.for_good && self.until.is_none_or(|until| now >= until)
    }

    /// It answered.
    pub fn succeeded(&mut self) {
        self.failures = 0;
        self.until = None;
    }

    /// It failed.
    pub fn failed(&mut self, now: Instant) {
        self.failures += 1;
        // After a pause, one failure is enough.
        if self.failures > CHANCES || self.until.is_some() {
            let pause = PAUSE.saturating_mul(1 << self.opened.min(10)).min(LONGEST);
            self.until = Some(now + pause);
            self.opened += 1;
        }
    }

    /// It failed in a way that does not pass: nobody is there, or we may not ask.
    pub fn gave_up(&mut self) {
        self.for_good = true;
    }
}

/// Of the time of a build, one part in so many may be waiting.
const PART: u32 = 20;

/// How long a build is kept waiting.
#[derive(Debug)]
pub struct Patience {
    began: Instant,
    advance: Duration,
    spent: Duration,
    saved: Duration,
}

impl Patience {
    /// For a build that begins, and may wait for `advance` before it is known how long
    /// it takes.
    pub fn new(now: Instant, advance: Duration) -> Self {
        Self {
            began: now,
            advance,
            spent: Duration::ZERO,
            saved: Duration::ZERO,
        }
    }

    /// How long it may wait now.
    pub fn left(&self, now: Instant) -> Duration {
        let part = now.saturating_duration_since(self.began) / PART;
        (self.advance + part + self.saved).saturating_sub(self.spent)
    }

    /// It waited.
    pub fn spent(&mut self, time: Duration) {
        self.spent += time;
    }

    /// A program was skipped that had taken so long.
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
