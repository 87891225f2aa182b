//! Hashes the descriptors that a program inherits into its key.
//!
//! For some programs ([`Streams`]), the key only contains that standard output and error accept
//! writes, and that there is a standard input. The omitted properties have a digest of their own.
//! When the program writes or reads, that digest becomes a fact
//! ([`Query::LeftOut`](crate::model::fact::Query::LeftOut)).
//!
//! No key contains the size of a terminal: a program that needs it asks the kernel, and the query
//! is observed. Some programs always ask, and use the size only for their output. For these the
//! size counts once they have written.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use ptrace_async::event::{FileKind, OfdId, Tid};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use rustix::time::Timespec;

use super::hasher::Hasher;
use super::{Descriptor, Execution};
use crate::model::fact::{Digest, Part};
use crate::model::inherited::Inherited;
use crate::model::path::FilePath;
use crate::platform::defect::{Defect, planted};
use crate::platform::proc_files::position;
use crate::policy::Streams;

/// The hashed descriptors.
pub(super) struct Descriptors {
    /// One entry for each open file description.
    pub inherited: Vec<Inherited>,
    /// A description of each descriptor in words.
    pub words: Vec<Vec<u8>>,
    /// Digest of the standard input's properties that the key omits.
    pub input: Option<Digest>,
    /// Digest of the standard output's and error's properties that the key omits.
    pub output: Option<Digest>,
    /// Digest of the sizes of terminals.
    pub size: Digest,
}

/// Hashes all descriptors.
pub(super) fn hash_descriptors(
    hasher: &mut Hasher<'_>,
    execution: &Execution,
    streams: Streams,
    has_base_dirs: bool,
) -> Descriptors {
    let mut words = Vec::with_capacity(execution.descriptors.len());
    let mut all = DescriptorSet {
        execution,
        process: OpenDescriptors::new(execution.tid),
        last: None,
        inherited: Vec::new(),
        streams,
        has_base_dirs,
        sizes: Hasher::separate("pcache sizes 1"),
    };
    let mut input = None;
    let mut output = Hasher::separate("pcache output 1");
    for descriptor in &execution.descriptors {
        hasher.transcript();
        let part = all.part(descriptor);
        if part.is_some() {
            hasher.number(descriptor.fd as u64);
            hasher.bytes(b"stream");
        }
        match part {
            None => all.hash(hasher, descriptor),
            Some(Part::Input) => {
                let mut aside = Hasher::separate("pcache input 1");
                all.hash(&mut aside, descriptor);
                input = Some(aside.end());
            }
            Some(_) => all.hash_output(&mut output, descriptor),
        }
        words.push(hasher.transcript());
    }
    let has_output = streams != Streams::Observed;
    Descriptors {
        inherited: all.inherited,
        words,
        input,
        output: has_output.then(|| output.end()),
        size: all.sizes.end(),
    }
}

/// Metadata of an open file, and its offset if it is a regular file.
type Probed = (Stat, Option<u64>);

struct DescriptorSet<'e> {
    execution: &'e Execution,
    process: OpenDescriptors,
    /// The last examined description.
    last: Option<(OfdId, Option<Probed>)>,
    inherited: Vec<Inherited>,
    streams: Streams,
    has_base_dirs: bool,
    /// Hasher of the sizes of terminals.
    sizes: Hasher<'static>,
}

