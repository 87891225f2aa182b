//! Gives files times later than those of their inputs, and in the order of the original run.
//!
//! A program takes time, so its outputs are newer than the inputs that were there before it began.
//! A hit takes less than one tick of the kernel's coarse clock. Without a finer time, an output
//! would be as old as a source that was edited right before.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};

use super::files::timespec;
use crate::model::fact::{Answer, Fact, Query};
use crate::model::outcome::{Effect, present_times};
use crate::model::path::FilePath;
use crate::platform::clock;
use crate::platform::defect::{Defect, planted};
use crate::world::locate;

/// How often a file is touched to get a distinct time. The kernel gives a finer time at the second
/// touch at the latest.
const TOUCHES: usize = 3;

/// Gives the files of `effects` new times in the order of their `ages` (see
/// [`crate::model::outcome::Outcome::ages`]). The times are later than those of all earlier
/// writes, and not later than those of any later write. `inputs` are the files that the program
/// looked at. `names` were made, replaced or removed: other directories than theirs keep their times.
pub(super) fn apply(effects: &[Effect], ages: &[u32], inputs: &[Fact], names: &[FilePath]) {
    let has_directories = effects.iter().any(Effect::follows_from_others);
    let names = names.iter().filter(|_| has_directories);
    let changed: HashSet<&Path> = names.filter_map(|name| name.parent()).collect();
    let is_unordered = ages.is_empty();
    let ages: Cow<'_, [u32]> = match is_unordered {
        true => present_times(effects).into_iter().map(u32::from).collect(),
        false => ages.into(),
    };
    let aged = ages.iter().zip(effects).filter(|(age, _)| **age > 0);
    let aged = aged.filter_map(|(age, effect)| match effect.follows_from_others() {
        true => Some((*age, directory_of(effect.path(), &changed)?)),
        false => Some((*age, Cow::Borrowed(effect.path()))),
    });
    let aged: Vec<(u32, Cow<'_, FilePath>)> = aged.collect();
    let mut aged: Vec<(u32, &FilePath)> = aged.iter().map(|(age, path)| (*age, &**path)).collect();
    aged.sort_by_key(|(age, _)| *age);
    let groups: Vec<_> = aged.chunk_by(|a, b| a.0 == b.0).collect();
    if is_unordered && planted(Defect::OutputAge) {
        // A skip within one tick of the clock would leave these times.
        let youngest = inputs.iter().filter_map(|fact| match &fact.query {
            Query::Content(path) => modified(path),
            _ => None,
        });
        if let Some(youngest) = youngest.max() {
            aged.iter().for_each(|(_, path)| set(path, youngest));
        }
        return;
    }
    let has_order = groups.len() > 1;
    if !groups.is_empty() && !by_touching(&groups) && (has_order || are_young(inputs, groups[0])) {
        by_the_tick(&groups);
    }
}

/// Returns the directory at a path, which may be a link now, if names in it changed.
fn directory_of<'e>(path: &'e FilePath, changed: &HashSet<&Path>) -> Option<Cow<'e, FilePath>> {
    if !changed.contains(path.as_path()) {
        return None;
    }
    let found = rustix::fs::lstat(path.as_path()).ok()?;
    if locate::is_directory(&found) {
        return Some(Cow::Borrowed(path));
    }
    let target = path.as_path().canonicalize().ok()?;
    Some(Cow::Owned(FilePath::from(target.as_path())))
}

/// Whether an input is as young as one of these outputs, or younger: a file that the program read,
/// a directory that it listed, or any other name that it found. An input whose time lies in the
/// future would be younger than any output.
fn are_young(inputs: &[Fact], outputs: &[(u32, &FilePath)]) -> bool {
    let Some(oldest) = outputs.iter().filter_map(|(_, path)| modified(path)).min() else {
        return false;
    };
    let now = i128::from(clock::window().1);
    inputs.iter().any(|fact| {
        // A name that was not there has no time.
        let found = !matches!(fact.answer, Answer::Error(_));
        found
            && fact.query.paths().iter().any(|path| {
                let is_young = |time: i128| (oldest..=now).contains(&time);
                let target = rustix::fs::stat(path.as_path());
                let target = target.map(|stat| locate::modified(&stat));
                let any = target.is_ok_and(is_young) || modified(path).is_some_and(is_young);
                any && !outputs.iter().any(|(_, output)| *output == path)
            })
    })
}

/// Sets distinct times by touching files; returns whether that worked. Since Linux 6.13, most file
/// systems give a fine-grained time to a file whose time was read since its last change, and no
/// file written afterwards gets an earlier time (kernel documentation, filesystems/multigrain-ts).
fn by_touching(groups: &[&[(u32, &FilePath)]]) -> bool {
    // The files themselves are later than all earlier writes.
    let mut last = None;
    for group in groups {
        let first = group[0].1;
        let Some(time) = touched_after(first, last.or_else(|| modified(first))) else {
            return false;
        };
        for (_, path) in &group[1..] {
            set(path, time);
        }
        last = group.iter().map(|(_, path)| modified(path)).max().flatten();
    }
    true
}

