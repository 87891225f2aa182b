//! From events to observations and changes.
//!
//! Each event of a unit becomes an observation (what the world said), a change
//! (what the unit did to it), bytes in a stream, or a doubt. Answers are
//! obtained by asking the world ourselves at the moment of the event, the same
//! way a later lookup asks: what is compared is then the same by construction.
//!
//! **Invariant:** an event that has no case here is a doubt. Nothing is
//! ignored because it is unknown.

use std::path::Path;
use std::sync::Arc;

use ptrace_async::event::{
    FileKind, Identity, IoEvent, OpenFile, OpenMode, PathRef, Place, Tid, TimeChange,
};
use rustix::fs::Stat;
use rustix::io::Errno;

use crate::defect::{Defect, planted};
use crate::fact::{Answer, Query, TimeUse};
use crate::locate::{Located, is_directory, is_link, is_regular};
use crate::path::FilePath;
use crate::place::{Class, classify};
use crate::policy::{Scripts, is_hash_seed};
use crate::session::{Before, Session};
use crate::unit::{Change, Observed, TimeState, UnitId, Written};
use crate::world::World;

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
    ) -> (Before, Vec<Arc<crate::content::Content>>) {
        let mut before = Before::new();
        let mut wait = Vec::new();
        for path in paths {
            if classify(&path.path) != Class::Ordinary {
                continue;
            }
            let located = self.look(unit, &path.path, path.follow);
            if let Ok(stat) = &located.stat
                && is_regular(stat)
            {
                wait.extend(self.contents.pending(stat));
                // What the initial content was may matter: appending to it,
                // writing into it, or moving it elsewhere.
                if !self.unit(unit).changes.contains_key(&located.resource) && stat.st_size > 0 {
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
        self.umask = self.model.umask(tid);
        match event {
            IoEvent::Open {
                path,
                mode,
                file,
                error,
            } => {
                if let Some((who, what, since)) = self.looked_at.take()
                    && who == tid
                    && what == path.path
                    && mode.directory
                {
                    self.unit(unit).forget_time(&path.path, since);
                }
                self.opened(unit, before, &path, &mode, file.as_deref(), error);
            }
            IoEvent::Stat { path } => {
                // A shell makes sure of its working directory when it starts.
                let own = self.unit(unit).policy.time == TimeUse::Order
                    && self.model.cwd(tid).is_some_and(|cwd| *cwd == path.path);
                if own {
                    self.stat_as(unit, &path.path, path.follow, TimeUse::None);
                } else {
                    let before = self.now();
                    self.stat(unit, &path.path, path.follow);
                    self.looked_at = Some((tid, path.path, before));
                }
            }
            IoEvent::StatFile { file } => {
                // Opening noted the metadata. Of what is inherited for writing
                // only the kind matters to C libraries, and that is in the key.
                self.stat_inherited(unit, &file);
            }
            IoEvent::Access {
                path,
                mode,
                effective,
            } => {
                if classify(&path.path) == Class::Ordinary {
                    let located = self.look(unit, &path.path, path.follow);
                    self.ask(
                        unit,
                        Query::Access {
                            path: path.path.into(),
                            mode,
                            effective,
                            follow: path.follow,
                        },
                        located.resource,
                    );
                }
            }
            IoEvent::ReadLink { path } => self.read_link(unit, &path.path),
            IoEvent::List { file } => self.list(unit, &file),
            // Tools look at the kind of file system to choose their ways.
            IoEvent::StatFs { .. } if self.unit(unit).policy.usage => {}
            IoEvent::StatFs { place } => match place_path(&place) {
                Some(path) if classify(path) == Class::Ordinary => {
                    let path = FilePath::from(path);
                    self.ask(unit, Query::StatFs(path.clone()), path);
                }
                Some(_) => {}
                None => self.doubt(unit, "asks about the file system of a nameless file", true),
            },
            IoEvent::XattrRead { place, name } => match place_path(&place) {
                Some(path) if classify(path) == Class::Ordinary => {
                    let path = FilePath::from(path);
                    let follow = !matches!(&place, Place::Path(path) if !path.follow);
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
                None => self.doubt(unit, "reads attributes of a nameless file", true),
            },
            IoEvent::XattrWrite { place, name } => {
                if let Some(change) = self.meta_change(unit, before, &place) {
                    change.attributes = true;
                    // An access list without more than the permission bits is
                    // kept as those.
                    change.mode_set |= name.starts_with(b"system.posix_acl");
                }
            }
            IoEvent::MakeDir { .. } | IoEvent::Symlink { .. } => {
                if matches!(event, IoEvent::Symlink { .. }) {
                    self.locator.forget();
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
                _ => self.doubt(unit, "makes a device, FIFO or socket", true),
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
            IoEvent::Truncate { place, length } => self.truncated(unit, before, &place, length),
            IoEvent::Chmod { place, .. } => {
                if let Some(change) = self.meta_change(unit, before, &place) {
                    change.mode_set = true;
                }
            }
            IoEvent::Chown { place } => self.owned(unit, before, &place),
            IoEvent::SetTimes {
                place,
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
                if let Some(change) = self.meta_change(unit, before, &place) {
                    change.time = time;
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
            IoEvent::Seek { file, .. } => {
                // A position counted from the end tells the length.
                self.stat_inherited(unit, &file);
                if !self.is_own(unit, &file) && file.writable {
                    self.unit(unit).sought.push(file.id);
                }
            }
            IoEvent::Lock { .. } | IoEvent::Umask { .. } => {}
            IoEvent::MapShared { file } => {
                if !self.is_own(unit, &file) {
                    self.doubt(unit, "maps an inherited file for writing", true);
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
                        let query = Query::Kind {
                            path: given.clone(),
                            follow: true,
                        };
                        self.note(
                            unit,
                            query,
                            Observed::Answer(observed),
                            located.resource.clone(),
                        );
                        if given != located.resource && error.is_none() {
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
            IoEvent::ChangeRoot { .. } => self.doubt(unit, "changes its root directory", true),
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
                        self.executable(unit, &given, &located);
                    }
                }
            }
            IoEvent::Clock { clock } => {
                let policy = self.unit(unit).policy;
                self.unit(unit).clock_reads += 1;
                let starting = self.unit(unit).clock_reads <= policy.start_clock
                    || policy.scripts == Scripts::Python && clock == libc::CLOCK_MONOTONIC;
                if !policy.clock && !starting && !planted(Defect::ClockDoubt) {
                    let which = match clock {
                        libc::CLOCK_MONOTONIC
                        | libc::CLOCK_MONOTONIC_RAW
                        | libc::CLOCK_MONOTONIC_COARSE
                        | libc::CLOCK_BOOTTIME => "a running clock",
                        _ => "the time of day",
                    };
                    self.doubt(unit, format!("reads {which}"), true);
                }
            }
            IoEvent::Random { length, flags } => {
                let earlier = self.unit(unit).random_requests;
                self.unit(unit).random_requests += 1;
                if !is_hash_seed(length, flags, earlier) && !self.unit(unit).policy.random {
                    self.doubt(unit, "asks for random bytes", true);
                }
            }
            IoEvent::Identity { what } => match what {
                // In the weak key.
                Identity::Uname | Identity::Affinity => {}
                // Programs ask for the size of memory; uptime and load are in
                // the same answer.
                Identity::Sysinfo => {}
                Identity::Cpu | Identity::Usage | Identity::Scheduling => {
                    if !self.unit(unit).policy.usage {
                        self.doubt(unit, "asks which CPU it runs on or what it has used", true);
                    }
                }
                Identity::OtherProcess => self.doubt(unit, "looks at another process", true),
            },
            IoEvent::SetLimit { .. } => {}
            IoEvent::StateChange { what } => {
                let harmless = what == "credentials" && crate::key::rights(tid) == self.rights;
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
                    self.owners.insert(file.id, unit);
                    if local {
                        return;
                    }
                }
                self.doubt(unit, format!("uses the network ({what})"), true);
            }
            IoEvent::Channel { read, write } => {
                self.owners.insert(read.id, unit);
                self.owners.insert(write.id, unit);
            }
            IoEvent::Received { .. } => {
                self.doubt(unit, "receives a descriptor from another process", true);
            }
            IoEvent::SharedMemory { what } => {
                self.doubt(unit, format!("uses shared memory ({what})"), true);
            }
            IoEvent::Unsupported { name, reason, .. } => {
                self.doubt(unit, format!("calls {name}: {reason}"), true);
            }
            IoEvent::Failed { call, paths, error } => self.failed(unit, call, &paths, error),
        }
    }

    /// Notes an observation now.
    pub fn note(&mut self, unit: UnitId, query: Query, observed: Observed, resource: FilePath) {
        let seq = self.tick();
        self.unit(unit).observe(seq, query, observed, resource);
    }

    /// Asks the world, and notes the answer.
    fn ask(&mut self, unit: UnitId, query: Query, resource: FilePath) {
        let answer = self.world.ask(&query);
        if let Answer::Unknown(reason) = answer {
            self.doubt(unit, reason, true);
            return;
        }
        self.note(unit, query, Observed::Answer(answer), resource);
    }

    /// Looks at a path; links on the way are noted.
    pub fn look(&mut self, unit: UnitId, path: &Path, follow: bool) -> Located {
        let located = self.locator.look(path, follow);
        if let Some((given, canonical)) = &located.indirect {
            let query = Query::RealPath(given.clone());
            if !self.unit(unit).observations.contains_key(&query) {
                let answer = Observed::Answer(Answer::Path(canonical.clone()));
                self.note(unit, query, answer, given.clone());
            }
        }
        // The last component is a link itself: where it leads matters to what
        // is written through it.
        if follow && located.resource.as_os_str() != path.as_os_str() && located.indirect.is_none()
        {
            let given = FilePath::from(path);
            let query = Query::Link(given.clone());
            if !self.unit(unit).observations.contains_key(&query)
                && let Ok(target) = std::fs::read_link(path)
            {
                let answer = Observed::Answer(Answer::Path(FilePath::from(target)));
                self.note(unit, query, answer, given);
            }
        }
        located
    }

    fn stat(&mut self, unit: UnitId, path: &Path, follow: bool) {
        let time = self.unit(unit).policy.time;
        self.stat_as(unit, path, follow, time);
    }

    fn stat_as(&mut self, unit: UnitId, path: &Path, follow: bool, time: TimeUse) {
        if classify(path) != Class::Ordinary {
            return;
        }
        let located = self.look(unit, path, follow);
        self.metadata_as(unit, path, follow, &located, time);
    }

    /// Metadata of a file that was inherited for reading.
    fn stat_inherited(&mut self, unit: UnitId, file: &OpenFile) {
        if !self.is_own(unit, file)
            && file.readable
            && matches!(file.kind, FileKind::Opened | FileKind::Regular)
            && let Some(path) = &file.path
        {
            self.stat(unit, path, true);
        }
    }

    /// Notes metadata as the program's policy wants it.
    fn metadata(&mut self, unit: UnitId, path: &Path, follow: bool, located: &Located) {
        let time = self.unit(unit).policy.time;
        self.metadata_as(unit, path, follow, located, time);
    }

    fn metadata_as(
        &mut self,
        unit: UnitId,
        path: &Path,
        follow: bool,
        located: &Located,
        mut time: TimeUse,
    ) {
        let plain = self.unit(unit).policy.plain_directories
            && located.stat.as_ref().is_ok_and(is_directory);
        if path.starts_with("/dev") || time == TimeUse::Order && plain {
            time = TimeUse::None;
        }
        let query = Query::Stat {
            path: path.into(),
            follow,
            time,
        };
        let observed = match &located.stat {
            Err(error) => Observed::Answer(errno(*error)),
            Ok(stat) => {
                let content =
                    (time == TimeUse::Order && is_regular(stat)).then(|| self.content(path, stat));
                Observed::Metadata {
                    stat: Box::new(*stat),
                    content,
                }
            }
        };
        self.note(unit, query, observed, located.resource.clone());
        if let (true, Ok(stat)) = (self.unit(unit).policy.inodes, &located.stat) {
            let query = Query::Inode {
                path: path.into(),
                follow,
            };
            let answer = Observed::Answer(World::inode_of(stat));
            self.note(unit, query, answer, located.resource.clone());
        }
    }

    /// Notes what a program file is to the one who executes it.
    pub fn executable(&mut self, unit: UnitId, given: &FilePath, located: &Located) {
        if planted(Defect::ExecutableFact) {
            return;
        }
        if let Ok(stat) = &located.stat
            && is_regular(stat)
        {
            let content = Observed::Content(self.content(given, stat));
            self.note(
                unit,
                Query::Content(given.clone()),
                content,
                located.resource.clone(),
            );
        }
        let query = Query::Access {
            path: given.clone(),
            mode: libc::X_OK,
            effective: true,
            follow: true,
        };
        self.ask(unit, query, located.resource.clone());
    }

    /// Notes what kind of thing was there (by canonical path).
    fn expect_kind(&mut self, unit: UnitId, path: &FilePath, initial: Option<&Stat>) {
        let answer = initial.map_or(errno(Errno::NOENT), World::kind_of);
        let query = Query::Kind {
            path: path.clone(),
            follow: false,
        };
        self.note(unit, query, Observed::Answer(answer), path.clone());
    }

    fn opened(
        &mut self,
        unit: UnitId,
        before: &Before,
        path: &PathRef,
        mode: &OpenMode,
        file: Option<&OpenFile>,
        error: Option<i32>,
    ) {
        if let Some(file) = file {
            self.owners.insert(file.id, unit);
        }
        if self.shows_time(unit, &path.path) {
            self.doubt(unit, "looks up the time zone, to show a time", true);
        }
        match classify(&path.path) {
            Class::Ordinary => {}
            Class::Determined => return,
            Class::Random => {
                // Perl seeds its hashes once at its start.
                let seed = self.unit(unit).random_requests <= 1
                    && self.unit(unit).program.ends_with("perl");
                self.unit(unit).random_requests += 2;
                if error.is_none() && !seed {
                    self.doubt(unit, format!("reads {}", path.path.display()), true);
                }
                return;
            }
            Class::Volatile => {
                let stack =
                    self.unit(unit).policy.usage && path.path.as_os_str() == "/proc/self/maps";
                if error.is_none() && !stack {
                    self.doubt(unit, format!("opens {}", path.path.display()), true);
                }
                return;
            }
        }
        if mode.tmpfile {
            if let Some(error) = error {
                self.failed(unit, "open", std::slice::from_ref(path), error);
            }
            return;
        }
        if mode.path_only {
            self.stat(unit, &path.path, path.follow);
            return;
        }
        if let Some(error) = error {
            self.open_failed(unit, path, mode, error);
            return;
        }
        if self.is_inherited_output(unit, path) {
            self.doubt(unit, "opens the file that its output goes to", true);
        }
        if mode.write {
            self.opened_for_writing(unit, before, path, mode, file);
        } else {
            self.opened_for_reading(unit, path, mode, before);
        }
    }

    /// Whether a path leads to a file that the unit also writes to through a
    /// descriptor it inherited.
    fn is_inherited_output(&mut self, unit: UnitId, path: &PathRef) -> bool {
        let outputs: Vec<FilePath> = self
            .unit(unit)
            .inherited
            .clone()
            .into_iter()
            .filter_map(|inherited| {
                let made = self.resources.get(&inherited.file).cloned();
                made.or(inherited.output)
            })
            .collect();
        if outputs.is_empty() {
            return false;
        }
        let resource = self.locator.look(&path.path, path.follow).resource;
        outputs.contains(&resource)
    }

    /// Whether a program whose clock reads do not count, as they do not show in
    /// its results, shows one all the same: a date as text needs the time zone
    /// (`__DATE__` and `__TIMESTAMP__` of compilers, `make -p`).
    fn shows_time(&mut self, unit: UnitId, path: &Path) -> bool {
        use std::os::unix::ffi::OsStrExt;
        let path = path.as_os_str().as_bytes();
        let zone = path == b"/etc/localtime" || memchr::memmem::find(path, b"/zoneinfo/").is_some();
        let unit = self.unit(unit);
        // touch reads a date, and shows none.
        zone && unit.policy.clock
            && unit.policy.time < TimeUse::Modified
            && !unit.program.ends_with("touch")
    }

    fn opened_for_reading(
        &mut self,
        unit: UnitId,
        path: &PathRef,
        mode: &OpenMode,
        before: &Before,
    ) {
        let located = self.look(unit, &path.path, path.follow);
        let given = FilePath::from(path.path.as_path());
        let Ok(stat) = located.stat else {
            // It was there a moment ago.
            self.doubt(
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
            self.expect_kind(unit, resource, None);
            self.remade(unit, resource, None, TimeState::Present);
            return;
        }
        let observed = if is_regular(&stat) {
            Observed::Content(self.content(&given, &stat))
        } else if is_directory(&stat) {
            Observed::Answer(Answer::Directory)
        } else {
            self.doubt(
                unit,
                format!("opens {}, which is no plain file", given.display()),
                true,
            );
            return;
        };
        let scripts = self.unit(unit).policy.scripts;
        if scripts != Scripts::Any && is_regular(&stat) && stat.st_size < 4 << 20 {
            let script = std::fs::read(&given).unwrap_or_default();
            if let Some(reason) = scripts.doubt(Some(&given), &script) {
                self.doubt(unit, reason, true);
            }
        }
        self.note(
            unit,
            Query::Content(given),
            observed,
            located.resource.clone(),
        );
        // fstat on it is not seen. Who lists a directory does not compare its
        // time with those of files.
        let time = self.unit(unit).policy.time;
        if time != TimeUse::None && !(time == TimeUse::Order && is_directory(&stat)) {
            self.metadata(unit, &path.path, path.follow, &located);
        }
    }

    fn opened_for_writing(
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
            self.resources.insert(file.id, resource.clone());
        }
        let Some(stat) = initial.as_deref() else {
            if mode.exclusive && mode.create.is_some_and(|mode| mode & 0o077 == 0) {
                use std::os::unix::ffi::OsStrExt;
                self.temporary
                    .insert(path.path.as_os_str().as_bytes().to_vec());
            }
            let was_fresh = self
                .unit(unit)
                .changes
                .get(&resource)
                .is_some_and(|c| c.fresh);
            if mode.exclusive || !(mode.truncate || mode.append) {
                // Had something stood there, it would have failed, or kept
                // what it held.
                self.expect_kind(unit, &resource, None);
                let change = self.remade(unit, &resource, None, TimeState::Present);
                change.fresh = was_fresh || mode.exclusive;
            } else {
                // What stands there at another time is written in place.
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
                // A device that takes bytes and keeps nothing.
                self.doubt(unit, format!("writes to {}", path.path.display()), true);
            } else {
                let text = format!("writes to {}, which is no plain file", path.path.display());
                self.doubt(unit, text, true);
            }
            return;
        }
        if stat.st_nlink > 1 && self.unit(unit).made_before(&resource, u64::MAX).is_none() {
            let text = format!("writes to {}, which has several names", path.path.display());
            self.doubt(unit, text, true);
        }
        self.contents.forget(stat);
        self.world.table().suspend(stat.st_dev, stat.st_ino);
        let known = self
            .unit(unit)
            .changes
            .get(&resource)
            .is_some_and(|c| c.content.is_some());
        if !known {
            if mode.create.is_some() && (mode.truncate || mode.append) {
                self.expect_target(unit, &resource, Some(stat));
            } else {
                self.expect_kind(unit, &resource, Some(stat));
            }
        }
        let umask = self.umask;
        let whole = mode.truncate || stat.st_size == 0;
        let content = (!whole && !known).then(|| self.content(&resource, stat));
        if let (Some(content), false) = (&content, mode.append && !mode.read) {
            let observed = Observed::Content(content.clone());
            self.note(
                unit,
                Query::Content(resource.clone()),
                observed,
                resource.clone(),
            );
        }
        if !mode.truncate && known && (mode.read || !mode.append) {
            // It reads or keeps what the tree wrote, perhaps after an append.
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
        let change = self.unit(unit).change(seq, &resource, initial.clone());
        if change.content.is_none() {
            change.content = Some(seq);
            change.initial_content = content;
            change.appended_from = appends.then_some(size);
            change.create_mode = mode.create.map(|mode| mode & !umask & 0o7777);
        } else if !appends {
            change.appended_from = None;
        }
        if !known || !matches!(change.time, TimeState::Set(..)) || mode.truncate {
            change.time = TimeState::Present;
        }
    }

    /// Notes that the program wrote to a name without looking.
    fn expect_target(&mut self, unit: UnitId, resource: &FilePath, initial: Option<&Stat>) {
        if planted(Defect::TargetFact) {
            return;
        }
        let answer = match initial {
            Some(stat) if !is_regular(stat) || stat.st_nlink > 1 => return,
            _ => Answer::Writable,
        };
        let query = Query::Target(resource.clone());
        self.note(unit, query, Observed::Answer(answer), resource.clone());
    }

    /// A name was made anew, replaced or removed.
    fn remade(
        &mut self,
        unit: UnitId,
        path: &FilePath,
        initial: Option<Box<Stat>>,
        time: TimeState,
    ) -> &mut Change {
        let seq = self.tick();
        if let Some(stat) = initial.as_deref() {
            self.contents.forget(stat);
        }
        self.touch(unit, seq, path, true);
        let change = self.unit(unit).change(seq, path, initial);
        change.content.get_or_insert(seq);
        change.fresh = true;
        change.appended_from = None;
        change.linked_to = None;
        change.moved_from = None;
        change.mode_set = false;
        change.time = time;
        change
    }

    fn open_failed(&mut self, unit: UnitId, path: &PathRef, mode: &OpenMode, error: i32) {
        let given = FilePath::from(path.path.as_path());
        let located = self.look(unit, &path.path, path.follow);
        let plain = !mode.write && mode.create.is_none();
        match error {
            libc::ENOENT | libc::ENOTDIR if plain && located.stat.is_err() => {
                self.ask(unit, Query::Content(given), located.resource);
            }
            libc::EFAULT | libc::EINVAL | libc::ENAMETOOLONG => {}
            libc::ENOENT
            | libc::ENOTDIR
            | libc::EACCES
            | libc::EPERM
            | libc::EROFS
            | libc::EISDIR
            | libc::EEXIST
            | libc::ELOOP => {
                let follow = path.follow;
                let resource = located.resource;
                self.ask(
                    unit,
                    Query::Kind {
                        path: given.clone(),
                        follow,
                    },
                    resource.clone(),
                );
                if matches!(error, libc::EACCES | libc::EPERM | libc::EROFS) {
                    let mode = if mode.write { libc::W_OK } else { libc::R_OK };
                    let query = Query::Access {
                        path: given.clone(),
                        mode,
                        effective: true,
                        follow,
                    };
                    self.ask(unit, query, resource);
                    self.parent_access(unit, &given);
                }
                if error == libc::ENOENT {
                    self.parent_access(unit, &given);
                }
            }
            _ => self.doubt(unit, format!("fails to open {}", given.display()), true),
        }
    }

    fn parent_access(&mut self, unit: UnitId, path: &FilePath) {
        if let Some(parent) = path.parent() {
            let parent = FilePath::from(parent);
            let query = Query::Access {
                path: parent.clone(),
                mode: libc::W_OK | libc::X_OK,
                effective: true,
                follow: true,
            };
            self.ask(unit, query, parent);
        }
    }

    fn failed(&mut self, unit: UnitId, call: &str, paths: &[PathRef], error: i32) {
        match error {
            libc::EFAULT | libc::EINVAL | libc::ENAMETOOLONG | libc::EBADF | libc::EINTR => {}
            libc::ENOENT
            | libc::ENOTDIR
            | libc::EEXIST
            | libc::EISDIR
            | libc::ENOTEMPTY
            | libc::EACCES
            | libc::EPERM
            | libc::EROFS
            | libc::ELOOP
            | libc::EXDEV => {
                for path in paths {
                    if classify(&path.path) != Class::Ordinary {
                        continue;
                    }
                    let given = FilePath::from(path.path.as_path());
                    let located = self.look(unit, &path.path, path.follow);
                    let follow = path.follow;
                    self.ask(
                        unit,
                        Query::Kind {
                            path: given.clone(),
                            follow,
                        },
                        located.resource.clone(),
                    );
                    match error {
                        libc::ENOTEMPTY | libc::EEXIST
                            if located.stat.is_ok_and(|stat| is_directory(&stat)) =>
                        {
                            self.list_path(unit, &given, located.resource);
                        }
                        libc::EACCES | libc::EPERM | libc::EROFS => {
                            let query = Query::Access {
                                path: given.clone(),
                                mode: libc::W_OK,
                                effective: true,
                                follow: true,
                            };
                            self.ask(unit, query, located.resource);
                            self.ask(unit, Query::Permissions(given.clone()), given.clone());
                        }
                        _ => {}
                    }
                    self.parent_access(unit, &given);
                }
            }
            _ => {
                let error = std::io::Error::from_raw_os_error(error);
                self.doubt(unit, format!("{call} fails: {error}"), true);
            }
        }
    }

    fn read_link(&mut self, unit: UnitId, path: &Path) {
        match classify(path) {
            Class::Ordinary => {}
            Class::Determined => return,
            Class::Random | Class::Volatile => {
                self.doubt(unit, format!("reads the link {}", path.display()), true);
                return;
            }
        }
        let located = self.look(unit, path, false);
        let given = FilePath::from(path);
        self.ask(unit, Query::Link(given), located.resource);
    }

    fn list(&mut self, unit: UnitId, file: &OpenFile) {
        if !self.listed.insert(file.id) {
            return;
        }
        let Some(path) = &file.path else {
            self.doubt(unit, "lists a nameless directory", true);
            return;
        };
        match classify(path) {
            Class::Ordinary => {}
            Class::Determined => return,
            _ => {
                self.doubt(unit, format!("lists {}", path.display()), true);
                return;
            }
        }
        let located = self.look(unit, path, true);
        self.list_path(unit, &FilePath::from(path.as_path()), located.resource);
    }

    fn list_path(&mut self, unit: UnitId, path: &FilePath, resource: FilePath) {
        match self.world.listing(path) {
            Ok(names) => {
                self.note(
                    unit,
                    Query::List(path.clone()),
                    Observed::Listing(Arc::new(names)),
                    resource,
                );
            }
            Err(error) => {
                self.note(
                    unit,
                    Query::List(path.clone()),
                    Observed::Answer(errno(error)),
                    resource,
                );
            }
        }
    }

    fn renamed(&mut self, unit: UnitId, before: &Before, exchange: bool) {
        self.locator.forget();
        let [(from, source), (to, target)] = before.as_slice() else {
            return;
        };
        if exchange {
            self.doubt(unit, "exchanges two files", true);
            return;
        }
        if from == to {
            return;
        }
        let Some(stat) = source.as_deref() else {
            return;
        };
        if let Some(target) = target.as_deref()
            && (target.st_ino, target.st_dev) == (stat.st_ino, stat.st_dev)
        {
            // Two names of one file: rename does nothing.
            self.expect_kind(unit, from, Some(stat));
            return;
        }
        self.expect_kind(unit, from, Some(stat));
        self.expect_kind(unit, to, target.as_deref());
        let made = self
            .unit(unit)
            .changes
            .get(from)
            .filter(|c| c.content.is_some())
            .cloned();
        if is_directory(stat) {
            self.renamed_directory(unit, from, to, made.as_ref(), target.clone());
            return;
        }
        let time = match &made {
            Some(change) => change.time,
            None if is_regular(stat) => {
                // What moves keeps its time.
                let content = self.content(to, stat);
                let observed = Observed::Content(content);
                self.note(unit, Query::Content(from.clone()), observed, from.clone());
                let query = Query::Stat {
                    path: from.clone(),
                    follow: false,
                    time: TimeUse::Modified,
                };
                let observed = Observed::Metadata {
                    stat: Box::new(*stat),
                    content: None,
                };
                let seen = self.unit(unit).observations.contains_key(&query);
                self.note(unit, query.clone(), observed, from.clone());
                if let Some(noted) = self.unit(unit).observations.get_mut(&query) {
                    noted.carried = !seen;
                }
                if stat.st_nlink > 1 {
                    self.doubt(
                        unit,
                        format!("moves {}, which has several names", from.display()),
                        true,
                    );
                }
                TimeState::Set(
                    Some(ns(stat.st_atime, stat.st_atime_nsec as i64)),
                    Some(ns(stat.st_mtime, stat.st_mtime_nsec as i64)),
                )
            }
            None => {
                if let Ok(target) = std::fs::read_link(to) {
                    let answer = Observed::Answer(Answer::Path(FilePath::from(target)));
                    self.note(unit, Query::Link(from.clone()), answer, from.clone());
                }
                TimeState::Present
            }
        };
        let linked = made.as_ref().and_then(|change| change.linked_to.clone());
        let moved = match &made {
            Some(change) => change.moved_from.clone(),
            None => Some(from.clone()),
        };
        self.remade(unit, from, source.clone(), TimeState::Present);
        let change = self.remade(unit, to, target.clone(), time);
        change.mode_set = true;
        change.linked_to = linked;
        change.moved_from = moved;
    }

    /// Everything in a directory that the unit made gets its new name.
    fn renamed_directory(
        &mut self,
        unit: UnitId,
        from: &FilePath,
        to: &FilePath,
        made: Option<&Change>,
        target: Option<Box<Stat>>,
    ) {
        if !made.is_some_and(Change::was_absent) {
            self.doubt(
                unit,
                format!("moves the directory {}", from.display()),
                true,
            );
            return;
        }
        let inside: Vec<(FilePath, Change)> = self
            .unit(unit)
            .changes
            .iter()
            .filter(|(path, _)| path.starts_with(from.as_path()) && *path != from)
            .map(|(path, change)| (path.clone(), change.clone()))
            .collect();
        self.remade(unit, from, None, TimeState::Present);
        self.remade(unit, to, target, TimeState::Present);
        for (path, change) in inside {
            let Ok(rest) = path.strip_prefix(from.as_path()) else {
                continue;
            };
            let new = FilePath::from(to.join(rest));
            if rustix::fs::lstat(new.as_path()).is_err() {
                continue;
            }
            let linked =
                change
                    .linked_to
                    .clone()
                    .map(|target| match target.strip_prefix(from.as_path()) {
                        Ok(rest) => FilePath::from(to.join(rest)),
                        Err(_) => target,
                    });
            let moved = self.remade(unit, &new, None, change.time);
            moved.mode_set = change.mode_set;
            moved.linked_to = linked;
        }
    }

    fn linked(&mut self, unit: UnitId, before: &Before, from: &Place, to: &PathRef) {
        let Some((target, initial)) = before.last().cloned() else {
            return;
        };
        let source = match from {
            Place::Path(path) => Some(self.look(unit, &path.path, path.follow).resource),
            Place::File(file) => file.path.as_deref().map(|path| self.locator.name(path)),
        };
        let _ = to;
        self.expect_kind(unit, &target, initial.as_deref());
        let source = source.filter(|source| *source != target);
        if let Some(source) = &source {
            let made = self
                .unit(unit)
                .changes
                .get(source)
                .is_some_and(|c| c.content.is_some());
            if !made {
                let stat = rustix::fs::lstat(source.as_path()).ok();
                self.expect_kind(unit, source, stat.as_ref());
            }
        }
        let change = self.remade(unit, &target, initial, TimeState::Kept);
        change.linked_to = source;
        if change.linked_to.is_none() {
            change.time = TimeState::Present;
        }
    }

    fn truncated(&mut self, unit: UnitId, before: &Before, place: &Place, length: u64) {
        if let Place::File(file) = place
            && !self.is_own(unit, file)
        {
            self.doubt(unit, "sets the length of an inherited file", true);
            return;
        }
        let Some((path, initial)) = before.first().cloned() else {
            return;
        };
        let known = self
            .unit(unit)
            .changes
            .get(&path)
            .is_some_and(|c| c.content.is_some());
        if let (Some(stat), false) = (initial.as_deref(), known) {
            self.expect_target(unit, &path, Some(stat));
            if length > 0 && stat.st_size > 0 {
                let content = Observed::Content(self.content(&path, stat));
                self.note(unit, Query::Content(path.clone()), content, path.clone());
            }
            if stat.st_nlink > 1 {
                self.doubt(
                    unit,
                    format!("cuts {}, which has several names", path.display()),
                    true,
                );
            }
        }
        let seq = self.tick();
        self.touch(unit, seq, &path, false);
        let change = self.unit(unit).change(seq, &path, initial);
        change.content.get_or_insert(seq);
        change.appended_from = None;
        change.time = TimeState::Present;
    }

    /// Begins or continues a change of metadata.
    fn meta_change(&mut self, unit: UnitId, before: &Before, place: &Place) -> Option<&mut Change> {
        if let Place::File(file) = place
            && file.path.is_none()
        {
            // A file without a name (or a pipe): gone with its descriptor.
            return None;
        }
        let (path, initial) = before.first().cloned()?;
        let known = self.unit(unit).changes.contains_key(&path);
        if !known {
            self.expect_kind(unit, &path, initial.as_deref());
        }
        let seq = self.tick();
        self.touch(unit, seq, &path, false);
        let change = self.unit(unit).change(seq, &path, initial);
        change.meta.get_or_insert(seq);
        Some(change)
    }

    fn owned(&mut self, unit: UnitId, before: &Before, place: &Place) {
        let Some((path, initial)) = before.first() else {
            if place_path(place).is_none() {
                return;
            }
            self.doubt(unit, "changes the owner of a file", true);
            return;
        };
        let (uid, gid) = match initial.as_deref() {
            Some(stat) => (stat.st_uid, stat.st_gid),
            None => self.ids,
        };
        let same = rustix::fs::lstat(path.as_path())
            .is_ok_and(|now| (now.st_uid, now.st_gid) == (uid, gid));
        if same {
            let _ = self.meta_change(unit, before, place);
        } else {
            let text = format!("changes the owner of {}", path.display());
            self.doubt(unit, text, true);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one event")]
    fn wrote(
        &mut self,
        tid: Tid,
        unit: UnitId,
        fd: i32,
        file: &OpenFile,
        length: u64,
        positioned: bool,
        source: Option<&OpenFile>,
        buffers: &[(u64, u64)],
        read: Reader<'_>,
    ) {
        if self.jobserver.contains(&file.id) {
            return;
        }
        if self.is_own(unit, file) {
            if let Some(resource) = self.resources.get(&file.id).cloned() {
                let seq = self.tick();
                let change = self.unit(unit).changes.get_mut(&resource);
                if let Some(change) = change {
                    change.last = seq;
                    change.time = TimeState::Present;
                }
                self.touch(unit, seq, &resource, false);
            }
            return;
        }
        let seq = self.tick();
        if let Some(resource) = self.resources.get(&file.id).cloned() {
            // An ancestor opened it: its own change goes on.
            if let Some(owner) = self.owners.get(&file.id).copied()
                && let Some(change) = self.unit(owner).changes.get_mut(&resource)
            {
                change.last = seq;
                change.time = TimeState::Present;
            }
        }
        match &file.kind {
            FileKind::CharDevice(_) => return,
            FileKind::Anon(what) => {
                self.doubt_outside(unit, file, &format!("writes to an inherited {what}"));
                return;
            }
            _ => {}
        }
        if file
            .path
            .as_deref()
            .is_some_and(|path| classify(path) == Class::Determined)
        {
            return;
        }
        if positioned {
            self.doubt_outside(unit, file, "writes to a position in an inherited file");
            return;
        }
        if !self
            .unit(unit)
            .inherited
            .iter()
            .any(|inherited| inherited.file == file.id)
        {
            self.doubt_outside(
                unit,
                file,
                "writes to a descriptor that it got in some other way",
            );
            return;
        }
        let bytes = match source {
            None => read(buffers),
            Some(_) => match self.copied(tid, fd, length) {
                Some(bytes) => bytes,
                None => {
                    self.doubt_outside(unit, file, "copies into a pipe inside the kernel");
                    return;
                }
            },
        };
        if bytes.len() as u64 != length {
            self.doubt_outside(unit, file, "writes bytes that could not be read");
            return;
        }
        let total = &mut self.unit(unit).written_bytes;
        *total += length;
        if *total > MAX_STREAM {
            self.doubt_outside(
                unit,
                file,
                "writes more than 256 MiB to inherited descriptors",
            );
            self.unit(unit).written.clear();
            return;
        }
        self.unit(unit).written.push(Written {
            seq,
            file: file.id,
            bytes: bytes.into(),
        });
    }

    /// The last `length` bytes that an in-kernel copy put into a regular file.
    fn copied(&self, tid: Tid, fd: i32, length: u64) -> Option<Vec<u8>> {
        use std::os::unix::fs::FileExt;
        let position = position(tid, fd)?;
        let file = std::fs::File::open(format!("/proc/{tid}/fd/{fd}")).ok()?;
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        file.read_exact_at(&mut bytes, position.checked_sub(length)?)
            .ok()?;
        Some(bytes)
    }

    fn read_from(&mut self, unit: UnitId, file: &OpenFile) {
        if self.is_own(unit, file) || self.jobserver.contains(&file.id) {
            return;
        }
        match &file.kind {
            FileKind::Opened | FileKind::Regular | FileKind::Directory => {
                let Some(path) = file.path.clone() else {
                    self.doubt_outside(unit, file, "reads an inherited file without a name");
                    return;
                };
                if classify(&path) != Class::Ordinary {
                    if classify(&path) != Class::Determined {
                        self.doubt_outside(unit, file, "reads an inherited device");
                    }
                    return;
                }
                if self.unit(unit).consumed.contains(&file.id) {
                    return;
                }
                self.unit(unit).consumed.push(file.id);
                let located = self.look(unit, &path, true);
                let given = FilePath::from(path);
                match &located.stat {
                    Ok(stat) if is_regular(stat) => {
                        let content = Observed::Content(self.content(&given, stat));
                        if !planted(Defect::StdinFact) {
                            self.note(unit, Query::Content(given), content, located.resource);
                        }
                    }
                    _ => self.doubt_outside(unit, file, "reads an inherited file that has moved"),
                }
            }
            FileKind::CharDevice(number) => {
                // /dev/null (1:3) and /dev/zero (1:5) always say the same.
                if !matches!(number, 0x103 | 0x105) {
                    self.doubt_outside(unit, file, "reads an inherited device");
                }
            }
            FileKind::Pipe { .. } => {
                self.doubt_outside(unit, file, "reads from a pipe that others write to");
            }
            FileKind::Terminal => self.doubt_outside(unit, file, "reads from the terminal"),
            FileKind::Socket(_) => self.doubt_outside(unit, file, "reads from an inherited socket"),
            FileKind::MemFd | FileKind::Anon(_) | FileKind::Other(_) => {
                self.doubt_outside(unit, file, "reads from an inherited descriptor");
            }
        }
    }

    fn control(&mut self, unit: UnitId, file: &OpenFile, request: u64) {
        const TCGETS: u64 = libc::TCGETS;
        const TCGETS2: u64 = 0x802c_542a;
        const TIOCGWINSZ: u64 = libc::TIOCGWINSZ;
        const FIONREAD: u64 = libc::FIONREAD;
        const TIOCGPGRP: u64 = libc::TIOCGPGRP;
        match request {
            // Whether it is a terminal, and its size, are in the key.
            TCGETS | TCGETS2 | TIOCGWINSZ => {}
            TIOCGPGRP if !matches!(file.kind, FileKind::Terminal) => {}
            FIONREAD if self.is_own(unit, file) => {}
            _ => self.doubt(
                unit,
                format!("controls a device (ioctl {request:#x})"),
                true,
            ),
        }
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
        if !OWN.contains(&what) {
            self.doubt(unit, format!("changes {what}"), true);
        }
    }

    fn signalled(&mut self, unit: UnitId, target: i32) {
        let inside = target > 0
            && self
                .tasks
                .get(&target)
                .map(|task| task.unit)
                .is_some_and(|other| self.is_within(other, unit));
        if inside {
            return;
        }
        // For a unit above that holds both, the signal is internal.
        let other = (target > 0)
            .then(|| self.tasks.get(&target).map(|task| task.unit))
            .flatten();
        let mut at = Some(unit);
        while let Some(id) = at {
            if other.is_some_and(|other| self.is_within(other, id)) {
                break;
            }
            self.unit(id)
                .doubt("sends a signal to another process", false);
            at = self.unit(id).parent;
        }
    }
}

/// The path of a place.
fn place_path(place: &Place) -> Option<&Path> {
    match place {
        Place::Path(path) => Some(&path.path),
        Place::File(file) => file.path.as_deref(),
    }
}

/// The status flags of a descriptor, from `/proc/TID/fdinfo`.
pub fn open_flags(tid: Tid, fd: i32) -> Option<i32> {
    let info = std::fs::read_to_string(format!("/proc/{tid}/fdinfo/{fd}")).ok()?;
    let octal = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
    i32::from_str_radix(octal.trim(), 8).ok()
}

/// The position of a descriptor, from `/proc/TID/fdinfo`.
pub fn position(tid: Tid, fd: i32) -> Option<u64> {
    let info = std::fs::read_to_string(format!("/proc/{tid}/fdinfo/{fd}")).ok()?;
    info.lines()
        .find_map(|line| line.strip_prefix("pos:"))?
        .trim()
        .parse()
        .ok()
}