impl DescriptorSet<'_> {
    /// Returns the omitted part to which a descriptor belongs, if any.
    fn part(&mut self, descriptor: &Descriptor) -> Option<Part> {
        let is_left_out = match descriptor.fd {
            0 => self.streams == Streams::Used && self.is_input(descriptor),
            1 | 2 => self.streams != Streams::Observed && self.is_output(descriptor),
            _ => false,
        };
        // The program may use it through another number.
        let is_same =
            |other: &Descriptor| other.fd > 2 && !other.jobserver && other.file == descriptor.file;
        if !is_left_out || self.execution.descriptors.iter().any(is_same) {
            return None;
        }
        Some(match descriptor.fd {
            0 => Part::Input,
            _ => Part::Output,
        })
    }

    /// Whether all reads from it, if any, are observed.
    fn is_input(&mut self, descriptor: &Descriptor) -> bool {
        let [reads, writes, ..] = descriptor.modes;
        // The path of the input file may name another file in another directory.
        reads && self.is_stream(descriptor, !writes && !self.has_base_dirs)
    }

    /// Whether it accepts the output of a program.
    fn is_output(&mut self, descriptor: &Descriptor) -> bool {
        let [reads, writes, ..] = descriptor.modes;
        writes && self.is_stream(descriptor, !reads)
    }

    /// Whether it is a pipe, a terminal, `/dev/null`, or, with `files`, a regular file.
    fn is_stream(&mut self, descriptor: &Descriptor, files: bool) -> bool {
        match &descriptor.kind {
            _ if descriptor.jobserver => false,
            FileKind::Pipe { .. } | FileKind::Terminal => true,
            FileKind::Opened | FileKind::Regular => {
                let stat = self.look(descriptor).map(|(stat, _)| stat);
                let kind = stat.map(|stat| FileType::from_raw_mode(stat.st_mode));
                is_null(descriptor, stat.as_ref()) || files && kind == Some(FileType::RegularFile)
            }
            _ => is_null(descriptor, None),
        }
    }

    /// Queries metadata and offset of a descriptor that may be a file.
    fn look(&mut self, descriptor: &Descriptor) -> Option<Probed> {
        // The kind describes all other descriptors.
        if !matches!(descriptor.kind, FileKind::Opened | FileKind::Regular) {
            return None;
        }
        if let Some((file, found)) = &self.last
            && *file == descriptor.file
        {
            return *found;
        }
        let found = self.process.look(descriptor.fd, &self.place(descriptor));
        self.last = Some((descriptor.file, found));
        found
    }

    /// Returns its path in `/proc`.
    fn place(&self, descriptor: &Descriptor) -> String {
        match self.execution.tid {
            0 => format!("/proc/self/fd/{}", descriptor.fd),
            tid => format!("/proc/{tid}/fd/{}", descriptor.fd),
        }
    }

    fn hash(&mut self, hasher: &mut Hasher<'_>, descriptor: &Descriptor) {
        let mut known = self.inherited.iter();
        let first = known.find(|other| other.file == descriptor.file);
        match first.map(|first| first.fd) {
            Some(first) if !descriptor.jobserver => same(hasher, descriptor.fd, first),
            _ => self.hash_whole(hasher, descriptor),
        }
    }

    /// Hashes an output that the key omits. Other descriptors of the same description do not count
    /// for programs that only write to it.
    fn hash_output(&mut self, hasher: &mut Hasher<'_>, descriptor: &Descriptor) {
        let mut all = self.inherited.iter();
        let first = all.find(|other| other.file == descriptor.file && other.written_as != 0);
        if let Some(first) = first.map(|first| first.written_as) {
            same(hasher, descriptor.fd, first);
            return;
        }
        self.hash_whole(hasher, descriptor);
        let mut all = self.inherited.iter_mut();
        if let Some(entry) = all.find(|entry| entry.file == descriptor.file) {
            entry.written_as = descriptor.fd;
        }
    }

    /// Whether the path of an open file or directory leads to nothing now, or to another one, which
    /// was moved there or mounted over it. What is known about that one is not known about the open one.
    fn is_elsewhere(&self, descriptor: &Descriptor, stat: Option<&Stat>) -> bool {
        let Some(path) = descriptor.path.as_deref() else {
            return false;
        };
        let open = match stat {
            Some(stat) => Some(*stat),
            None => rustix::fs::stat(self.place(descriptor)).ok(),
        };
        let there = rustix::fs::stat(path).ok();
        let identity = |stat: Stat| (stat.st_dev, stat.st_ino);
        open.is_some() && open.map(identity) != there.map(identity)
    }

    fn hash_whole(&mut self, hasher: &mut Hasher<'_>, descriptor: &Descriptor) {
        hasher.number(descriptor.fd as u64);
        if descriptor.jobserver {
            hasher.bytes(b"jobserver");
            return;
        }
        let (tid, place) = (self.execution.tid, self.place(descriptor));
        let found = self.look(descriptor);
        let stat = found.map(|(stat, _)| stat);
        let nothing = descriptor.fd == 0 && is_empty_input(&place, descriptor, stat.as_ref());
        if nothing {
            hasher.bytes(b"nothing");
        } else {
            for mode in descriptor.modes {
                hasher.number(u64::from(mode));
            }
        }
        let mut entry = Inherited {
            fd: descriptor.fd,
            written_as: descriptor.fd,
            file: descriptor.file,
            position: None,
            path: None,
            output: None,
            inode: None,
            device: None,
            flags: status_flags(descriptor.modes[2], descriptor.modes[3]),
        };
        if let Some(stat) = &stat
            && FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice
        {
            entry.device = Some(stat.st_rdev);
        }
        match &descriptor.kind {
            _ if nothing => {}
            FileKind::Opened | FileKind::Regular | FileKind::Directory => {
                let kind = stat.map(|stat| (FileType::from_raw_mode(stat.st_mode), stat.st_rdev));
                match kind {
                    Some((FileType::RegularFile, _)) => {
                        let position = found.and_then(|(_, position)| position);
                        entry.position = position.or_else(|| position_of(tid, descriptor.fd));
                        hasher.bytes(b"file");
                        // The position of output counts only for programs that query it, which is
                        // observed on 0, 1 and 2.
                        let position = entry.position.unwrap_or(u64::MAX);
                        let unseen = !descriptor.modes[0] && descriptor.fd <= 2;
                        let appends = descriptor.modes[2];
                        hasher.number(match (unseen, appends) {
                            (true, true) => 0,
                            (true, false) => position.min(1),
                            _ => position,
                        });
                        entry.path = descriptor.path.as_deref().map(FilePath::from);
                        entry.inode = stat.map(|stat| (stat.st_dev, stat.st_ino));
                        entry.output = entry.path.clone().filter(|_| descriptor.modes[1]);
                        // The content that is read is a fact about this path.
                        if descriptor.modes[0]
                            && let Some(path) = &entry.path
                        {
                            hasher.path(path.as_bytes());
                            if self.is_elsewhere(descriptor, stat.as_ref())
                                && !planted(Defect::InheritedPlace)
                            {
                                hasher.bytes(b"elsewhere");
                            }
                        }
                    }
                    Some((FileType::CharacterDevice, device)) => {
                        hasher.bytes(b"device");
                        hasher.number(device);
                    }
                    _ => {
                        hasher.bytes(b"place");
                        let path = descriptor.path.as_deref();
                        hasher.path(path.map_or(&[], |path| path.as_os_str().as_bytes()));
                        if self.is_elsewhere(descriptor, stat.as_ref())
                            && !planted(Defect::DirectoryPlace)
                        {
                            hasher.bytes(b"elsewhere");
                        }
                    }
                }
            }
            FileKind::Pipe { .. } => hasher.bytes(b"pipe"),
            FileKind::Terminal => {
                hasher.bytes(b"terminal");
                let size = self.process.window(descriptor.fd, &place);
                let size = size.map(|(rows, columns)| u64::from(rows) << 16 | u64::from(columns));
                self.sizes.number(descriptor.fd as u64);
                self.sizes.number(size.unwrap_or(u64::MAX));
            }
            FileKind::CharDevice(device) => {
                hasher.bytes(b"device");
                hasher.number(*device);
            }
            FileKind::Socket(family) => {
                hasher.bytes(b"socket");
                hasher.number(*family as u64);
            }
            FileKind::MemFd => hasher.bytes(b"memory"),
            FileKind::Anon(what) => hasher.bytes(what.as_bytes()),
            FileKind::Other(what) => hasher.bytes(what.as_bytes()),
        }
        if !self.inherited.iter().any(|known| known.file == entry.file) {
            self.inherited.push(entry);
        }
    }
}

