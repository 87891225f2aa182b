//! Composes a recording: the passing run with some changes made.
//!
//! Everything that no change concerns stays as it was where possible. All actions are put into
//! one order that could have happened: each thread keeps its own order, a message is sent
//! before it is received, messages leave a channel in the order in which they entered it, and a
//! changed turn comes between its new neighbours. Turns are numbered in that order. The other
//! turns keep their order too; where that contradicts the changes, they keep it only where
//! nothing else decides. Without such an order the changes contradict each other.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use rr_channel_log::identity::ChannelId;
use rr_channel_log::identity::ThreadId;
use rr_channel_log::{ClockRead, EditedThread, Event, Op, Outcome};

use super::change::{Aligned, Change, Differences, Element, counterpart, turn};
use super::clocks::{self, Base};
use super::run::{Action, Item, Run, Thread};

/// The changes to make, each with how many places it stays behind where the failing run
/// has it.
pub(super) type Chosen = HashMap<usize, usize>;

/// A recording that nobody recorded.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) threads: Vec<EditedThread>,
    /// For each thread, how many of its events must come about for the changes to have
    /// been made.
    pub(super) needed: Vec<u64>,
}

/// One action of a candidate.
#[derive(Debug)]
struct Node {
    thread: usize,
    item: Item,
    /// Its rank in the passing run; of what is new, that of what it comes after.
    rank: usize,
    element: Option<((ChannelId, bool), Element)>,
}

/// Makes changes, of two runs and what differs between them.
#[derive(Debug)]
pub(super) struct Composer<'a> {
    pub(super) passing: &'a Run,
    pub(super) failing: &'a Run,
    pub(super) differences: &'a Differences,
    /// For each thread of the passing run, the rank of each of its items.
    ranks: Vec<Vec<usize>>,
    /// When the clocks of the two runs began.
    bases: [Base; 2],
}

/// Units of a thread of a candidate, by where they are from, and their change if they were
/// inserted.
pub(super) type Units = Vec<(bool, usize, Option<usize>)>;

impl<'a> Composer<'a> {
    pub(super) fn new(passing: &'a Run, failing: &'a Run, differences: &'a Differences) -> Self {
        let mut composer = Composer {
            passing,
            failing,
            differences,
            ranks: Vec::new(),
            bases: [Base::of(&passing.threads), Base::of(&failing.threads)],
        };
        let mut rank = 0;
        for thread in &passing.threads {
            composer
                .ranks
                .push((rank..rank + thread.items.len()).collect());
            rank += thread.items.len();
        }
        let nodes = composer.nodes(&composer.units(&Chosen::new()));
        // A run that was recorded has an order; what hides it is damage, or unknown.
        if let Some(order) = composer.order(&nodes, &Chosen::new(), true) {
            let mut seen = vec![0; passing.threads.len()];
            let mut at = vec![(0, 0); nodes.len()];
            for (node, at) in nodes.iter().zip(&mut at) {
                *at = (node.thread, seen[node.thread]);
                seen[node.thread] += 1;
            }
            for (rank, node) in order.into_iter().enumerate() {
                let (thread, item) = at[node];
                composer.ranks[thread][item] = rank;
            }
        }
        composer
    }

    /// The candidate with the `chosen` changes; `None` if they contradict each other.
    pub(super) fn compose(&self, chosen: &Chosen) -> Option<Candidate> {
        let units = self.units(chosen);
        let nodes = self.nodes(&units);
        let order = self
            .order(&nodes, chosen, true)
            .or_else(|| self.order(&nodes, chosen, false))?;
        let mut threads: Vec<EditedThread> = self
            .passing
            .threads
            .iter()
            .map(|thread| EditedThread {
                id: thread.id,
                dti: thread.dti.clone(),
                events: Vec::new(),
                clocks: Vec::new(),
                ended: thread.ended,
                lasted: thread.lasted,
            })
            .collect();
        let numbers = self.numbers(&nodes, &order);
        for (node, number) in nodes.iter().zip(numbers) {
            let Action::Event(mut event) = node.item.action else {
                continue;
            };
            if let Some(number) = number {
                event.outcome = match event.outcome {
                    Outcome::Turn { .. } => Outcome::Turn { ticket: number },
                    Outcome::Sent { .. } => Outcome::Sent { slot: number },
                    other => other,
                };
            }
            threads[node.thread].events.push(event);
        }
        for (at, thread) in threads.iter_mut().enumerate() {
            thread.clocks = self.clocks(chosen, at, &units[at]);
        }
        let needed = self.needed(chosen, &units, &nodes);
        Some(Candidate { threads, needed })
    }

