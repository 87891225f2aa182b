//! The differences between two runs, as changes that can be made one by one.

use std::collections::HashMap;
use std::hash::Hash;

use rr_channel_log::identity::ChannelId;
use rr_channel_log::{Event, Outcome};
use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::clocks;
use super::run::{Action, Key, Run, Thread};

/// One change of the passing run, towards the failing one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// A message is received by another thread, or earlier or later by the same one.
    Message {
        key: Key,
        /// Thread and unit, in the passing run.
        from: (usize, usize),
        /// Thread and unit, in the failing run.
        to: (usize, usize),
    },
    /// Operations of a thread have other outcomes.
    Outcomes {
        thread: usize,
        /// Units of the passing run that do not happen.
        removed: Vec<usize>,
        /// Units of the failing run that do.
        inserted: Vec<usize>,
    },
    /// A lock is acquired, or a bounded channel entered, earlier or later.
    Turn { object: usize, element: Element },
    /// Reads of a clock, after one outcome of a thread, show other times.
    Clock {
        thread: usize,
        /// The unit of the passing run.
        unit: usize,
    },
}

/// A thread's so-many-th turn at an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Element {
    pub(super) thread: usize,
    pub(super) occurrence: usize,
}

/// One position of two sequences that were laid side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aligned {
    Both(usize, usize),
    /// Only the passing run has it, unless this change is not made.
    Passing(usize, Option<usize>),
    /// Only the failing run has it, and whoever makes this change.
    Failing(usize, Option<usize>),
}

/// Something at which threads take turns: a lock, or a bounded channel's room.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) id: ChannelId,
    pub(super) is_lock: bool,
    /// The turns of the passing run.
    pub(super) passing: Vec<Element>,
    /// Those of the failing run.
    pub(super) failing: Vec<Element>,
    pub(super) places: Vec<Aligned>,
    /// Whether the turns of the passing run are all there, so that they can be numbered
    /// anew.
    pub(super) complete: bool,
}

/// All that differs.
#[derive(Debug)]
pub(super) struct Differences {
    pub(super) changes: Vec<Change>,
    /// For each thread of the passing run, and then for those that only the failing one
    /// has: the units of both.
    pub(super) threads: Vec<Vec<Aligned>>,
    pub(super) objects: Vec<Object>,
    /// For units of threads of the passing run that the failing one has as well: that unit, and
    /// the reads of clocks of both.
    pub(super) clocks: HashMap<(usize, usize), (usize, Vec<clocks::Place>)>,
    /// Of these units, those upon whose outcome a thread does something else in the failing run:
    /// that unit, and the change of clocks with which it does so.
    pub(super) bodies: HashMap<(usize, usize), (usize, usize)>,
}

