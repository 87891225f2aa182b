//! Compares two recordings, thread by thread.
//!
//! Threads are compared by name, and so are the threads that events mention: a thread has
//! another number in each recording. Random bytes are compared apart, because they have no
//! position in the order of the other events. A difference in them is reported once.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use rr_channel_log::identity::{ChannelId, ThreadId};
use rr_channel_log::{Event, Events, Outcome, ThreadLog};
use serde::Serialize;

use super::source::{Source, Thread, payload};
use crate::plural::counted;

#[derive(Debug, Serialize)]
pub(super) struct Diff {
    /// The threads' names, by the numbers used here.
    names: BTreeMap<String, String>,
    /// Threads that both recordings have.
    both: usize,
    only_left: Vec<String>,
    only_right: Vec<String>,
    /// Threads that see different things, the one with the fewest events before that first.
    parted: Vec<Parting>,
    /// Threads that drew other random bytes.
    other_random: Vec<String>,
    /// Messages that held different things, where it is recorded what they held.
    messages: Vec<Different>,
}

/// A message that held something else.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Different {
    thread: String,
    message: u64,
    left: String,
    right: String,
}

/// Where a thread's two logs part.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Parting {
    thread: String,
    /// Events that are the same before, random bytes left out.
    same: u64,
    /// The events there; `None` where a log ends.
    left: Option<String>,
    right: Option<String>,
}

/// Threads by name, with numbers of their own.
#[derive(Debug, Default)]
struct Numbers(BTreeMap<String, ThreadId>);

impl Numbers {
    fn of(&mut self, name: &str) -> ThreadId {
        let next = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        *self.0.entry(name.to_owned()).or_insert(ThreadId(next))
    }
}

impl Diff {
    pub(super) fn of(left: &mut Source, right: &mut Source) -> Self {
        let mut numbers = Numbers::default();
        let mut translate = |source: &Source| -> BTreeMap<ThreadId, ThreadId> {
            source
                .names()
                .into_iter()
                .map(|(id, name)| (id, numbers.of(&name)))
                .collect()
        };
        let translations = [translate(left), translate(right)];
        let names =
            [left.names(), right.names()].map(|names| names.into_values().collect::<BTreeSet<_>>());
        let by_name = |source: &Source| -> BTreeMap<String, usize> {
            let threads = source.threads.iter().enumerate();
            threads
                .map(|(index, thread)| (thread.dti.to_string(), index))
                .collect()
        };
        let (in_left, in_right) = (by_name(left), by_name(right));

        let (mut parted, mut other_random) = (Vec::new(), Vec::new());
        let mut both = 0;
        for (name, index) in &in_left {
            let Some(other) = in_right.get(name) else {
                continue;
            };
            both += 1;
            let mut sides = [
                Side::new(&left.threads[*index], &translations[0]),
                Side::new(&right.threads[*other], &translations[1]),
            ];
            let id = numbers.of(name);
            if let Some(parting) = part(id, &mut sides) {
                parted.push(parting);
            }
            if sides[0].random() != sides[1].random() {
                other_random.push(id.to_string());
            }
            let [left_side, right_side] = sides.map(|side| side.problem);
            left.problems.extend(left_side);
            right.problems.extend(right_side);
        }
        parted.sort_by(|a, b| (a.same, &a.thread).cmp(&(b.same, &b.thread)));
        let [ours, theirs] = &translations;
        let others: BTreeMap<_, _> = right
            .payloads
            .iter()
            .filter_map(|((sender, number), held)| Some(((theirs.get(sender)?, number), held)))
            .collect();
        let differs = left.payloads.iter().filter_map(|((sender, number), held)| {
            let sender = ours.get(sender)?;
            let other = others
                .get(&(sender, number))
                .filter(|other| **other != held)?;
            Some(Different {
                thread: sender.to_string(),
                message: *number,
                left: payload(held),
                right: payload(other),
            })
        });
        let messages = differs.collect();
        Diff {
            messages,
            both,
            only_left: names[0].difference(&names[1]).cloned().collect(),
            only_right: names[1].difference(&names[0]).cloned().collect(),
            names: numbers
                .0
                .into_iter()
                .map(|(name, id)| (id.to_string(), name))
                .collect(),
            parted,
            other_random,
        }
    }

    /// Whether the recordings are of the same order, with the same random bytes, and of the
    /// same messages as far as is known.
    pub(super) fn is_empty(&self) -> bool {
        let lists = [&self.only_left, &self.only_right, &self.other_random];
        self.parted.is_empty()
            && lists.iter().all(|list| list.is_empty())
            && self.messages.is_empty()
    }