    /// The units of a thread of the candidate.
    pub(super) fn candidate_units(&self, chosen: &Chosen, thread: usize) -> Units {
        self.units(chosen).swap_remove(thread)
    }

    /// The turns at an object in the candidate, as far as they are known.
    pub(super) fn turns(&self, id: ChannelId, is_lock: bool, chosen: &Chosen) -> Vec<Element> {
        self.sequence(id, is_lock, chosen, true)
    }

    fn units(&self, chosen: &Chosen) -> Vec<Units> {
        let is_made = |change: &Option<usize>| change.is_some_and(|c| chosen.contains_key(&c));
        let mut all: Vec<Units> = self
            .differences
            .threads
            .iter()
            .enumerate()
            .map(|(thread, places)| {
                let body = |unit| self.differences.bodies.get(&(thread, unit));
                let unit = |place: &Aligned| match place {
                    Aligned::Both(p, _) => Some(match body(*p) {
                        Some(&(f, change)) if chosen.contains_key(&change) => {
                            (false, f, Some(change))
                        }
                        _ => (true, *p, None),
                    }),
                    Aligned::Passing(p, change) => (!is_made(change)).then_some((true, *p, None)),
                    Aligned::Failing(f, change) => is_made(change).then_some((false, *f, *change)),
                };
                places.iter().filter_map(unit).collect()
            })
            .collect();
        let mut late: Vec<_> = chosen.iter().filter(|(_, behind)| **behind > 0).collect();
        late.sort();
        for (&change, &behind) in late {
            let Change::Message { from, to, .. } = &self.differences.changes[change] else {
                continue;
            };
            let units = &mut all[to.0];
            let Some(at) = units.iter().position(|unit| unit.2 == Some(change)) else {
                continue;
            };
            let back = self.home(units, from.1);
            let target = if back > at {
                at.saturating_add(behind).min(back)
            } else {
                at.saturating_sub(behind).max(back)
            };
            let unit = units.remove(at);
            units.insert(target, unit);
        }
        all
    }

    /// Where among `units` the passing run has its `n`th unit.
    fn home(&self, units: &Units, n: usize) -> usize {
        units
            .iter()
            .filter(|(passing, at, _)| *passing && *at < n)
            .count()
    }

    /// How far a change moves something, in places of its sequence.
    pub(super) fn distance(&self, change: usize, chosen: &Chosen) -> usize {
        match &self.differences.changes[change] {
            Change::Message { from, to, .. } if from.0 == to.0 => {
                let units = &self.units(&chosen.keys().map(|c| (*c, 0)).collect())[to.0];
                let at = units.iter().position(|unit| unit.2 == Some(change));
                at.map_or(0, |at| at.abs_diff(self.home(units, from.1)))
            }
            Change::Turn { object, element } => {
                let object = &self.differences.objects[*object];
                let sequence = self.sequence(object.id, object.is_lock, chosen, false);
                let home = object.passing.iter().position(|e| e == element);
                let at = sequence.iter().position(|e| e == element);
                at.zip(home).map_or(0, |(at, home)| at.abs_diff(home))
            }
            _ => 0,
        }
    }

