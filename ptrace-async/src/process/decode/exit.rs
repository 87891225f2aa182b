//! Applying a syscall's result at its exit.

use std::rc::Rc;

use smallvec::SmallVec;

use super::context::changed_paths;
use super::descriptors::{read_from_now_on, set_status};
use super::step::{Buffers, ExitStep, Pending, PendingWrite, Report};
use crate::event::{FileKind, FileRef, IoEvent, OpenFile, PathRef, Tid};
use crate::memory::Memory;
use crate::process::model::{NewDescription, Processes};
use crate::process::{nr, proc};

/// The kernel's `ERESTART*` results: the call was interrupted and comes again.
const RESTARTS: std::ops::RangeInclusive<i64> = -516..=-512;
/// The kernel's limit of elements in an I/O vector (`UIO_MAXIOV`).
const IOV_MAX: u64 = 1024;
/// `struct msghdr`, and `struct mmsghdr` with its padding.
const MSGHDR: u64 = 56;
const MMSGHDR: u64 = 64;
/// How many bytes of control data are examined.
const CONTROL_LIMIT: usize = 65_536;

/// One syscall at its exit.
struct ExitContext<'a> {
    model: &'a mut Processes,
    tid: Tid,
    nr: u64,
    result: i64,
    memory: &'a dyn Memory,
    out: &'a mut SmallVec<[IoEvent; 2]>,
}

pub(super) fn exit(
    model: &mut Processes,
    tid: Tid,
    pending: Pending,
    result: i64,
    memory: &dyn Memory,
    out: &mut SmallVec<[IoEvent; 2]>,
) {
    if RESTARTS.contains(&result) {
        return;
    }
    let context = ExitContext {
        model,
        tid,
        nr: pending.nr,
        result,
        memory,
        out,
    };
    if result < 0 {
        let error = i32::try_from(result.unsigned_abs()).unwrap_or(i32::MAX);
        context.failed(pending.step, error);
    } else {
        context.succeeded(pending.step);
    }
}

