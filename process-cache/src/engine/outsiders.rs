//! Recognises outsiders that change what a unit has written.
//!
//! After each change by a traced process, the state of the name is read: identity, length, owner,
//! permissions and times. Before the next change, at each observation and at the unit's end the
//! name must be in that state. Writes make a state unknown until their task stops again. For that
//! time, identity and permissions are compared, and closes by others are counted
//! (`session::WriteWatch`).
//!
//! A difference is conclusive only if no traced process may have caused it. While another traced
//! process has the file open for writing, a write may be in flight that no log contains yet. Then
//! the name is *suspected* until such a write is reported, or the unit ends.

use std::rc::Rc;

use ptrace_async::event::{OpenFile, Tid};

use super::session::{Compared, FileState, Session, is_same, named_file};
use crate::model::path::FilePath;
use crate::model::unit_id::UnitId;
use crate::platform::defect::{Defect, planted};

/// Open files that are compared at each stop of a task. Each takes a few microseconds.
const MOST_IN_HAND: usize = 16;

impl Session {
    /// Reads the state of the names that the session has changed since the last time.
    pub(crate) fn settle_outputs(&mut self) {
        if self.outputs.is_settled() {
            return;
        }
        for path in self.outputs.take_unsettled() {
            let now = FileState::read(&path);
            let Some(left) = self.outputs.left_mut(&path) else {
                continue;
            };
            let before = std::mem::replace(&mut left.state, now);
            left.unsettled = false;
            // Writes neither replace nor remove a file.
            let only_written = std::mem::take(&mut left.only_written);
            if only_written
                && !is_same(before.as_ref(), now.as_ref(), Compared::Identity)
                && !self.is_renaming(&path)
                && !planted(Defect::OutsiderOutput)
            {
                self.changed_outside(&path);
            }
        }
    }

    /// Compares a name that the session changed with the state in which it was left.
    pub(crate) fn compare_output(&mut self, path: &FilePath) {
        if planted(Defect::OutsiderOutput) {
            return;
        }
        let Some(left) = self.outputs.left(path).copied() else {
            return;
        };
        if left.unsettled {
            return;
        }
        let now = FileState::read(path);
        let compared = self.comparable(left.state.as_ref(), path);
        if is_same(left.state.as_ref(), now.as_ref(), compared) || self.is_renaming(path) {
            return;
        }
        let identity = is_same(left.state.as_ref(), now.as_ref(), Compared::Identity);
        if identity && self.is_written(path, left.state.as_ref(), None) {
            return;
        }
        self.found(path, now);
        if now.is_none_or(|now| !self.outputs.is_left_elsewhere(path, &now)) {
            self.changed_outside(path);
        }
    }

    /// Notes the present state of a name.
    fn found(&mut self, path: &FilePath, now: Option<FileState>) {
        if let Some(left) = self.outputs.left_mut(path) {
            left.state = now;
            left.suspected = None;
        }
    }

    /// How much of a file's state must be equal.
    fn comparable(&self, left: Option<&FileState>, path: &FilePath) -> Compared {
        match left {
            Some(state) if self.world.sets_times_later(state.inode.0, path) => {
                Compared::ExceptTimes
            }
            Some(state) if self.shared_files.is_relinked(state.inode) => Compared::ExceptChangeTime,
            _ => Compared::All,
        }
    }

    /// Whether a traced task is about to make, move or remove a name, or has just done so.
    fn is_renaming(&self, path: &FilePath) -> bool {
        let mut tasks = self.tasks.iter();
        tasks.any(|task| {
            let pending = task.pending.as_ref();
            pending.is_some_and(|call| {
                let above = |changed: &FilePath| path.starts_with(changed.as_path());
                call.before.iter().any(|(changed, _)| above(changed))
            })
        })
    }

    /// Whether a traced task other than `except` may be writing to a file.
    fn is_written(&self, path: &FilePath, left: Option<&FileState>, except: Option<Tid>) -> bool {
        let inode = left.map(|state| state.inode);
        self.is_in_flight(path)
            || inode.is_some_and(|inode| self.is_mapped(inode))
            || self.model.tasks().any(|tid| {
                let has_left = self.tasks.get(tid).is_none_or(|task| task.left);
                Some(tid) != except && !has_left && self.holds(tid, path, inode)
            })
    }

