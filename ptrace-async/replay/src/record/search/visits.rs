//! Visits of candidate instructions, and the registers and words that distinguish them.

use std::cell::RefCell;
use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::code::registers::Registers;

/// So many writes are remembered.
const WRITES: usize = 4096;
/// So many visits of a place are compared with each new one.
const VISITS: usize = 64;
/// How many words a point is told by, at most, of those that a round has changed.
const WORDS: usize = 128;
/// How far from the stack pointer words are taken for the stack's.
const STACK: u64 = 64 << 10;

/// So many addresses that are read are remembered, and so many tell a point.
const READS: usize = 1024;
const READ_WORDS: usize = 48;

/// The addresses of words that a task has read, and how often.
///
/// A word that distinguishes the rounds of a large loop may be written only once in each, too
/// rarely to be seen. But the loop reads it, to know when it is over.
#[derive(Default)]
pub(in crate::record) struct Reads(FxHashMap<u64, u32>);

impl Reads {
    pub(in crate::record) fn note(&mut self, address: u64) {
        if self.0.len() < READS || self.0.contains_key(&address) {
            *self.0.entry(address).or_default() += 1;
        }
    }

    /// Words that may identify a point, with their present values; rarely read ones come
    /// first.
    pub(in crate::record) fn words(
        &self,
        may: &dyn Fn(u64) -> bool,
        read: &dyn Fn(u64) -> Option<u64>,
    ) -> Vec<(u64, u64)> {
        let mut all: Vec<(u32, u64)> = self
            .0
            .iter()
            .filter(|(address, _)| may(**address))
            .map(|(&address, &times)| (times, address))
            .collect();
        all.sort_unstable();
        all.iter()
            .filter_map(|&(_, address)| Some((address, read(address)?)))
            .take(READ_WORDS)
            .collect()
    }
}

/// One visit of an instruction by the task.
#[derive(Clone)]
pub(in crate::record) struct Visit {
    pub(in crate::record) registers: Registers,
    /// How many writes there had been.
    at: usize,
}

/// The words that a task has written, one after the other, and what they were before.
#[derive(Default)]
pub(in crate::record) struct Writes(Vec<(u64, u64)>);

impl Writes {
    /// The words of a range are about to be written, of which `read` says what they are.
    pub(in crate::record) fn note(
        &mut self,
        start: u64,
        length: u64,
        read: &dyn Fn(u64) -> Option<u64>,
    ) {
        for address in (start..start.saturating_add(length)).step_by(8) {
            if self.0.len() < WRITES
                && let Some(word) = read(address)
            {
                self.0.push((address, word));
            }
        }
    }

    /// Whether all is what it was at a visit, as far as the task has written. The first word that
    /// is not ends the search.
    pub(in crate::record) fn is_as_at(
        &self,
        visit: &Visit,
        read: &dyn Fn(u64) -> Option<u64>,
    ) -> bool {
        // What was written since these were full is not known.
        let mut seen = FxHashSet::default();
        self.0.len() < WRITES
            && self.0[visit.at..]
                .iter()
                .filter(|(address, _)| seen.insert(*address))
                .all(|&(address, before)| read(address).is_none_or(|now| now == before))
    }

    pub(in crate::record) fn visit(&self, registers: Registers) -> Visit {
        Visit {
            registers,
            at: self.0.len(),
        }
    }