/// Lays two runs side by side: threads that only `failing` has are added to `passing`,
/// without anything that they did.
pub(super) fn compare(passing: &mut Run, failing: &Run) -> Differences {
    for thread in &failing.threads {
        if !passing.threads.iter().any(|known| known.id == thread.id) {
            passing.threads.push(Thread {
                items: Vec::new(),
                units: Vec::new(),
                clocks: Vec::new(),
                ..thread.clone()
            });
        }
    }
    let mut differences = Differences {
        changes: Vec::new(),
        threads: Vec::new(),
        objects: Vec::new(),
        clocks: HashMap::new(),
        bodies: HashMap::new(),
    };
    let mut hunks = Vec::new();
    let mut removed: HashMap<Key, (usize, usize)> = HashMap::new();
    let mut inserted: HashMap<Key, (usize, usize)> = HashMap::new();
    for (at, thread) in passing.threads.iter().enumerate() {
        let ours: Vec<Key> = thread.units.iter().map(|unit| unit.key).collect();
        let theirs: Vec<Key> = counterpart(failing, thread)
            .map(|thread| thread.units.iter().map(|unit| unit.key).collect())
            .unwrap_or_default();
        let (mut places, found) = align(&ours, &theirs);
        let is_new_first = |p: usize, f: usize| match (ours[p], theirs[f]) {
            (Key::Message(a, old), Key::Message(b, new)) if a == b => new < old,
            _ => counterpart(failing, thread)
                .is_some_and(|theirs| is_end_of_channel(thread, p, theirs, f)),
        };
        for hunk in places.chunk_by_mut(|a, b| is_common(a) == is_common(b)) {
            if !hunk.first().is_some_and(is_common) {
                interleave(hunk, is_new_first);
            }
        }
        for (old, new) in found {
            for n in old.clone() {
                removed.insert(ours[n], (at, n));
            }
            for n in new.clone() {
                inserted.insert(theirs[n], (at, n));
            }
            hunks.push((at, old, new));
        }
        differences.threads.push(places);
    }
    for (thread, old, new) in hunks {
        let key_of = |n: usize| passing.threads[thread].units[n].key;
        let (mut alone, mut added) = (Vec::new(), Vec::new());
        for n in old {
            let key = key_of(n);
            match inserted.get(&key) {
                Some(&to) if matches!(key, Key::Message(..)) => {
                    let change = differences.changes.len();
                    let from = (thread, n);
                    differences.changes.push(Change::Message { key, from, to });
                    claim(&mut differences.threads, from, to, change);
                }
                _ => alone.push(n),
            }
        }
        for n in new {
            let key = counterpart(failing, &passing.threads[thread])
                .map_or(Key::Start, |thread| thread.units[n].key);
            if !(matches!(key, Key::Message(..)) && removed.contains_key(&key)) {
                added.push(n);
            }
        }
        if alone.is_empty() && added.is_empty() {
            continue;
        }
        let change = differences.changes.len();
        for place in &mut differences.threads[thread] {
            match place {
                Aligned::Passing(n, mark) if alone.contains(n) => *mark = Some(change),
                Aligned::Failing(n, mark) if added.contains(n) => *mark = Some(change),
                _ => {}
            }
        }
        differences.changes.push(Change::Outcomes {
            thread,
            removed: alone,
            inserted: added,
        });
    }
    objects(passing, failing, &mut differences);
    clocks(passing, failing, &mut differences);
    differences
}

/// The same thread of another run.
pub(super) fn counterpart<'a>(run: &'a Run, thread: &Thread) -> Option<&'a Thread> {
    run.threads.iter().find(|known| known.id == thread.id)
}

/// Marks what a message's change removes and inserts.
fn claim(threads: &mut [Vec<Aligned>], from: (usize, usize), to: (usize, usize), change: usize) {
    for place in &mut threads[from.0] {
        if matches!(place, Aligned::Passing(n, _) if *n == from.1) {
            *place = Aligned::Passing(from.1, Some(change));
        }
    }
    for place in &mut threads[to.0] {
        if matches!(place, Aligned::Failing(n, _) if *n == to.1) {
            *place = Aligned::Failing(to.1, Some(change));
        }
    }
}

const fn is_common(place: &Aligned) -> bool {
    matches!(place, Aligned::Both(..))
}

/// Puts units of the two runs, of which the one or the other is there in the end, into an order
/// in which they can both be there. A channel keeps the messages of a sender in order.
fn interleave(hunk: &mut [Aligned], is_new_first: impl Fn(usize, usize) -> bool) {
    let (old, new): (Vec<Aligned>, Vec<Aligned>) = hunk
        .iter()
        .partition(|place| matches!(place, Aligned::Passing(..)));
    let mut old = old.into_iter().peekable();
    let mut new = new.into_iter().peekable();
    for place in hunk {
        let is_new_first = match (old.peek(), new.peek()) {
            (Some(Aligned::Passing(p, _)), Some(Aligned::Failing(f, _))) => is_new_first(*p, *f),
            (old, _) => old.is_none(),
        };
        let next = if is_new_first { new.next() } else { old.next() };
        *place = next.unwrap_or(*place);
    }
}

/// Whether a unit of `ours` finds that a channel has ended from which a unit of `theirs` receives:
/// no message comes after its end.
fn is_end_of_channel(ours: &Thread, p: usize, theirs: &Thread, f: usize) -> bool {
    match (ours.event_of(p), theirs.event_of(f)) {
        (Some(end), Some(receipt)) => {
            end.outcome == Outcome::Disconnected
                && matches!(receipt.outcome, Outcome::Message { .. })
                && end.channel == receipt.channel
        }
        _ => false,
    }
}

