//! Finds the event of another thread that an event followed, as far as the logs tell.
//!
//! **Messages.** A send into a bounded channel is logged without the number of its message. The
//! first such event belongs to the first message of this sender that arrived through this
//! channel, and so on, up to the first message whose arrival is unknown. A message whose number
//! lies between those of two known sends left between them.
//!
//! **Locks.** Only a handover names its lock, by the number of acquisitions before it. The
//! previous owner is the thread of the previous handover. The acquisitions in between were its
//! own; their events name no lock, so that many of these came before the next handover. The
//! owner before the first handover of a lock is known if only one other thread has that many
//! acquisitions.

use std::collections::{BTreeMap, HashMap};

use rr_channel_log::identity::{ChannelId, ThreadId};
use rr_channel_log::{Event, Outcome};

use super::{Place, Rest, Track, is_selection};
use crate::log_tool::source::End;

/// Where an event's cause is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Link {
    /// There is none, or nothing is known of it.
    None,
    /// It is an event.
    At {
        place: Place,
        /// Which of the mark's events.
        event: u64,
        or_later: bool,
    },
    /// It was in this lane, at some time.
    Somewhere { lane: usize },
}

/// The links of all marks, by lane.
#[derive(Debug)]
pub(super) struct Links {
    pub(super) of: Vec<Vec<Link>>,
    /// The mark that each one comes after: its cause, or one before that.
    pub(super) after: Vec<Vec<Option<Place>>>,
    /// For each lane the numbers of messages that are known to have left at a mark.
    pub(super) sent: Vec<BTreeMap<u64, usize>>,
}

pub(super) fn links(tracks: &[Track], limit: u64, rest: &Rest) -> Links {
    let mut links = Links {
        of: tracks
            .iter()
            .map(|track| vec![Link::None; track.runs.len()])
            .collect(),
        after: tracks
            .iter()
            .map(|track| vec![None; track.runs.len()])
            .collect(),
        sent: vec![BTreeMap::new(); tracks.len()],
    };
    let known = Known {
        tracks,
        limit,
        rest,
        is_whole: !tracks
            .iter()
            .any(|track| matches!(track.end, End::Damaged | End::Incomplete)),
        lanes: tracks
            .iter()
            .enumerate()
            .map(|(lane, track)| (track.id, lane))
            .collect(),
    };
    known.messages(&mut links);
    known.handovers(&mut links);
    // A selection chose what was there already.
    for (track, after) in tracks.iter().zip(&mut links.after) {
        for mark in 0..after.len() {
            if is_selection(track, mark) {
                after[mark] = after[mark + 1];
            }
        }
    }
    links
}

struct Known<'a> {
    tracks: &'a [Track],
    limit: u64,
    rest: &'a Rest,
    /// Whether all logs are there to their ends.
    is_whole: bool,
    lanes: HashMap<ThreadId, usize>,
}