    fn nodes(&self, units: &[Units]) -> Vec<Node> {
        let mut nodes = Vec::new();
        for (thread, units) in units.iter().enumerate() {
            let ours = &self.passing.threads[thread];
            let elements = elements(&ours.items, thread);
            let mut rank = 0;
            for &(is_passing, unit, _) in units {
                let from = match is_passing {
                    true => Some(ours),
                    false => counterpart(self.failing, ours),
                };
                let Some(from) = from else { continue };
                let unit = &from.units[unit];
                for (at, item) in from.items[unit.from..unit.to].iter().enumerate() {
                    let at = unit.from + at;
                    if is_passing {
                        rank = self.ranks[thread][at];
                    }
                    nodes.push(Node {
                        thread,
                        item: *item,
                        rank,
                        element: elements.get(at).copied().flatten().filter(|_| is_passing),
                    });
                }
            }
        }
        nodes
    }

    /// The turns at an object, as far as they are known.
    fn sequence(
        &self,
        id: ChannelId,
        is_lock: bool,
        chosen: &Chosen,
        narrowed: bool,
    ) -> Vec<Element> {
        let Some(object) = self
            .differences
            .objects
            .iter()
            .find(|object| (object.id, object.is_lock) == (id, is_lock))
        else {
            return Vec::new();
        };
        let is_made = |change: &Option<usize>| change.is_some_and(|c| chosen.contains_key(&c));
        if object.places.is_empty() {
            return object.passing.clone();
        }
        let element = |place: &Aligned| match place {
            Aligned::Both(p, _) => Some(object.passing[*p]),
            Aligned::Passing(p, change) => (!is_made(change)).then(|| object.passing[*p]),
            Aligned::Failing(f, change) => is_made(change).then(|| object.failing[*f]),
        };
        let mut sequence: Vec<Element> = object.places.iter().filter_map(element).collect();
        let mut late: Vec<_> = chosen.iter().filter(|(_, behind)| **behind > 0).collect();
        late.sort();
        for (&change, &behind) in late {
            let Change::Turn {
                object: on,
                element,
            } = &self.differences.changes[change]
            else {
                continue;
            };
            if !narrowed || self.differences.objects[*on].id != id {
                continue;
            }
            let at = sequence.iter().position(|e| e == element);
            let home = object.passing.iter().position(|e| e == element);
            if let (Some(at), Some(home)) = (at, home) {
                let home = home.min(sequence.len() - 1);
                let target = if home > at {
                    (at + behind).min(home)
                } else {
                    at.saturating_sub(behind).max(home)
                };
                let element = sequence.remove(at);
                sequence.insert(target, element);
            }
        }
        sequence
    }

    /// An order in which all of it could have happened, as near to that of the passing run
    /// as can be.
    fn order(&self, nodes: &[Node], chosen: &Chosen, all_turns: bool) -> Option<Vec<usize>> {
        let mut edges: Vec<(usize, usize)> = Vec::new();
        let mut sent: HashMap<(ThreadId, u64), (usize, usize)> = HashMap::new();
        let mut elements = HashMap::new();
        for (at, node) in nodes.iter().enumerate() {
            let next = nodes.get(at + 1).filter(|next| next.thread == node.thread);
            if next.is_some() {
                edges.push((at, at + 1));
            }
            if let Action::Message { channel, number } = node.item.action {
                // Where the channel was entered is known only if it has bounds.
                let entered = next.is_some_and(|next| match next.item.action {
                    Action::Event(event) => {
                        event.channel == channel && matches!(event.outcome, Outcome::Sent { .. })
                    }
                    Action::Message { .. } => false,
                });
                let sender = self.passing.threads[node.thread].id;
                sent.insert((sender, number), (at, at + usize::from(entered)));
            }
            if let Some(element) = node.element {
                elements.insert(element, at);
            }
        }
        let mut left: HashMap<(usize, ChannelId), usize> = HashMap::new();
        for (at, node) in nodes.iter().enumerate() {
            if let Action::Event(Event {
                channel: Some(channel),
                outcome: Outcome::Message { sender, number },
                op,
            }) = node.item.action
                && let Some(&(send, entered)) = sent.get(&(sender, number))
            {
                edges.push((send, at));
                if op != Op::SetRecv
                    && let Some(before) = left.insert((node.thread, channel), entered)
                {
                    edges.push((before, entered));
                }
            }
        }
        for object in &self.differences.objects {
            let sequence = self.sequence(object.id, object.is_lock, chosen, true);
            let moved = |element: &Element| {
                chosen.keys().any(|change| {
                    matches!(&self.differences.changes[*change],
                        Change::Turn { object: on, element: e }
                            if self.differences.objects[*on].id == object.id && e == element)
                })
            };
            let there: Vec<(Element, usize)> = sequence
                .iter()
                .filter_map(|element| {
                    let at = elements.get(&((object.id, object.is_lock), *element))?;
                    Some((*element, *at))
                })
                .collect();
            for pair in there.windows(2) {
                let hard = all_turns || moved(&pair[0].0) || moved(&pair[1].0);
                if hard {
                    edges.push((pair[0].1, pair[1].1));
                }
            }
        }
        sort(nodes, &edges)
    }