/// Touches the file at `path`; returns its time if that is later than `last`.
fn touched_after(path: &FilePath, last: Option<i128>) -> Option<i128> {
    (0..TOUCHES).find_map(|_| {
        // Reading the time makes the next one fine-grained.
        modified(path)?;
        touch(path);
        modified(path).filter(|time| Some(*time) > last)
    })
}

/// Sets times that differ by one nanosecond, just below the kernel's next tick.
fn by_the_tick(groups: &[&[(u32, &FilePath)]]) {
    // Files may have times as fine as this clock.
    let begun = clock::window().1;
    let tick = clock::tick_after(begun.saturating_add(groups.len() as i64));
    // As many as there is room for.
    let room = usize::try_from(tick - begun - 1).unwrap_or(0);
    for (index, group) in groups.iter().enumerate() {
        let before = (groups.len() - 1 - index).min(room);
        for (_, path) in *group {
            set(path, i128::from(tick) - before as i128);
        }
    }
}

/// Returns the modification time of the file at `path` (ns since the epoch).
fn modified(path: &FilePath) -> Option<i128> {
    let stat = rustix::fs::lstat(path.as_path()).ok()?;
    Some(locate::modified(&stat))
}

/// Sets the time of a file. A process that may write a file without owning it can only set the
/// present.
fn set(path: &FilePath, ns: i128) {
    if modify(path, kept(), timespec(ns)).is_err() {
        touch(path);
    }
}

/// Sets the time of a file to the present.
fn touch(path: &FilePath) {
    let present = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_NOW,
    };
    // A process that does not own the file may only set both times.
    if modify(path, kept(), present).is_err() {
        let _ = modify(path, present, present);
    }
}

fn kept() -> Timespec {
    Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_OMIT,
    }
}

fn modify(
    path: &FilePath,
    last_access: Timespec,
    last_modification: Timespec,
) -> rustix::io::Result<()> {
    let times = Timestamps {
        last_access,
        last_modification,
    };
    rustix::fs::utimensat(CWD, path.as_path(), &times, AtFlags::SYMLINK_NOFOLLOW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_as_young_as_an_output_is_young() {
        let (_dir, before, all) = files(1);
        let outputs: Vec<_> = all.iter().map(|(age, path)| (*age, path)).collect();
        let is_young = |query, answer| are_young(&[Fact { query, answer }], &outputs);
        let content = |path: &FilePath| Query::Content(path.clone());
        let answer = || Answer::Directory;
        assert!(!is_young(content(outputs[0].1), answer()), "an output");
        set(&before, 1_000_000_000);
        assert!(!is_young(content(&before), answer()));
        touch(&before);
        assert!(is_young(content(&before), answer()));
        assert!(is_young(Query::List(before.clone()), answer()));
        assert!(!is_young(content(&before), Answer::Error(libc::ENOENT)));
        set(&before, i128::from(i64::MAX / 2));
        assert!(!is_young(content(&before), answer()), "in the future");
    }

    /// Creates two files for each of `groups` times, and an earlier one.
    fn files(groups: u32) -> (tempfile::TempDir, FilePath, Vec<(u32, FilePath)>) {
        let dir = tempfile::tempdir().unwrap();
        let make = |name: String| {
            let path = dir.path().join(name);
            std::fs::write(&path, b"").unwrap();
            FilePath::from(path.as_path())
        };
        let before = make("before".into());
        let _looked_at = modified(&before);
        std::fs::write(before.as_path(), b"").unwrap();
        let all = (0..groups * 2)
            .map(|n| (n / 2, make(n.to_string())))
            .collect();
        (dir, before, all)
    }

    #[test]
    fn the_tick_gives_times_in_order() {
        let (dir, before, all) = files(3);
        let aged: Vec<_> = all.iter().map(|(age, path)| (*age, path)).collect();
        let groups: Vec<_> = aged.chunk_by(|a, b| a.0 == b.0).collect();
        by_the_tick(&groups);
        let times: Vec<_> = aged.iter().map(|(_, path)| modified(path)).collect();
        assert!(modified(&before) < times[0]);
        for pair in times.chunks(2) {
            assert_eq!(pair[0], pair[1]);
        }
        assert!(times[1] < times[2] && times[3] < times[4]);
        let after = dir.path().join("after");
        std::fs::write(&after, b"").unwrap();
        assert!(times[5] <= modified(&FilePath::from(after.as_path())));
    }

    #[test]
    fn a_file_that_is_gone_leaves_the_others_in_order() {
        let (dir, _before, all) = files(3);
        std::fs::remove_file(dir.path().join("2")).unwrap();
        let aged: Vec<_> = all.iter().map(|(age, path)| (*age, path)).collect();
        let groups: Vec<_> = aged.chunk_by(|a, b| a.0 == b.0).collect();
        if !by_touching(&groups) {
            by_the_tick(&groups);
        }
        let times: Vec<_> = aged.iter().map(|(_, path)| modified(path)).collect();
        assert!(times[0] < times[3] && times[3] < times[4]);
        assert_eq!(times[2], None);
    }
}
