//! Decides what a candidate does, from several replays of it.
//!
//! A replay is evidence only if it did what was composed. On a busy machine any replay may
//! leave its recording before its last change, reach its time limit, or end in a third way.
//! Such a replay says nothing about the candidate and is repeated. A candidate that leaves its
//! recording at the same event twice cannot be replayed, and counts as unknown.
//!
//! **Invariant:** a candidate fails only if [`AGAIN`] replays that did what was composed
//! failed, and none passed.

/// So many failures make a candidate one that fails: the threads that have left their logs
/// after the last change decide by chance.
pub(super) const AGAIN: u32 = 3;
/// The most replays of one candidate that are no evidence.
const STRAYS: usize = 5;

/// Threads that left their logs, and at which event.
pub(super) type Departures = Vec<(String, u64)>;

/// The evidence of one replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Evidence {
    /// It did what was composed, and passed.
    Passes,
    /// It did what was composed, and failed.
    Fails,
    /// It did something else, and left its recording there.
    Strayed(Departures),
}

/// The knowledge about a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finding {
    /// A replay passes.
    Passes,
    /// Every replay fails.
    Fails,
    /// Some replays pass and some fail.
    Chance,
    /// No replay did what was composed.
    Unknown,
    /// Its changes contradict each other: there is nothing to replay.
    Contradiction,
}

/// Replays a candidate until its outcome is known, or cannot be known.
///
/// # Errors
/// Those of `replay`.
pub(super) fn decide(
    mut replay: impl FnMut() -> anyhow::Result<Evidence>,
) -> anyhow::Result<Finding> {
    let mut failures = 0;
    let mut strays: Vec<Departures> = Vec::new();
    loop {
        match replay()? {
            Evidence::Passes if failures == 0 => return Ok(Finding::Passes),
            Evidence::Passes => return Ok(Finding::Chance),
            Evidence::Fails => {
                failures += 1;
                if failures == AGAIN {
                    return Ok(Finding::Fails);
                }
            }
            Evidence::Strayed(departures) => {
                let is_settled = failures == 0 && strays.contains(&departures);
                strays.push(departures);
                if is_settled || strays.len() == STRAYS {
                    return Ok(Finding::Unknown);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Evidence::{Fails, Passes};

    fn strayed(event: u64) -> Evidence {
        Evidence::Strayed(vec![("main".to_owned(), event)])
    }

    /// The finding, and how many replays it took.
    fn check(replays: Vec<Evidence>) -> (Finding, usize) {
        let total = replays.len();
        let mut left = replays.into_iter();
        let finding = decide(|| Ok(left.next().unwrap())).unwrap();
        (finding, total - left.len())
    }

    #[test]
    fn three_failures_make_a_candidate_fail_and_one_success_makes_it_pass() {
        assert_eq!(check(vec![Fails, Fails, Fails]), (Finding::Fails, 3));
        assert_eq!(check(vec![Passes, Fails]), (Finding::Passes, 1));
        assert_eq!(check(vec![Fails, Passes]), (Finding::Chance, 2));
    }

    #[test]
    fn a_replay_that_left_its_recording_is_repeated() {
        let replays = vec![strayed(1), Fails, strayed(1), Fails, strayed(2), Fails];
        assert_eq!(check(replays), (Finding::Fails, 6));
        assert_eq!(check(vec![strayed(1), Passes]), (Finding::Passes, 2));
    }

    #[test]
    fn a_candidate_that_leaves_its_recording_at_the_same_event_twice_is_unknown() {
        assert_eq!(check(vec![strayed(1), strayed(1)]), (Finding::Unknown, 2));
        let elsewhere = (0..5).map(strayed).collect();
        assert_eq!(check(elsewhere), (Finding::Unknown, 5));
    }
}