    /// Words that tell this moment from all of these visits, one after the other, and what they
    /// are now: first the one that tells most of them, then the one that tells most of the
    /// others. Then come those that are not what they were at the first one.
    pub(in crate::record) fn telling(
        &self,
        visits: &[&Visit],
        sp: u64,
        read: &dyn Fn(u64) -> Option<u64>,
    ) -> Vec<(u64, u64)> {
        let now = RefCell::new(FxHashMap::default());
        let read = |address: u64| {
            let mut now = now.borrow_mut();
            *now.entry(address).or_insert_with(|| read(address))
        };
        let mut changes: Vec<Vec<(u64, u64)>> = visits
            .iter()
            .map(|visit| self.since(Some(visit), sp, &read))
            .collect();
        let first = changes.first().cloned().unwrap_or_default();
        let mut words = Vec::new();
        loop {
            let mut counts: FxHashMap<(u64, u64), usize> = FxHashMap::default();
            for word in changes.iter().flatten() {
                *counts.entry(*word).or_default() += 1;
            }
            // Of those that are as good as each other, the first of a list.
            let all = changes.iter().flatten().rev();
            let Some(best) = all.max_by_key(|word| counts[*word]).copied() else {
                break;
            };
            words.push(best);
            changes.retain(|change| !change.contains(&best));
        }
        let others = first.into_iter().filter(|word| !words.contains(word));
        let others: Vec<_> = others.take(WORDS.saturating_sub(words.len())).collect();
        words.extend(others);
        words
    }

    /// Words that are not what they were at a visit, and what they are now; those of the stack
    /// at `sp` come last, those that were written last come first.
    pub(in crate::record) fn since(
        &self,
        visit: Option<&Visit>,
        sp: u64,
        read: &dyn Fn(u64) -> Option<u64>,
    ) -> Vec<(u64, u64)> {
        let mut seen = FxHashSet::default();
        let written = &self.0[visit.map_or(0, |visit| visit.at)..];
        let mut words: Vec<(u64, u64)> = written
            .iter()
            .filter(|(address, _)| seen.insert(*address))
            .filter_map(|&(address, before)| Some((address, before, read(address)?)))
            // Without a visit to compare with it is not known which have changed.
            .filter(|(_, before, now)| visit.is_none() || before != now)
            .map(|(address, _, now)| (address, now))
            .collect();
        words.reverse();
        words.sort_by_key(|(address, _)| address.abs_diff(sp) < STACK);
        words.truncate(WORDS);
        words
    }
}

/// The visits of places that a task has come by.
#[derive(Default)]
pub(in crate::record) struct Candidates(FxHashMap<u64, Candidate>);

struct Candidate {
    first: Visit,
    times: u32,
}

impl Candidates {
    /// The task is at a place; `room` says how much there is for a jump. The place, if it is
    /// one to stay with: the second visit where there is room, the third where there is none,
    /// as another place of the loop may have it.
    pub(in crate::record) fn visit(
        &mut self,
        ip: u64,
        visit: Visit,
        room: impl FnOnce() -> Option<usize>,
    ) -> Option<ChosenCandidate> {
        let Some(place) = self.0.get_mut(&ip) else {
            let first = visit;
            self.0.insert(ip, Candidate { first, times: 1 });
            return None;
        };
        place.times += 1;
        let room = room().unwrap_or(0);
        (room > 0 || place.times > 2).then(|| ChosenCandidate {
            ip,
            room,
            first: place.first.clone(),
            visits: VecDeque::new(),
        })
    }
}

/// A place that is going to be the point, at one of its visits.
pub(in crate::record) struct ChosenCandidate {
    pub(in crate::record) ip: u64,
    pub(in crate::record) room: usize,
    first: Visit,
    /// Later visits, at most [`VISITS`].
    visits: VecDeque<Visit>,
}

impl ChosenCandidate {
    /// The earlier visits with the same registers: only memory can tell those from this one.
    pub(in crate::record) fn twins(&self, registers: &Registers) -> Vec<&Visit> {
        let visits = [&self.first].into_iter().chain(&self.visits);
        visits
            .filter(|visit| visit.registers == *registers)
            .collect()
    }

    pub(in crate::record) fn first(&self) -> &Visit {
        &self.first
    }

    pub(in crate::record) fn last(&self) -> &Visit {
        self.visits.back().unwrap_or(&self.first)
    }