    pub(super) fn text(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let same = self.both - self.parted.len();
        writeln!(
            out,
            "{} in both recordings, {same} of them the same",
            counted(self.both as u64, "thread")
        )?;
        for (which, names) in [("first", &self.only_left), ("second", &self.only_right)] {
            for name in names {
                writeln!(out, "only in the {which}: {name}")?;
            }
        }
        let mut mentioned = BTreeSet::new();
        for parting in &self.parted {
            writeln!(
                out,
                "\n{}: {} the same, then",
                parting.thread,
                counted(parting.same, "event")
            )?;
            mentioned.insert(parting.thread.clone());
            for (mark, event) in [('<', &parting.left), ('>', &parting.right)] {
                let event = event.as_deref().unwrap_or("(the log ends)");
                writeln!(out, "  {mark} {event}")?;
                mentioned.extend(threads_in(event));
            }
        }
        for different in self.messages.iter().take(MESSAGES) {
            let Different {
                thread, message, ..
            } = different;
            writeln!(out, "\nmessage {message} of {thread} holds")?;
            writeln!(out, "  < {}\n  > {}", different.left, different.right)?;
            mentioned.insert(thread.clone());
        }
        if self.messages.len() > MESSAGES {
            let more = (self.messages.len() - MESSAGES) as u64;
            writeln!(
                out,
                "\n{} more hold something else",
                counted(more, "message")
            )?;
        }
        if !self.other_random.is_empty() {
            let threads = self.other_random.join(", ");
            writeln!(out, "\nother random bytes: {threads}")?;
            mentioned.extend(self.other_random.iter().cloned());
        }
        if !mentioned.is_empty() {
            writeln!(out)?;
        }
        let mut mentioned: Vec<_> = mentioned.into_iter().collect();
        mentioned.sort_by_key(|id| id[1..].parse::<u32>().unwrap_or(u32::MAX));
        for id in mentioned {
            if let Some(name) = self.names.get(&id) {
                writeln!(out, "{id:>4}  {name}")?;
            }
        }
        Ok(())
    }
}

/// Messages that are shown, at most.
const MESSAGES: usize = 20;

/// The threads that an event's text mentions.
fn threads_in(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| {
            word.strip_prefix('t')
                .is_some_and(|number| number.parse::<u32>().is_ok())
        })
        .map(str::to_owned)
}

/// A thread's events, with the numbers of threads that both sides use.
struct Side<'a> {
    thread: &'a Thread,
    events: Option<Events>,
    numbers: &'a BTreeMap<ThreadId, ThreadId>,
    problem: Option<String>,
}

impl<'a> Side<'a> {
    fn new(thread: &'a Thread, numbers: &'a BTreeMap<ThreadId, ThreadId>) -> Self {
        Side {
            thread,
            events: thread.log.as_ref().map(|log| log.events()),
            numbers,
            problem: None,
        }
    }

    fn next(&mut self) -> Option<Event> {
        loop {
            match self.events.as_mut()?.next()? {
                Ok(event) if event.op.is_apart() => {}
                Ok(event) => return Some(self.translate(event)),
                Err(error) => {
                    let Thread { id, dti, .. } = self.thread;
                    self.problem = Some(format!("{id} ({dti}): {error}"));
                    return None;
                }
            }
        }
    }

    /// The random bytes that it drew.
    fn random(&self) -> Vec<Event> {
        let events = self.thread.log.iter().flat_map(ThreadLog::events);
        let events = events.map_while(Result::ok);
        events.filter(|event| event.op.is_apart()).collect()
    }

    fn translate(&self, mut event: Event) -> Event {
        // Threads that the recording does not name keep their numbers.
        let number = |id: ThreadId| self.numbers.get(&id).copied().unwrap_or(id);
        event.channel = event.channel.map(|channel| ChannelId {
            creator: number(channel.creator),
            ..channel
        });
        match &mut event.outcome {
            Outcome::Message { sender, .. } | Outcome::Woken { sender, .. } => {
                *sender = number(*sender);
            }
            _ => {}
        }
        event
    }
}

fn part(id: ThreadId, sides: &mut [Side<'_>; 2]) -> Option<Parting> {
    let mut same = 0;
    loop {
        let [left, right] = sides.each_mut().map(Side::next);
        if left != right {
            return Some(Parting {
                thread: id.to_string(),
                same,
                left: left.map(|event| event.to_string()),
                right: right.map(|event| event.to_string()),
            });
        }
        left?;
        same += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_found_in_what_is_said_of_events() {
        let found: Vec<_> = threads_in("recv on t12.c1: message 5 of t3").collect();
        assert_eq!(found, ["t12", "t3"]);
        assert_eq!(threads_in("try_recv: empty, timeout").count(), 0);
    }
}
