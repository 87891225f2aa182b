//! Names that a unit made and that it has moved away with a directory above them.
//!
//! A program may build a directory with many files and move it often. Each name that a file had on
//! the way was absent before and is absent after, so it matters only to an observation of it.

use rustc_hash::FxHashSet;

use super::unit::{Change, TimeState, Unit};
use crate::model::path::FilePath;

/// A name that moved away. Only where somebody has looked at it does it become a [`Change`] again.
#[derive(Debug)]
pub(crate) struct MovedAway {
    path: FilePath,
    /// Sequence number at which its first change began.
    begun: u64,
    /// First change of content or existence (sequence number).
    content: Option<u64>,
    /// The change of its times.
    time: TimeState,
    /// Sequence number at which it moved.
    last: u64,
}

impl Unit {
    /// Takes the names below a directory that has been moved at `seq`, with their changes.
    pub(crate) fn take_below(&mut self, directory: &FilePath, seq: u64) -> Vec<(FilePath, Change)> {
        let taken = self
            .changes
            .extract_if(|path, change| !change.gone && path.is_below(directory));
        let taken: Vec<(FilePath, Change)> = taken.collect();
        for (path, change) in &taken {
            if change.was_absent() {
                self.moved_away.push(MovedAway {
                    path: path.clone(),
                    begun: change.begun,
                    content: change.content,
                    time: change.time,
                    last: seq,
                });
            } else {
                let mut left = change.clone();
                left.gone = true;
                self.changes.insert(path.clone(), left);
            }
        }
        taken
    }

    /// Makes the names that moved away changes again, if they occur in observations: what was seen
    /// there was made by the unit.
    pub(crate) fn recall_moved(&mut self) {
        if self.moved_away.is_empty() {
            return;
        }
        let seen = self.observations.values().map(|seen| &seen.resource);
        let seen: FxHashSet<&FilePath> = seen.collect();
        for name in self.moved_away.iter().filter(|it| seen.contains(&it.path)) {
            let known = self.changes.entry(name.path.clone());
            let change = known.or_insert_with(|| {
                let mut change = Change::new(name.begun, None);
                change.remake(name.last, name.time);
                change.last = name.last;
                change.gone = true;
                change
            });
            change.begun = change.begun.min(name.begun);
            change.content = change.content.into_iter().chain(name.content).min();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::unit::Observed;
    use crate::model::fact::{Answer, Query};
    use crate::model::unit_id::UnitId;

    #[test]
    fn only_names_that_were_looked_at_become_changes_again() {
        let path = |name: &str| FilePath::from(name);
        let mut unit = Unit::new(UnitId(1), None, 1, 0);
        for (seq, name) in [(1, "/a"), (2, "/a/f"), (3, "/a/g"), (4, "/ab")] {
            let change = unit.change(seq, &path(name), None);
            change.remake(seq, TimeState::Present);
        }
        let moved = unit.take_below(&path("/a"), 9);
        assert_eq!(moved.len(), 2);
        assert!(!unit.changes.contains_key(&path("/a/f")));
        let answer = Observed::Answer(Answer::Granted);
        unit.observe(5, Query::Link(path("/x")), answer.clone(), path("/a/g"));
        unit.recall_moved();
        assert!(!unit.changes.contains_key(&path("/a/f")));
        let again = &unit.changes[&path("/a/g")];
        assert!(again.gone && again.made(5, &answer) && again.begun == 3);
    }
}
