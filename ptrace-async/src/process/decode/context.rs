//! The context of one syscall at its entry, and the helpers that all decoders share.
//!
//! A decoder pushes the events that are certain before the kernel acts (lookups, reads,
//! clocks). It notes the paths that are about to change, and returns the [`ExitStep`] that
//! is left for the exit, if any.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

use smallvec::SmallVec;

use super::step::{Create, ExitStep, Report};
use crate::event::{FileRef, IoEvent, OpenFile, PathRef, Tid};
use crate::memory::Memory;
use crate::process::model::{NewDescription, Processes};
use crate::process::paths::{self, PathText, ProcessLink};
use crate::process::{nr, proc};

pub(super) const AT_FDCWD: i32 = libc::AT_FDCWD;
/// How many links of `/proc` are followed in a path; the kernel follows 40 (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// A path argument after resolving its base.
enum Named {
    Path(PathRef),
    /// The empty string, or NULL.
    Empty,
    /// The call will fail in any case.
    WillFail,
    /// Relative to a descriptor with an unknown path.
    NoBase,
}

/// One syscall at its entry.
pub(super) struct EntryContext<'a> {
    pub(super) model: &'a mut Processes,
    pub(super) tid: Tid,
    pub(super) nr: u64,
    pub(super) args: [u64; 6],
    pub(super) memory: &'a dyn Memory,
    pub(super) out: &'a mut SmallVec<[IoEvent; 2]>,
    pub(super) about_to_change: SmallVec<[PathRef; 2]>,
}

