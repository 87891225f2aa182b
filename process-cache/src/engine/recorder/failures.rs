//! Failures of the moment: calls that failed for a reason which no fact describes.
//!
//! The [syscall table](ptrace_async::syscall::Failure) says which errors follow from what a unit
//! observes. A unit that met another error is not stored, whatever its exit status: a later run may
//! find the lock free and space on the disk. Neither are the units above it, which saw its result.

use std::sync::OnceLock;

use ptrace_async::event::{FileKind, OpenFile, Tid};
use ptrace_async::invocation::Invocation;
use ptrace_async::memory::Memory;
use ptrace_async::process::clone_flags;
use ptrace_async::syscall::{Failure, error_of, table};

use crate::engine::session::Session;
use crate::model::path_kind::{Class, classify};
use crate::model::unit_id::UnitId;
use crate::platform::defect::{Defect, planted};
use crate::platform::os;
use crate::platform::proc_files::position;

/// The kernel writes at most this many bytes in one call (`MAX_RW_COUNT`).
const MOST_AT_ONCE: u64 = 0x7fff_f000;
/// The kernel takes at most this many buffers in one call (`UIO_MAXIOV`).
const MOST_BUFFERS: u64 = 1024;
/// `ERESTARTNOINTR`: a signal came first, and the call is made again.
const RESTARTS: i32 = 513;
/// Flags of a clone with which it fails for reasons of its own: namespaces, a pidfd, a cgroup.
const DEMANDING: u64 =
    0x7e02_0000 | 0x80 | 0x2_0000_0000 | libc::CLONE_PIDFD as u64 | libc::CLONE_PARENT as u64;

/// Whether the exit of a call is seen where its result matters: writes to files that can be full,
/// commands that change descriptors or locks, and new tasks, which are seen themselves.
fn is_seen_anyway(nr: i64) -> bool {
    matches!(
        nr,
        libc::SYS_write
            | libc::SYS_writev
            | libc::SYS_pwrite64
            | libc::SYS_pwritev
            | libc::SYS_pwritev2
            | libc::SYS_sendfile
            | libc::SYS_splice
            | libc::SYS_tee
            | libc::SYS_vmsplice
            | libc::SYS_copy_file_range
            | libc::SYS_close
            | libc::SYS_ioctl
            | libc::SYS_fcntl
            | libc::SYS_fork
            | libc::SYS_vfork
            | libc::SYS_clone
            | libc::SYS_clone3
    )
}

/// Whether a call may fail for a reason that passes, and its exit is not seen anyway where that
/// matters; by number.
fn may_fail_for_now(nr: u64) -> bool {
    static TABLE: OnceLock<Vec<bool>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let mut table = vec![false; 512];
        for spec in table::all() {
            let mut failures = spec.failures().into_iter();
            if let Some(entry) = table.get_mut(usize::from(spec.number)) {
                let shows =
                    |(error, failure): (i32, Failure)| failure.passes() || error == libc::ENODATA;
                *entry = !is_seen_anyway(spec.number.into()) && failures.any(shows);
            }
        }
        table
    });
    usize::try_from(nr).is_ok_and(|nr| table.get(nr) == Some(&true))
}

/// Whether the world gives this error where a lookup gets it.
fn is_of_lookup(error: i32) -> bool {
    use libc::{EACCES, ELOOP, ENODATA, ENOENT, ENOTDIR};
    matches!(error, ENOENT | ENOTDIR | EACCES | ELOOP | ENODATA)
}

/// Whether the path that a call names ends with a slash.
fn ends_with_slash(call: &Invocation, memory: &dyn Memory) -> bool {
    let spec = call.syscall().spec();
    let path = spec.and_then(|spec| spec.paths().next());
    path.is_some_and(|(position, _)| {
        let path = memory.read_c_string(call.args[position], libc::PATH_MAX as usize);
        path.is_ok_and(|path| path.ends_with(b"/") || path.ends_with(b"/."))
    })
}

/// Whether a call makes a task.
pub(crate) fn makes_task(call: &Invocation) -> bool {
    matches!(
        call.nr.cast_signed(),
        libc::SYS_fork | libc::SYS_vfork | libc::SYS_clone | libc::SYS_clone3
    )
}

/// Whether writes to a file may fail because a disk is full.
pub(crate) fn can_be_full(file: &OpenFile) -> bool {
    match file.kind {
        FileKind::Opened | FileKind::Regular => {
            let path = file.path.as_deref();
            path.is_none_or(|path| classify(path) == Class::Ordinary)
        }
        FileKind::MemFd => true,
        _ => false,
    }
}

/// The bytes that a call was to write.
struct Transfer {
    /// The descriptor that it writes to.
    to: i32,
    length: u64,
    /// The descriptor from which the kernel copies, and the offset after the call if it has one of
    /// its own.
    from: Option<(i32, Option<u64>)>,
}

