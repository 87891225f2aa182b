//! A recording as a picture: a lane for each thread, its events in their order, and
//! arrows from where messages, locks and notifications came from.
//!
//! Logs have no clock, so a position is a logical time: an event comes after the one
//! before it in its thread, and after [what it followed](links), as far as the logs tell.
//! A send into a channel without a bound is not logged. Where the message left is known
//! only within limits, and such a departure is [placed](departures) within them, as late
//! as can be, and shown as a guess.
//!
//! **Invariant:** an arrow leads to a later time than it starts at, whatever is in the
//! logs. A cause that would contradict this is left out, and counted.

mod departures;
mod links;
mod page;
mod times;

use std::collections::{BTreeMap, HashMap};
use std::io::Write;

use rr_channel_log::identity::{ChannelId, ThreadId};
use rr_channel_log::{Event, Op, Outcome};
use serde::Serialize;

use super::replayed::{Left, Replayed};
use super::source::{End, Source, bytes, kind, name, number, sender};
use super::topology::Topology;
use links::Link;

/// The part of a recording that is shown.
#[derive(Debug, Serialize)]
pub(super) struct Timeline {
    program: Option<String>,
    /// The number of events of a thread that are shown, at most.
    limit: u64,
    /// The number of events that are not shown because of that.
    left_out: u64,
    /// Causes that were left out since the logs contradict each other.
    contradictions: u64,
    /// Messages that arrived, in the events that are shown.
    messages: u64,
    /// The last event's time.
    length: u32,
    objects: Vec<Object>,
    threads: Vec<Lane>,
    /// The edges from senders to receivers.
    #[serde(skip_serializing_if = "Option::is_none")]
    topology: Option<Topology>,
}

/// A channel or a lock.
#[derive(Debug, Serialize)]
struct Object {
    object: String,
    is_lock: bool,
    events: u64,
    messages: u64,
}

#[derive(Debug, Serialize)]
struct Lane {
    thread: u32,
    name: String,
    /// All that were recorded.
    events: u64,
    end: End,
    /// Where a replay left the thread's log.
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<Left>,
    marks: Vec<Mark>,
}

/// An event, or several in a row that are the same and that nothing came from.
#[derive(Debug, Serialize)]
struct Mark {
    time: u32,
    /// The position of the first in its thread.
    event: u64,
    #[serde(skip_serializing_if = "is_one")]
    count: u64,
    op: &'static str,
    /// By position among [`Timeline::objects`].
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<usize>,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    sender: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u64>,
    /// Hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<Origin>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_one(count: &u64) -> bool {
    *count == 1
}

/// Where an arrow starts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Origin {
    thread: u32,
    time: f64,
    /// The event there; `None` if the place is a guess.
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<u64>,
    /// Whether it may have been later: a lock's last acquisition before a handover does
    /// not name the lock.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    or_later: bool,
}

/// A thread's events while the picture is made.
#[derive(Debug)]
struct Track {
    id: ThreadId,
    runs: Vec<Run>,
    events: u64,
    /// Those that a replay counts.
    counted: u64,
    end: End,
    /// Where a replay left its log, and the number that the event there has here.
    left: Option<Left>,
    left_at: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Run {
    at: u64,
    event: Event,
    count: u64,
}

/// A mark, by lane and position in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Place {
    lane: usize,
    mark: usize,
}

/// The events beyond the limit, as far as they are remembered.
#[derive(Debug, Default)]
struct Rest {
    /// The first number there of the messages of each channel and sender.
    messages: HashMap<(ChannelId, ThreadId), u64>,
    /// The first ticket there of each lock.
    tickets: HashMap<ChannelId, u64>,
}

impl Track {
    fn push(&mut self, event: Event, limit: u64, rest: &mut Rest) {
        let at = self.events;
        self.events += 1;
        if !event.op.is_apart() {
            // From the number that a replay gives to the one here.
            if let Some(left) = &mut self.left
                && self.counted == left.event
            {
                self.left_at = Some(at);
            }
            self.counted += 1;
        }
        if at >= limit {
            match (event.channel, event.outcome) {
                (Some(channel), Outcome::Message { sender, number }) => {
                    let first = rest.messages.entry((channel, sender)).or_insert(number);
                    *first = number.min(*first);
                }
                (Some(lock), Outcome::Turn { ticket }) => {
                    let first = rest.tickets.entry(lock).or_insert(ticket);
                    *first = ticket.min(*first);
                }
                _ => {}
            }
            return;
        }
        match self.runs.last_mut() {
            Some(run) if run.event == event && is_folded(&event.outcome) => run.count += 1,
            _ => self.runs.push(Run {
                at,
                event,
                count: 1,
            }),
        }
    }

    const fn is_cut(&self, limit: u64) -> bool {
        self.events > limit
    }
}

/// Whether several such events are one mark: each of the others has a place of its own.
const fn is_folded(outcome: &Outcome) -> bool {
    !matches!(
        outcome,
        Outcome::Message { .. }
            | Outcome::Tick
            | Outcome::Sent { .. }
            | Outcome::Refused { .. }
            | Outcome::Arm(_)
            | Outcome::Turn { .. }
            | Outcome::Woken { .. }
    )
}

