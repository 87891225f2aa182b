//! Converts events to observations and changes.
//!
//! Each event of a unit becomes an observation (an answer of the file system), a change (by the
//! unit), bytes in a stream, or an uncacheable reason. The recorder obtains answers by querying
//! the world itself at the moment of the event, in the same way as a later lookup. Both compared
//! answers are then produced by the same code.
//!
//! **Invariant:** an event without a case here is an uncacheable reason. No event is ignored
//! because it is unknown.

mod ends;
mod explain;
mod failures;
mod lookup;
mod machine;
mod mounts;
mod observe;
mod open;
mod scripts;
mod stream;
mod tree;

pub(crate) use self::failures::{can_be_full, makes_task};
use crate::engine::session::{Before, Session};
use crate::key::rights;
use crate::model::fact::{Answer, TimeUse};
use crate::model::path::FilePath;
use crate::model::path_kind::{Class, classify, descriptor};
use crate::model::unit_id::UnitId;
use crate::platform::clock;
use crate::world::locate::{is_directory, is_link, is_regular};
use ptrace_async::event::{FileRef, IoEvent, OpenFile, PathRef, Tid};
use rustix::io::Errno;
use std::path::Path;
use std::sync::Arc;

/// Longer streams are not stored (bytes).
const MAX_STREAM: u64 = 256 << 20;

/// Reads ranges of the tracee's memory.
pub type Reader<'a> = &'a dyn Fn(&[(u64, u64)]) -> Vec<u8>;

fn errno(error: Errno) -> Answer {
    Answer::Error(error.raw_os_error())
}

fn ns(seconds: i64, nanos: i64) -> i128 {
    i128::from(seconds) * 1_000_000_000 + i128::from(nanos)
}

impl Session {
    /// Examines files before a call changes them, and waits for digests that must be finished
    /// first.
    pub fn before(
        &mut self,
        unit: UnitId,
        paths: &[PathRef],
    ) -> (
        Before,
        Vec<Arc<crate::world::pending_digest::PendingDigest>>,
    ) {
        let mut before = Before::new();
        let mut wait = Vec::new();
        for path in paths {
            if classify(&path.path) != Class::Ordinary {
                continue;
            }
            let now = clock::running();
            let located = self.look(unit, &path.path, path.follow);
            self.compare_output(&located.resource);
            let found = located.stat.as_ref().ok();
            if found.is_some_and(|stat| is_link(stat) || is_directory(stat)) {
                // Afterwards these files may no longer be reachable by their paths.
                self.jobs.hurry();
            }
            self.locator.forget_content(&located.resource, found);
            if let Ok(stat) = &located.stat
                && stat.st_nlink > 1
                && !is_directory(stat)
            {
                self.shared_files.relink(stat);
            }
            if let Ok(stat) = &located.stat
                && is_regular(stat)
            {
                self.contents.confirm(stat, now);
                wait.extend(self.contents.pending(stat));
                // The initial content may matter if the call appends to the file, writes into it,
                // or moves it.
                let change = self.unit(unit).changes.get(&located.resource);
                if change.is_none_or(|change| change.content.is_none()) {
                    let content = self.content(&located.resource, stat);
                    if content.is_pending() {
                        wait.push(content);
                    }
                }
            }
            before.push((located.resource, located.stat.ok().map(Box::new)));
        }
        self.mark_process_link(unit);
        (before, wait)
    }

    /// Applies one event of a task.
    pub fn apply(&mut self, tid: Tid, before: &Before, event: IoEvent, read: Reader<'_>) {
        let Some(unit) = self.unit_of(tid) else {
            return;
        };
        let (umask, began) = (self.model.umask(tid), self.lookups.began(tid));
        self.call.begin(tid, umask, began);
        self.mark_foreign_changes(unit, before, &event);
        self.apply_to(tid, unit, before, event, read);
        self.mark_process_link(unit);
    }

    /// Marks a unit if one of its lookups, which have just been made, passed a link in `/proc`.
    pub(crate) fn mark_process_link(&mut self, unit: UnitId) {
        if self.locator.take_process_link() {
            let reason = "follows a link that leads through /proc to a file of a process";
            self.mark_uncacheable(unit, reason, true);
        }
    }

