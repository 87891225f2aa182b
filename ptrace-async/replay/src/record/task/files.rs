//! Calls that map files, and calls that change them ([`crate::record::mappings`]).

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use ptrace_async::memory::Memory;
use ptrace_async::runtime::{Prehook, Stopped, Tracee};
use ptrace_async::syscall::{Invocation, error_of};

use super::{PendingCall, RecordedTask, keep};
use crate::memory::maps;
use crate::record::descriptors::{self, FileKey};
use crate::record::scheduler::Scheduler;
use crate::trace::event::{Event, FileChanged, FileNumber, Write};
use crate::trace::files::is_of_the_system;

const PAGE: u64 = 4096;
/// Most bytes of new file content in one record.
const PIECE: u64 = 1 << 20;

/// A file that a call is going to map.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mapping {
    pub(super) file: FileNumber,
    /// Nothing for a file of the system.
    pub(super) key: Option<FileKey>,
    /// The program may write it through the mapping.
    pub(super) writes: bool,
}

/// A file that a call may change.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    key: FileKey,
    /// Whether a process has mapped it.
    pub(super) is_live: bool,
    /// The call may wait for another task: it takes what it writes from a pipe.
    pub(super) waits: bool,
    by_name: bool,
}

/// How a call names the file that it changes.
enum Target {
    Descriptor(u64),
    /// Relative to what this descriptor is, and the address of the name.
    Name(u64, u64),
}

/// The target of a call that changes a file. Only these calls and mappings change files.
fn target(call: &Invocation, memory: &dyn Memory) -> Option<Target> {
    const HERE: u64 = libc::AT_FDCWD as u64;
    let args = &call.args;
    let truncates = |flags: u64| flags as i32 & libc::O_TRUNC != 0;
    let target = match call.nr.cast_signed() {
        libc::SYS_write
        | libc::SYS_writev
        | libc::SYS_pwrite64
        | libc::SYS_pwritev
        | libc::SYS_pwritev2
        | libc::SYS_ftruncate
        | libc::SYS_fallocate
        | libc::SYS_sendfile => Target::Descriptor(args[0]),
        libc::SYS_copy_file_range | libc::SYS_splice => Target::Descriptor(args[2]),
        libc::SYS_ioctl if is_clone(call) => Target::Descriptor(args[0]),
        libc::SYS_truncate | libc::SYS_creat => Target::Name(HERE, args[0]),
        libc::SYS_open if truncates(args[1]) => Target::Name(HERE, args[0]),
        libc::SYS_openat if truncates(args[2]) => Target::Name(args[0], args[1]),
        libc::SYS_openat2 if truncates(memory.read_u64(args[2]).unwrap_or(0)) => {
            Target::Name(args[0], args[1])
        }
        _ => return None,
    };
    Some(target)
}

/// FICLONE or FICLONERANGE.
fn is_clone(call: &Invocation) -> bool {
    matches!(call.args[1], libc::FICLONE | libc::FICLONERANGE)
}

/// Whether a call may map a file or change one.
pub(super) fn is_about_files(call: &Invocation, memory: &dyn Memory) -> bool {
    let maps = call.nr == libc::SYS_mmap as u64 && call.args[3] as i32 & libc::MAP_ANONYMOUS == 0;
    maps || target(call, memory).is_some()
}