impl Transfer {
    fn of(call: &Invocation, memory: &dyn Memory) -> Option<Self> {
        let args = call.args;
        let written = |length| Self {
            to: args[0] as i32,
            length,
            from: None,
        };
        let copied = |from: usize, to: usize, offset: u64, length: u64| Self {
            to: args[to] as i32,
            length,
            from: Some((args[from] as i32, number_at(memory, offset))),
        };
        Some(match call.nr.cast_signed() {
            libc::SYS_write | libc::SYS_pwrite64 => written(args[2]),
            libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2 => {
                let lengths = (0..args[2].min(MOST_BUFFERS)).map(|index| args[1] + index * 16 + 8);
                let lengths = lengths.map(|at| number_at(memory, at).unwrap_or_default());
                written(lengths.fold(0, u64::saturating_add))
            }
            libc::SYS_sendfile => copied(1, 0, args[2], args[3]),
            libc::SYS_splice | libc::SYS_copy_file_range => copied(0, 2, args[1], args[4]),
            _ => return None,
        })
    }
}

/// Reads a number of 8 bytes; there is none at address 0.
fn number_at(memory: &dyn Memory, address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    let read = address != 0 && memory.read_exact(address, &mut bytes).is_ok();
    read.then(|| u64::from_le_bytes(bytes))
}

/// Returns how many bytes of a plain file follow its position, or an offset.
fn left_in(tid: Tid, fd: i32, offset: Option<u64>) -> Option<u64> {
    let file = std::fs::metadata(format!("/proc/{tid}/fd/{fd}")).ok()?;
    let at = offset.or_else(|| position(tid, fd))?;
    file.is_file().then(|| file.len().saturating_sub(at))
}

