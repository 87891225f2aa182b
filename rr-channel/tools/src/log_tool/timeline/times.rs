//! Logical times: Lamport's, from the order in each thread and one cause for each event.
//!
//! **Invariant:** each mark gets a time, once, and times grow along each lane. A cause
//! that can never come first, since the logs go round in a circle, is passed over.

use std::collections::{BTreeSet, HashMap};

use super::Place;

/// A time, from 1, for each mark, given what it comes after besides the mark before it.
pub(super) fn times(after: &[Vec<Option<Place>>]) -> Vec<Vec<u32>> {
    let mut times: Vec<Vec<u32>> = after
        .iter()
        .map(|lane| Vec::with_capacity(lane.len()))
        .collect();
    let mut waiting: HashMap<Place, Vec<usize>> = HashMap::new();
    let mut blocked = BTreeSet::new();
    let mut ready: Vec<usize> = (0..after.len()).rev().collect();
    loop {
        // With nothing ready, the first lane that waits need not wait any more.
        let is_forced = ready.is_empty();
        let Some(lane) = ready.pop().or_else(|| blocked.pop_first()) else {
            return times;
        };
        let mut may_pass = is_forced;
        while let Some(cause) = after[lane].get(times[lane].len()).copied() {
            let mark = times[lane].len();
            let before = mark.checked_sub(1).map_or(0, |before| times[lane][before]);
            let mut latest = before;
            if let Some(cause) = cause {
                match times[cause.lane].get(cause.mark) {
                    Some(time) => latest = latest.max(*time),
                    None if may_pass => {}
                    None => {
                        waiting.entry(cause).or_default().push(lane);
                        blocked.insert(lane);
                        break;
                    }
                }
            }
            may_pass = false;
            times[lane].push(latest.saturating_add(1));
            for waiter in waiting.remove(&Place { lane, mark }).into_iter().flatten() {
                // One that was forced on does not wait here any more.
                if blocked.remove(&waiter) {
                    ready.push(waiter);
                }
            }
        }
    }
}