impl RecordedTask {
    /// A call is about to map a file: makes it live, once nobody can be changing it who does
    /// not take turns with this task.
    pub(super) async fn before_mapping(
        &self,
        tracee: &Tracee<Prehook>,
        call: &Invocation,
    ) -> Option<Mapping> {
        let flags = call.args[3] as i32;
        if call.nr != libc::SYS_mmap as u64 || flags & libc::MAP_ANONYMOUS != 0 {
            return None;
        }
        let (tid, fd) = (tracee.tid(), call.args[4]);
        let open = descriptors::path(tid, fd);
        let metadata = fs::metadata(&open).ok()?;
        let key = descriptors::key(&metadata)?;
        let access = descriptors::flags(tid, fd).unwrap_or(libc::O_RDWR);
        if access & libc::O_PATH != 0 || access & libc::O_ACCMODE == libc::O_WRONLY {
            // It is going to fail.
            return None;
        }
        let path = fs::read_link(&open)
            .map(|path| path.into_os_string().into_encoded_bytes())
            .unwrap_or_default();
        if is_of_the_system(&metadata, &path) {
            return Some(Mapping {
                file: self.session.file(self.task, tid, &open, &path)?,
                key: None,
                writes: false,
            });
        }
        let writes = flags & libc::MAP_SHARED != 0 && access & libc::O_ACCMODE == libc::O_RDWR;
        let all = &self.session.live_files;
        loop {
            if tracee.has_pending_stop() {
                return None;
            }
            let scheduler = self.scheduler();
            let other = match all.find(key) {
                Some(known) if known.changes || writes => all.another(key, &scheduler),
                Some(_) => None,
                None => all.writer(key, &scheduler),
            };
            match other {
                Some(other) => self.join(tracee, &other).await,
                None => break,
            }
        }
        let file = match all.find(key) {
            Some(known) => known.number,
            None => self.session.make_live(self.task, tid, &open, &path, key)?,
        };
        if writes {
            self.session.note_changes(tid, key);
        }
        self.space.expect(key);
        Some(Mapping {
            file,
            key: Some(key),
            writes,
        })
    }

    /// A call is about to change a file: if that is live, all who have mapped it take turns
    /// with this task from now on.
    pub(super) async fn before_change(
        &self,
        tracee: &Tracee<Prehook>,
        call: &Invocation,
    ) -> Option<Change> {
        let target = target(call, tracee)?;
        let tid = tracee.tid();
        let (metadata, by_name) = match target {
            Target::Descriptor(fd) => (fs::metadata(descriptors::path(tid, fd)), false),
            Target::Name(from, name) => (fs::metadata(named(tracee, from, name)?), true),
        };
        let key = descriptors::key(&metadata.ok()?)?;
        let waits = match call.nr.cast_signed() {
            libc::SYS_splice => true,
            libc::SYS_sendfile => {
                let from = fs::metadata(descriptors::path(tid, call.args[1]));
                !from.is_ok_and(|from| from.is_file())
            }
            _ => false,
        };
        let all = &self.session.live_files;
        let is_live = loop {
            if tracee.has_pending_stop() || all.find(key).is_none() {
                break false;
            }
            match all.another(key, &self.scheduler()) {
                // It is refused.
                Some(_) if waits => break true,
                Some(other) => self.join(tracee, &other).await,
                None => break true,
            }
        };
        if is_live && !waits {
            self.session.note_changes(tid, key);
        }
        if by_name {
            all.begin_change(key, self.scheduler());
        }
        Some(Change {
            key,
            is_live,
            waits,
            by_name,
        })
    }

    /// The task's group, of which it has the turn, becomes part of another.
    async fn join(&self, tracee: &Tracee<Prehook>, other: &Rc<Scheduler>) {
        self.log(Event::Joined(other.number()));
        self.scheduler().merge(other, self.task);
        self.take_turn(tracee).await;
    }

    /// A call has returned that may have changed a file; the task has had its turn all the
    /// time.
    pub(super) fn after_change<S: Stopped>(
        &self,
        tracee: &Tracee<S>,
        begun: &PendingCall,
        value: i64,
    ) {
        let call = &begun.invocation;
        let Some(change) = begun.change else {
            self.check_unannounced_change(tracee, call, value);
            return;
        };
        let all = &self.session.live_files;
        if change.by_name {
            all.end_change(change.key);
        }
        if !change.is_live {
            if change.waits && value > 0 && all.find(change.key).is_some() {
                self.session.fail_unordered_change(tracee.tid());
            }
            return;
        }
        let old = all.size(change.key);
        let Some((numbers, file, size)) = all.look(change.key) else {
            return;
        };
        let changed = changed(tracee, call, value, size);
        let Some(Changed { cut, ranges }) = changed else {
            return;
        };
        let log = |size: u64, offset: u64, bytes: &[u8]| {
            for &number in &numbers {
                self.log(Event::FileChanged(FileChanged {
                    number,
                    size,
                    offset,
                    bytes: bytes.to_vec(),
                }));
            }
        };
        if let Some(cut) = cut {
            log(cut.min(old), 0, &[]);
        }
        log(size, 0, &[]);
        // Programs may have written behind the end of the file, as far as its last page goes.
        let behind = (old, old.next_multiple_of(PAGE));
        for (start, end) in ranges.into_iter().chain((size > old).then_some(behind)) {
            let end = end.min(size);
            let mut at = start;
            while at < end {
                let mut bytes = vec![0; PIECE.min(end - at) as usize];
                let got = file.read_at(&mut bytes, at).unwrap_or(0);
                if got == 0 {
                    break;
                }
                log(size, at, &bytes[..got]);
                at += got as u64;
            }
        }
    }