/// Returns how many bytes are free where a file is.
fn free_for(tid: Tid, fd: i32) -> Option<u64> {
    let found = rustix::fs::statvfs(format!("/proc/{tid}/fd/{fd}")).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

impl Session {
    /// Handles the result of a call: marks the units that met a failure of the moment.
    pub(crate) fn returned(
        &mut self,
        tid: Tid,
        call: &Invocation,
        result: i64,
        memory: &dyn Memory,
    ) {
        let failure = call.failure(result);
        if super::mounts::copies(call) {
            let is_error = matches!(failure, Some((libc::EXDEV, _)));
            let is_known = is_error || failure.is_none();
            if is_known && !self.need_one_device(tid, call, is_error) && is_error {
                self.failed_for_now(tid, call, libc::EXDEV);
            }
        }
        match failure {
            Some((error, failure)) if failure.passes() => self.failed_for_now(tid, call, error),
            Some((error, Failure::Fact)) if !self.is_due(tid, call, error) => {
                self.failed_for_now(tid, call, error);
            }
            Some(_) => {}
            None if self.wrote_less(tid, call, result, memory) => {
                let is_limited = os::limits(tid).is_ok_and(|limits| {
                    limits[libc::RLIMIT_FSIZE as usize][0] != libc::RLIM_INFINITY
                });
                let error = if is_limited {
                    libc::EFBIG
                } else {
                    libc::ENOSPC
                };
                self.failed_for_now(tid, call, error);
            }
            None => self.asked_for_lock(tid, call, memory),
        }
    }

    /// Whether a call is about to close a plain file that is open for writing: what was written may
    /// fail to reach the disk (close(2)). To be asked before the model of processes hears of the call.
    pub(crate) fn closes_file(&self, tid: Tid, call: &Invocation) -> bool {
        let file = (call.nr.cast_signed() == libc::SYS_close)
            .then(|| self.model.file(tid, call.args[0] as i32))
            .flatten();
        file.is_some_and(|file| {
            file.writable && matches!(file.kind, FileKind::Opened | FileKind::Regular)
        })
    }

    /// Whether the result of a call that stops must be seen because it may fail for a reason that
    /// passes. That of others is only seen where the process model needs it.
    pub(crate) fn must_see_result(&mut self, tid: Tid, call: &Invocation) -> bool {
        let Some(unit) = self.unit_of(tid) else {
            return false;
        };
        if !may_fail_for_now(call.nr) || self.is_lost(unit) {
            return false;
        }
        match call.nr.cast_signed() {
            libc::SYS_getrandom => call.args[2] & u64::from(libc::GRND_NONBLOCK) != 0,
            libc::SYS_read
            | libc::SYS_readv
            | libc::SYS_pread64
            | libc::SYS_preadv
            | libc::SYS_preadv2 => {
                // A pipe has no errors of this kind.
                let file = self.model.file(tid, call.args[0] as i32);
                file.is_some_and(|file| !matches!(file.kind, FileKind::Pipe { .. }))
            }
            _ => true,
        }
    }

    /// Compares the error of a lookup with the answer that was noted at its entry. If they differ,
    /// another process changed the file in between.
    pub(crate) fn compare_lookup(
        &mut self,
        tid: Tid,
        call: &Invocation,
        result: i64,
        noted: Option<Result<(), i32>>,
        memory: &dyn Memory,
    ) {
        let Some(error) = error_of(result).filter(|error| is_of_lookup(*error)) else {
            return;
        };
        let differs = noted.is_some_and(|noted| noted != Err(error));
        // A slash at the end asks for a directory, and the answer is that of the path without it.
        let is_due = || error == libc::ENOTDIR && ends_with_slash(call, memory);
        if differs && !is_due() {
            self.failed_for_now(tid, call, error);
        }
    }

    /// Whether a call put fewer bytes on a disk than it was given, or than it could have copied.
    fn wrote_less(&self, tid: Tid, call: &Invocation, result: i64, memory: &dyn Memory) -> bool {
        let Some(transfer) = Transfer::of(call, memory) else {
            return false;
        };
        let (to, written) = (transfer.to, result.cast_unsigned());
        let can_be_full = |fd| self.model.file(tid, fd).is_some_and(|it| can_be_full(it));
        if written >= transfer.length.min(MOST_AT_ONCE) || !can_be_full(to) {
            return false;
        }
        match transfer.from {
            None => true,
            Some(_) if planted(Defect::ShortTransfer) => false,
            Some((from, offset)) => match left_in(tid, from, offset) {
                Some(left) => left > 0,
                // A pipe may have held no more; a full disk tells itself.
                None => free_for(tid, to).is_none_or(|free| free < transfer.length - written),
            },
        }
    }

    /// `F_GETLK` tells which process holds a lock.
    fn asked_for_lock(&mut self, tid: Tid, call: &Invocation, memory: &dyn Memory) {
        let asks = call.nr == libc::SYS_fcntl as u64
            && matches!(call.args[1] as i32, libc::F_GETLK | libc::F_OFD_GETLK);
        if !asks {
            return;
        }
        let mut kind = [0; 2];
        let is_free = memory.read_exact(call.args[2], &mut kind).is_ok()
            && i32::from(i16::from_le_bytes(kind)) == libc::F_UNLCK;
        if !is_free && let Some(unit) = self.unit_of(tid) {
            self.mark_uncacheable_upwards(unit, "asks for a lock that another process holds");
        }
    }

    /// Whether the exit of a call that makes a task must be seen. A task that was made is seen
    /// anyway, and a call without special demands fails only for a lack of something.
    pub(crate) fn awaits_task(&self, call: &Invocation, memory: &dyn Memory) -> bool {
        let flags = clone_flags(call, memory);
        let is_new = call.nr == libc::SYS_clone3 as u64 && self.has_clone3 != Some(true);
        is_new || flags.is_none_or(|flags| flags & DEMANDING != 0)
    }

    /// Notes that a call made a task.
    pub(crate) fn made_task(&mut self, call: &Invocation) {
        if call.nr == libc::SYS_clone3 as u64 {
            self.has_clone3 = Some(true);
        }
    }

    /// Handles a call that made no task. Its result is not known if another call was seen first.
    pub(crate) fn made_no_task(
        &mut self,
        tid: Tid,
        call: &Invocation,
        result: Option<i64>,
        memory: Option<&dyn Memory>,
    ) {
        let flags = memory.and_then(|memory| clone_flags(call, memory));
        match result.map(|result| (error_of(result), call.failure(result))) {
            Some((Some(RESTARTS), _)) => {}
            Some((_, Some((error, failure)))) if failure.passes() => {
                self.failed_for_now(tid, call, error);
            }
            // Only special demands are not permitted.
            Some((_, Some((libc::EPERM, _))))
                if flags.is_some_and(|flags| flags & DEMANDING == 0) =>
            {
                self.failed_for_now(tid, call, libc::EPERM);
            }
            Some((_, Some(_))) => {}
            _ => self.failed_for_now(tid, call, libc::EAGAIN),
        }
    }

    fn failed_for_now(&mut self, tid: Tid, call: &Invocation, error: i32) {
        if planted(Defect::MomentFailure) {
            return;
        }
        let Some(unit) = self.unit_of(tid) else {
            return;
        };
        let spec = call.syscall();
        let by_descriptor = spec
            .spec()
            .and_then(|spec| spec.args.first())
            .is_some_and(|arg| matches!(arg.ty, ptrace_async::syscall::Type::Fd));
        let file = by_descriptor
            .then(|| self.model.file(tid, call.args[0] as i32))
            .flatten();
        let path = file.and_then(|file| file.path.as_deref());
        let of = path.map_or_else(String::new, |path| format!(" of {}", path.display()));
        let call = format!("{}{of}", spec.name());
        self.fails_for_now(unit, &call, error);
    }

    /// Marks a unit, and all above it, after a call failed for a reason that no fact describes.
    pub(super) fn fails_for_now(&mut self, unit: UnitId, call: &str, error: i32) {
        if planted(Defect::MomentFailure) {
            return;
        }
        let text = std::io::Error::from_raw_os_error(error).to_string();
        let text = text.split(" (os error").next().unwrap_or_default();
        self.mark_uncacheable_upwards(unit, &format!("{call} fails for the moment: {text}"));
    }
}
