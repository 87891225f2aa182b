//! Caches lookups whose answers a unit has noted.
//!
//! Compilers ask hundreds of times for the same missing headers, and for the same directories that
//! are no links. While no traced process changes a name, repeating the query adds no information:
//! the unit's first observation stands. The cache contains only answers that no write to an open
//! file can change, and only of unstopped calls with logged results. An untraced process may
//! change names at any time, and then the calls return another result.

use std::path::Path;

use ptrace_async::event::Tid;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::model::path::{Asked, FilePath};
use crate::model::unit_id::UnitId;

/// A kind of query about a path, as a bit.
#[derive(Debug, Clone, Copy)]
pub struct Kind(u64);

impl Kind {
    /// The target of a link, or that the file is no link.
    pub const LINK: Self = Self(1);

    /// The absence of a file for stat (`follow`) or lstat.
    pub fn no_metadata(follow: bool) -> Self {
        Self(2 << u8::from(follow))
    }

    /// The absence of a file to open.
    pub fn no_content(follow: bool) -> Self {
        Self(8 << u8::from(follow))
    }

    /// The answer of access(2); `None` for a mode that does not exist.
    pub fn access(mode: i32, effective: bool, follow: bool) -> Option<Self> {
        let mode = u32::try_from(mode).ok().filter(|mode| *mode < 8)?;
        let bit = 8 + mode + 8 * u32::from(effective) + 16 * u32::from(follow);
        Some(Self(1 << bit))
    }
}

/// The answers that each unit knows, since the last change of names.
#[derive(Debug, Default)]
pub struct Lookups {
    /// Counts changes.
    epoch: u64,
    /// Tasks in the middle of a change, with the sequence number of its start.
    changing: Vec<(Tid, u64)>,
    known: FxHashMap<UnitId, FxHashMap<FilePath, Known>>,
}

/// The answers about a path: sequence number, kinds and results.
#[derive(Debug, Default)]
struct Known {
    epoch: u64,
    told: SmallVec<[(u64, i64); 2]>,
}

impl Lookups {
    /// Notes that a task is about to change names, from the sequence number `seq` on.
    pub fn begin_change(&mut self, tid: Tid, seq: u64) {
        self.epoch += 1;
        if self.began(tid).is_none() {
            self.changing.push((tid, seq));
        }
    }

    /// Returns when a task began its current change.
    pub fn began(&self, tid: Tid) -> Option<u64> {
        let mut changing = self.changing.iter();
        changing
            .find(|(other, _)| *other == tid)
            .map(|(_, seq)| *seq)
    }

    /// Notes the end of the change: it succeeded or failed, or the task is gone.
    pub fn end_change(&mut self, tid: Tid) {
        if let Some(at) = self.changing.iter().position(|(other, _)| *other == tid) {
            self.changing.swap_remove(at);
            self.epoch += 1;
        }
    }

    /// Whether no task is in the middle of a change.
    pub fn is_quiet(&self) -> bool {
        self.changing.is_empty()
    }

    /// Whether this unit has noted this answer: the call returned the same as an earlier one
    /// (`told`, if it was logged).
    pub fn knows(&self, unit: UnitId, path: &Path, kind: Kind, told: Option<i64>) -> bool {
        let Some(told) = told.filter(|_| self.changing.is_empty()) else {
            return false;
        };
        self.known
            .get(&unit)
            .and_then(|paths| paths.get(Asked::from(path).key()))
            .is_some_and(|known| known.epoch == self.epoch && known.told.contains(&(kind.0, told)))
    }

    /// Notes an answer of the unit.
    pub fn learn(&mut self, unit: UnitId, path: &FilePath, kind: Kind, told: Option<i64>) {
        let Some(told) = told.filter(|_| self.changing.is_empty()) else {
            return;
        };
        let paths = self.known.entry(unit).or_default();
        let entry = paths.entry(path.clone()).or_default();
        if entry.epoch != self.epoch {
            entry.epoch = self.epoch;
            entry.told.clear();
        }
        if !entry.told.contains(&(kind.0, told)) {
            entry.told.push((kind.0, told));
        }
    }

    /// Forgets a unit that has ended.
    pub fn forget(&mut self, unit: UnitId) {
        self.known.remove(&unit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_holds_until_a_name_changes() {
        let mut lookups = Lookups::default();
        let (unit, other) = (UnitId(1), UnitId(2));
        let path = &FilePath::from("/a");
        let told = Some(-2);
        lookups.learn(unit, path, Kind::LINK, told);
        assert!(lookups.knows(unit, path, Kind::LINK, told));
        assert!(!lookups.knows(other, path, Kind::LINK, told));
        assert!(!lookups.knows(unit, path, Kind::no_content(true), told));
        lookups.begin_change(7, 3);
        assert_eq!((lookups.began(7), lookups.began(8)), (Some(3), None));
        assert!(!lookups.knows(unit, path, Kind::LINK, told));
        // Whether this is before or after the change is unknown.
        lookups.learn(unit, path, Kind::LINK, told);
        lookups.end_change(7);
        assert!(!lookups.knows(unit, path, Kind::LINK, told));
        lookups.learn(unit, path, Kind::LINK, told);
        assert!(lookups.knows(unit, path, Kind::LINK, told));
        lookups.forget(unit);
        assert!(!lookups.knows(unit, path, Kind::LINK, told));
    }

    #[test]
    fn another_answer_is_not_known() {
        let mut lookups = Lookups::default();
        let (unit, path) = (UnitId(1), &FilePath::from("/a"));
        lookups.learn(unit, path, Kind::LINK, Some(-2));
        assert!(!lookups.knows(unit, path, Kind::LINK, Some(5)));
        assert!(!lookups.knows(unit, path, Kind::LINK, None));
        lookups.learn(unit, path, Kind::no_content(true), None);
        assert!(!lookups.knows(unit, path, Kind::no_content(true), None));
    }

    #[test]
    fn kinds_are_told_apart() {
        let mut kinds = vec![Kind::LINK.0];
        for follow in [false, true] {
            kinds.extend([Kind::no_metadata(follow).0, Kind::no_content(follow).0]);
            for mode in 0..8 {
                for effective in [false, true] {
                    kinds.push(Kind::access(mode, effective, follow).expect("a mode").0);
                }
            }
        }
        let all = kinds.iter().fold(0_u64, |all, kind| all | kind);
        assert_eq!(all.count_ones() as usize, kinds.len());
        assert!(Kind::access(8, false, false).is_none());
    }
}
