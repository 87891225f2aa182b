//! Records opened files: reads and changes.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use super::explain::Named;
use crate::engine::session::Before;
use crate::engine::session::Session;
use crate::engine::unit::{Observed, TimeState};
use crate::model::fact::{Answer, Query, TimeUse};
use crate::model::path::{Asked, FilePath};
use crate::model::path_kind::{Class, classify};
use crate::model::unit_id::UnitId;
use crate::platform::defect::{Defect, planted};
use crate::platform::proc_files::GROUP;
use crate::policy::Policy;
use crate::policy::script::Scripts;
use crate::world::attributes;
use crate::world::locate::{CachedOpen, Located, is_directory, is_regular};
use crate::world::lookup_cache::Kind;
use crate::world::pending_digest::PendingDigest;
use ptrace_async::event::{FileKind, OpenFile, OpenMode, PathRef};
use rustix::fs::{Access, AtFlags, CWD, Stat};

const READ_AND_WRITE: Access = Access::READ_OK.union(Access::WRITE_OK);

/// Whether a path leads to a process's own control groups.
fn is_group(path: &std::path::Path) -> bool {
    path.as_os_str() == GROUP || path.as_os_str() == "/proc/thread-self/cgroup"
}

impl Session {
    pub(super) fn opened(
        &mut self,
        unit: UnitId,
        before: &Before,
        path: &PathRef,
        mode: &OpenMode,
        file: Option<&OpenFile>,
        error: Option<i32>,
    ) {
        if let Some(file) = file {
            self.descriptions.set_owner(file.id, unit);
        }
        if self.shows_time(unit, &path.path) {
            self.mark_uncacheable(unit, "reads the time zone, to print a local time", true);
        }
        // A jobserver's descriptor, opened anew to be non-blocking.
        if let Some(file) = file
            && let FileKind::Pipe { pipe } = file.kind
            && self.descriptions.is_jobserver_pipe(pipe)
        {
            self.descriptions.add_jobserver(file.id, pipe);
            return;
        }
        if is_group(&path.path) {
            let group = FilePath::from(GROUP);
            self.ask(unit, Query::Content(group.clone()), group);
            return;
        }
        let class = classify(&path.path);
        let spelled = path.path.as_os_str().as_bytes();
        let leads_on = ["/proc/", "/dev/fd/", "/dev/std"];
        let leads_on = leads_on.iter().any(|it| spelled.starts_with(it.as_bytes()));
        if class != Class::Ordinary && mode.write && leads_on {
            // The opened file may be any.
            self.outputs.watch.give_up();
        }
        if let Some(error) = error
            && matches!(class, Class::Determined | Class::Random)
            && spelled.starts_with(b"/dev/")
            && rustix::fs::accessat(CWD, path.path.as_path(), READ_AND_WRITE, AtFlags::EACCESS)
                .is_ok()
        {
            // A device that is there can be opened, where rights do not forbid it.
            self.fails_for_now(unit, "open", error);
        }
        match class {
            Class::Ordinary => {}
            Class::Determined => return,
            Class::Random => {
                // Perl reads it to seed its hashes and its generator before it looks at a script.
                let seed = self.unit(unit).policy.scripts == Scripts::Perl
                    && !self.unit(unit).knows_itself;
                let policy = self.unit(unit).policy;
                let own_use = policy.random && policy.reads_own_statistics;
                if error.is_none() && !seed && !own_use {
                    self.mark_uncacheable(unit, format!("reads {}", path.path.display()), true);
                }
                return;
            }
            Class::Usage if self.unit(unit).policy.reads_own_statistics => return,
            Class::Usage
                if self.unit(unit).policy.stack
                    && path.path.as_os_str() == "/proc/self/maps"
                    && !std::mem::replace(&mut self.unit(unit).knows_stack, true) =>
            {
                return;
            }
            Class::Usage | Class::Volatile => {
                let path = &path.path;
                let is_terminal = path.as_os_str() == "/dev/tty";
                let of_unit = self.unit(unit);
                let starting = is_terminal
                    && of_unit.policy.scripts == Scripts::Bash
                    && !std::mem::replace(&mut of_unit.knows_terminal, true);
                // Compilers query the terminal for its width.
                let matters =
                    is_terminal && !of_unit.policy.reads_own_statistics || self.is_of_other(path);
                if !starting && (error.is_none() || matters) {
                    self.mark_uncacheable(unit, format!("opens {}", path.display()), true);
                }
                return;
            }
        }
        if mode.tmpfile {
            match error {
                Some(error) => self.failed(unit, "open", std::slice::from_ref(path), error),
                // The new file has no name, and gets its access list from this directory. No
                // effect there would fail without the right to write.
                None => {
                    self.expect_found_directory(unit, path);
                    let located = self.look(unit, &path.path, true);
                    let query = Query::Access {
                        path: located.given,
                        mode: libc::W_OK | libc::X_OK,
                        effective: true,
                        follow: true,
                    };
                    self.ask_besides(unit, query, located.resource);
                    let (directory, _) = self.locator.place(&path.path);
                    self.expect_inherited(unit, &FilePath::from(directory.join("file")));
                }
            }
            return;
        }
        if mode.path_only {
            self.stat(unit, &path.path, path.follow);
            if let Some(file) = file
                && let Ok(found) = self.locator.locate(&path.path, path.follow).stat
            {
                self.opened_directory(file, &found);
            }
            if let Some(error) = error {
                let located = self.look(unit, &path.path, path.follow);
                self.explain_open(unit, path, mode, error, &Named::new(path, &located));
            }
            return;
        }
        if let Some(error) = error {
            self.open_failed(unit, path, mode, error);
            return;
        }
        if mode.no_access_time {
            let located = self.look(unit, &path.path, path.follow);
            self.owners(unit, &located);
        }
        if !mode.write && path.follow && self.opened_as_before(unit, path.path.as_path().into()) {
            return;
        }
        let located = match mode.write {
            true => self.locator.locate(&path.path, path.follow),
            false => self.look(unit, &path.path, path.follow),
        };
        if let (Some(file), Ok(found)) = (file, &located.stat) {
            self.opened_directory(file, found);
        }
        let inode = located.stat.as_ref().ok();
        let inode = inode.map(|stat| (stat.st_dev, stat.st_ino));
        if self.is_inherited_output(unit, inode, &located.resource) {
            self.mark_uncacheable(
                unit,
                "opens by name the file that its output is redirected to",
                true,
            );
        }
        if mode.write {
            self.opened_for_writing(unit, before, path, mode, file);
        } else {
            self.opened_for_reading(unit, path, located, mode, before);
        }
    }

