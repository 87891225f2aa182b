//! Describes changes in words.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rr_channel_log::identity::ThreadId;
use rr_channel_log::{ClockRead, Event, Op, Outcome};
use serde::{Deserialize, Serialize};

use super::change::{Change, Element, counterpart, turn};
use super::clocks;
use super::compose::{Chosen, Composer};
use super::run::{Action, Item, Key, Run, Thread, Unit};
use super::sites::Sites;

/// A decision that the failing run takes otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The kind of decision.
    pub kind: Kind,
    /// The event of the failing run that decides: the end of "the test fails when".
    pub text: String,
    /// The thread whose decision it is.
    pub thread: String,
    /// The places in the source that are concerned, as `FILE:LINE`.
    pub places: Vec<String>,
}

/// Kinds of decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Which of two messages comes first.
    Order,
    /// Which arm of a selection is taken first.
    Arm,
    /// Which thread gets a message.
    Consumer,
    /// Whether something is found in time.
    Outcome,
    /// Which thread has a lock first, or enters a channel first.
    Turn,
    /// The time that passes, as a thread reads it from a clock.
    Clock,
}

/// Says a set of changes.
pub(super) fn decisions(
    composer: &Composer<'_>,
    chosen: &Chosen,
    sites: Option<&Sites>,
) -> Vec<Decision> {
    let describer = Describer {
        composer,
        chosen,
        sites,
    };
    let mut changes: Vec<usize> = chosen.keys().copied().collect();
    changes.sort_unstable();
    let mut decisions = Vec::new();
    // By thread and channel.
    let mut taken: BTreeMap<(usize, Source), Vec<usize>> = BTreeMap::new();
    for change in changes {
        match &composer.differences.changes[change] {
            Change::Message { from, to, .. } if from.0 != to.0 => {
                let event = describer.event(composer.passing, *from);
                let channel = event.and_then(|event| event.channel);
                let channel = channel.map(|channel| (channel.creator.0, channel.number));
                taken.entry((from.0, channel)).or_default().push(change);
            }
            Change::Message { from, to, key } => {
                decisions.push(describer.order(change, *from, *to, *key));
            }
            Change::Outcomes {
                thread,
                removed,
                inserted,
            } => decisions.push(describer.outcomes(*thread, removed, inserted)),
            Change::Turn { object, element } => decisions.push(describer.turn(*object, *element)),
            Change::Clock { thread, unit } => {
                decisions.push(describer.clock(change, *thread, *unit));
            }
        }
    }
    decisions.extend(
        taken
            .into_iter()
            .map(|((thread, _), changes)| describer.taken(thread, &changes)),
    );
    without_repeats(decisions)
}

/// Two messages that both have to move, past each other, are one decision.
fn without_repeats(decisions: Vec<Decision>) -> Vec<Decision> {
    let mut seen = BTreeSet::new();
    decisions
        .into_iter()
        .filter(|decision| seen.insert((decision.thread.clone(), decision.text.clone())))
        .collect()
}

/// A channel's creator and number.
type Source = Option<(u32, u32)>;

struct Describer<'a> {
    composer: &'a Composer<'a>,
    chosen: &'a Chosen,
    sites: Option<&'a Sites>,
}

