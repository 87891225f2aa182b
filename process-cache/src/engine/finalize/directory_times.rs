//! Times of directories at the end of a unit.
//!
//! A directory gets the present time whenever a name in it is made, moved or removed. A hit makes
//! the names first and then gives the files their times, so each directory would be older than the
//! files in it. Where the unit left a directory younger than one of its files, the place of the
//! directory in the order of times is an effect ([`crate::model::outcome::Time::WithNames`]).
//!
//! A file that was there and was written in place may be missing at a later hit, which then makes
//! its name. The directory would have got its time when the file was opened: after each change
//! that had ended by then.

use std::collections::HashMap;

use rustix::fs::Stat;

use crate::engine::session::{Session, names_in};
use crate::engine::unit::{Change, Observed, TimeState, Unit};
use crate::model::fact::{Answer, Query};
use crate::model::path::FilePath;
use crate::model::unit_id::UnitId;
use crate::platform::defect::{Defect, planted};
use crate::world::locate::{is_directory, modified};

/// The modification times of directories when the unit ended. Units that run later change them.
#[derive(Debug, Default)]
pub(super) struct DirectoryTimes {
    /// In ns since the epoch.
    at_end: HashMap<FilePath, i128>,
    /// Directories that were there before and are younger than a file of the unit, with the
    /// sequence number of the last change of a name in each.
    pub(super) younger: Vec<(FilePath, u64)>,
}

impl DirectoryTimes {
    /// Returns the modification time of a directory (ns since the epoch), if it was noted.
    pub(super) fn at_end(&self, path: &FilePath) -> Option<i128> {
        self.at_end.get(path).copied()
    }
}

impl Session {
    /// Notes the times of the directories that a unit at its end has made, or in which it has
    /// changed names. Those in which names were made and removed again were directories, and no
    /// links to them: that is observed here.
    pub(super) fn directory_times(&mut self, id: UnitId) -> DirectoryTimes {
        let unit = &self.units[id.0 as usize];
        let files = Files::of(unit);
        let mut directories: HashMap<FilePath, Names> = HashMap::new();
        for (path, change, found) in &files.all {
            if change.content.is_none() {
                continue;
            }
            if let Some(parent) = path.parent() {
                let names = directories.entry(FilePath::from(parent)).or_default();
                names.note(change, found.is_some(), &files);
            }
            if found.as_ref().is_some_and(is_directory) {
                directories.entry((*path).clone()).or_default();
            }
        }
        let oldest = files.oldest;
        let mut times = DirectoryTimes::default();
        let mut asked = Vec::new();
        for (path, names) in directories {
            let Ok(stat) = rustix::fs::lstat(path.as_path()) else {
                continue;
            };
            let made = unit.changes.get(&path);
            let made = made.is_some_and(|change| change.content.is_some());
            let time = (made || names.changed).then(|| modified(&stat));
            let Some(time) = time.max(names.if_missing) else {
                continue;
            };
            times.at_end.insert(path.clone(), time);
            let younger = !made
                && oldest.is_some_and(|oldest| oldest < time)
                && stat.st_uid == rustix::process::geteuid().as_raw()
                && !self.was_changed_by_traced(unit, &names_in(path.as_path()))
                && !planted(Defect::DirectoryTimeEffect);
            if younger {
                times.younger.push((path.clone(), names.last));
            }
            // All effects of a skipped unit begin at once: the directory and the names in it.
            if names.passing && !made {
                asked.push((path, names.begun));
            }
        }
        times.younger.sort();
        for (path, seq) in asked {
            let query = Query::Kind {
                path: path.clone(),
                follow: false,
            };
            let answer = Observed::Answer(Answer::Directory);
            self.unit(id).observe(seq, query, answer, path);
        }
        times
    }
}

/// All that a unit changed, with what is there now.
struct Files<'u> {
    all: Vec<(&'u FilePath, &'u Change, Option<Stat>)>,
    /// The last changes (sequence number) of all that has the present time, in order, each with the
    /// latest of these times until then (ns since the epoch).
    latest: Vec<(u64, i128)>,
    /// The earliest of these times.
    oldest: Option<i128>,
}