    /// Whether another unit has opened for reading, through links, a file that a unit has read and
    /// no traced process has changed. If so, notes that this unit reads the same content.
    pub fn opened_as_before(&mut self, unit: UnitId, path: Asked<'_>) -> bool {
        let policy = &self.unit(unit).policy;
        // For other programs, the metadata or the text of the opened file counts.
        let content_only =
            policy.scripts == Scripts::Any && !policy.permissions && policy.time == TimeUse::None;
        if !content_only {
            return false;
        }
        let Some(it) = self.locator.cached_open(path) else {
            return false;
        };
        if self.is_inherited_output(unit, Some(it.inode), &it.resource) {
            return false;
        }
        self.note_cached_open(unit, it);
        true
    }

    /// Notes that a unit depends on the cached content of a file.
    pub(crate) fn note_cached_open(&mut self, unit: UnitId, it: CachedOpen) {
        let names = (&it.given, &it.resource);
        let given = match self.note_made_links(unit, names, it.indirect.is_some(), true) {
            Some(way) => way.end.clone(),
            None => {
                self.note_indirect(unit, it.indirect);
                it.given
            }
        };
        let (query, observed) = (Query::Content(given), Observed::Content(it.content));
        self.note(unit, query, observed, it.resource);
    }

    /// Notes that a unit depends on the continued absence of a file.
    pub(crate) fn note_missing(&mut self, unit: UnitId, query: &Query, located: Located) {
        let located = self.pass_links(unit, located, true);
        let query = query.about(&located.given);
        let observed = Observed::Answer(Answer::Error(libc::ENOENT));
        self.note(unit, query, observed, located.resource);
    }