type Hunk = (std::ops::Range<usize>, std::ops::Range<usize>);

/// Lays two sequences side by side; also the stretches where they differ.
fn align<T: Copy + Eq + Hash>(ours: &[T], theirs: &[T]) -> (Vec<Aligned>, Vec<Hunk>) {
    let mut numbers: HashMap<T, usize> = HashMap::new();
    let mut number = |item: &T| {
        let next = numbers.len();
        *numbers.entry(*item).or_insert(next)
    };
    let old: Vec<usize> = ours.iter().map(&mut number).collect();
    let new: Vec<usize> = theirs.iter().map(&mut number).collect();
    let (mut places, mut hunks) = (Vec::new(), Vec::new());
    for op in capture_diff_slices(Algorithm::Myers, &old, &new) {
        let (old, new) = (op.old_range(), op.new_range());
        if let DiffOp::Equal { .. } = op {
            places.extend(old.zip(new).map(|(p, f)| Aligned::Both(p, f)));
        } else {
            places.extend(old.clone().map(|p| Aligned::Passing(p, None)));
            places.extend(new.clone().map(|f| Aligned::Failing(f, None)));
            hunks.push((old, new));
        }
    }
    (places, hunks)
}

/// The turns at each object, in their order: the ticket, and whose turn it is.
type Turns = HashMap<(ChannelId, bool), Vec<(u64, Element)>>;

/// If it is a turn: at which object, whether that is a lock, and the turn's number.
pub(super) fn turn(event: &Event) -> Option<((ChannelId, bool), u64)> {
    match (event.channel.map(ChannelId::object), event.outcome) {
        (Some(id), Outcome::Turn { ticket }) => Some(((id, true), ticket)),
        (Some(id), Outcome::Sent { slot }) => Some(((id, false), slot)),
        _ => None,
    }
}

fn turns(run: &Run, index: impl Fn(&Thread) -> Option<usize>) -> Turns {
    let mut turns: Turns = HashMap::new();
    for thread in &run.threads {
        let Some(at) = index(thread) else { continue };
        let mut seen: HashMap<(ChannelId, bool), usize> = HashMap::new();
        for item in &thread.items {
            let Action::Event(event) = item.action else {
                continue;
            };
            if let Some((object, number)) = turn(&event) {
                let occurrence = seen.entry(object).or_default();
                let element = Element {
                    thread: at,
                    occurrence: *occurrence,
                };
                *occurrence += 1;
                turns.entry(object).or_default().push((number, element));
            }
        }
    }
    for turns in turns.values_mut() {
        turns.sort_by_key(|(number, _)| *number);
    }
    turns
}

fn objects(passing: &Run, failing: &Run, differences: &mut Differences) {
    let index = |thread: &Thread| {
        passing
            .threads
            .iter()
            .position(|known| known.id == thread.id)
    };
    let ours = turns(passing, index);
    let mut theirs = turns(failing, index);
    let mut all: Vec<_> = ours.into_iter().collect();
    all.sort_by_key(|((id, is_lock), _)| (id.creator, id.number, *is_lock));
    for ((id, is_lock), turns) in all {
        let numbers = turns.iter().map(|(number, _)| *number);
        let complete = numbers.eq(0..turns.len() as u64);
        let elements = |turns: Vec<(u64, Element)>| -> Vec<Element> {
            turns.into_iter().map(|(_, element)| element).collect()
        };
        let old = elements(turns);
        let new = elements(theirs.remove(&(id, is_lock)).unwrap_or_default());
        let mut places = Vec::new();
        // The order in which messages leave a channel says in which they come.
        let implied = !is_lock
            && differences.changes.iter().any(|change| match change {
                Change::Message { from, .. } => {
                    let event = passing.threads[from.0].event_of(from.1);
                    event.is_some_and(|event| event.channel == Some(id))
                }
                _ => false,
            });
        if complete && !implied {
            places = align(&old, &new).0;
            let at = |list: &[Element], wanted: Element| {
                list.iter().position(|element| *element == wanted)
            };
            let moved: Vec<(usize, usize)> = places
                .iter()
                .filter_map(|place| match place {
                    Aligned::Passing(p, _) => Some((*p, at(&new, old[*p])?)),
                    _ => None,
                })
                .collect();
            for (p, f) in moved {
                let change = differences.changes.len();
                for place in &mut places {
                    match place {
                        Aligned::Passing(n, mark) if *n == p => *mark = Some(change),
                        Aligned::Failing(n, mark) if *n == f => *mark = Some(change),
                        _ => {}
                    }
                }
                differences.changes.push(Change::Turn {
                    object: differences.objects.len(),
                    element: old[p],
                });
            }
        }
        differences.objects.push(Object {
            id,
            is_lock,
            passing: old,
            failing: new,
            places,
            complete,
        });
    }
}

