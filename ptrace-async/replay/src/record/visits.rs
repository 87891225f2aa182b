//! What tells one visit of a place from another: registers, and words of memory.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::trace::event::Registers;

/// So many writes are remembered.
const WRITES: usize = 4096;
/// So many visits of a place are compared with each new one.
const VISITS: usize = 64;
/// How many words a point is told by, at most, of those that a round has changed.
const WORDS: usize = 128;
/// How far from the stack pointer words are taken for the stack's.
const STACK: u64 = 64 << 10;

/// A task at a place.
#[derive(Clone)]
pub(super) struct Visit {
    pub(super) registers: Registers,
    /// How many writes there had been.
    at: usize,
}

/// The words that a task has written, one after the other, and what they were before.
#[derive(Default)]
pub(super) struct Writes(Vec<(u64, u64)>);

impl Writes {
    /// The words of a range are about to be written, of which `read` says what they are.
    pub(super) fn note(&mut self, start: u64, length: u64, read: &dyn Fn(u64) -> Option<u64>) {
        for address in (start..start.saturating_add(length)).step_by(8) {
            if self.0.len() < WRITES
                && let Some(word) = read(address)
            {
                self.0.push((address, word));
            }
        }
    }

    pub(super) fn visit(&self, registers: Registers) -> Visit {
        Visit {
            registers,
            at: self.0.len(),
        }
    }

    /// Words that are not what they were at a visit, and what they are now; those of the stack
    /// at `sp` come last, those that were written last come first.
    pub(super) fn since(
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
pub(super) struct Places(FxHashMap<u64, Place>);

struct Place {
    first: Visit,
    times: u32,
}

impl Places {
    /// The task is at a place; `room` says how much there is for a jump. The place, if it is
    /// one to stay with: the second visit where there is room, the third where there is none,
    /// as another place of the loop may have it.
    pub(super) fn visit(
        &mut self,
        ip: u64,
        visit: Visit,
        room: impl FnOnce() -> Option<usize>,
    ) -> Option<Chosen> {
        let Some(place) = self.0.get_mut(&ip) else {
            let first = visit;
            self.0.insert(ip, Place { first, times: 1 });
            return None;
        };
        place.times += 1;
        let room = room().unwrap_or(0);
        (room > 0 || place.times > 2).then(|| Chosen {
            ip,
            room,
            first: place.first.clone(),
            visits: VecDeque::new(),
        })
    }
}

/// A place that is going to be the point, at one of its visits.
pub(super) struct Chosen {
    pub(super) ip: u64,
    pub(super) room: usize,
    first: Visit,
    /// Those after it, at most [`VISITS`].
    visits: VecDeque<Visit>,
}

impl Chosen {
    /// An earlier visit with the same registers: only memory can tell that from this one.
    pub(super) fn twin(&self, registers: &Registers) -> Option<&Visit> {
        let mut visits = self.visits.iter().rev().chain([&self.first]);
        visits.find(|visit| visit.registers == *registers)
    }

    pub(super) fn first(&self) -> &Visit {
        &self.first
    }

    pub(super) fn last(&self) -> &Visit {
        self.visits.back().unwrap_or(&self.first)
    }

    pub(super) fn push(&mut self, visit: Visit) {
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
    fn words_that_are_again_what_they_were_tell_nothing() {
        let now = [(0x1000, 7), (0x2000, 2), (0x3000, 1)];
        let read = |address: u64| now.iter().find(|word| word.0 == address).map(|word| word.1);
        let mut writes = Writes::default();
        writes.note(0x3000, 8, &|_| Some(0));
        let visit = writes.visit(at(1));
        writes.note(0x1000, 8, &|_| Some(7));
        writes.note(0x2000, 8, &|_| Some(1));
        writes.note(0x1000, 8, &|_| Some(8));
        assert_eq!(writes.since(Some(&visit), 0, &read), [(0x2000, 2)]);
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
    fn the_last_visit_with_the_same_registers_is_the_twin() {
        let mut places = Places::default();
        let mut writes = Writes::default();
        assert!(places.visit(1, writes.visit(at(1)), || None).is_none());
        let second = places.visit(1, writes.visit(at(2)), || Some(5));
        let mut chosen = second.unwrap();
        assert!(chosen.twin(&at(2)).is_none());
        writes.note(0x1000, 8, &|_| Some(0));
        chosen.push(writes.visit(at(2)));
        writes.note(0x1000, 8, &|_| Some(1));
        chosen.push(writes.visit(at(2)));
        assert_eq!(chosen.twin(&at(2)).unwrap().at, 2);
    }
}