impl<'u> Files<'u> {
    fn of(unit: &'u Unit) -> Self {
        let changes = unit.changes.iter();
        let all: Vec<_> = changes
            .map(|(path, change)| (path, change, rustix::fs::lstat(path.as_path()).ok()))
            .collect();
        let present = all.iter().filter_map(|(_, change, found)| {
            let is_present = change.time == TimeState::Present;
            is_present.then_some((change.last, modified(found.as_ref()?)))
        });
        let mut latest: Vec<(u64, i128)> = present.collect();
        let oldest = latest.iter().map(|(_, time)| *time).min();
        latest.sort_unstable();
        for at in 1..latest.len() {
            latest[at].1 = latest[at].1.max(latest[at - 1].1);
        }
        Self {
            all,
            latest,
            oldest,
        }
    }

    /// A time just after all that had its last change before `seq`.
    fn just_after(&self, seq: u64) -> Option<i128> {
        let earlier = self.latest.partition_point(|(last, _)| *last < seq);
        Some(self.latest[..earlier].last()?.1 + 1)
    }
}

/// The names in a directory that a unit changed.
#[derive(Debug)]
struct Names {
    /// Sequence number of the first change.
    begun: u64,
    /// Sequence number of the last change.
    last: u64,
    /// Whether a name was made, replaced or removed.
    changed: bool,
    /// Whether a name was made and is gone.
    passing: bool,
    /// The time that the directory would have if the files that were written in place had been
    /// missing.
    if_missing: Option<i128>,
}

impl Default for Names {
    fn default() -> Self {
        Self {
            begun: u64::MAX,
            last: 0,
            changed: false,
            passing: false,
            if_missing: None,
        }
    }
}

impl Names {
    fn note(&mut self, change: &Change, is_there: bool, files: &Files<'_>) {
        self.begun = self.begun.min(change.begun);
        self.last = self.last.max(change.last);
        self.changed |= change.fresh || change.was_absent();
        self.passing |= change.was_absent() && !is_there;
        let in_place = !change.fresh && !change.was_absent();
        if in_place && change.create_mode.is_some() {
            self.if_missing = self.if_missing.max(files.just_after(change.begun));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(begun: u64, last: u64) -> Change {
        let mut change = Change::new(begun, None);
        change.last = last;
        change.content = Some(begun);
        change.time = TimeState::Present;
        change
    }

    #[test]
    fn a_time_just_after_earlier_changes_is_not_that_of_later_ones() {
        let dir = tempfile::tempdir().unwrap();
        let mut unit = Unit::new(UnitId(1), None, 1, 0);
        for (name, seconds, begun, last) in [("a", 10, 1, 4), ("b", 20, 2, 3), ("c", 30, 5, 6)] {
            let path = dir.path().join(name);
            let file = std::fs::File::create(&path).unwrap();
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            file.set_modified(time).unwrap();
            let path = FilePath::from(path.as_path());
            unit.changes.insert(path, change(begun, last));
        }
        let files = Files::of(&unit);
        let after = |seconds: i128| Some(seconds * 1_000_000_000 + 1);
        assert_eq!(files.just_after(3), None);
        assert_eq!(files.just_after(4), after(20));
        assert_eq!(files.just_after(5), after(20));
        assert_eq!(files.just_after(7), after(30));
        assert_eq!(files.oldest, Some(10_000_000_000));
    }

    #[test]
    fn a_file_written_in_place_counts_as_made_when_it_was_opened() {
        let dir = tempfile::tempdir().unwrap();
        let mut unit = Unit::new(UnitId(1), None, 1, 0);
        let path = dir.path().join("a");
        std::fs::write(&path, "").unwrap();
        let stat = rustix::fs::lstat(&path).unwrap();
        let path = FilePath::from(path.as_path());
        unit.changes.insert(path, change(1, 2));
        let files = Files::of(&unit);
        let mut names = Names::default();
        let mut in_place = change(3, 4);
        in_place.initial = Some(Box::new(stat));
        names.note(&in_place, true, &files);
        assert_eq!(
            (names.changed, names.if_missing),
            (false, None),
            "not created"
        );
        in_place.create_mode = Some(0o644);
        names.note(&in_place, true, &files);
        assert_eq!(names.if_missing, Some(modified(&stat) + 1));
        names.note(&change(3, 4), false, &files);
        assert_eq!((names.changed, names.passing), (true, true));
    }
}