    fn apply_to(
        &mut self,
        tid: Tid,
        unit: UnitId,
        before: &Before,
        event: IoEvent,
        read: Reader<'_>,
    ) {
        match event {
            IoEvent::Open {
                path,
                mode,
                file,
                error,
            } => {
                self.looked_before(tid, unit, &path.path, mode.directory);
                self.opened(unit, before, &path, &mode, file.as_deref(), error);
            }
            IoEvent::Stat { path } => self.asked_metadata(tid, unit, path),
            IoEvent::StatFile { file } => {
                // The open noted the metadata. For files inherited for writing, only the kind
                // matters to C libraries, and the key contains it.
                self.stat_inherited(unit, &file);
            }
            IoEvent::Find { path } => {
                self.stat_as(unit, &path.path, path.follow, TimeUse::None);
            }
            IoEvent::Access {
                path,
                mode,
                effective,
            } => self.asked_access(unit, &path, mode, effective),
            IoEvent::ReadLink { path } => {
                self.unit(unit).knows_itself |= path.path.as_os_str() == "/proc/self/exe";
                // Behind a slash there is no link.
                if path.as_directory {
                    self.expect_found_directory(unit, &path);
                } else {
                    self.read_link(unit, &path.path);
                }
            }
            IoEvent::List { file } => self.list(unit, &file),
            // Tools choose their method by the kind of file system.
            IoEvent::StatFs { .. } if self.unit(unit).policy.usage => {}
            IoEvent::StatFs { file } => self.asked_file_system(unit, &file),
            IoEvent::XattrRead { file, name } => self.read_attribute(unit, &file, name),
            IoEvent::XattrWrite { file, name, how } => {
                self.set_attribute(unit, before, &file, &name, how);
            }
            IoEvent::MakeDir { .. } => {
                self.locator.forget_absent();
                self.made_name(unit, before);
            }
            IoEvent::Symlink { .. } => {
                self.locator.forget();
                self.made_name(unit, before);
            }
            IoEvent::MakeNode { mode, .. } => match mode & libc::S_IFMT {
                0 | libc::S_IFREG if !before.is_empty() => self.made_name(unit, before),
                _ => self.mark_uncacheable(unit, "creates a device, FIFO or socket", true),
            },
            IoEvent::Unlink { .. } | IoEvent::RemoveDir { .. } => self.removed_name(unit, before),
            IoEvent::Rename { exchange, .. } => self.renamed(unit, before, exchange),
            IoEvent::Link { from, to } => self.linked(unit, before, &from, &to),
            IoEvent::Truncate { file, length } => self.truncated(unit, before, &file, length),
            IoEvent::Chmod { file, .. } => {
                if let Some(change) = self.meta_change(unit, before, &file) {
                    change.mode_set = true;
                }
            }
            IoEvent::Chown { file } => self.owned(unit, before, &file),
            IoEvent::SetTimes {
                file,
                accessed,
                modified,
            } => self.set_times(unit, before, &file, (accessed, modified)),
            IoEvent::Write {
                fd,
                file,
                length,
                positioned,
                source,
                buffers,
            } => {
                self.wrote(
                    tid,
                    unit,
                    fd,
                    &file,
                    length,
                    positioned,
                    source.as_deref(),
                    &buffers,
                    read,
                );
            }
            IoEvent::Read { file, .. } => self.read_from(unit, &file),
            IoEvent::Seek { fd, file, measures } => self.sought(unit, fd, &file, measures),
            IoEvent::Lock { .. } | IoEvent::Umask { .. } => {}
            IoEvent::MapShared { file } => self.mapped(unit, &file),
            IoEvent::Ioctl { file, request } => self.control(unit, &file, request),
            IoEvent::ChangeDir { path, error } => {
                self.changed_directory(unit, &path, error);
                if error.is_none() {
                    self.has_changed_directory(tid);
                }
            }
            IoEvent::ChangeRoot { .. } => {
                self.changes_surroundings(tid, false);
                self.mark_uncacheable(unit, "changes its root directory", true);
            }
            IoEvent::Spawn { .. } | IoEvent::ExecAttempt { .. } => {}
            IoEvent::ExecFailed { path, error } => self.failed_to_execute(unit, path, error),
            IoEvent::Clock { clock } => self.read_clock(unit, clock),
            IoEvent::Random { length, flags } => self.asked_random(unit, length, flags),
            IoEvent::Identity { what } => self.asked_identity(unit, what),
            IoEvent::SetLimit { .. } => self.has_set_limits(tid),
            IoEvent::StateChange { what } => {
                let harmless = what == "credentials" && rights(tid) == rights(0);
                if !harmless {
                    self.state_changed(unit, what);
                }
            }
            IoEvent::SignalSent { target, signal } => {
                self.note_kill(tid, target, signal);
                self.signalled(unit, target);
            }
            IoEvent::Network { what, file } => self.used_network(unit, what, file.as_deref()),
            IoEvent::Channel { read, write } => {
                self.descriptions.set_owner(read.id, unit);
                self.descriptions.set_owner(write.id, unit);
            }
            IoEvent::Received { .. } => {
                self.mark_uncacheable(unit, "receives a descriptor from another process", true);
            }
            IoEvent::SharedMemory { what } => {
                self.mark_uncacheable(unit, format!("uses shared memory ({what})"), true);
            }
            IoEvent::Unsupported { name, reason, .. } => {
                self.mark_uncacheable_upwards(unit, &format!("calls {name}: {reason}"));
            }
            IoEvent::Failed { call, paths, error } => self.failed(unit, call, &paths, error),
        }
    }