/// Hashes a descriptor with the same description as another.
fn same(hasher: &mut Hasher<'_>, fd: i32, first: i32) {
    hasher.number(fd as u64);
    hasher.bytes(b"same");
    hasher.number(first as u64);
}

/// Temporary copies of the descriptors of a stopped process: a query through `/proc` takes ten
/// times as long.
struct OpenDescriptors {
    process: Option<OwnedFd>,
}

impl OpenDescriptors {
    /// Opens those of a task (0: this process).
    fn new(tid: Tid) -> Self {
        let process = match tid {
            0 => Some(rustix::process::getpid()),
            tid => Pid::from_raw(tid),
        };
        let process = process
            // A thread other than the leader has no pidfd.
            .and_then(|tid| pidfd_open(tid, PidfdFlags::empty()).ok());
        Self { process }
    }

    fn copy(&self, fd: i32) -> Option<OwnedFd> {
        let process = self.process.as_ref()?;
        pidfd_getfd(process, fd, PidfdGetfdFlags::empty()).ok()
    }

    /// Returns rows and columns of a terminal. `place` is its path in `/proc`, the fallback: a
    /// process may lack the permission to open an inherited terminal of another user.
    fn window(&self, fd: i32, place: &str) -> Option<(u16, u16)> {
        let opened = || {
            let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::NONBLOCK;
            rustix::fs::open(place, flags, Mode::empty()).ok()
        };
        let terminal = self.copy(fd).or_else(opened)?;
        let size = rustix::termios::tcgetwinsize(&terminal).ok()?;
        Some((size.ws_row, size.ws_col))
    }