    /// The number of each turn, in this order, at objects whose turns are all known.
    fn numbers(&self, nodes: &[Node], order: &[usize]) -> Vec<Option<u64>> {
        let mut next: HashMap<(ChannelId, bool), Option<u64>> = HashMap::new();
        for object in &self.differences.objects {
            let start = object.complete.then_some(0);
            next.insert((object.id, object.is_lock), start);
        }
        let mut numbers = vec![None; nodes.len()];
        for &at in order {
            if let Action::Event(event) = nodes[at].item.action
                && let Some((object, _)) = turn(&event)
                && let Some(next) = next.entry(object).or_insert(Some(0))
            {
                numbers[at] = Some(*next);
                *next += 1;
            }
        }
        numbers
    }

    /// The reads of clocks of a thread that has these units.
    fn clocks(&self, chosen: &Chosen, thread: usize, units: &Units) -> Vec<ClockRead> {
        let ours = &self.passing.threads[thread];
        let mut writer = clocks::Writer::new(self.bases);
        let mut before = 0;
        for &(is_passing, unit, change) in units {
            let from = match is_passing {
                true => Some(ours),
                false => counterpart(self.failing, ours),
            };
            let Some(from) = from else { continue };
            let items = &from.items[from.units[unit].from..from.units[unit].to];
            let counts = clocks::counted(items);
            // Where a read of a unit, which is at `from`, is in the candidate.
            let position = |thread: &Thread, unit: usize, read: usize| {
                let first = clocks::position(thread, thread.units[unit].from);
                let within = thread.clocks[read].position.saturating_sub(first);
                before + within.min(counts)
            };
            let compared = self.differences.clocks.get(&(thread, unit));
            match (is_passing, compared, counterpart(self.failing, ours)) {
                (true, Some((theirs, places)), Some(failing)) => {
                    for place in places {
                        let is_made = place.change.is_some_and(|c| chosen.contains_key(&c));
                        if !is_made {
                            for read in place.passing.iter().flat_map(clocks::Group::reads) {
                                writer.keep(ours.clocks[read], position(ours, unit, read));
                            }
                            continue;
                        }
                        for read in place.failing.iter().flat_map(clocks::Group::reads) {
                            writer.take(failing, read, position(failing, *theirs, read));
                        }
                        if let Some(last) =
                            place.passing.iter().flat_map(clocks::Group::reads).last()
                        {
                            writer.go_on_from(&ours.clocks[last]);
                        }
                    }
                }
                _ => {
                    for read in clocks::of_unit(from, unit) {
                        let position = position(from, unit, read);
                        match is_passing {
                            true => writer.keep(from.clocks[read], position),
                            false => writer.take(from, read, position),
                        }
                    }
                }
            }
            // In place of this unit of the passing run, whose reads it replaces.
            if let Some(Change::Clock { unit, .. }) = change.map(|c| &self.differences.changes[c])
                && let Some(last) = clocks::of_unit(ours, *unit).last()
            {
                writer.go_on_from(&ours.clocks[last]);
            }
            before += counts;
        }
        writer.reads
    }

