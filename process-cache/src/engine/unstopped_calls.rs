//! Applies lookups that tracees made without a stop.
//!
//! Lookups are applied before any other work at a stop of their task, and before and after any
//! change of a name. So they precede all changes that they really preceded. A lookup shortly after
//! a change may be taken for an earlier one. [`Change::made`](crate::engine::unit::Change::made)
//! distinguishes a file found during its creation from one that existed before.
//!
//! A lookup that found nothing is trusted. The result of a successful lookup is queried when the
//! lookup is applied. The unit becomes uncacheable if the file is gone by then, or changed in
//! between so that the state seen by the lookup is unknown.
//!
//! Once neither the unit nor one above it can be stored, nobody needs its lookups: tasks do not log
//! them any more. Their opens, descriptors and changes are still seen, because units below may be
//! stored.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ptrace_async::event::{IoEvent, Tid};
use ptrace_async::invocation::Invocation;
use ptrace_async::memory::Memory;
use ptrace_async::runtime::{Prehook, Stop, Tracee, UnstoppedCall, UnstoppedCalls};
use smallvec::SmallVec;

use crate::engine::session::{Before, Session};
use crate::engine::tracer::Tracer;
use crate::model::path::Asked;
use crate::model::path_kind::{Class, classify};
use crate::model::unit_id::UnitId;
use crate::world::lookup_cache::Kind;

/// Flags of an open that only reads an existing file.
const PLAIN: u64 = (libc::O_CLOEXEC | libc::O_NOCTTY) as u64;
/// Upper bound of the logged bytes of a call.
const MOST_LOGGED: usize = 1 << 16;

/// Whether an unstopped call writes.
fn writes(nr: u64) -> bool {
    matches!(
        nr.cast_signed(),
        libc::SYS_write | libc::SYS_writev | libc::SYS_pwrite64
    )
}

