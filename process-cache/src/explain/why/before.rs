//! The state before a run: the units of the last run in its directory; for skipped units, those
//! that recorded their results.
//!
//! A unit is compared with its state at that time, and not with other runs in between: changes
//! before the last run are not reported.

use std::collections::BTreeMap;
use std::rc::Rc;

use rustc_hash::FxHashSet;

use super::{Explainer, Place};
use crate::journal::Entry;
use crate::model::fate::Fate;

impl Explainer<'_> {
    /// Returns the units that had made the state at the start of the run `at`.
    pub(super) fn before(&self, at: usize) -> Rc<FxHashSet<Place>> {
        if let Some(known) = self.before.borrow().get(&at) {
            return known.clone();
        }
        let units = Rc::new(self.made_before(at));
        self.before.borrow_mut().insert(at, units.clone());
        units
    }

    /// Returns the last run before the run `at` in the same directory.
    pub(super) fn last_there(&self, at: usize) -> Option<usize> {
        let (earlier, rest) = self.history.runs.split_at_checked(at)?;
        let directory = rest.first()?.directory();
        earlier.iter().rposition(|run| run.directory() == directory)
    }

    fn made_before(&self, at: usize) -> FxHashSet<Place> {
        let mut found = FxHashSet::default();
        let runs = &self.history.runs;
        let Some(last) = self.last_there(at) else {
            return found;
        };
        // The units of each run that count with all their descendants; those of the last run count
        // anyway.
        let mut open: BTreeMap<usize, FxHashSet<u32>> = BTreeMap::new();
        open.insert(last, std::iter::once(1).collect());
        while let Some((at, tops)) = open.pop_last() {
            let run = &runs[at];
            let mut counts = vec![false; run.units.len() + 1];
            for (number, unit) in run.numbered() {
                let is_below = unit.above < number && counts[unit.above as usize];
                if !is_below && !tops.contains(&number) {
                    continue;
                }
                counts[number as usize] = true;
                if found.insert((at, number))
                    && let Some(Fate::Hit { recorded_us, .. }) = unit.fate
                    && let Some(recorded) = self.recorded(unit, recorded_us, (at, number))
                    && !found.contains(&recorded)
                {
                    open.entry(recorded.0).or_default().insert(recorded.1);
                }
            }
        }
        found
    }

    /// Returns the unit that recorded the result of a skipped one, if known: the one with the same
    /// duration, or else the last stored one with the same key.
    fn recorded(&self, unit: &Entry, recorded_us: u64, place: Place) -> Option<Place> {
        let is_stored = |at: &Place| {
            self.at(*at)
                .is_some_and(|(_, unit)| unit.fate == Some(Fate::Stored))
        };
        let places = self.by_key.get(&unit.key?)?.iter().rev();
        let mut stored = places.filter(|at| **at < place).copied().filter(is_stored);
        let last = stored.next()?;
        if stored.next().is_none() {
            return Some(last);
        }
        let results = self.results(unit.key?);
        let taken = results.iter().find(|result| {
            let outcome = result.outcome.as_ref();
            outcome.is_some_and(|outcome| outcome.wall_us == recorded_us)
        });
        let known = taken.and_then(|taken| self.stored_as(unit.key, taken.serial, place));
        Some(known.unwrap_or(last))
    }

    /// Returns the serial number of a unit's result before its run.
    pub(super) fn stored_before(&self, unit: &Entry, place: Place) -> Option<u64> {
        let before = self.before(place.0);
        let places = self.by_key.get(&unit.key?)?.iter().rev();
        let there = places.filter(|at| before.contains(at));
        there
            .filter_map(|at| self.at(*at))
            .find(|(_, unit)| unit.fate == Some(Fate::Stored))
            .map(|(_, unit)| unit.serial)
    }
}
