//! Directories that are no longer at their paths.
//!
//! The process model stores working directories and directory descriptors by path, and follows the
//! renames of traced tasks. No call of a traced task shows that another process moved a directory,
//! or mounted a file system over it. Files would then be looked up by paths that lead elsewhere.
//!
//! So the identity of a directory is compared with what its path leads to: of a working directory
//! at each execve, before and after it changes, and at the end of each process; of a directory
//! descriptor when it is closed, and at the end of each process. A difference makes the unit
//! uncacheable.

use std::path::Path;

use ptrace_async::event::{OpenFile, Tid};
use ptrace_async::invocation::Invocation;
use rustix::fs::Stat;

use super::Session;
use crate::platform::defect::{Defect, planted};
use crate::platform::place::{Place, is_removed};
use crate::world::locate::is_directory;

impl Session {
    /// Compares a task's working directory with its path. If they differ, marks the unit of the
    /// task and returns the reason.
    pub(crate) fn check_working_directory(&mut self, tid: Tid) -> Option<String> {
        if planted(Defect::DirectoryPlace) {
            return None;
        }
        let unit = self.unit_of(tid)?;
        // The model reports an unknown directory where a relative path is used.
        let path = self.model.cwd(tid)?;
        let task = self.tasks.get_mut(tid)?;
        if task.place.is_none() {
            task.place = Place::of_task(tid);
        }
        let is_there = match Place::of(path) {
            there @ Some(_) => there == task.place,
            None => is_removed(&format!("/proc/{tid}/cwd")),
        };
        if is_there {
            return None;
        }
        let reason = format!(
            "works in a directory that is not at {} any more (moved, replaced, or covered by a \
             mount); change to that directory again",
            path.display()
        );
        self.mark_uncacheable(unit, reason.clone(), true);
        Some(reason)
    }

    /// Compares the directories that a call of a task leaves with their paths. To be called before
    /// the model of processes is informed of the call. `is_stopped` is whether the task is about
    /// to make it.
    pub(crate) fn check_left_directory(&mut self, tid: Tid, call: &Invocation, is_stopped: bool) {
        let fd = call.args[0] as i32;
        match call.nr.cast_signed() {
            libc::SYS_chdir => {
                self.check_working_directory(tid);
            }
            libc::SYS_fchdir => {
                self.check_working_directory(tid);
                self.check_descriptor(tid, fd, is_stopped);
            }
            libc::SYS_close => self.check_descriptor(tid, fd, is_stopped),
            _ => {}
        }
    }

    /// Forgets the identity of a working directory after it changed. Threads share it.
    pub(crate) fn has_changed_directory(&mut self, tid: Tid) {
        let process = self.tasks.get(tid).map(|task| task.process);
        for task in self.tasks.iter_mut() {
            if Some(task.process) == process {
                task.place = None;
            }
        }
        self.check_working_directory(tid);
    }

    /// Stores the identity of a directory that was opened, as it was found at its path. An open
    /// without a stop is seen late, so that this may be another directory already.
    pub(crate) fn opened_directory(&mut self, file: &OpenFile, found: &Stat) {
        if is_directory(found) {
            let identity = (found.st_dev, found.st_ino);
            self.descriptions.set_directory(file.id, identity);
        }
    }

    /// Stores the identities of the directories that the first task inherited.
    pub(crate) fn inherited_directories(&mut self, tid: Tid) {
        if !self.descriptions.examines_inherited() {
            return;
        }
        for (fd, file, _) in self.model.descriptors(tid) {
            let held = file
                .path
                .as_ref()
                .and_then(|_| rustix::fs::stat(format!("/proc/{tid}/fd/{fd}")).ok());
            if let Some(held) = held.filter(is_directory) {
                self.descriptions
                    .set_directory(file.id, (held.st_dev, held.st_ino));
            }
        }
    }

    /// Compares all directories of a process that ends with their paths.
    pub(crate) fn check_directories_at_end(&mut self, tid: Tid) {
        self.check_working_directory(tid);
        if !self.descriptions.has_directories() {
            return;
        }
        let open: Vec<i32> = self.model.descriptors(tid).map(|(fd, ..)| fd).collect();
        for fd in open {
            self.check_descriptor(tid, fd, true);
        }
    }

    fn check_descriptor(&mut self, tid: Tid, fd: i32, is_open: bool) {
        let Some(file) = self.model.file(tid, fd) else {
            return;
        };
        let (Some(opened), Some(path)) = (self.descriptions.directory(file.id), &file.path) else {
            return;
        };
        let identity = |path: &Path| {
            let found = rustix::fs::stat(path).ok()?;
            Some((found.st_dev, found.st_ino))
        };
        let held = is_open.then(|| identity(format!("/proc/{tid}/fd/{fd}").as_ref()));
        let held = held.flatten().unwrap_or(opened);
        // An absent directory has shown its absence to all lookups in it.
        let is_elsewhere = identity(path).is_some_and(|there| there != held);
        if is_elsewhere && !planted(Defect::DirectoryPlace) {
            let reason = format!(
                "has open a directory that is not at {} any more (moved, replaced, or covered by \
                 a mount)",
                path.display()
            );
            if let Some(unit) = self.unit_of(tid) {
                self.mark_uncacheable(unit, reason, true);
            }
        }
    }
}