/// Lays the reads of clocks of units side by side that both runs have.
fn clocks(passing: &Run, failing: &Run, differences: &mut Differences) {
    let bases = [passing, failing].map(|run| clocks::Base::of(&run.threads));
    for (at, ours) in passing.threads.iter().enumerate() {
        let Some(theirs) = counterpart(failing, ours) else {
            continue;
        };
        for place in &differences.threads[at] {
            let Aligned::Both(p, f) = *place else {
                continue;
            };
            let old = clocks::groups(ours, p);
            let new = clocks::groups(theirs, f);
            let keys = |thread: &Thread, groups: &[clocks::Group]| -> Vec<_> {
                let keys = groups.iter().map(|group| clocks::key_of(thread, group));
                keys.collect()
            };
            let (aligned, hunks) = align(&keys(ours, &old), &keys(theirs, &new));
            // The thread may act on the times that it reads: both change together.
            let is_other = !aligned.is_empty() && !does_the_same((ours, p), (theirs, f));
            let changes = &mut differences.changes;
            let mut change = || {
                changes.push(Change::Clock {
                    thread: at,
                    unit: p,
                });
                changes.len() - 1
            };
            let whole = is_other.then(&mut change);
            if let Some(change) = whole {
                differences.bodies.insert((at, p), (f, change));
            }
            let of_hunks: Vec<usize> = hunks
                .iter()
                .map(|_| whole.unwrap_or_else(&mut change))
                .collect();
            let hunk = |is_in: &dyn Fn(&Hunk) -> bool| {
                let found = hunks.iter().position(is_in);
                found.map(|hunk| of_hunks[hunk])
            };
            let places: Vec<clocks::Place> = aligned
                .iter()
                .map(|place| {
                    let (passing, failing, change) = match *place {
                        Aligned::Both(p, f) => {
                            let is_equal = clocks::is_equal(
                                (ours, &old[p], bases[0]),
                                (theirs, &new[f], bases[1]),
                            );
                            let own = || (!is_equal).then(&mut change);
                            (Some(p), Some(f), whole.or_else(own))
                        }
                        Aligned::Passing(p, _) => (Some(p), None, hunk(&|h| h.0.contains(&p))),
                        Aligned::Failing(f, _) => (None, Some(f), hunk(&|h| h.1.contains(&f))),
                    };
                    clocks::Place {
                        passing: passing.map(|p| old[p].clone()),
                        failing: failing.map(|f| new[f].clone()),
                        change,
                    }
                })
                .collect();
            if !places.is_empty() {
                differences.clocks.insert((at, p), (f, places));
            }
        }
    }
}

/// Whether threads do the same upon an outcome, in whichever turn.
fn does_the_same((ours, p): (&Thread, usize), (theirs, f): (&Thread, usize)) -> bool {
    let what = |thread: &Thread, unit: usize| -> Vec<_> {
        let unit = &thread.units[unit];
        let items = thread.items[unit.from..unit.to].iter();
        let what = items.map(|item| match item.action {
            Action::Event(event) => (Some(event.op), event.channel),
            Action::Message { channel, .. } => (None, channel),
        });
        what.collect()
    };
    what(ours, p) == what(theirs, f)
}