    /// Whether an earlier open found no file here and the file is still absent. If so, notes it.
    pub fn missing_as_before(&mut self, unit: UnitId, path: Asked<'_>) -> bool {
        let Some(located) = self.locator.absent_plain(path) else {
            return false;
        };
        self.note_missing(unit, &Query::Content(located.given.clone()), located);
        true
    }

    /// Whether the unit also writes to this file through a descriptor that it inherited.
    fn is_inherited_output(
        &self,
        unit: UnitId,
        inode: Option<(u64, u64)>,
        resource: &FilePath,
    ) -> bool {
        let unit = &self.units[unit.0 as usize];
        unit.inherited.iter().any(|inherited| {
            let made = self.descriptions.resource(inherited.file);
            let output = made.or(inherited.output.as_ref());
            let same =
                inherited.output.is_some() && inherited.inode.is_some() && inherited.inode == inode;
            same || output == Some(resource)
        })
    }

    /// Returns the content of the located regular file, to be cached if no traced process has
    /// changed it.
    pub(crate) fn content_to_believe(
        &mut self,
        given: &FilePath,
        located: &Located,
        stat: &Stat,
    ) -> Arc<PendingDigest> {
        let content = self.content(given, stat);
        if !self.shared_files.is_changed(&located.resource) && self.lookups.is_quiet() {
            self.locator.remember_content(located, &content);
        }
        content
    }

    pub(super) fn opened_for_reading(
        &mut self,
        unit: UnitId,
        path: &PathRef,
        located: Located,
        mode: &OpenMode,
        before: &Before,
    ) {
        let given = located.given.clone();
        let Ok(stat) = located.stat else {
            // The file existed a moment ago.
            self.mark_uncacheable(
                unit,
                format!("{} vanished while it was opened", given.display()),
                true,
            );
            return;
        };
        if mode.create.is_some()
            && let Some((resource, initial)) = before.first()
            && initial.is_none()
        {
            let resource = resource.clone();
            self.expect_kind(unit, &resource, None);
            self.expect_inherited(unit, &resource);
            self.remade(unit, &resource, None, TimeState::Present);
            return;
        }
        if !path.follow {
            // A link with the same content would make the call fail.
            let seq = self.at_beginning();
            self.note_kind(seq, unit, &located.resource, Some(&stat));
        }
        let observed = if is_regular(&stat) {
            Observed::Content(self.content_to_believe(&given, &located, &stat))
        } else if is_directory(&stat) {
            Observed::Answer(Answer::Directory)
        } else {
            self.mark_uncacheable(
                unit,
                format!("opens {}, which is no plain file", given.display()),
                true,
            );
            return;
        };
        self.look_through(unit, &given, &stat);
        self.note(
            unit,
            Query::Content(given),
            observed,
            located.resource.clone(),
        );
        // Its fstat is not observed. A program that lists a directory does not compare the
        // directory's time with those of files.
        let Policy {
            time, permissions, ..
        } = self.unit(unit).policy;
        let listed = time == TimeUse::Order && is_directory(&stat);
        if (permissions && is_regular(&stat)) || (time != TimeUse::None && !listed) {
            self.metadata(unit, &path.path, path.follow, &located);
        }
    }