impl EntryContext<'_> {
    /// An argument that is a C `int`.
    pub(super) fn int(&self, index: usize) -> i32 {
        self.args[index] as i32
    }

    /// An argument that is a C `unsigned int`.
    pub(super) fn uint(&self, index: usize) -> u32 {
        self.args[index] as u32
    }

    pub(super) fn push(&mut self, event: IoEvent) {
        self.out.push(event);
    }

    /// Reports a syscall that cannot be followed. Nothing is left for its exit.
    pub(super) fn unsupported(&mut self, reason: &'static str) -> Option<ExitStep> {
        self.push(IoEvent::Unsupported {
            number: self.nr,
            name: nr::name(self.nr),
            reason,
        });
        None
    }

    /// The description behind a descriptor; a number that the model does not know is looked
    /// up. `None` means that the call will fail with `EBADF`.
    pub(super) fn file(&mut self, fd: i32) -> Option<Rc<OpenFile>> {
        if let Some(file) = self.model.file(self.tid, fd) {
            return Some(Rc::clone(file));
        }
        self.model.adopt_descriptor(self.tid, fd)
    }

    fn named(&mut self, dirfd: i32, address: u64, follow: bool) -> Named {
        let Ok(text) = PathText::read(self.memory, address) else {
            return Named::WillFail;
        };
        if text.is_empty() {
            return Named::Empty;
        }
        let base = if text.starts_with(b"/") {
            self.model.root(self.tid)
        } else if dirfd == AT_FDCWD {
            self.model.cwd(self.tid)
        } else {
            let Some(mut file) = self.file(dirfd) else {
                return Named::WillFail;
            };
            if file.path.as_deref().is_some_and(paths::has_dot_dot) {
                file = self.under_kernel_name(dirfd, file);
            }
            return match &file.path {
                Some(base) => Named::Path(self.past_links(base, &text, follow)),
                None => Named::NoBase,
            };
        };
        match base {
            Some(base) => Named::Path(self.past_links(base, &text, follow)),
            None => Named::NoBase,
        }
    }

    /// Joins a path. Where it goes through the links of `/proc` to directories of the task itself,
    /// the result names these directories.
    fn past_links(&self, base: &Path, text: &[u8], follow: bool) -> PathRef {
        let mut joined = paths::join(base, text, follow);
        for _ in 0..MOST_LINKS {
            let Some(past) = self.past_link(&joined) else {
                break;
            };
            joined = past;
        }
        joined
    }

    fn past_link(&self, path: &PathRef) -> Option<PathRef> {
        let root = self.model.root(self.tid)?.as_os_str().as_bytes();
        let inner = path.path.as_os_str().as_bytes();
        let inner = inner.strip_prefix(root.strip_suffix(b"/").unwrap_or(root))?;
        let (task, link, rest) = paths::process_link(inner)?;
        let is_own = |task: &Tid| {
            *task == self.tid || self.model.tgid(self.tid).is_some_and(|own| own == *task)
        };
        if !task.as_ref().is_none_or(is_own) {
            return None;
        }
        let follows = path.follow && !matches!(link, ProcessLink::Descriptor(_));
        if rest.is_empty() && !path.as_directory && !follows {
            return None;
        }
        let to = match link {
            ProcessLink::Cwd => self.model.cwd(self.tid)?,
            ProcessLink::Root => self.model.root(self.tid)?,
            ProcessLink::Descriptor(fd) => self.model.file(self.tid, fd)?.path.as_deref()?,
        };
        Some(PathRef {
            as_directory: path.as_directory,
            ..paths::join(to, rest, path.follow)
        })
    }

    /// The same directory under the kernel's name, where that can be had.
    fn under_kernel_name(&mut self, fd: i32, file: Rc<OpenFile>) -> Rc<OpenFile> {
        let Some(path) = proc::descriptor_path(self.tid, fd) else {
            return file;
        };
        self.model.repath(file.id, &path);
        self.file(fd).unwrap_or(file)
    }

    /// The path argument at `address`, relative to `dirfd`. `None` when the call
    /// is bound to fail, or (reported) when the base is not known.
    pub(super) fn path(&mut self, dirfd: i32, address: u64, follow: bool) -> Option<PathRef> {
        match self.named(dirfd, address, follow) {
            Named::Path(path) => Some(path),
            Named::Empty | Named::WillFail => None,
            Named::NoBase => {
                self.unsupported("a path relative to a descriptor whose own path is not known");
                None
            }
        }
    }

    /// As [`path`](Self::path), for calls that take `AT_SYMLINK_NOFOLLOW` and
    /// `AT_EMPTY_PATH` in `flags`.
    pub(super) fn file_ref(&mut self, dirfd: i32, address: u64, flags: i32) -> Option<FileRef> {
        let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
        if flags & libc::AT_EMPTY_PATH != 0 {
            // NULL has meant the empty string since Linux 6.11.
            if address == 0 || matches!(self.named(dirfd, address, follow), Named::Empty) {
                return self.descriptor(dirfd);
            }
        }
        self.path(dirfd, address, follow).map(FileRef::Path)
    }

    /// The file behind a descriptor, or the working directory for `AT_FDCWD`.
    pub(super) fn descriptor(&mut self, fd: i32) -> Option<FileRef> {
        if fd == AT_FDCWD {
            let path = self.model.cwd(self.tid)?.to_owned();
            return Some(FileRef::Path(PathRef::followed(path)));
        }
        self.file(fd).map(FileRef::File)
    }

    /// A call that changes the tree: notes the paths that are about to change, and leaves
    /// the event for the exit.
    pub(super) fn change(&mut self, event: IoEvent) -> Option<ExitStep> {
        self.about_to_change.extend(changed_paths(&event));
        Some(ExitStep::Change(event))
    }

    /// Leaves a new descriptor without a path to the exit.
    pub(super) fn create(
        &mut self,
        new: NewDescription,
        cloexec: bool,
        report: Report,
    ) -> Option<ExitStep> {
        Some(ExitStep::Create(Box::new(Create {
            new,
            cloexec,
            report,
        })))
    }
}

/// The paths that an event is about, for `about_to_change` and
/// [`IoEvent::Failed`].
pub(super) fn changed_paths(event: &IoEvent) -> SmallVec<[PathRef; 2]> {
    let mut paths = SmallVec::new();
    let mut add = |file: &FileRef| match file {
        FileRef::Path(path) => paths.push(path.clone()),
        FileRef::File(file) => paths.extend(file.path.clone().map(PathRef::followed)),
    };
    match event {
        IoEvent::XattrWrite { file: at, .. }
        | IoEvent::Truncate { file: at, .. }
        | IoEvent::Chmod { file: at, .. }
        | IoEvent::Chown { file: at }
        | IoEvent::SetTimes { file: at, .. } => add(at),
        IoEvent::Link { from, to } => {
            add(from);
            paths.push(to.clone());
        }
        IoEvent::Rename { from, to, .. } => {
            paths.push(from.clone());
            paths.push(to.clone());
        }
        IoEvent::MakeDir { path, .. }
        | IoEvent::MakeNode { path, .. }
        | IoEvent::Unlink { path }
        | IoEvent::RemoveDir { path }
        | IoEvent::Symlink { path, .. } => paths.push(path.clone()),
        _ => {}
    }
    paths
}