/// Returns the bytes that a call wrote, as far as they were logged.
fn written(call: &UnstoppedCall, ranges: &[(u64, u64)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for &(address, len) in ranges {
        let mut range = vec![0; usize::try_from(len).unwrap_or(0).min(MOST_LOGGED)];
        let got = call.read(address, &mut range);
        bytes.extend_from_slice(&range[..got]);
    }
    bytes
}

impl Tracer {
    /// Lets a task that makes many lookups perform them without stops.
    pub(crate) async fn hasten(&self, tracee: Tracee<Prehook>) -> Result<Tracee<Prehook>, Stop> {
        let skipped = {
            let session = self.session.borrow();
            session.settings.stops_only
                || session
                    .tasks
                    .get(tracee.tid())
                    .is_none_or(|task| task.skipped)
        };
        if skipped {
            return Ok(tracee);
        }
        tracee.perform_in_process().await
    }

    /// Applies a task's unstopped calls. If the task wrote, those of all other tasks are applied
    /// too, in order.
    pub(crate) fn catch_up(&self, tid: Tid) {
        let calls = self.handle.unstopped_calls(tid);
        let wrote = |calls: &[UnstoppedCall]| calls.iter().any(|call| writes(call.invocation().nr));
        match calls {
            UnstoppedCalls::Made(calls) if wrote(&calls) => {
                self.apply_all(vec![(tid, UnstoppedCalls::Made(calls))])
            }
            calls => self.session.borrow_mut().looked_up(tid, calls),
        }
        let session = self.session.borrow();
        let unit = session.tasks.get(tid).map(|task| task.unit);
        if unit.is_some_and(|unit| session.is_lost(unit)) {
            self.handle.forgo_lookups(tid);
        }
    }

    /// Applies the unstopped calls of all tasks in order.
    pub(crate) fn catch_up_all(&self) {
        self.apply_all(Vec::new());
    }

    /// Applies these calls and those of all other tasks.
    fn apply_all(&self, mut logs: Vec<(Tid, UnstoppedCalls)>) {
        let now = self.session.borrow().now();
        logs.extend(self.handle.all_unstopped_calls(now));
        let mut session = self.session.borrow_mut();
        session.locator.revalidate_directories();
        if logs.len() < 2 {
            for (tid, calls) in logs {
                session.looked_up(tid, calls);
            }
            return;
        }
        let mut merged = Vec::new();
        for (tid, calls) in logs {
            match calls {
                UnstoppedCalls::Made(calls) => {
                    merged.extend(calls.into_iter().map(|call| (tid, call)))
                }
                UnstoppedCalls::Lost => session.looked_up(tid, UnstoppedCalls::Lost),
            }
        }
        // The calls of one task have ascending numbers.
        merged.sort_by_key(|(_, call)| call.stamp());
        session.jobs.hold();
        for (tid, call) in merged {
            session.apply_logged(tid, &call);
        }
        session.jobs.release();
    }
}

impl Session {
    fn looked_up(&mut self, tid: Tid, calls: UnstoppedCalls) {
        match calls {
            UnstoppedCalls::Made(calls) => {
                self.jobs.hold();
                self.locator.revalidate_directories();
                for call in calls {
                    self.apply_logged(tid, &call);
                }
                self.jobs.release();
            }
            UnstoppedCalls::Lost => {
                if let Some(unit) = self.unit_of(tid) {
                    self.mark_uncacheable(
                        unit,
                        "wrote less with writev than it had (as on a full disk), or overwrote the memory \
                         in which pcache logs its calls",
                        true,
                    );
                }
            }
        }
    }

    /// Whether a call repeats, by an absolute path, a query that its unit knows. Then nothing
    /// needs to be applied. This holds for most lookups of compilers.
    fn asks_again(&self, tid: Tid, unit: UnitId, call: &UnstoppedCall) -> bool {
        let Invocation { nr, args } = call.invocation();
        let kind = match nr.cast_signed() {
            libc::SYS_readlink => Some(Kind::LINK),
            libc::SYS_access => Kind::access(args[1] as i32, false, true),
            libc::SYS_newfstatat => {
                let follow = args[3] & libc::AT_SYMLINK_NOFOLLOW as u64 == 0;
                Some(Kind::no_metadata(follow))
            }
            libc::SYS_statx => {
                let follow = args[2] & libc::AT_SYMLINK_NOFOLLOW as u64 == 0;
                Some(Kind::no_metadata(follow))
            }
            _ => None,
        };
        let Some((kind, path)) = kind.zip(call.path()) else {
            return false;
        };
        let path = Path::new(OsStr::from_bytes(path));
        self.lookups.knows(unit, path, kind, Some(call.value()))
            && self.model.root(tid).is_some_and(|root| *root == *"/")
    }

    /// Whether a call reads a file that its unit opened, or queries its metadata. The open has
    /// recorded everything.
    fn reads_its_own(&self, tid: Tid, unit: UnitId, call: &UnstoppedCall) -> bool {
        let Invocation { nr, args } = call.invocation();
        let reads = match nr.cast_signed() {
            libc::SYS_read | libc::SYS_fstat => true,
            libc::SYS_newfstatat => {
                args[3] & libc::AT_EMPTY_PATH as u64 != 0 && call.path() == Some(b"")
            }
            libc::SYS_statx => {
                args[2] & libc::AT_EMPTY_PATH as u64 != 0 && call.path() == Some(b"")
            }
            _ => false,
        };
        reads
            && self
                .model
                .file(tid, args[0] as i32)
                .is_some_and(|file| self.is_own(unit, file))
    }

    /// Whether a call opens a file that another unit has read before, or repeats an open that
    /// found nothing. If so, notes it as [`Session::apply`] would. This holds for most opens of
    /// compilers.
    fn opens_as_before(&mut self, tid: Tid, unit: UnitId, call: &UnstoppedCall) -> bool {
        let Invocation { nr, args } = call.invocation();
        let flags = match nr.cast_signed() {
            libc::SYS_openat if args[0] as i32 == libc::AT_FDCWD => args[2],
            libc::SYS_open => args[1],
            _ => return false,
        };
        let value = call.value();
        let decided = value >= 0 || value == -i64::from(libc::ENOENT);
        let simple = flags & !PLAIN == 0 && call.mark().is_none() && self.lookups.is_quiet();
        if !decided || !simple || self.model.root(tid).is_none_or(|root| *root != *"/") {
            return false;
        }
        let mut path = std::mem::take(&mut self.spelled);
        let given = call.path().unwrap_or_default();
        let is_known = self.model.find(tid, given, &mut path) && {
            let asked = Asked::new(&path);
            match value {
                0.. => self.opened_as_before(unit, asked),
                _ => self.missing_as_before(unit, asked),
            }
        };
        if is_known {
            self.call.forget_looked_at();
            if let Ok(fd) = i32::try_from(value)
                && fd >= 0
            {
                let path = Path::new(OsStr::from_bytes(&path)).to_owned();
                let file = self.model.opened_to_read(tid, fd, path, flags as i32);
                self.descriptions.set_owner(file, unit);
            }
        }
        self.spelled = path;
        is_known
    }

    /// Compares the change time of a directory with the time that it had when it was listed.
    fn compare_listed(&mut self, tid: Tid, unit: UnitId, call: &UnstoppedCall) {
        // A failing call has shown no names.
        let Some(then) = call.changed_at().filter(|_| call.value() >= 0) else {
            return;
        };
        let file = self.model.file(tid, call.invocation().args[0] as i32);
        let Some(path) = file.and_then(|file| file.path.clone()) else {
            return;
        };
        // Directories of /proc differ among processes, and other rules treat them.
        if classify(&path) != Class::Ordinary {
            return;
        }
        let changed = |stat: rustix::fs::Stat| {
            let nanoseconds = stat.st_ctime.saturating_mul(1_000_000_000);
            nanoseconds.saturating_add(stat.st_ctime_nsec as i64)
        };
        if rustix::fs::stat(&*path).map(changed) != Ok(then) {
            let reason = format!("{} changed while it was listed", path.display());
            self.mark_uncacheable(unit, reason, true);
        }
    }

    fn apply_logged(&mut self, tid: Tid, call: &UnstoppedCall) {
        let unit = match self.tasks.get(tid) {
            Some(task) if !task.skipped => task.unit,
            _ => return,
        };
        if call.value() < 0 || writes(call.invocation().nr) {
            self.returned(tid, &call.invocation(), call.value(), call);
        }
        let is_applied = self.opens_as_before(tid, unit, call)
            || self.reads_its_own(tid, unit, call)
            || self.asks_again(tid, unit, call);
        if is_applied {
            return;
        }
        let mut events: SmallVec<[IoEvent; 2]> = SmallVec::new();
        self.compare_listed(tid, unit, call);
        self.check_left_directory(tid, &call.invocation(), false);
        let entry = self.model.entry(tid, &call.invocation(), call, &mut events);
        let mut unwritten = None;
        if let Some(pending) = entry.pending {
            if call.value() < 0 {
                unwritten = pending.writes_to();
            }
            self.model
                .exit(tid, pending, call.value(), call, &mut events);
        }
        let nr = call.invocation().nr;
        let is_lookup =
            !writes(nr) && !matches!(nr.cast_signed(), libc::SYS_read | libc::SYS_lseek);
        let returned = is_lookup.then_some(call.value());
        self.call.set_unstopped(returned, call.mark());
        let read = |ranges: &[(u64, u64)]| written(call, ranges);
        for event in events {
            self.apply(tid, &Before::new(), event, &read);
        }
        if let (Some(file), Some(unit)) = (unwritten, self.unit_of(tid)) {
            self.could_not_write(unit, &file, call.value());
        }
        self.call.set_unstopped(None, None);
    }
}