    /// Ends the recording if a call has truncated a live file that was not announced: its name
    /// led elsewhere by then.
    fn check_unannounced_change<S: Stopped>(
        &self,
        tracee: &Tracee<S>,
        call: &Invocation,
        value: i64,
    ) {
        let opens = matches!(
            call.nr.cast_signed(),
            libc::SYS_open
                | libc::SYS_creat
                | libc::SYS_openat
                | libc::SYS_openat2
                | libc::SYS_open_by_handle_at
        );
        let truncates = match call.nr.cast_signed() {
            libc::SYS_open_by_handle_at => call.args[2] as i32 & libc::O_TRUNC != 0,
            _ => target(call, tracee).is_some(),
        };
        if opens && truncates && value >= 0 {
            let open = fs::metadata(descriptors::path(tracee.tid(), value.cast_unsigned()));
            let key = open.ok().and_then(|metadata| descriptors::key(&metadata));
            if key.is_some_and(|key| self.session.live_files.find(key).is_some()) {
                self.session.fail_unordered_change(tracee.tid());
            }
        }
    }
}

/// The parts of a file that a call has changed.
struct Changed {
    /// All from here on has gone meanwhile.
    cut: Option<u64>,
    /// From where up to where something is new.
    ranges: Vec<(u64, u64)>,
}

/// The changes of this call, after which the file has `size` bytes. Possibly only the size.
fn changed<S: Stopped>(
    tracee: &Tracee<S>,
    call: &Invocation,
    value: i64,
    size: u64,
) -> Option<Changed> {
    let args = &call.args;
    let tid = tracee.tid();
    let written = value.cast_unsigned();
    let position = |fd: u64| descriptors::position(tid, fd).saturating_sub(written);
    let appends = || {
        const APPEND: u64 = 0x10;
        let asks = call.nr == libc::SYS_pwritev2 as u64 && args[5] & APPEND != 0;
        asks || descriptors::flags(tid, args[0]).unwrap_or(libc::O_RDWR) & libc::O_APPEND != 0
    };
    let start = match call.nr.cast_signed() {
        _ if value < 0 && !is_clone(call) && call.nr != libc::SYS_fallocate as u64 => return None,
        libc::SYS_write | libc::SYS_writev | libc::SYS_sendfile => position(args[0]),
        libc::SYS_pwrite64 | libc::SYS_pwritev | libc::SYS_pwritev2 => {
            if appends() {
                size.saturating_sub(written)
            } else if call.nr == libc::SYS_pwritev2 as u64 && args[3] == u64::MAX {
                position(args[0])
            } else {
                args[3]
            }
        }
        libc::SYS_copy_file_range if args[3] == 0 => position(args[2]),
        libc::SYS_copy_file_range => {
            let behind = tracee.read_u64(args[3]).unwrap_or(0);
            behind.saturating_sub(written)
        }
        libc::SYS_fallocate => return Some(allocated(args, value)),
        libc::SYS_ioctl => {
            let (start, length) = if args[1] == libc::FICLONE {
                (0, 0)
            } else {
                // The third and the fourth word of struct file_clone_range.
                let word = |at: u64| tracee.read_u64(args[2] + 8 * at).unwrap_or(0);
                (word(3), word(2))
            };
            let end = match length {
                0 => u64::MAX,
                length => start.saturating_add(length),
            };
            return Some(Changed {
                cut: None,
                ranges: vec![(start, end)],
            });
        }
        _ => {
            return Some(Changed {
                cut: None,
                ranges: Vec::new(),
            });
        }
    };
    Some(Changed {
        cut: None,
        ranges: vec![(start, start.saturating_add(written))],
    })
}

