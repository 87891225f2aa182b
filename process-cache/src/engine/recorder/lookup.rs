//! Lookups by path: metadata, permissions, attributes, directories and programs.

use std::path::Path;

use ptrace_async::event::{FileRef, PathRef, Tid};
use rustix::fs::Stat;

use super::explain::Named;
use super::{errno, ref_path};
use crate::engine::session::Session;
use crate::engine::unit::Observed;
use crate::model::fact::{Answer, Query, TimeUse};
use crate::model::path::FilePath;
use crate::model::path_kind::{Class, classify};
use crate::model::unit_id::UnitId;
use crate::platform::defect::{Defect, planted};
use crate::world::World;
use crate::world::locate::{Located, is_directory};
use crate::world::lookup_cache::Kind;

impl Session {
    /// A task opens a path. If it asked for the metadata of a directory just before, the time in
    /// that metadata does not count.
    pub(super) fn looked_before(&mut self, tid: Tid, unit: UnitId, path: &Path, directory: bool) {
        if let Some(since) = self.call.take_looked_at(tid, path)
            && directory
        {
            self.unit(unit).forget_time(path, since);
        }
    }

    /// Records a metadata lookup by path.
    pub(super) fn asked_metadata(&mut self, tid: Tid, unit: UnitId, path: PathRef) {
        let kind = Kind::no_metadata(path.follow);
        if (self.lookups).knows(unit, &path.path, kind, self.call.returned()) {
            return;
        }
        if self.told_missing().is_some() && self.names_no_directory(unit, &path) {
            return;
        }
        // A shell verifies its working directory when it starts.
        let own = self.unit(unit).policy.time == TimeUse::Order
            && self.model.cwd(tid).is_some_and(|cwd| *cwd == path.path);
        if own {
            self.stat_as(unit, &path.path, path.follow, TimeUse::None);
        } else {
            let before = self.now();
            self.stat(unit, &path.path, path.follow);
            self.call.set_looked_at(tid, path.path, before);
        }
    }

    /// Records a permission check.
    pub(super) fn asked_access(
        &mut self,
        unit: UnitId,
        path: &PathRef,
        mode: i32,
        effective: bool,
    ) {
        let kind = Kind::access(mode, effective, path.follow);
        let is_known = |kind| {
            self.lookups
                .knows(unit, &path.path, kind, self.call.returned())
        };
        if !path.as_directory && kind.is_some_and(is_known) {
            return;
        }
        if classify(&path.path) == Class::Ordinary {
            if self.names_no_directory(unit, path) {
                return;
            }
            let located = self.look(unit, &path.path, path.follow);
            let given = located.given.clone();
            if let Some(kind) = kind
                && !path.as_directory
                && (self.told_missing().is_none() || located.stat.is_err())
            {
                self.lookups.learn(unit, &given, kind, self.call.returned());
            }
            self.ask_name(
                unit,
                Query::Access {
                    path: given,
                    mode,
                    effective,
                    follow: path.follow,
                },
                located.resource,
            );
        } else {
            self.looked_past(unit, &path.path);
        }
    }

    /// Records a query for file system statistics.
    pub(super) fn asked_file_system(&mut self, unit: UnitId, file: &FileRef) {
        match ref_path(file) {
            Some(path) if classify(path) == Class::Ordinary => {
                if let FileRef::Path(path) = file
                    && self.names_no_directory(unit, path)
                {
                    return;
                }
                let located = self.look(unit, path, true);
                self.ask_located(unit, located, Query::StatFs);
            }
            Some(_) => {}
            None => self.mark_uncacheable(
                unit,
                "asks for the file system of a file without a name",
                true,
            ),
        }
    }

    /// Records that an extended attribute was read, or that all were listed.
    pub(super) fn read_attribute(&mut self, unit: UnitId, file: &FileRef, name: Option<Vec<u8>>) {
        match ref_path(file) {
            Some(path) if classify(path) == Class::Ordinary => {
                let follow = !matches!(file, FileRef::Path(path) if !path.follow);
                let name = name.unwrap_or_default();
                if let FileRef::Path(path) = file
                    && self.names_no_directory(unit, path)
                {
                    return;
                }
                let located = self.look(unit, path, follow);
                self.ask_located(unit, located, |path| Query::Xattr { path, follow, name });
            }
            Some(path) => {
                let path = path.to_owned();
                self.looked_past(unit, &path);
                if classify(&path) == Class::Volatile {
                    let reason = format!("reads extended attributes of {}", path.display());
                    self.mark_uncacheable(unit, reason, true);
                }
            }
            None => self.mark_uncacheable(
                unit,
                "reads extended attributes of a file without a name",
                true,
            ),
        }
    }