impl Describer<'_> {
    fn run(&self, is_passing: bool) -> &Run {
        match is_passing {
            true => self.composer.passing,
            false => self.composer.failing,
        }
    }

    /// The outcome of a unit.
    fn event(&self, run: &Run, (thread, unit): (usize, usize)) -> Option<Event> {
        let thread = &self.composer.passing.threads[thread];
        let thread = counterpart(run, thread)?;
        let unit = &thread.units[unit];
        if unit.key == Key::Start {
            return None;
        }
        match thread.items[unit.outcome].action {
            Action::Event(event) => Some(event),
            Action::Message { .. } => None,
        }
    }

    fn order(&self, change: usize, from: (usize, usize), to: (usize, usize), key: Key) -> Decision {
        let units = self.composer.candidate_units(self.chosen, to.0);
        let at = units.iter().position(|unit| unit.2 == Some(change));
        let home = units
            .iter()
            .filter(|(passing, unit, _)| *passing && *unit < from.1)
            .count();
        let at = at.unwrap_or(home);
        let is_earlier = home > at;
        let other = match is_earlier {
            true => units.get(at + 1),
            false => at.checked_sub(1).and_then(|at| units.get(at)),
        };
        let mut places = Vec::new();
        let this = self.message(key, &mut places);
        let reader = &self.composer.passing.threads[to.0];
        let mut kind = Kind::Order;
        let that = other.and_then(|(is_passing, unit, _)| {
            let run = self.run(*is_passing);
            let thread = counterpart(run, reader)?;
            let unit = &thread.units[*unit];
            if is_selection(thread, unit) {
                kind = Kind::Arm;
            }
            Some(self.unit(run, thread, unit, &mut places))
        });
        let that = that.unwrap_or_else(|| "all else".to_owned());
        let failing = counterpart(self.composer.failing, reader);
        let place = failing.and_then(|thread| {
            let unit = &thread.units[to.1];
            self.place(self.composer.failing, thread.items[unit.from], &mut places)
        });
        let (first, second) = if is_earlier {
            (this, that)
        } else {
            (that, this)
        };
        let verb = match kind {
            Kind::Arm => "is selected",
            _ => "arrives",
        };
        Decision {
            kind,
            text: format!(
                "{first} {verb} before {second}, in thread {}{}",
                self.thread(reader),
                at_place(place)
            ),
            thread: reader.dti.to_string(),
            places,
        }
    }

    /// Messages that other threads got.
    fn taken(&self, from: usize, changes: &[usize]) -> Decision {
        let thread = &self.composer.passing.threads[from];
        let mut places = Vec::new();
        let mut channel = None;
        let mut place = None;
        let mut receivers = Vec::new();
        let mut messages = Vec::new();
        for change in changes {
            if let Change::Message { from, to, key } = &self.composer.differences.changes[*change] {
                let unit = &thread.units[from.1];
                let item = thread.items[unit.from];
                place = place.or_else(|| self.place(self.composer.passing, item, &mut places));
                channel = channel.or_else(|| self.event(self.composer.passing, *from)?.channel);
                let receiver = self.thread(&self.composer.passing.threads[to.0]);
                if !receivers.contains(&receiver) {
                    receivers.push(receiver);
                }
                messages.push(*key);
            }
        }
        let units = self.composer.candidate_units(self.chosen, from);
        let remaining = units
            .iter()
            .filter(|(is_passing, unit, _)| {
                let run = self.run(*is_passing);
                self.event(run, (from, *unit)).is_some_and(|event| {
                    event.channel == channel && matches!(event.outcome, Outcome::Message { .. })
                })
            })
            .count();
        let name = self.thread(thread);
        let text = if remaining == 0 {
            let sent = messages
                .first()
                .and_then(|key| self.sent(*key, &mut places));
            let sent = sent.map_or_else(String::new, |place| format!(", sent at {place}"));
            format!(
                "thread {name} receives nothing{} (in the run that passes, {}{sent})",
                at_place(place),
                crate::plural::counted(messages.len() as u64, "message"),
            )
        } else if let [one] = messages[..] {
            let message = self.message(one, &mut places);
            format!(
                "thread {} receives {message}, and not thread {name}{}",
                receivers.join(", "),
                at_place(place)
            )
        } else {
            format!(
                "{} go to thread {}, and not to thread {name}{}",
                crate::plural::counted(messages.len() as u64, "message"),
                receivers.join(", "),
                at_place(place)
            )
        };
        Decision {
            kind: Kind::Consumer,
            text,
            thread: thread.dti.to_string(),
            places,
        }
    }

    fn outcomes(&self, thread: usize, removed: &[usize], inserted: &[usize]) -> Decision {
        let (passing, failing) = (self.composer.passing, self.composer.failing);
        let ours = &passing.threads[thread];
        let mut places = Vec::new();
        let mut say = |run: &Run, thread: &Thread, units: &[usize]| {
            let all: Vec<String> = units
                .iter()
                .take(3)
                .map(|unit| self.unit(run, thread, &thread.units[*unit], &mut places))
                .collect();
            let more = units.len().saturating_sub(3);
            let more = match more {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            all.join(", ") + &more
        };
        let new = counterpart(failing, ours).map(|theirs| say(failing, theirs, inserted));
        let new = new.unwrap_or_default();
        let old = say(passing, ours, removed);
        let name = self.thread(ours);
        if let Some(decision) = self.overtaken(thread, removed, inserted) {
            return decision;
        }
        let text = match (inserted.is_empty(), removed.is_empty()) {
            (false, true) => format!("thread {name} meets {new}"),
            (true, _) => format!("thread {name} does not meet {old}"),
            (false, false) => format!("thread {name} meets {new} instead of {old}"),
        };
        Decision {
            kind: Kind::Outcome,
            text,
            thread: ours.dti.to_string(),
            places,
        }
    }

    /// If all removed outcomes of a thread are messages, and it has another outcome after
    /// what came before them: that comes first.
    fn overtaken(&self, thread: usize, removed: &[usize], inserted: &[usize]) -> Option<Decision> {
        let run = self.composer.passing;
        let ours = &run.threads[thread];
        let is_message = |unit: &usize| matches!(ours.units[*unit].key, Key::Message(..));
        if !inserted.is_empty() || !removed.iter().all(is_message) {
            return None;
        }
        let (first, last) = (*removed.first()?, *removed.last()?);
        let units = self.composer.candidate_units(self.chosen, thread);
        let (_, next, _) = units
            .into_iter()
            .find(|(is_passing, unit, _)| *is_passing && *unit > last)?;
        let next = &ours.units[next];
        let mut places = Vec::new();
        let new = self.unit(run, ours, next, &mut places);
        let old = self.message(ours.units[first].key, &mut places);
        let more = match removed.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let place = self.place(run, ours.items[next.from], &mut places);
        let (kind, verb) = match is_selection(ours, next) {
            true => (Kind::Arm, "is selected"),
            false => (Kind::Order, "arrives"),
        };
        Some(Decision {
            kind,
            text: format!(
                "{new} {verb} before {old}{more}, in thread {}{}",
                self.thread(ours),
                at_place(place)
            ),
            thread: ours.dti.to_string(),
            places,
        })
    }

    fn turn(&self, object: usize, element: Element) -> Decision {
        let object = &self.composer.differences.objects[object];
        let sequence = self.composer.turns(object.id, object.is_lock, self.chosen);
        let position = |list: &[Element]| list.iter().position(|e| *e == element);
        let at = position(&sequence).unwrap_or(0);
        let home = position(&object.passing).unwrap_or(0);
        let other = match home > at {
            true => sequence.get(at + 1),
            false => at.checked_sub(1).and_then(|at| sequence.get(at)),
        };
        let mut places = Vec::new();
        let this = self.element(object.id, object.is_lock, element, &mut places);
        let that = other.map_or_else(
            || "all others".to_owned(),
            |other| self.element(object.id, object.is_lock, *other, &mut places),
        );
        let (first, second) = if home > at {
            (this, that)
        } else {
            (that, this)
        };
        let what = match object.is_lock {
            true => "has the lock",
            false => "has room in the channel",
        };
        Decision {
            kind: Kind::Turn,
            text: format!("{first} {what} before {second}"),
            thread: self.composer.passing.threads[element.thread]
                .dti
                .to_string(),
            places,
        }
    }

    /// The times that a thread reads from a clock.
    fn clock(&self, change: usize, thread: usize, unit: usize) -> Decision {
        let differences = self.composer.differences;
        let ours = &self.composer.passing.threads[thread];
        let theirs = counterpart(self.composer.failing, ours).unwrap_or(ours);
        let mut places = Vec::new();
        let compared = differences.clocks.get(&(thread, unit));
        let groups = compared.map_or(&[][..], |(_, groups)| groups);
        let changed = groups.iter().filter(|place| place.change == Some(change));
        let old = clocks::all(changed.clone().filter_map(|place| place.passing.as_ref()));
        let new = clocks::all(changed.filter_map(|place| place.failing.as_ref()));
        let read = [(theirs, &new), (ours, &old)];
        let read = read
            .into_iter()
            .find_map(|(thread, group)| Some((thread, group.as_ref()?)));
        let last = read.map(|(thread, group)| &thread.clocks[group.to - 1]);
        let before = read.and_then(|(thread, group)| clocks::before(thread, group.from));
        let here = last.and_then(|read| self.site(read, &mut places));
        let since = before.and_then(|read| self.site(read, &mut places));
        let old = old.map(|group| duration(ours, &group));
        let new = new.map(|group| duration(theirs, &group));
        // Without lines, the outcome before it has to tell which read it is.
        let after = match ours.units[unit].key {
            Key::Start => String::new(),
            _ if here.is_some() => String::new(),
            _ => {
                let what = self.unit(self.composer.passing, ours, &ours.units[unit], &mut places);
                format!(" after {what}")
            }
        };
        let since = since.map_or_else(String::new, |since| format!(" since its read at {since}"));
        let read = format!(
            "thread {} reads the clock{}{after}{since}",
            self.thread(ours),
            at_place(here)
        );
        let text = match (old, new) {
            (Some(old), None) => format!("{old} until {read}, in the run that passes only"),
            (Some(old), Some(new)) => format!("{new} until {read}, and not {old}"),
            (None, new) => format!("{} until {read}", new.unwrap_or_default()),
        };
        Decision {
            kind: Kind::Clock,
            text,
            thread: ours.dti.to_string(),
            places,
        }
    }

    /// The line that read a clock, which is also noted among the places.
    fn site(&self, read: &ClockRead, places: &mut Vec<String>) -> Option<String> {
        let line = self.sites?.line(read.site)?;
        if !places.contains(&line) {
            places.push(line.clone());
        }
        Some(line)
    }

    fn element(
        &self,
        id: rr_channel_log::identity::ChannelId,
        is_lock: bool,
        element: Element,
        places: &mut Vec<String>,
    ) -> String {
        let run = self.composer.passing;
        let thread = &run.threads[element.thread];
        let mut own = thread.items.iter().filter(|item| match item.action {
            Action::Event(event) => turn(&event).is_some_and(|(object, _)| object == (id, is_lock)),
            Action::Message { .. } => false,
        });
        let place = own
            .nth(element.occurrence)
            .and_then(|item| self.place(run, *item, places));
        format!("thread {}{}", self.thread(thread), at_place(place))
    }

    /// The outcome that a thread got.
    fn unit(&self, run: &Run, thread: &Thread, unit: &Unit, places: &mut Vec<String>) -> String {
        let Action::Event(event) = thread.items[unit.outcome].action else {
            return "something else".to_owned();
        };
        if event.op == Op::Job {
            return match event.outcome {
                Outcome::Message { sender, number } => {
                    format!("job {number} of thread {}", self.by_id(sender))
                }
                Outcome::Again => "its own half of a fork".to_owned(),
                Outcome::Done => "the end of its wait".to_owned(),
                _ => "nothing to do".to_owned(),
            };
        }
        if let Key::Message(..) = unit.key {
            return self.message(unit.key, places);
        }
        let place = at_place(self.place(run, thread.items[unit.from], places));
        let op = event.op;
        match event.outcome {
            Outcome::Timeout => format!("the end of its time in `{op}`{place}"),
            Outcome::Disconnected => format!("the end of all messages in `{op}`{place}"),
            Outcome::Empty | Outcome::NoArm => format!("nothing in `{op}`{place}"),
            Outcome::Full => format!("no room in `{op}`{place}"),
            Outcome::Busy => format!("a lock that is taken in `{op}`{place}"),
            Outcome::Tick => format!("a tick of the timer in `{op}`{place}"),
            Outcome::Value(value) => format!("{value} as the answer of `{op}`{place}"),
            Outcome::Woken { .. } => format!("a notification in `{op}`{place}"),
            Outcome::Refused { .. } => format!("the refusal of a message in `{op}`{place}"),
            _ => format!("`{event}`{place}"),
        }
    }

    fn message(&self, key: Key, places: &mut Vec<String>) -> String {
        let Key::Message(sender, number) = key else {
            return "something else".to_owned();
        };
        let sent = self.sent(key, places);
        let sent = sent.map_or_else(String::new, |place| format!(" (sent at {place})"));
        format!("message {number} of thread {}{sent}", self.by_id(sender))
    }

    /// Where a message is sent.
    fn sent(&self, key: Key, places: &mut Vec<String>) -> Option<String> {
        let Key::Message(sender, number) = key else {
            return None;
        };
        // Whichever of the runs has sent it knows where.
        [self.composer.passing, self.composer.failing]
            .into_iter()
            .find_map(|run| {
                let thread = run.threads.iter().find(|thread| thread.id == sender)?;
                let item = thread.items.iter().find(
                    |item| matches!(item.action, Action::Message { number: n, .. } if n == number),
                )?;
                self.place(run, *item, places)
            })
    }

    fn by_id(&self, id: ThreadId) -> String {
        let threads = &self.composer.passing.threads;
        match threads.iter().find(|thread| thread.id == id) {
            Some(thread) => self.thread(thread),
            None => "of another process".to_owned(),
        }
    }

    /// A thread's own name, if no other thread has it, and where it comes from.
    fn thread(&self, thread: &Thread) -> String {
        let same = |other: &&Thread| other.name == thread.name;
        let threads = &self.composer.passing.threads;
        match &thread.name {
            Some(name) if threads.iter().filter(same).count() == 1 => format!("`{name}`"),
            _ => thread.dti.to_string(),
        }
    }

    /// An item's file and line, which is also noted among the places.
    fn place(&self, run: &Run, item: Item, places: &mut Vec<String>) -> Option<String> {
        let place = run.place(item)?;
        let place = match place.rsplit_once(':') {
            Some((line, _column)) => line.to_owned(),
            None => place.to_owned(),
        };
        if !places.contains(&place) {
            places.push(place.clone());
        }
        Some(place)
    }
}