impl Known<'_> {
    fn marks(&self) -> impl Iterator<Item = (Place, &Event)> {
        self.tracks.iter().enumerate().flat_map(|(lane, track)| {
            let runs = track.runs.iter().enumerate();
            runs.map(move |(mark, run)| (Place { lane, mark }, &run.event))
        })
    }

    fn messages(&self, links: &mut Links) {
        let mut sends: HashMap<(ChannelId, usize), Vec<usize>> = HashMap::new();
        let mut receives: BTreeMap<(ChannelId, usize), Vec<(u64, Place)>> = BTreeMap::new();
        for (place, event) in self.marks() {
            match (event.channel, event.outcome) {
                (Some(channel), Outcome::Sent { .. }) => {
                    let sends = sends.entry((channel, place.lane)).or_default();
                    sends.push(place.mark);
                }
                (Some(channel), Outcome::Message { sender, number }) => {
                    if let Some(lane) = self.lanes.get(&sender) {
                        let receives = receives.entry((channel, *lane)).or_default();
                        receives.push((number, place));
                    }
                }
                (_, Outcome::Refused { number }) => {
                    links.sent[place.lane].insert(number, place.mark);
                }
                (_, Outcome::Woken { sender, number }) if number > 0 => {
                    if let Some(lane) = self.lanes.get(&sender) {
                        links.of[place.lane][place.mark] = Link::Somewhere { lane: *lane };
                    }
                }
                _ => {}
            }
        }
        let mut guesses = Vec::new();
        for ((channel, lane), mut receives) in receives {
            receives.sort_unstable();
            let sends = sends.get(&(channel, lane)).map_or(&[][..], Vec::as_slice);
            let key = (channel, self.tracks[lane].id);
            let left_out = self.rest.messages.get(&key).copied().unwrap_or(u64::MAX);
            for (index, (number, place)) in receives.into_iter().enumerate() {
                if let Some(mark) = sends.get(index)
                    && self.is_whole
                    && number < left_out
                {
                    links.sent[lane].insert(number, *mark);
                    let event = self.tracks[lane].runs[*mark].at;
                    links.follow(place, Place { lane, mark: *mark }, event, false);
                    continue;
                }
                // With messages before it that are not known, it was this send or a later one.
                let earliest = match sends.get(index) {
                    Some(mark) => Some(*mark),
                    None if sends.is_empty() => None,
                    None if self.tracks[lane].is_cut(self.limit) => {
                        self.tracks[lane].runs.len().checked_sub(1)
                    }
                    None => sends.last().copied(),
                };
                guesses.push((place, lane, number, earliest));
            }
        }
        for sent in &mut links.sent {
            drop_descents(sent);
        }
        for (place, lane, number, earliest) in guesses {
            links.of[place.lane][place.mark] = Link::Somewhere { lane };
            let before = links.sent[lane].range(..number).next_back();
            let before = before.map(|(_, mark)| *mark).max(earliest);
            links.after[place.lane][place.mark] = before.map(|mark| Place { lane, mark });
        }
    }

    fn handovers(&self, links: &mut Links) {
        let mut turns: BTreeMap<ChannelId, BTreeMap<u64, Place>> = BTreeMap::new();
        for (place, event) in self.marks() {
            if let (Some(lock), Outcome::Turn { ticket }) = (event.channel, event.outcome) {
                turns.entry(lock).or_default().insert(ticket, place);
            }
        }
        let own = Own::of(self.tracks);
        for (lock, turns) in turns {
            let left_out = self.rest.tickets.get(&lock).copied().unwrap_or(u64::MAX);
            let mut before: Option<(u64, Place)> = None;
            for (ticket, place) in turns {
                let is_certain = self.is_whole && left_out > ticket;
                let cause = match before {
                    Some((earlier, cause)) if earlier + 1 == ticket => {
                        Some((cause, self.tracks[cause.lane].runs[cause.mark].at))
                    }
                    Some((earlier, cause)) if is_certain => {
                        Some(own.after(cause, ticket - earlier - 1, self.tracks))
                    }
                    None if is_certain => self
                        .first_owner(&own, place.lane, ticket)
                        .and_then(|lane| own.at(lane, ticket)),
                    _ => None,
                };
                if let Some((cause, event)) = cause.filter(|(cause, _)| cause.lane != place.lane) {
                    let is_next = before.is_some_and(|(earlier, _)| earlier + 1 == ticket);
                    links.follow(place, cause, event, !is_next);
                }
                before = Some((ticket, place));
            }
        }
    }

    /// The one thread that can have acquired a lock `count` times before `lane` did.
    fn first_owner(&self, own: &Own, lane: usize, count: u64) -> Option<usize> {
        if self.tracks.iter().any(|track| track.is_cut(self.limit)) {
            return None;
        }
        let mut lanes =
            (0..self.tracks.len()).filter(|other| *other != lane && own.total(*other) >= count);
        let one = lanes.next()?;
        lanes.next().is_none().then_some(one)
    }
}

impl Links {
    fn follow(&mut self, place: Place, cause: Place, event: u64, or_later: bool) {
        self.after[place.lane][place.mark] = Some(cause);
        self.of[place.lane][place.mark] = Link::At {
            place: cause,
            event,
            or_later,
        };
    }
}

/// A sender's messages leave in the order of their numbers; where a log says otherwise,
/// what comes later in the log is not believed.
fn drop_descents(sent: &mut BTreeMap<u64, usize>) {
    let mut last = None;
    sent.retain(|_, mark| {
        let is_later = last.is_none_or(|last| last < *mark);
        if is_later {
            last = Some(*mark);
        }
        is_later
    });
}

/// The acquisitions that name no lock, by lane; at the end one that is none.
struct Own(Vec<Vec<Acquired>>);

/// A mark of such acquisitions.
struct Acquired {
    mark: usize,
    /// The first one's position in the thread.
    at: u64,
    /// How many came before it.
    before: u64,
}

impl Own {
    fn of(tracks: &[Track]) -> Self {
        let of_lane = |track: &Track| {
            let mut before = 0;
            let mut own = Vec::new();
            for (mark, run) in track.runs.iter().enumerate() {
                let is_own = matches!(run.event.outcome, Outcome::First | Outcome::Again);
                if is_own && run.event.op.is_on_lock() {
                    let at = run.at;
                    own.push(Acquired { mark, at, before });
                    before += run.count;
                }
            }
            own.push(Acquired {
                mark: usize::MAX,
                at: u64::MAX,
                before,
            });
            own
        };
        Own(tracks.iter().map(of_lane).collect())
    }

    fn total(&self, lane: usize) -> u64 {
        self.0[lane].last().map_or(0, |end| end.before)
    }

    /// The mark of the `count`th one of a lane, and that event's position.
    fn at(&self, lane: usize, count: u64) -> Option<(Place, u64)> {
        if count > self.total(lane) {
            return None;
        }
        let own = &self.0[lane];
        let next = own.partition_point(|acquired| acquired.before < count);
        let Acquired { mark, at, before } = *own.get(next.checked_sub(1)?)?;
        Some((Place { lane, mark }, at + (count - before - 1)))
    }

    /// The same for the `count`th one after `place`, or `place` if there are fewer.
    fn after(&self, place: Place, count: u64, tracks: &[Track]) -> (Place, u64) {
        let Place { lane, mark } = place;
        let own = &self.0[lane];
        let next = own.partition_point(|acquired| acquired.mark <= mark);
        let before = own.get(next).map_or(0, |acquired| acquired.before);
        before
            .checked_add(count)
            .and_then(|count| self.at(lane, count))
            .unwrap_or((place, tracks[lane].runs[mark].at))
    }
}
