//! From events to observations and changes.
//!
//! Each event of a unit becomes an observation (what the world said), a change
//! (what the unit did to it), bytes in a stream, or a doubt. Answers are
//! obtained by asking the world ourselves at the moment of the event, the same
//! way a later lookup asks: what is compared is then the same by construction.
//!
//! **Invariant:** an event that has no case here is a doubt. Nothing is
//! ignored because it is unknown.

mod observe;
mod open;
mod scripts;
mod stream;
mod tree;

use crate::engine::session::{Before, Session};
use crate::engine::unit::{Observed, TimeState};
use crate::key::{Ids, rights};
use crate::model::fact::{Answer, Part, Query, TimeUse};
use crate::model::path::FilePath;
use crate::model::path_kind::{Class, classify, descriptor};
use crate::model::unit_id::UnitId;
use crate::platform::clock;
use crate::platform::defect::{Defect, planted};
use crate::platform::proc_files::NAMES;
use crate::policy::is_hash_seed;
use crate::world::World;
use crate::world::locate::{is_directory, is_link, is_regular};
use crate::world::lookup_cache::Kind;
use ptrace_async::event::{
    FileKind, FileRef, Identity, IoEvent, OpenFile, PathRef, Tid, TimeChange,
};
use ptrace_async::invocation::Invocation;
use rustix::io::Errno;
use std::path::Path;
use std::sync::Arc;