    /// Whether a unit that has not ended maps a file shared and writable.
    fn is_mapped(&self, inode: (u64, u64)) -> bool {
        let mut units = self.shared_files.mapped_by(inode).iter();
        units.any(|id| self.units[id.0 as usize].ended.is_none())
    }

    /// Whether a task has a file open for writing, under this or another name.
    fn holds(&self, tid: Tid, path: &FilePath, inode: Option<(u64, u64)>) -> bool {
        self.model.descriptors(tid).any(|(fd, file, _)| {
            if !file.writable || named_file(file).is_none() {
                return false;
            }
            if self.descriptions.resource(file.id) == Some(path) {
                return true;
            }
            let stat = rustix::fs::stat(format!("/proc/{tid}/fd/{fd}"));
            stat.is_ok_and(|stat| Some((stat.st_dev, stat.st_ino)) == inode)
        })
    }

    /// Marks all running units that have changed a name which an outsider has changed now.
    fn changed_outside(&mut self, path: &FilePath) {
        let reason = changed(path);
        for unit in &mut self.units {
            if unit.changes.contains_key(path) {
                unit.mark_uncacheable(reason.clone(), true);
            }
        }
    }

    /// Returns files that a stopped task has open for writing and that are not as they were left:
    /// the state in which each was left, and the present one. Of many files, those are examined
    /// whose turn it is, and the one that its next call uses; all are compared at the unit's end.
    pub(super) fn changed_in_hand(&self, tid: Tid, used: Option<i32>) -> Vec<InHand> {
        if self.outputs.is_empty() || planted(Defect::OutsiderOutput) {
            return Vec::new();
        }
        let files = self.model.descriptors(tid).filter(|(_, f, _)| f.writable);
        let files: Vec<(i32, &Rc<OpenFile>)> = files.map(|(fd, file, _)| (fd, file)).collect();
        let in_turn = self.outputs.choose(files.len(), MOST_IN_HAND);
        let in_turn = in_turn.map(|index| files[index].1);
        let used = files.iter().find(|(fd, _)| Some(*fd) == used);
        let files = in_turn.chain(used.map(|(_, file)| *file));
        let names = files.filter_map(|file| self.descriptions.resource(file.id));
        let mut found: Vec<InHand> = Vec::new();
        for path in names {
            let Some(left) = self.outputs.left(path).filter(|left| !left.unsettled) else {
                continue;
            };
            let now = FileState::read(path);
            let compared = self.comparable(left.state.as_ref(), path);
            let differs = !is_same(left.state.as_ref(), now.as_ref(), compared)
                && now.is_none_or(|now| !self.outputs.is_left_elsewhere(path, &now));
            let mapped = left.state.is_some_and(|state| self.is_mapped(state.inode));
            let written = mapped || self.is_in_flight(path) || self.is_renaming(path);
            if differs && !written && found.iter().all(|known| known.path != *path) {
                found.push(InHand {
                    path: path.clone(),
                    left: left.state,
                    now,
                });
            }
        }
        found
    }

    /// Handles a file that a stopped task has open and that was not as it was left. All calls that
    /// ended before that was seen have been applied.
    pub(super) fn suspect(&mut self, tid: Tid, file: &InHand) {
        let path = &file.path;
        let left = self.outputs.left(path).copied();
        let is_explained = left.is_none_or(|left| left.unsettled || left.state != file.left);
        if is_explained || self.is_in_flight(path) || self.is_renaming(path) {
            return;
        }
        self.found(path, file.now);
        if self.is_written(path, file.left.as_ref(), Some(tid)) {
            let at = self.now();
            if let Some(left) = self.outputs.left_mut(path) {
                left.suspected = Some(at);
            }
        } else {
            self.changed_outside(path);
        }
    }

    /// Whether a task is making a write to a file that is reported later.
    fn is_in_flight(&self, path: &FilePath) -> bool {
        self.outputs.is_in_flight(path)
            || self.tasks.iter().any(|task| {
                let pending = task.pending.as_ref();
                let file = pending.and_then(|call| call.pending.as_ref()?.writes_to());
                file.is_some_and(|file| self.descriptions.resource(file.id) == Some(path))
            })
    }