    pub(super) fn opened_for_writing(
        &mut self,
        unit: UnitId,
        before: &Before,
        path: &PathRef,
        mode: &OpenMode,
        file: Option<&OpenFile>,
    ) {
        let Some((resource, initial)) = before.first().cloned() else {
            return;
        };
        if let Some(file) = file {
            self.descriptions.set_resource(file.id, resource.clone());
            let regular = |stat: &Stat| is_regular(stat);
            if initial.as_deref().is_none_or(regular) {
                self.outputs.watch.opened(&resource);
            }
        }
        if mode.create.is_some() {
            self.expect_inherited(unit, &resource);
        }
        let Some(stat) = initial.as_deref() else {
            if mode.exclusive && mode.create.is_some_and(|mode| mode & 0o077 == 0) {
                let spelled = path.path.as_os_str().as_bytes().to_vec();
                self.shared_files.add_temporary(spelled);
            }
            let was_fresh = self
                .unit(unit)
                .changes
                .get(&resource)
                .is_some_and(|c| c.fresh);
            let blind = self.opens_blindly(unit, mode);
            if mode.exclusive || !(mode.truncate || blind) || attributes::gets_list(&resource) {
                // An existing file would have made the call fail, or would have kept its content.
                self.expect_kind(unit, &resource, None);
                let change = self.remade(unit, &resource, None, TimeState::Present);
                change.fresh = was_fresh || mode.exclusive;
            } else {
                // A file that exists at another run is written in place.
                self.expect_target(unit, &resource, None);
                let known = self
                    .unit(unit)
                    .changes
                    .get(&resource)
                    .is_some_and(|c| c.content.is_some());
                let change = self.remade(unit, &resource, None, TimeState::Present);
                change.fresh = was_fresh;
                if mode.append && !mode.read && !mode.truncate && !known {
                    change.appended_from = Some(0);
                }
            }
            return;
        };
        if !is_regular(stat) {
            if path.path.starts_with("/dev") {
                // A device that accepts bytes and keeps none.
                self.mark_uncacheable(unit, format!("writes to {}", path.path.display()), true);
            } else {
                let text = format!("writes to {}, which is no plain file", path.path.display());
                self.mark_uncacheable(unit, text, true);
            }
            return;
        }
        if stat.st_nlink > 1 && self.unit(unit).made_before(&resource, u64::MAX).is_none() {
            let text = format!("writes to {}, which has several names", path.path.display());
            self.mark_uncacheable(unit, text, true);
        }
        self.mark_linked(unit, &resource, Some(stat));
        let known = self
            .unit(unit)
            .changes
            .get(&resource)
            .is_some_and(|c| c.content.is_some());
        // `Session::before` has computed its digest; it would be too late to do so now.
        let initial_content = (!mode.truncate && !known).then(|| self.content(&resource, stat));
        self.contents.forget(stat);
        self.world.table().suspend(stat.st_dev, stat.st_ino);
        if !known {
            let blind = self.opens_blindly(unit, mode);
            let may_be_made = mode.create.is_some() && (mode.truncate || blind);
            if may_be_made && !attributes::gets_list(&resource) {
                self.expect_target(unit, &resource, Some(stat));
            } else {
                self.expect_kind(unit, &resource, Some(stat));
                // Another name of the file would change, too.
                self.expect_target(unit, &resource, Some(stat));
                if !mode.truncate {
                    // A unit that writes nothing has no effect whose restoring would fail.
                    let seq = self.at_beginning();
                    self.note_writable(seq, unit, &resource);
                }
            }
        }
        let umask = self.call.umask();
        let blind = mode.append && !mode.read && self.appends_blindly(unit);
        if let (Some(content), false) = (&initial_content, blind) {
            let observed = Observed::Content(content.clone());
            self.note(
                unit,
                Query::Content(resource.clone()),
                observed,
                resource.clone(),
            );
        }
        if !mode.truncate && known && (mode.read || !mode.append) {
            // The program reads or keeps content that the tree wrote, perhaps after an append.
            let content = self.content(&resource, stat);
            let observed = Observed::Content(content);
            self.note(
                unit,
                Query::Content(resource.clone()),
                observed,
                resource.clone(),
            );
        }
        let appends = mode.append && !mode.read && !mode.truncate;
        let seq = self.tick();
        self.touch(unit, seq, &resource, false);
        let size = stat.st_size as u64;
        let change = self.change(unit, seq, &resource, initial.clone());
        if change.content.is_none() {
            change.content = Some(seq);
            change.initial_content = initial_content;
            change.appended_from = appends.then_some(size);
            change.create_mode = mode.create.map(|mode| mode & !umask & 0o7777);
        } else if !appends {
            change.end_append(seq);
        }
        if !matches!(change.time, TimeState::Set(..)) || mode.truncate {
            change.time = TimeState::Present;
        }
    }

    /// Whether the content of a file is irrelevant to a unit that opens it.
    fn opens_blindly(&mut self, unit: UnitId, mode: &OpenMode) -> bool {
        let is_read = mode.read && !planted(Defect::AppendedContent);
        mode.append && !is_read && self.appends_blindly(unit)
    }

    /// Whether the size of a file is irrelevant to a unit that appends to it. Libraries of some
    /// languages seek to the end and report that position, and C libraries query the metadata.
    fn appends_blindly(&mut self, unit: UnitId) -> bool {
        let policy = &self.unit(unit).policy;
        let is_shell = matches!(policy.scripts, Scripts::Bash | Scripts::Shell);
        let shows_size = policy.runs_own_code && !planted(Defect::AppendedSize);
        is_shell || policy.time == TimeUse::None && !shows_size
    }

