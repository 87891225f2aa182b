//! Chooses positions for departures that were not logged.
//!
//! A message left before it arrived, before later messages of its sender, and before the next
//! message whose departure is known. The last position that satisfies this is taken. It also
//! comes after earlier departures, since arrivals do.

use std::collections::{BTreeMap, HashMap};

use rr_channel_log::Outcome;

use super::links::{Link, Links};
use super::{Place, Track, is_selection};
use crate::log_tool::source::number;

/// How long before the event that limits it a departure is placed: more than half the
/// way to the one before.
const BEFORE: f64 = 0.8;

/// When the cause of each mark was that has one [somewhere](Link::Somewhere).
pub(super) fn departures(
    tracks: &[Track],
    links: &Links,
    times: &[Vec<u32>],
) -> HashMap<Place, f64> {
    // Messages and notifications are numbered apart.
    let mut guesses: BTreeMap<(usize, bool), Vec<(u64, Place)>> = BTreeMap::new();
    for (lane, of) in links.of.iter().enumerate() {
        for (mark, link) in of.iter().enumerate() {
            let outcome = tracks[lane].runs[mark].event.outcome;
            if let (Link::Somewhere { lane: from }, Some(number)) = (link, number(&outcome)) {
                let key = (*from, matches!(outcome, Outcome::Woken { .. }));
                let place = Place { lane, mark };
                guesses.entry(key).or_default().push((number, place));
            }
        }
    }
    let mut departures = HashMap::new();
    for ((from, is_notification), mut guesses) in guesses {
        guesses.sort_unstable();
        let none = BTreeMap::new();
        let sent = if is_notification {
            &none
        } else {
            &links.sent[from]
        };
        let mut known = sent.iter().rev().peekable();
        let mut latest = f64::INFINITY;
        for (number, place) in guesses.into_iter().rev() {
            while let Some((_, mark)) = known.next_if(|(sent, _)| **sent > number) {
                latest = latest.min(f64::from(times[from][*mark]) - BEFORE);
            }
            let arrival = arrival(&tracks[place.lane], place.mark);
            latest = latest.min(f64::from(times[place.lane][arrival]) - BEFORE);
            departures.insert(place, latest);
        }
    }
    departures
}

/// The mark by which a message was there: the selection, if that is what received it.
fn arrival(track: &Track, mark: usize) -> usize {
    let before = mark.checked_sub(1);
    before
        .filter(|before| is_selection(track, *before))
        .unwrap_or(mark)
}
