//! Finds the causes of changes.

use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::reason::{Kind, Reason};
use super::{Explainer, Place};
use crate::journal::History;
use crate::model::fate::Fate;

/// The cause of a change, if known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "by")]
pub enum Cause {
    /// A unit of a run in the history.
    Unit {
        /// The run's id.
        run: String,
        /// The unit's number in that run.
        unit: u32,
        /// Its command.
        command: String,
        /// Whether it was restored from the store.
        restored: bool,
        /// Why it ran.
        #[serde(skip_serializing_if = "Option::is_none")]
        because: Option<Box<Reason>>,
    },
    /// No unit of a run in the history.
    Outside {
        /// When the file, or its metadata if that is what differs, was modified: µs since
        /// the epoch, if it is there.
        #[serde(skip_serializing_if = "Option::is_none")]
        modified: Option<u64>,
    },
}

/// Units by the names that they wrote.
#[derive(Debug, Default)]
pub struct Index(FxHashMap<PathBuf, Vec<Place>>);

impl Index {
    /// Reads all runs.
    pub fn new(history: &History) -> Self {
        let mut index: FxHashMap<PathBuf, Vec<Place>> = FxHashMap::default();
        for (at, run) in history.runs.iter().enumerate() {
            for (number, unit) in run.numbered() {
                for output in &unit.outputs {
                    let path = crate::model::path::FilePath::from(run.text(*output));
                    index
                        .entry(path.to_path_buf())
                        .or_default()
                        .push((at, number));
                }
            }
        }
        Self(index)
    }
}

impl Explainer<'_> {
    /// Finds the cause of a reason of the unit at `place`, in runs after the run with index
    /// `since`.
    pub(super) fn find_cause(&self, reason: &mut Reason, place: Place, since: usize, depth: u32) {
        // The unit found its own product, which an earlier run made.
        let is_product = reason.own_product && reason.kind == Kind::Appeared;
        if !reason.is_about_a_file() || reason.kind == Kind::Other || is_product {
            return;
        }
        let path = plain(Path::new(&reason.subject));
        let writers = self.written.0.get(&path).map_or(&[][..], |list| list);
        let began = self.at(place).map_or(0, |(_, unit)| unit.began_us);
        let writer = writers.iter().rev().find(|&&(run, number)| {
            let earlier = self
                .at((run, number))
                .is_some_and(|(_, unit)| unit.began_us < began);
            // The unit that made a file does not explain its absence.
            let is_since = run < place.0 && run > since && reason.kind != Kind::Gone;
            (run == place.0 && earlier) || is_since
        });
        let writer = writer.map(|&at| self.whole(at, place, depth));
        reason.cause = Some(match writer.and_then(|at| Some((at, self.at(at)?))) {
            Some((at, (run, unit))) => {
                let restored = matches!(unit.fate, Some(Fate::Hit { .. }));
                // An ancestor ran because of its descendants, including this unit.
                let above = at.0 == place.0 && self.is_above(at, place.1);
                // The reasons of an earlier run are no reasons of this run.
                let because = if restored || above || at.0 != place.0 {
                    None
                } else {
                    let explanation = self.explain_within(at, depth + 1);
                    let first = explanation.reasons.first();
                    first
                        .filter(|first| first.subject != reason.subject)
                        .cloned()
                };
                Cause::Unit {
                    run: run.id(),
                    unit: at.1,
                    command: run.command(unit, 60),
                    restored,
                    because: because.map(Box::new),
                }
            }
            None => {
                // A change after the run is no cause.
                let run = self.at(place).map(|(run, _)| run.began + run.wall_us);
                let is_before = |at: &u64| run.is_some_and(|end| *at <= end);
                let time = match reason.kind {
                    Kind::Permission | Kind::Metadata => changed(&path),
                    _ => modified(&path),
                };
                Cause::Outside {
                    modified: time.filter(is_before),
                }
            }
        });
    }

    /// Returns the unit that contains this one, if this one is not looked up by itself, as an
    /// assembler in a compiler.
    fn whole(&self, part: Place, place: Place, depth: u32) -> Place {
        let mut at = part;
        while let Some((_, unit)) = self.at(at)
            && unit.above != 0
            && !(at.0 == place.0 && self.is_above((at.0, unit.above), place.1))
            && let Some(first) = self.explain_within(at, depth + 1).reasons.first()
            && first.kind == Kind::Internal
        {
            at = (at.0, unit.above);
        }
        at
    }

    /// Whether a unit is an ancestor of the one with number `below` in its run.
    pub(super) fn is_above(&self, place: Place, below: u32) -> bool {
        let Some(run) = self.history.runs.get(place.0) else {
            return false;
        };
        let mut at = below;
        for _ in 0..run.units.len() {
            if at == place.1 {
                return true;
            }
            match run.unit(at) {
                Some(unit) if unit.above != 0 => at = unit.above,
                _ => return false,
            }
        }
        false
    }
}

/// Returns the modification time of a file, if it exists.
pub(super) fn modified(path: &Path) -> Option<u64> {
    let time = std::fs::symlink_metadata(path).ok()?.modified().ok()?;
    let since = time.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(since.as_micros() as u64)
}

/// Returns the metadata change time of a file, if it exists.
fn changed(path: &Path) -> Option<u64> {
    let file = std::fs::symlink_metadata(path).ok()?;
    let [seconds, ns] = [file.ctime(), file.ctime_nsec()].map(u64::try_from);
    Some(seconds.ok()? * 1_000_000 + ns.ok()? / 1000)
}

/// Resolves the directory of a path as far as it still exists, for comparison with names that
/// units wrote.
pub(super) fn plain(path: &Path) -> PathBuf {
    if let (Some(parent), Some(name)) = (path.parent(), path.file_name())
        && let Ok(parent) = parent.canonicalize()
    {
        return parent.join(name);
    }
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}