/// The changes of fallocate(2) with these arguments and this result. A failed call may have
/// done a part, unless the file, its system or the arguments forbid it.
fn allocated(args: &[u64; 6], value: i64) -> Changed {
    let (mode, start) = (args[1] as i32, args[2]);
    let end = start.saturating_add(args[3]);
    let moves = libc::FALLOC_FL_COLLAPSE_RANGE | libc::FALLOC_FL_INSERT_RANGE;
    let zeroes = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE;
    let refused = matches!(
        error_of(value),
        Some(libc::EOPNOTSUPP | libc::EINVAL | libc::EPERM | libc::EBADF | libc::ETXTBSY)
    );
    Changed {
        cut: (mode & moves != 0 && !refused).then_some(start),
        ranges: if mode & moves != 0 {
            vec![(start, u64::MAX)]
        } else if mode & zeroes != 0 {
            vec![(start, end)]
        } else {
            Vec::new()
        },
    }
}

/// Where the recorder finds what a task calls by the name at this address, relative to what
/// is open at `from`.
fn named<S: Stopped>(tracee: &Tracee<S>, from: u64, name: u64) -> Option<PathBuf> {
    let mut bytes = vec![0; libc::PATH_MAX as usize];
    let got = tracee.read(name, &mut bytes);
    let end = bytes[..got].iter().position(|&byte| byte == 0)?;
    let name = Path::new(std::ffi::OsStr::from_bytes(&bytes[..end]));
    if name.as_os_str().is_empty() {
        return None;
    }
    let (tid, tgid) = (tracee.tid(), tracee.tgid());
    // These mean who asks.
    let own = [
        ("/proc/self", format!("/proc/{tgid}")),
        ("/proc/thread-self", format!("/proc/{tgid}/task/{tid}")),
        ("/dev/fd", format!("/proc/{tgid}/fd")),
        ("/dev/stdin", format!("/proc/{tgid}/fd/0")),
        ("/dev/stdout", format!("/proc/{tgid}/fd/1")),
        ("/dev/stderr", format!("/proc/{tgid}/fd/2")),
    ];
    for (theirs, ours) in own {
        if let Ok(rest) = name.strip_prefix(theirs) {
            return Some(if rest.as_os_str().is_empty() {
                ours.into()
            } else {
                Path::new(&ours).join(rest)
            });
        }
    }
    Some(match name.strip_prefix("/") {
        Ok(rest) => PathBuf::from(format!("/proc/{tid}/root")).join(rest),
        Err(_) if from as i32 == libc::AT_FDCWD => {
            PathBuf::from(format!("/proc/{tid}/cwd")).join(name)
        }
        Err(_) => descriptors::path(tid, from).join(name),
    })
}

/// Keeps what a call has made the program's own: pages of files that it may write, which show
/// the file no more. A replay that writes them makes them its program's own as well.
pub(super) fn keep_own<S: Stopped>(tracee: &Tracee<S>, call: &Invocation, writes: &mut Vec<Write>) {
    const ALL: (u64, u64) = (0, u64::MAX);
    const POPULATE_WRITE: i32 = 23;
    const ON_FAULT: u64 = libc::MLOCK_ONFAULT as u64;
    let [start, length, third, ..] = call.args;
    let range = (start & !(PAGE - 1), start.saturating_add(length));
    let (start, end) = match call.nr.cast_signed() {
        libc::SYS_mlock => range,
        libc::SYS_mlock2 if third & ON_FAULT == 0 => range,
        libc::SYS_mlockall if start as i32 & libc::MCL_CURRENT != 0 => ALL,
        libc::SYS_madvise if third as i32 == POPULATE_WRITE => range,
        _ => return,
    };
    for area in maps::read(tracee.tgid()).unwrap_or_default() {
        let writable = i32::from(area.prot) & libc::PROT_WRITE != 0;
        let (start, end) = (area.start.max(start), area.end.min(end));
        if area.inode != 0 && !area.shared && writable && start < end {
            keep(tracee, start, end.next_multiple_of(PAGE) - start, writes);
        }
    }
}