/// The time from the read before a group of reads to its last one.
fn duration(thread: &Thread, group: &clocks::Group) -> String {
    let last = &thread.clocks[group.to - 1];
    let first = clocks::before(thread, group.from).unwrap_or(&thread.clocks[group.from]);
    let passed = last.nanoseconds.saturating_sub(first.nanoseconds);
    let passed = format!("{:?} pass", Duration::from_nanos(passed.unsigned_abs()));
    let reads = match group.to - group.from {
        1 => String::new(),
        reads => format!(" in {reads} reads"),
    };
    let back = if last.nanoseconds < first.nanoseconds {
        " backwards"
    } else {
        ""
    };
    format!("{passed}{back}{reads}")
}

fn at_place(place: Option<String>) -> String {
    place.map_or_else(String::new, |place| format!(" at {place}"))
}

fn is_selection(thread: &Thread, unit: &Unit) -> bool {
    matches!(thread.items[unit.from].action,
        Action::Event(event) if matches!(event.op, Op::Select | Op::TrySelect | Op::SelectDeadline))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_decisions_appear_once() {
        let decision = |text: &str, place: &str| Decision {
            kind: Kind::Order,
            text: text.to_owned(),
            thread: "main".to_owned(),
            places: vec![place.to_owned()],
        };
        let said = without_repeats(vec![
            decision("a arrives before b", "of a"),
            decision("c arrives before d", "of c"),
            decision("a arrives before b", "of b"),
        ]);
        let texts: Vec<_> = said.iter().map(|said| said.text.as_str()).collect();
        assert_eq!(texts, ["a arrives before b", "c arrives before d"]);
    }
}