/// Whether a mark is a selection and the next one what completed it.
fn is_selection(track: &Track, mark: usize) -> bool {
    let next = track.runs.get(mark + 1).map(|run| run.event.op);
    matches!(track.runs[mark].event.outcome, Outcome::Arm(_))
        && matches!(next, Some(Op::SelectedSend | Op::SelectedRecv))
}

impl Timeline {
    /// Reads `limit` events of each thread, at most. The rest is counted.
    ///
    /// # Errors
    /// None of its own: damage is one of the source's problems, and an end.
    pub(super) fn of(
        source: &mut Source,
        limit: u64,
        mut replayed: Replayed,
    ) -> anyhow::Result<Self> {
        let mut rest = Rest::default();
        let mut tracks = Vec::new();
        for index in 0..source.threads.len() {
            let mut track = Track {
                id: source.threads[index].id,
                runs: Vec::new(),
                events: 0,
                counted: 0,
                end: End::Damaged,
                left: replayed.remove(&source.threads[index].dti.to_string()),
                left_at: None,
            };
            track.end = source.for_each(index, |event| {
                track.push(event, limit, &mut rest);
                Ok(())
            })?;
            tracks.push(track);
        }
        let names = source.names();
        let program = source.program.clone();
        let mut timeline = Timeline::new(program, &names, &tracks, limit, &rest);
        timeline.topology = Some(Topology::of(source)?);
        Ok(timeline)
    }

    fn new(
        program: Option<String>,
        names: &BTreeMap<ThreadId, String>,
        tracks: &[Track],
        limit: u64,
        rest: &Rest,
    ) -> Self {
        let links = links::links(tracks, limit, rest);
        let times = times::times(&links.after);
        let departures = departures::departures(tracks, &links, &times);
        let mut timeline = Timeline {
            program,
            limit,
            left_out: tracks.iter().map(|t| t.events.saturating_sub(limit)).sum(),
            contradictions: 0,
            messages: 0,
            length: times.iter().flatten().copied().max().unwrap_or(0),
            objects: Vec::new(),
            threads: Vec::new(),
            topology: None,
        };
        let objects = Objects::of(tracks);
        for (lane, track) in tracks.iter().enumerate() {
            let mut marks = Vec::with_capacity(track.runs.len());
            for (mark, run) in track.runs.iter().enumerate() {
                let Run { at, event, count } = *run;
                let time = times[lane][mark];
                let from =
                    match links.of[lane][mark] {
                        Link::None => None,
                        Link::At {
                            place,
                            event,
                            or_later,
                        } => Some(Origin {
                            thread: tracks[place.lane].id.0,
                            time: times[place.lane][place.mark].into(),
                            event: Some(event),
                            or_later,
                        }),
                        Link::Somewhere { lane: from } => departures
                            .get(&Place { lane, mark })
                            .map(|departure| Origin {
                                thread: tracks[from].id.0,
                                time: *departure,
                                event: None,
                                or_later: false,
                            }),
                    };
                let is_early = from.is_none_or(|from| from.time < f64::from(time));
                timeline.contradictions += u64::from(!is_early);
                marks.push(Mark {
                    time,
                    event: at,
                    count,
                    op: event.op.as_str(),
                    object: objects.position(&event),
                    outcome: match (event.op, &event.outcome) {
                        // No message of the program's.
                        (Op::Job, Outcome::Message { .. }) => "job",
                        (_, outcome) => kind(outcome),
                    },
                    sender: sender(&event.outcome).map(|sender| sender.0),
                    number: number(&event.outcome),
                    bytes: bytes(&event.outcome).map(|(digits, _)| digits),
                    from: from.filter(|_| is_early),
                });
            }
            timeline.threads.push(Lane {
                thread: track.id.0,
                name: names.get(&track.id).cloned().unwrap_or_default(),
                events: track.events,
                end: track.end,
                left: track.left.clone().map(|left| Left {
                    // Beyond the last one, if it has none of that number.
                    event: track.left_at.unwrap_or(track.events),
                    ..left
                }),
                marks,
            });
        }
        timeline.messages = objects.found.iter().map(|object| object.messages).sum();
        timeline.objects = objects.found;
        timeline
    }

    /// A page of HTML that needs nothing else.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn page(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        page::write(self, out)
    }
}

/// Channels, then locks, by name.
#[derive(Debug)]
struct Objects {
    positions: BTreeMap<(bool, ChannelId), usize>,
    found: Vec<Object>,
}

impl Objects {
    fn of(tracks: &[Track]) -> Self {
        let mut counts: BTreeMap<_, (u64, u64)> = BTreeMap::new();
        for run in tracks.iter().flat_map(|track| &track.runs) {
            if let Some(channel) = run.event.channel {
                let key = (run.event.op.is_on_lock(), channel);
                let (events, messages) = counts.entry(key).or_default();
                *events += run.count;
                *messages += u64::from(matches!(run.event.outcome, Outcome::Message { .. }));
            }
        }
        let mut objects = Objects {
            positions: BTreeMap::new(),
            found: Vec::new(),
        };
        for ((is_lock, channel), (events, messages)) in counts {
            objects
                .positions
                .insert((is_lock, channel), objects.found.len());
            objects.found.push(Object {
                object: name(channel, is_lock),
                is_lock,
                events,
                messages,
            });
        }
        objects
    }

    fn position(&self, event: &Event) -> Option<usize> {
        let key = (event.op.is_on_lock(), event.channel?);
        self.positions.get(&key).copied()
    }
}

#[cfg(test)]
mod tests;