impl ExitContext<'_> {
    fn failed(self, step: ExitStep, error: i32) {
        let event = match step {
            ExitStep::Open(opening) => IoEvent::Open {
                path: opening.path,
                mode: opening.mode,
                file: None,
                error: Some(error),
            },
            ExitStep::Exec { path } => IoEvent::ExecFailed { path, error },
            ExitStep::ChangeDir { path: Some(path) } => IoEvent::ChangeDir {
                path,
                error: Some(error),
            },
            ExitStep::Change(event) => {
                let call = match event {
                    // By any call.
                    IoEvent::RemoveDir { .. } => "rmdir",
                    _ => nr::name(self.nr),
                };
                IoEvent::Failed {
                    call,
                    paths: changed_paths(&event),
                    error,
                }
            }
            ExitStep::Connect { path, .. } => {
                let mut paths = SmallVec::new();
                paths.push(path);
                self.failure(paths, error)
            }
            _ => return,
        };
        self.out.push(event);
    }

    fn failure(&self, paths: SmallVec<[PathRef; 2]>, error: i32) -> IoEvent {
        IoEvent::Failed {
            call: nr::name(self.nr),
            paths,
            error,
        }
    }

    fn succeeded(mut self, step: ExitStep) {
        match step {
            ExitStep::Result => {}
            ExitStep::Report(event) => self.out.push(event),
            ExitStep::Change(event) => self.changed(event),
            ExitStep::Open(opening) => {
                let new = opening.describe(self.tid, self.result as i32);
                let file = self.create(new, opening.flags & libc::O_CLOEXEC != 0);
                self.out.push(IoEvent::Open {
                    path: opening.path,
                    mode: opening.mode,
                    file: Some(file),
                    error: None,
                });
            }
            // The exec stop has called `Processes::exec`.
            ExitStep::Exec { .. } => {}
            ExitStep::Duplicate { old, cloexec } => self.duplicated(old, cloexec),
            ExitStep::Create(create) => {
                let file = self.create(create.new, create.cloexec);
                self.report(create.report, Some(file));
            }
            ExitStep::Fetch(report) => {
                let file = self.fetch();
                self.report(report, Some(file));
            }
            ExitStep::Pair {
                address,
                flags,
                family,
            } => self.pair(address, flags, family),
            ExitStep::ClonePidfd { address } => {
                if let Ok(fd) = self.memory.read_i32(address) {
                    let new = NewDescription::anonymous(FileKind::Anon("pidfd"), false);
                    self.model.create(self.tid, fd, new, true);
                }
            }
            ExitStep::ChangeDir { path } => self.directory_changed(path),
            ExitStep::ChangeRoot { path } => self.root_changed(path),
            ExitStep::Relocated { what, everyone } => {
                if everyone {
                    self.model.refresh_locations();
                } else {
                    self.model.unshare_location(self.tid);
                    self.model.refresh_location(self.tid);
                }
                self.out.push(IoEvent::StateChange { what });
            }
            ExitStep::Unshare { flags } => self.unshared(flags),
            ExitStep::Write(transfer) => self.written(*transfer),
            ExitStep::StatusFlags {
                file,
                append,
                nonblocking,
            } => self.out.extend(set_status(&file, append, nonblocking)),
            ExitStep::Messages { address, many } => self.received(address, many),
            ExitStep::Connect { path, file } => {
                self.out.push(IoEvent::Find { path });
                self.out.push(IoEvent::Network {
                    what: "connect",
                    file,
                });
            }
        }
    }

    fn create(&mut self, new: NewDescription, cloexec: bool) -> Rc<OpenFile> {
        self.model
            .create(self.tid, self.result as i32, new, cloexec)
    }

    /// The descriptor in the result, as `/proc` describes it.
    fn fetch(&mut self) -> Rc<OpenFile> {
        let fd = self.result as i32;
        if let Some(file) = self.model.adopt_descriptor(self.tid, fd) {
            return file;
        }
        let new = NewDescription::anonymous(FileKind::Other(nr::name(self.nr).to_owned()), false);
        self.model.create(self.tid, fd, new, true)
    }

    fn report(&mut self, report: Report, file: Option<Rc<OpenFile>>) {
        self.out.push(match report {
            Report::Nothing => return,
            Report::Network(what) => IoEvent::Network { what, file },
            Report::Received => IoEvent::Received {
                fd: self.result as i32,
            },
            Report::SharedMemory(what) => IoEvent::SharedMemory { what },
            Report::Unsupported(reason) => IoEvent::Unsupported {
                number: self.nr,
                name: nr::name(self.nr),
                reason,
            },
        });
    }

    fn changed(self, event: IoEvent) {
        match &event {
            IoEvent::Rename { from, to, exchange } => self.model.renamed(from, to, *exchange),
            // A file made by O_TMPFILE has its first name.
            IoEvent::Link {
                from: FileRef::File(file),
                to,
            } if file.path.is_none() => self.model.repath(file.id, &to.path),
            _ => {}
        }
        self.out.push(event);
    }

    fn duplicated(self, old: i32, cloexec: bool) {
        let Some(table) = self.model.table_mut(self.tid) else {
            return;
        };
        if let Some(slot) = table.get(old) {
            let (file, new) = (Rc::clone(&slot.file), self.result as i32);
            table.set(new, Rc::clone(&file), cloexec);
            self.out.extend(read_from_now_on(new, file));
        }
    }

    fn pair(self, address: u64, flags: i32, family: Option<i32>) {
        let first = self.memory.read_i32(address);
        let second = self.memory.read_i32(address.wrapping_add(4));
        let (Ok(first), Ok(second)) = (first, second) else {
            return;
        };
        let kind = match family {
            Some(family) => FileKind::Socket(family),
            None => FileKind::Pipe {
                pipe: self.model.fresh_pipe(),
            },
        };
        // SOCK_CLOEXEC and SOCK_NONBLOCK have the same values.
        let cloexec = flags & libc::O_CLOEXEC != 0;
        let mut read = NewDescription::anonymous(kind.clone(), flags & libc::O_NONBLOCK != 0);
        let mut write = NewDescription::anonymous(kind, flags & libc::O_NONBLOCK != 0);
        if family.is_none() {
            read.writable = false;
            write.readable = false;
        }
        let read = self.model.create(self.tid, first, read, cloexec);
        let write = self.model.create(self.tid, second, write, cloexec);
        self.out.push(IoEvent::Channel { read, write });
    }

    fn directory_changed(self, path: Option<PathRef>) {
        let canonical = proc::cwd(self.tid).ok();
        let Some(path) = canonical.or(path.map(|given| given.path)) else {
            return;
        };
        if let Some(location) = self.model.location_mut(self.tid) {
            location.cwd.clone_from(&path);
        }
        self.out.push(IoEvent::ChangeDir {
            path: PathRef::followed(path),
            error: None,
        });
    }

    fn root_changed(self, given: PathRef) {
        let path = proc::root(self.tid).unwrap_or(given.path);
        if let Some(location) = self.model.location_mut(self.tid) {
            location.root.clone_from(&path);
        }
        self.out.push(IoEvent::ChangeRoot {
            path: PathRef::followed(path),
        });
    }

    fn unshared(self, flags: u64) {
        let has = |flag: i32| flags & flag as u32 as u64 != 0;
        if has(libc::CLONE_FILES) {
            self.model.unshare_files(self.tid);
        }
        // A task with its own mount or user namespace gets its own directories.
        if has(libc::CLONE_FS) || has(libc::CLONE_NEWNS) || has(libc::CLONE_NEWUSER) {
            self.model.unshare_location(self.tid);
        }
        let own_only = (libc::CLONE_FILES | libc::CLONE_FS | libc::CLONE_SYSVSEM) as u64;
        if flags & !own_only != 0 {
            self.out.push(IoEvent::StateChange { what: "namespaces" });
        }
    }

    fn written(self, transfer: PendingWrite) {
        let length = transfer.length.unwrap_or(self.result as u64);
        if length == 0 {
            return;
        }
        let buffers = match transfer.buffers {
            Buffers::None => Vec::new(),
            Buffers::One(address) => vec![(address, length)],
            Buffers::Vector(address, count) => self.vector(address, count, length),
        };
        self.out.push(IoEvent::Write {
            fd: transfer.fd,
            file: transfer.file,
            length,
            positioned: transfer.positioned,
            source: transfer.source,
            buffers,
        });
    }

    /// The parts of a `struct iovec[]` that make up the first `length` bytes.
    fn vector(&self, address: u64, count: u64, length: u64) -> Vec<(u64, u64)> {
        let mut bytes = vec![0; count.min(IOV_MAX) as usize * 16];
        let got = self.memory.read(address, &mut bytes);
        let mut left = length;
        let mut parts = Vec::with_capacity(got / 16);
        for entry in bytes[..got].chunks_exact(16) {
            let (base, size) = entry.split_at(8);
            let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
            let take = word(size).min(left);
            if take > 0 {
                parts.push((word(base), take));
                left -= take;
            }
        }
        parts
    }

    /// Looks for descriptors in the control data of messages.
    fn received(mut self, address: u64, many: bool) {
        let (count, stride) = if many {
            (self.result as u64, MMSGHDR)
        } else {
            (1, MSGHDR)
        };
        for index in 0..count.min(IOV_MAX) {
            let header = address.wrapping_add(index * stride);
            let control = self.memory.read_u64(header.wrapping_add(32));
            let length = self.memory.read_u64(header.wrapping_add(40));
            if let (Ok(control), Ok(length @ 1..)) = (control, length) {
                self.control(control, length);
            }
        }
    }

    /// `struct cmsghdr { size_t len; int level, type; }`, each padded to 8.
    fn control(&mut self, address: u64, length: u64) {
        let mut bytes = vec![0; (length as usize).min(CONTROL_LIMIT)];
        let got = self.memory.read(address, &mut bytes);
        let mut rest = &bytes[..got];
        while rest.len() >= 16 {
            let word = |at: usize| rest[at..at + 4].try_into().map_or(0, i32::from_le_bytes);
            let size = rest[..8].try_into().map_or(0, u64::from_le_bytes);
            let (level, kind) = (word(8), word(12));
            let size = usize::try_from(size).unwrap_or(usize::MAX);
            if size < 16 {
                return;
            }
            // SCM_PIDFD (4) brings a descriptor too.
            if level == libc::SOL_SOCKET && matches!(kind, libc::SCM_RIGHTS | 4) {
                for fd in rest[16..size.min(rest.len())].chunks_exact(4) {
                    let fd = fd.try_into().map_or(-1, i32::from_le_bytes);
                    self.arrived(fd);
                }
            }
            let next = size.saturating_add(7) & !7;
            rest = rest.get(next..).unwrap_or_default();
        }
    }

    fn arrived(&mut self, fd: i32) {
        if self.model.adopt_descriptor(self.tid, fd).is_none() {
            let new = NewDescription::anonymous(FileKind::Other("received".to_owned()), false);
            self.model.create(self.tid, fd, new, false);
        }
        self.out.push(IoEvent::Received { fd });
    }
}