    /// Returns metadata of an open file, and its offset if it is a regular file. `place` is its
    /// path in `/proc`, the fallback.
    fn look(&self, fd: i32, place: &str) -> Option<(Stat, Option<u64>)> {
        let Some(copy) = self.copy(fd) else {
            return rustix::fs::stat(place).ok().map(|stat| (stat, None));
        };
        let stat = rustix::fs::fstat(&copy).ok()?;
        let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let position = regular.then(|| rustix::fs::tell(&copy).ok()).flatten();
        Some((stat, position))
    }
}

/// Whether a read from standard input certainly returns nothing: from `/dev/null`, or from a pipe
/// without writers. `make -j` gives the standard input to the first of the commands that run at a
/// time, and such a pipe to the others.
fn is_empty_input(place: &str, descriptor: &Descriptor, stat: Option<&Stat>) -> bool {
    if !descriptor.modes[0] {
        return false;
    }
    match &descriptor.kind {
        FileKind::Pipe { .. } => {
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let Ok(pipe) = rustix::fs::open(place, flags, Mode::empty()) else {
                return false;
            };
            let mut polled = [PollFd::new(&pipe, PollFlags::IN)];
            let now = Timespec::default();
            rustix::event::poll(&mut polled, Some(&now)).is_ok()
                && polled[0].revents() == PollFlags::HUP
        }
        _ => is_null(descriptor, stat),
    }
}

/// Whether it is `/dev/null`.
fn is_null(descriptor: &Descriptor, stat: Option<&Stat>) -> bool {
    let null = rustix::fs::makedev(1, 3);
    match &descriptor.kind {
        FileKind::Opened => stat.is_some_and(|stat| {
            FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice
                && stat.st_rdev == null
        }),
        FileKind::CharDevice(device) => *device == null,
        _ => false,
    }
}

/// `O_APPEND` and `O_NONBLOCK`.
pub fn status_flags(append: bool, nonblocking: bool) -> i32 {
    (if append { libc::O_APPEND } else { 0 }) | (if nonblocking { libc::O_NONBLOCK } else { 0 })
}

fn position_of(tid: Tid, fd: i32) -> Option<u64> {
    let tid = if tid == 0 {
        std::process::id() as Tid
    } else {
        tid
    };
    position(tid, fd)
}