    /// Notes what a path with a slash at its end leads to. Returns whether that is no directory, so
    /// that the call fails whatever else is true.
    #[must_use]
    pub(super) fn names_no_directory(&mut self, unit: UnitId, path: &PathRef) -> bool {
        if !path.as_directory {
            return false;
        }
        let found = self.expect_found_directory(unit, path);
        let fails = found.is_some_and(|stat| !is_directory(&stat));
        if fails {
            self.compare(unit, &path.path, Err(libc::ENOTDIR));
        }
        fails
    }

    /// Notes what a path leads to, for a call that takes directories only, and returns it.
    pub(super) fn expect_found_directory(&mut self, unit: UnitId, path: &PathRef) -> Option<Stat> {
        if classify(&path.path) != Class::Ordinary {
            return None;
        }
        // The result of the call is no answer to this question.
        let located = self.look(unit, &path.path, true);
        let kind = match &located.stat {
            Ok(stat) => World::kind_of(stat),
            Err(error) => errno(*error),
        };
        let query = Query::Kind {
            path: located.given,
            follow: true,
        };
        self.note(unit, query, Observed::Answer(kind), located.resource);
        located.stat.ok()
    }

    /// Asks the world about a located file, by the path as given.
    fn ask_located(
        &mut self,
        unit: UnitId,
        located: Located,
        query: impl FnOnce(FilePath) -> Query,
    ) {
        let resource = match planted(Defect::LinkedResource) {
            true => located.given.clone(),
            false => located.resource,
        };
        self.ask(unit, query(located.given), resource);
    }

    /// Records a change of the working directory, or a failed attempt.
    pub(super) fn changed_directory(&mut self, unit: UnitId, path: &PathRef, error: Option<i32>) {
        if classify(&path.path) == Class::Ordinary {
            let located = self.look(unit, &path.path, true);
            let given = located.given.clone();
            let observed = match (&located.stat, error) {
                (Ok(stat), _) => World::kind_of(stat),
                (Err(error), _) => errno(*error),
            };
            if let Some(error) = error {
                let explains = match (&located.stat, error) {
                    (Err(found), error) => found.raw_os_error() == error,
                    (Ok(stat), libc::ENOTDIR) => !is_directory(stat),
                    (Ok(_), libc::ENOENT | libc::ELOOP) => false,
                    // The right to pass it is asked for below.
                    (Ok(_), _) => true,
                };
                if !explains {
                    let call = format!("chdir to {}", path.path.display());
                    self.fails_for_now(unit, &call, error);
                }
            }
            if error.is_some_and(|e| e == libc::EACCES) {
                let query = Query::Access {
                    path: given,
                    mode: libc::X_OK,
                    effective: true,
                    follow: true,
                };
                self.call.take_noted();
                self.ask(unit, query, located.resource);
                if self.call.take_noted() == Some(Ok(())) {
                    let call = format!("chdir to {}", path.path.display());
                    self.fails_for_now(unit, &call, libc::EACCES);
                }
            } else {
                // If it were a link, the working directory would be another one.
                let is_link = given != located.resource;
                let query = Query::Kind {
                    path: given.clone(),
                    follow: is_link || error.is_some(),
                };
                self.note(
                    unit,
                    query,
                    Observed::Answer(observed),
                    located.resource.clone(),
                );
                if is_link && error.is_none() {
                    let answer = Answer::Path(located.resource.clone());
                    self.note(
                        unit,
                        Query::RealPath(given.clone()),
                        Observed::Answer(answer),
                        given,
                    );
                }
            }
        }
    }

    /// Records a failed execve.
    pub(super) fn failed_to_execute(&mut self, unit: UnitId, path: PathRef, error: i32) {
        if classify(&path.path) == Class::Ordinary {
            let located = self.look(unit, &path.path, true);
            if !Self::explains_execution(error, &Named::new(&path, &located)) {
                let call = format!("execve of {}", path.path.display());
                self.fails_for_now(unit, &call, error);
            }
            let given = located.given.clone();
            self.ask(
                unit,
                Query::Kind {
                    path: given.clone(),
                    follow: true,
                },
                located.resource.clone(),
            );
            if located.stat.is_ok() {
                self.executable(unit, &given, &located, false);
            }
        }
    }
}