    /// Notes that the unit was permitted to write to a file.
    pub(super) fn note_writable(&mut self, seq: u64, unit: UnitId, path: &FilePath) {
        let query = Query::Access {
            path: path.clone(),
            mode: libc::W_OK,
            effective: true,
            follow: true,
        };
        let granted = Observed::Answer(Answer::Granted);
        self.unit(unit).observe(seq, query, granted, path.clone());
    }

    /// Notes that the program wrote to a name without a lookup.
    pub(super) fn expect_target(
        &mut self,
        unit: UnitId,
        resource: &FilePath,
        initial: Option<&Stat>,
    ) {
        if planted(Defect::TargetFact) {
            return;
        }
        let answer = match initial {
            Some(stat) if !is_regular(stat) || stat.st_nlink > 1 => return,
            _ => Answer::Writable,
        };
        let query = Query::Target(resource.clone());
        let seq = self.at_beginning();
        let observed = Observed::Answer(answer);
        self.unit(unit)
            .observe(seq, query, observed, resource.clone());
    }

    /// Marks the unit if the file does not explain why it could not be opened.
    fn explain_open(
        &mut self,
        unit: UnitId,
        path: &PathRef,
        mode: &OpenMode,
        error: i32,
        named: &Named,
    ) {
        if !Self::explains_open(mode, error, named, path.follow) {
            let call = format!("open of {}", path.path.display());
            self.fails_for_now(unit, &call, error);
        }
    }

    pub(super) fn open_failed(
        &mut self,
        unit: UnitId,
        path: &PathRef,
        mode: &OpenMode,
        error: i32,
    ) {
        let plain = !mode.write && mode.create.is_none();
        let missing = plain && matches!(error, libc::ENOENT | libc::ENOTDIR);
        let kind = Kind::no_content(path.follow);
        if missing
            && self
                .lookups
                .knows(unit, &path.path, kind, self.call.returned())
        {
            return;
        }
        let located = self.look(unit, &path.path, path.follow);
        let given = located.given.clone();
        // A file that is there and no directory explains the error by its kind.
        let is_no_directory = error == libc::ENOTDIR && located.stat.is_ok();
        if missing && !is_no_directory {
            // Or the file appeared after the call.
            if located.stat.is_err() {
                self.lookups.learn(unit, &given, kind, self.call.returned());
            }
            let observed = Observed::Answer(Answer::Error(error));
            let query = match path.follow {
                true => Query::Content(given),
                // A link to nowhere would be another error.
                false => Query::Kind {
                    path: given,
                    follow: false,
                },
            };
            self.note(unit, query, observed, located.resource);
            return;
        }
        let named = Named::new(path, &located);
        match error {
            libc::EFAULT | libc::ENAMETOOLONG => {}
            libc::EINVAL if planted(Defect::FailingFlags) => {}
            libc::ENOENT
            | libc::EINVAL
            | libc::ENOTDIR
            | libc::EACCES
            | libc::EPERM
            | libc::EROFS
            | libc::EISDIR
            | libc::EEXIST
            | libc::ELOOP => {
                let follow = path.follow;
                let resource = located.resource.clone();
                self.ask_besides(
                    unit,
                    Query::Kind {
                        path: given.clone(),
                        follow,
                    },
                    resource.clone(),
                );
                if matches!(error, libc::EACCES | libc::EPERM | libc::EROFS) {
                    let mode = match mode.write || mode.truncate {
                        true => libc::W_OK,
                        false => libc::R_OK,
                    };
                    let query = Query::Access {
                        path: given.clone(),
                        mode,
                        effective: true,
                        follow,
                    };
                    self.ask_besides(unit, query, resource);
                    self.owners(unit, &located);
                    self.parent_access(unit, &located);
                }
                if error == libc::ENOENT {
                    self.parent_access(unit, &located);
                }
                self.explain_open(unit, path, mode, error, &named);
            }
            _ => self.mark_uncacheable(unit, format!("fails to open {}", given.display()), true),
        }
    }
}