    /// Compares everything that a unit at its end has changed with the state in which it was left.
    pub(super) fn compare_outputs(&mut self, id: UnitId) {
        self.settle_outputs();
        let unit = &self.units[id.0 as usize];
        if unit.uncacheable_reasons.iter().any(|doubt| doubt.leaks) {
            return;
        }
        let started = unit.started;
        let paths: Vec<FilePath> = unit.changes.keys().cloned().collect();
        for path in paths {
            let left = self.outputs.left(&path).copied().unwrap_or_default();
            // A write through mapped memory sets the times at any moment.
            let inode = left.state.map(|state| state.inode);
            if inode.is_some_and(|inode| self.is_mapped(inode)) {
                let now = FileState::read(&path);
                if is_same(left.state.as_ref(), now.as_ref(), Compared::Identity) {
                    self.found(&path, now);
                }
            }
            self.compare_output(&path);
            let suspected = left.suspected.is_some_and(|at| at > started);
            if (suspected || self.is_closed_by_others(&path)) && !planted(Defect::OutsiderOutput) {
                self.unit(id).mark_uncacheable(changed(&path), true);
            }
        }
    }

    /// Whether an outsider has had a file open for writing, and closed it.
    fn is_closed_by_others(&mut self, path: &FilePath) -> bool {
        let (mut held, mut is_elsewhere) = (Vec::new(), false);
        for tid in self.model.tasks() {
            for (_, file, _) in self.model.descriptors(tid) {
                if file.writable && self.descriptions.resource(file.id) == Some(path) {
                    is_elsewhere |= self.tasks.get(tid).is_some_and(|task| !task.left);
                    if !held.contains(&file.id) {
                        held.push(file.id);
                    }
                }
            }
        }
        let state = self.outputs.left(path).and_then(|left| left.state);
        let mapped = state.is_some_and(|state| self.is_still_mapped(state.inode));
        let held = held.len().max(usize::from(mapped)) as u32;
        !is_elsewhere && self.outputs.watch.closed_by_others(path, held)
    }

    /// Whether a process that is about to exit has a file mapped shared. A mapping holds the
    /// description, also after its descriptor was closed.
    fn is_still_mapped(&self, inode: (u64, u64)) -> bool {
        if self.shared_files.mapped_by(inode).is_empty() {
            return false;
        }
        let inode = inode.1.to_string();
        let mut ending = self.model.tasks();
        ending.any(|tid| {
            let ends = self.tasks.get(tid).is_some_and(|task| task.left);
            let maps = ends.then(|| std::fs::read_to_string(format!("/proc/{tid}/maps")).ok());
            maps.flatten().is_some_and(|maps| {
                maps.lines().any(|line| {
                    // address permissions offset device inode path
                    let mut fields = line.split_ascii_whitespace().skip(1);
                    let shared = fields.next().is_some_and(|it| it.ends_with('s'));
                    shared && fields.nth(2) == Some(&inode)
                })
            })
        })
    }

    /// Returns the state in which a name was left, to be compared once more when it is captured.
    pub(super) fn left_at(&self, path: &FilePath) -> Expected {
        let left = self.outputs.left(path).filter(|left| !left.unsettled);
        let state = left.map(|left| left.state);
        let compared = self.comparable(state.flatten().as_ref(), path);
        Expected { state, compared }
    }
}

/// The state that a name must have when it is captured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected {
    /// `None` if it is not known.
    state: Option<Option<FileState>>,
    compared: Compared,
}

impl Expected {
    /// Checks the state of a name.
    ///
    /// # Errors
    /// Another process changed it.
    pub(super) fn check(&self, path: &FilePath) -> Result<(), String> {
        let Some(left) = self.state.filter(|_| !planted(Defect::OutsiderOutput)) else {
            return Ok(());
        };
        match is_same(left.as_ref(), FileState::read(path).as_ref(), self.compared) {
            true => Ok(()),
            false => Err(changed(path)),
        }
    }
}

/// A file that a task has open for writing and that is not as it was left.
pub(super) struct InHand {
    path: FilePath,
    /// The state in which it was left.
    left: Option<FileState>,
    /// The state that was found.
    now: Option<FileState>,
}

/// Returns the reason for a changed file.
fn changed(path: &FilePath) -> String {
    let path = path.display();
    format!("{path} was changed by a process outside of pcache while it ran")
}