    pub(in crate::record) fn push(&mut self, visit: Visit) {
        if self.visits.len() == VISITS {
            self.visits.pop_front();
        }
        self.visits.push_back(visit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(value: u64) -> Registers {
        let mut registers = Registers([0; 27]);
        registers.0[0] = value;
        registers
    }

    #[test]
    fn words_with_their_old_value_distinguish_nothing() {
        let now = [(0x1000, 7), (0x2000, 2), (0x3000, 1)];
        let read = |address: u64| now.iter().find(|word| word.0 == address).map(|word| word.1);
        let mut writes = Writes::default();
        writes.note(0x3000, 8, &|_| Some(0));
        let visit = writes.visit(at(1));
        writes.note(0x1000, 8, &|_| Some(7));
        writes.note(0x2000, 8, &|_| Some(1));
        writes.note(0x1000, 8, &|_| Some(8));
        assert_eq!(writes.since(Some(&visit), 0, &read), [(0x2000, 2)]);
        assert!(!writes.is_as_at(&visit, &read));
        let again = |address| {
            if address == 0x2000 {
                Some(1)
            } else {
                read(address)
            }
        };
        assert!(writes.is_as_at(&visit, &again));
        assert_eq!(writes.since(None, 0, &read).len(), 3);
    }

    #[test]
    fn words_of_the_stack_come_last() {
        let mut writes = Writes::default();
        let visit = writes.visit(at(1));
        writes.note(0x7000_0000, 8, &|_| Some(0));
        writes.note(0x1000, 16, &|_| Some(0));
        let words = writes.since(Some(&visit), 0x7000_0100, &|_| Some(1));
        let addresses: Vec<u64> = words.iter().map(|word| word.0).collect();
        assert_eq!(addresses, [0x1008, 0x1000, 0x7000_0000]);
    }

    #[test]
    fn a_visit_does_not_repeat_when_writes_were_forgotten() {
        let mut writes = Writes::default();
        let visit = writes.visit(at(1));
        writes.note(0x1000, 8 * (WRITES as u64 - 1), &|_| Some(0));
        assert!(writes.is_as_at(&visit, &|_| Some(0)));
        writes.note(0x1000, 8, &|_| Some(0));
        assert!(!writes.is_as_at(&visit, &|_| Some(0)));
    }

    #[test]
    fn the_word_that_distinguishes_most_visits_comes_first() {
        // A loop in a loop: one word changes in each round, the other one comes again.
        let mut writes = Writes::default();
        let mut visits = Vec::new();
        for round in 0..4 {
            visits.push(writes.visit(at(1)));
            writes.note(0x1000, 8, &|_| Some(round));
            writes.note(0x2000, 8, &|_| Some(round % 2));
        }
        let read = |address| Some(if address == 0x1000 { 4 } else { 0 });
        let visits: Vec<&Visit> = visits.iter().collect();
        let words = writes.telling(&visits, 0, &read);
        assert_eq!(words, [(0x1000, 4)]);
        let words = writes.telling(&visits[1..], 0, &read);
        assert_eq!(words, [(0x1000, 4), (0x2000, 0)]);
        assert_eq!(writes.telling(&[], 0, &read), []);
    }

    #[test]
    fn rarely_read_words_come_first() {
        let mut reads = Reads::default();
        for address in [1, 2, 1, 3, 3, 3, 4] {
            reads.note(address);
        }
        let words = reads.words(&|address| address != 2, &|address| Some(10 * address));
        assert_eq!(words, [(4, 40), (1, 10), (3, 30)]);
    }

    #[test]
    fn visits_with_the_same_registers_are_twins() {
        let mut places = Candidates::default();
        let mut writes = Writes::default();
        assert!(places.visit(1, writes.visit(at(1)), || None).is_none());
        let second = places.visit(1, writes.visit(at(2)), || Some(5));
        let mut chosen = second.unwrap();
        assert!(chosen.twins(&at(2)).is_empty());
        writes.note(0x1000, 8, &|_| Some(0));
        chosen.push(writes.visit(at(2)));
        writes.note(0x1000, 8, &|_| Some(1));
        chosen.push(writes.visit(at(2)));
        let twins = chosen.twins(&at(2));
        assert_eq!(twins.iter().map(|twin| twin.at).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(chosen.twins(&at(1)).len(), 1);
    }
}