    /// Marks a unit as uncacheable if it changes a special file, or a file through a descriptor
    /// that another unit opened. No key contains which file that is.
    fn mark_foreign_changes(&mut self, unit: UnitId, before: &Before, event: &IoEvent) {
        let (places, file) = changed(event);
        let sets_times = matches!(event, IoEvent::SetTimes { .. });
        for path in places.into_iter().flatten() {
            let is_known = match classify(path) {
                Class::Ordinary => true,
                // No program looks at those.
                Class::Determined => sets_times && !path.starts_with("/proc"),
                Class::Random | Class::Usage | Class::Volatile => false,
            };
            if !is_known && !self.changes_own(unit, path, event) {
                let reason = format!("changes what {} is, or leads to", path.display());
                self.mark_uncacheable(unit, reason, true);
            }
        }
        let leads_on = |(path, _): &(FilePath, _)| classify(path) == Class::Volatile;
        if let Some((path, _)) = before.iter().find(|it| leads_on(it)) {
            let reason = format!("changes what {} leads to", path.display());
            self.mark_uncacheable(unit, reason, true);
        }
        if let Some(file) = file.filter(|file| !self.is_own(unit, file)) {
            self.mark_uncacheable_outside(
                unit,
                file,
                "changes an inherited file through its descriptor",
            );
        }
    }

    /// Whether a path names a descriptor that the unit itself opened, of a file that it made. Then
    /// that file is changed; fchmodat(3) without following links does this.
    fn changes_own(&mut self, unit: UnitId, path: &Path, event: &IoEvent) -> bool {
        let file = descriptor(path).and_then(|fd| self.model.file(self.call.task(), fd));
        let Some(file) = file.filter(|file| self.is_own(unit, file)).cloned() else {
            return false;
        };
        let Some(path) = file.path.as_deref() else {
            return false;
        };
        let (resource, _) = self.locator.place(path);
        let seq = self.tick();
        let change = self.unit(unit).changes.get_mut(&resource);
        let Some(change) = change.filter(|_| matches!(event, IoEvent::Chmod { .. })) else {
            return false;
        };
        change.mode_set = true;
        change.last = seq;
        change.meta.get_or_insert(seq);
        self.touch(unit, seq, &resource, false);
        true
    }
}

/// Returns the paths that an event changes apart from their contents, and the description that it
/// changes through a descriptor.
fn changed(event: &IoEvent) -> ([Option<&Path>; 2], Option<&OpenFile>) {
    let (one, other, file) = match event {
        IoEvent::MakeDir { path, .. }
        | IoEvent::Symlink { path, .. }
        | IoEvent::Unlink { path }
        | IoEvent::RemoveDir { path } => (Some(path.path.as_path()), None, None),
        IoEvent::Rename { from, to, .. } => (Some(from.path.as_path()), Some(to), None),
        IoEvent::Link { from, to } => (ref_path(from), Some(to), None),
        IoEvent::XattrWrite { file, .. }
        | IoEvent::Chmod { file, .. }
        | IoEvent::Chown { file }
        | IoEvent::SetTimes { file, .. } => {
            let open = match file {
                FileRef::File(open) => Some(&**open),
                FileRef::Path(_) => None,
            };
            (ref_path(file), None, open)
        }
        _ => (None, None, None),
    };
    ([one, other.map(|to| to.path.as_path())], file)
}

/// Returns the path of a file.
fn ref_path(file: &FileRef) -> Option<&Path> {
    match file {
        FileRef::Path(path) => Some(&path.path),
        FileRef::File(file) => file.path.as_deref(),
    }
}