/// Streams longer than this are not kept.
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
    /// What is there before a call changes it, and the digests that must be
    /// finished first.
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
            let found = located.stat.as_ref().ok();
            if found.is_some_and(|stat| is_link(stat) || is_directory(stat)) {
                // What lies below may be found there no more.
                self.jobs.hurry();
            }
            self.locator.forget_content(&located.resource, found);
            if let Ok(stat) = &located.stat
                && stat.st_nlink > 1
                && !is_directory(stat)
            {
                self.shared_files.relink(&stat);
            }
            if let Ok(stat) = &located.stat
                && is_regular(stat)
            {
                self.contents.confirm(stat, now);
                wait.extend(self.contents.pending(stat));
                // What the initial content was may matter: appending to it,
                // writing into it, or moving it elsewhere.
                if !self.unit(unit).changes.contains_key(&located.resource) {
                    let content = self.content(&located.resource, stat);
                    if content.is_pending() {
                        wait.push(content);
                    }
                }
            }
            before.push((located.resource, located.stat.ok().map(Box::new)));
        }
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
        match event {
            IoEvent::Open {
                path,
                mode,
                file,
                error,
            } => {
                if let Some(since) = self.call.take_looked_at(tid, &path.path)
                    && mode.directory
                {
                    self.unit(unit).forget_time(&path.path, since);
                }
                self.opened(unit, before, &path, &mode, file.as_deref(), error);
            }
            IoEvent::Stat { path }
                if self.lookups.knows(
                    unit,
                    &path.path,
                    Kind::no_metadata(path.follow),
                    self.call.returned(),
                ) => {}
            IoEvent::Stat { path } => {
                // A shell makes sure of its working directory when it starts.
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
            IoEvent::StatFile { file } => {
                // Opening noted the metadata. Of what is inherited for writing
                // only the kind matters to C libraries, and that is in the key.
                self.stat_inherited(unit, &file);
            }
            IoEvent::Find { path } => {
                self.stat_as(unit, &path.path, path.follow, TimeUse::None);
            }
            IoEvent::Access {
                path,
                mode,
                effective,
            } => {
                let kind = Kind::access(mode, effective, path.follow);
                if kind.is_some_and(|kind| {
                    self.lookups
                        .knows(unit, &path.path, kind, self.call.returned())
                }) {
                    return;
                }
                if classify(&path.path) == Class::Ordinary {
                    let located = self.look(unit, &path.path, path.follow);
                    let given = located.given.clone();
                    if let Some(kind) = kind
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
            IoEvent::ReadLink { path } => {
                self.unit(unit).knows_itself |= path.path.as_os_str() == "/proc/self/exe";
                self.read_link(unit, &path.path);
            }
            IoEvent::List { file } => self.list(unit, &file),
            // Tools look at the kind of file system to choose their ways.
            IoEvent::StatFs { .. } if self.unit(unit).policy.usage => {}
            IoEvent::StatFs { file } => match ref_path(&file) {
                Some(path) if classify(path) == Class::Ordinary => {
                    let path = FilePath::from(path);
                    self.ask(unit, Query::StatFs(path.clone()), path);
                }
                Some(_) => {}
                None => self.mark_uncacheable(
                    unit,
                    "asks for the file system of a file without a name",
                    true,
                ),
            },
            IoEvent::XattrRead { file, name } => match ref_path(&file) {
                Some(path) if classify(path) == Class::Ordinary => {
                    let path = FilePath::from(path);
                    let follow = !matches!(&file, FileRef::Path(path) if !path.follow);
                    let name = name.unwrap_or_default();
                    self.ask(
                        unit,
                        Query::Xattr {
                            path: path.clone(),
                            follow,
                            name,
                        },
                        path,
                    );
                }
                Some(_) => {}
                None => self.mark_uncacheable(
                    unit,
                    "reads extended attributes of a file without a name",
                    true,
                ),
            },
            IoEvent::XattrWrite { file, name } => {
                if let Some(change) = self.meta_change(unit, before, &file) {
                    change.attributes = true;
                    // An access list without more than the permission bits is
                    // kept as those.
                    change.mode_set |= name.starts_with(b"system.posix_acl");
                }
            }
            IoEvent::MakeDir { .. } | IoEvent::Symlink { .. } => {
                if matches!(event, IoEvent::Symlink { .. }) {
                    self.locator.forget();
                } else {
                    self.locator.forget_absent();
                }
                if let Some((path, initial)) = before.first() {
                    self.expect_kind(unit, path, initial.as_deref());
                    self.remade(unit, path, initial.clone(), TimeState::Present);
                }
            }
            IoEvent::MakeNode { mode, .. } => match before.first() {
                Some((path, initial)) if matches!(mode & libc::S_IFMT, 0 | libc::S_IFREG) => {
                    self.expect_kind(unit, path, initial.as_deref());
                    self.remade(unit, path, initial.clone(), TimeState::Present);
                }
                _ => self.mark_uncacheable(unit, "creates a device, FIFO or socket", true),
            },
            IoEvent::Unlink { .. } | IoEvent::RemoveDir { .. } => {
                if let Some((path, initial)) = before.first() {
                    let shape = initial
                        .as_deref()
                        .is_some_and(|s| is_link(s) || is_directory(s));
                    if shape {
                        self.locator.forget();
                    }
                    self.expect_kind(unit, path, initial.as_deref());
                    self.remade(unit, path, initial.clone(), TimeState::Present);
                }
            }
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
            } => {
                let time = match modified {
                    TimeChange::Keep => return,
                    TimeChange::Now => TimeState::Present,
                    TimeChange::At(s, n) => {
                        let accessed = match accessed {
                            TimeChange::At(s, n) => Some(ns(s, n)),
                            _ => None,
                        };
                        TimeState::Set(accessed, Some(ns(s, n)))
                    }
                };
                // Where from, if times are no inputs?
                let of_unit = self.unit(unit);
                if matches!(time, TimeState::Set(..))
                    && matches!(of_unit.policy.time, TimeUse::None | TimeUse::Order)
                    && !of_unit.policy.sets_given_times
                {
                    of_unit.mark_uncacheable(
                        "sets a file time that is not the present and not in its arguments",
                        true,
                    );
                }
                if let Some(change) = self.meta_change(unit, before, &file) {
                    change.time = time;
                    change.dated |= time == TimeState::Present;
                }
            }
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
            IoEvent::Seek { fd, file } => {
                // A position counted from the end tells the length.
                self.stat_inherited(unit, &file);
                // Others have no position; who closes its standard input asks all the same.
                let has_position = !matches!(
                    file.kind,
                    FileKind::Pipe { .. } | FileKind::Terminal | FileKind::Socket(_)
                );
                if has_position && !self.is_own(unit, &file) {
                    let of_unit = self.unit(unit);
                    let seeks = usize::try_from(fd)
                        .ok()
                        .and_then(|fd| of_unit.seeks.get_mut(fd));
                    let starting = seeks.is_some_and(|seeks| {
                        *seeks = seeks.saturating_add(1);
                        *seeks <= of_unit.policy.seeks_at_start
                    });
                    if file.readable {
                        self.use_part(unit, &file, Part::Input);
                    }
                    if file.writable {
                        self.use_part(unit, &file, Part::Output);
                        if !starting {
                            self.unit(unit).sought.push(file.id);
                        }
                    }
                }
            }
            IoEvent::Lock { .. } | IoEvent::Umask { .. } => {}
            IoEvent::MapShared { file } => {
                let stat = file.path.as_deref().map(rustix::fs::stat);
                if let Some(Ok(stat)) = stat {
                    self.shared_files.map((stat.st_dev, stat.st_ino), unit);
                }
                if !self.is_own(unit, &file) {
                    self.mark_uncacheable(
                        unit,
                        "maps an inherited file into writable memory",
                        true,
                    );
                }
            }
            IoEvent::Ioctl { file, request } => self.control(unit, &file, request),
            IoEvent::ChangeDir { path, error } => {
                if classify(&path.path) == Class::Ordinary {
                    let located = self.look(unit, &path.path, true);
                    let given = FilePath::from(path.path.as_path());
                    let observed = match (&located.stat, error) {
                        (Ok(stat), _) => World::kind_of(stat),
                        (Err(error), _) => errno(*error),
                    };
                    if error.is_some_and(|e| e == libc::EACCES) {
                        let query = Query::Access {
                            path: given,
                            mode: libc::X_OK,
                            effective: true,
                            follow: true,
                        };
                        self.ask(unit, query, located.resource);
                    } else {
                        // Were it a link, the working directory would be another.
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
            IoEvent::ChangeRoot { .. } => {
                self.mark_uncacheable(unit, "changes its root directory", true)
            }
            IoEvent::Spawn { .. } | IoEvent::ExecAttempt { .. } => {}
            IoEvent::ExecFailed { path, .. } => {
                if classify(&path.path) == Class::Ordinary {
                    let located = self.look(unit, &path.path, true);
                    let given = FilePath::from(path.path);
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
            IoEvent::Clock { clock } => {
                let policy = self.unit(unit).policy;
                let waiting = policy.running_clock
                    && matches!(clock, libc::CLOCK_MONOTONIC | libc::CLOCK_MONOTONIC_COARSE);
                self.unit(unit).clock_reads += u32::from(!waiting);
                let starting = self.unit(unit).clock_reads <= policy.clock_reads_at_start;
                if !policy.clock && !waiting && !starting && !planted(Defect::ClockDoubt) {
                    let which = match clock {
                        libc::CLOCK_MONOTONIC
                        | libc::CLOCK_MONOTONIC_RAW
                        | libc::CLOCK_MONOTONIC_COARSE
                        | libc::CLOCK_BOOTTIME => "the monotonic clock",
                        _ => "the time of day",
                    };
                    self.mark_uncacheable(unit, format!("reads {which}"), true);
                }
            }
            IoEvent::Random { length, flags } => {
                let earlier = self.unit(unit).random_requests;
                self.unit(unit).random_requests += 1;
                if !is_hash_seed(length, flags, earlier) && !self.unit(unit).policy.random {
                    self.mark_uncacheable(unit, "asks for random bytes", true);
                }
            }
            IoEvent::Identity { what } => match what {
                Identity::Uname => {
                    for file in NAMES.map(FilePath::from) {
                        self.ask(unit, Query::Content(file.clone()), file);
                    }
                }
                // In the weak key.
                Identity::Affinity => {}
                // Programs ask for the size of memory; uptime and load are in
                // the same answer.
                Identity::Sysinfo => {}
                Identity::Cpu | Identity::Usage | Identity::Scheduling => {
                    if !self.unit(unit).policy.usage {
                        self.mark_uncacheable(
                            unit,
                            "asks for its CPU number, its CPU time or its scheduling",
                            true,
                        );
                    }
                }
                Identity::OtherProcess => {
                    self.mark_uncacheable(unit, "asks about another process", true)
                }
            },
            IoEvent::SetLimit { .. } => self.has_set_limits(tid),
            IoEvent::StateChange { what } => {
                let harmless = what == "credentials" && rights(tid) == rights(0);
                if !harmless {
                    self.state_changed(unit, what);
                }
            }
            IoEvent::SignalSent { target, .. } => self.signalled(unit, target),
            IoEvent::Network { what, file } => {
                // What is no socket says so, and what it is is known.
                let asks = matches!(what, "getpeername" | "getsockname" | "getsockopt");
                if asks
                    && file
                        .as_ref()
                        .is_some_and(|f| !matches!(f.kind, FileKind::Socket(_)))
                {
                    return;
                }
                // Making a local socket reaches nobody yet.
                let local = file.as_ref().is_some_and(|f| {
                    matches!(f.kind, FileKind::Socket(libc::AF_UNIX | libc::AF_NETLINK))
                });
                if let (true, Some(file)) = (what == "socket", &file) {
                    self.descriptions.set_owner(file.id, unit);
                    if local {
                        return;
                    }
                }
                // What comes in through a socket that the tree made itself, and
                // neither bound nor connected, comes from the other end of its
                // pair.
                let receives = matches!(what, "recvfrom" | "recvmsg" | "shutdown");
                if receives && local && file.as_ref().is_some_and(|f| self.is_own(unit, f)) {
                    return;
                }
                self.mark_uncacheable(unit, format!("uses the network ({what})"), true);
            }
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

    /// Doubts a unit that changes what is no ordinary file, or what somebody else has opened by
    /// its descriptor: which one that is, is in no key.
    fn mark_foreign_changes(&mut self, unit: UnitId, before: &Before, event: &IoEvent) {
        let (places, file) = changed(event);
        let sets_times = matches!(event, IoEvent::SetTimes { .. });
        for path in places.into_iter().flatten() {
            let is_known = match classify(path) {
                Class::Ordinary => true,
                // Nobody looks at those.
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

    /// Whether a path names a descriptor that the unit has opened itself, of something that it
    /// has made: then that is changed (fchmodat(3) without following links does so).
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
        true
    }

    /// Whether a call changes nobody's credentials, as shells make sure that they
    /// have no more than their own.
    pub fn keeps_ids(&self, unit: UnitId, call: &Invocation) -> bool {
        self.one_namespace && self.units[unit.0 as usize].ids.keep(call)
    }

    fn state_changed(&mut self, unit: UnitId, what: &'static str) {
        // State of the process itself ends with it; children are keyed by what
        // they inherit of it.
        const OWN: [&str; 8] = [
            // Compared at the end.
            "status flags of an inherited description",
            "session",
            "process group",
            "scheduling policy",
            "priority",
            "input and output priority",
            "processor affinity",
            "parent death signal",
        ];
        match what {
            "credentials" => self.unit(unit).ids = Ids::default(),
            // `/proc` shows the ids of other processes as they are here.
            "namespaces" => self.one_namespace = false,
            // It is handed down, and the keys have that of the machine.
            "personality" => self.one_personality = false,
            _ => {}
        }
        if !OWN.contains(&what) {
            self.mark_uncacheable(unit, format!("changes {what}"), true);
        }
    }

    fn signalled(&mut self, unit: UnitId, target: i32) {
        let inside = target > 0
            && self
                .tasks
                .get(target)
                .map(|task| task.unit)
                .is_some_and(|other| self.is_within(other, unit));
        if inside {
            return;
        }
        // For a unit above that holds both, the signal is internal.
        let other = (target > 0)
            .then(|| self.tasks.get(target).map(|task| task.unit))
            .flatten();
        let mut at = Some(unit);
        while let Some(id) = at {
            if other.is_some_and(|other| self.is_within(other, id)) {
                break;
            }
            self.unit(id)
                .mark_uncacheable("sends a signal to another process", false);
            at = self.unit(id).parent;
        }
    }
}

/// The paths of what an event changes, but for its contents, and what it changes by its
/// descriptor.
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

/// The path of a file.
fn ref_path(file: &FileRef) -> Option<&Path> {
    match file {
        FileRef::Path(path) => Some(&path.path),
        FileRef::File(file) => file.path.as_deref(),
    }
}