    fn needed(&self, chosen: &Chosen, units: &[Units], nodes: &[Node]) -> Vec<u64> {
        let mut needed = vec![0; self.passing.threads.len()];
        let mut raise = |thread: usize, events: usize| {
            needed[thread] = std::cmp::max(needed[thread], events as u64);
        };
        for (thread, units) in units.iter().enumerate() {
            let ours = &self.passing.threads[thread];
            let mut events = 0;
            let mut expected = 0;
            for &(is_passing, unit, change) in units {
                let at = unit;
                let from = match is_passing {
                    true => Some(ours),
                    false => counterpart(self.failing, ours),
                };
                let Some(from) = from else { continue };
                let skipped = is_passing && unit > expected && {
                    let gap = expected..unit;
                    self.differences.threads[thread].iter().any(|place| {
                        matches!(place, Aligned::Passing(p, Some(c))
                            if gap.contains(p) && chosen.contains_key(c))
                    })
                };
                if is_passing {
                    expected = unit + 1;
                }
                let unit = &from.units[unit];
                let events_until = |end: usize| {
                    from.items[unit.from..end]
                        .iter()
                        .filter(|item| matches!(item.action, Action::Event(_)))
                        .count()
                };
                let is_shown_otherwise = is_passing
                    && at > 0
                    && chosen.keys().any(|change| {
                        matches!(&self.differences.changes[*change],
                            Change::Clock { thread: on, unit } if (*on, *unit) == (thread, at))
                    });
                if change.is_some() || skipped || is_shown_otherwise {
                    raise(
                        thread,
                        events + events_until((unit.outcome + 1).min(unit.to)),
                    );
                }
                events += events_until(unit.to);
            }
        }
        let mut events = vec![0; needed.len()];
        let mut raises = Vec::new();
        for node in nodes {
            if matches!(node.item.action, Action::Event(_)) {
                events[node.thread] += 1;
            }
            if let Some((object, element)) = node.element
                && chosen.keys().any(|change| {
                    matches!(&self.differences.changes[*change],
                        Change::Turn { object: on, element: e }
                            if self.differences.objects[*on].id == object.0 && *e == element)
                })
            {
                raises.push((node.thread, events[node.thread]));
            }
        }
        for (thread, events) in raises {
            needed[thread] = std::cmp::max(needed[thread], events);
        }
        needed
    }
}

/// Which turn each item is.
fn elements(items: &[Item], thread: usize) -> Vec<Option<((ChannelId, bool), Element)>> {
    let mut seen: HashMap<(ChannelId, bool), usize> = HashMap::new();
    items
        .iter()
        .map(|item| {
            let Action::Event(event) = item.action else {
                return None;
            };
            let (object, _) = turn(&event)?;
            let occurrence = seen.entry(object).or_default();
            let element = Element {
                thread,
                occurrence: *occurrence,
            };
            *occurrence += 1;
            Some((object, element))
        })
        .collect()
}

/// Orders nodes by edges, those of lower rank first; `None` if there is a cycle.
fn sort(nodes: &[Node], edges: &[(usize, usize)]) -> Option<Vec<usize>> {
    let mut after = vec![Vec::new(); nodes.len()];
    let mut before = vec![0_usize; nodes.len()];
    for &(a, b) in edges {
        if a != b {
            after[a].push(b);
            before[b] += 1;
        }
    }
    let mut ready: BinaryHeap<Reverse<(usize, usize)>> = (0..nodes.len())
        .filter(|at| before[*at] == 0)
        .map(|at| Reverse((nodes[at].rank, at)))
        .collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(Reverse((_, at))) = ready.pop() {
        order.push(at);
        for &next in &after[at] {
            before[next] -= 1;
            if before[next] == 0 {
                ready.push(Reverse((nodes[next].rank, next)));
            }
        }
    }
    (order.len() == nodes.len()).then_some(order)
}
