//! Opening files by path.

use super::decode::{AT_FDCWD, Announce, Context, Step};
use super::{New, paths};
use crate::event::{FileKind, IoEvent, OpenMode, PathRef};

/// `RESOLVE_IN_ROOT` of openat2: the directory descriptor acts as the root.
const RESOLVE_IN_ROOT: u64 = 0x10;
const OPEN_TREE_CLONE: u32 = 1;

/// What the flags of an open mean.
fn open_mode(flags: i32, mode: u32) -> OpenMode {
    let has = |flag: i32| flags & flag == flag;
    let path_only = has(libc::O_PATH);
    let tmpfile = !path_only && has(libc::O_TMPFILE);
    let access = flags & libc::O_ACCMODE;
    OpenMode {
        // Access mode 3 (ioctl only) asks for both permissions.
        read: !path_only && access != libc::O_WRONLY,
        write: !path_only && access != libc::O_RDONLY,
        create: (!path_only && (has(libc::O_CREAT) || tmpfile)).then_some(mode & 0o7777),
        exclusive: !path_only && has(libc::O_EXCL),
        truncate: !path_only && has(libc::O_TRUNC),
        append: !path_only && has(libc::O_APPEND),
        directory: has(libc::O_DIRECTORY),
        path_only,
        tmpfile,
    }
}

/// How to make the description that a successful open made.
pub(super) fn opened(path: &PathRef, mode: &OpenMode, flags: i32) -> New {
    New {
        kind: FileKind::Opened,
        // The path of an O_TMPFILE is the directory; the file has no name.
        path: (!mode.tmpfile).then(|| path.path.clone()),
        readable: mode.read,
        writable: mode.write,
        path_only: mode.path_only,
        append: mode.append,
        nonblocking: !mode.path_only && flags & libc::O_NONBLOCK != 0,
    }
}

impl Context<'_> {
    pub(super) fn open(&mut self, dirfd: i32, address: u64, flags: i32, mode: u32) -> Option<Step> {
        let mode = open_mode(flags, mode);
        let new_only = mode.create.is_some() && mode.exclusive && !mode.tmpfile;
        let follow = flags & libc::O_NOFOLLOW == 0 && !new_only;
        let path = self.path(dirfd, address, follow)?;
        let changes = mode.write || mode.truncate || mode.create.is_some();
        if changes && !mode.tmpfile {
            self.about_to_change.push(path.clone());
        }
        Some(Step::Open { path, mode, flags })
    }

    pub(super) fn creat(&mut self) -> Option<Step> {
        let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
        self.open(AT_FDCWD, self.args[0], flags, self.uint(1))
    }

    pub(super) fn openat2(&mut self) -> Option<Step> {
        // struct open_how { u64 flags, mode, resolve; }
        let mut how = [0; 24];
        self.memory.read_exact(self.args[2], &mut how).ok()?;
        let word = |index: usize| {
            let bytes = how[index * 8..][..8].try_into();
            u64::from_le_bytes(bytes.unwrap_or_default())
        };
        let (flags, mode, resolve) = (word(0), word(1), word(2));
        if resolve & RESOLVE_IN_ROOT != 0 {
            self.unsupported("the path resolves as if a descriptor were the root");
            return Some(Step::Fetch(Announce::Nothing));
        }
        self.open(self.int(0), self.args[1], flags as i32, mode as u32)
    }

    /// Without `OPEN_TREE_CLONE` it is an open with `O_PATH`.
    pub(super) fn open_tree(&mut self) -> Option<Step> {
        let flags = self.uint(2);
        if flags & OPEN_TREE_CLONE != 0 {
            return self.fetch("mounts are not modelled");
        }
        let mut open_flags = libc::O_PATH | (flags as i32 & libc::O_CLOEXEC);
        if flags as i32 & libc::AT_SYMLINK_NOFOLLOW != 0 {
            open_flags |= libc::O_NOFOLLOW;
        }
        if flags as i32 & libc::AT_EMPTY_PATH != 0 {
            // A new description of what the descriptor names already.
            return Some(Step::Fetch(Announce::Nothing));
        }
        self.open(self.int(0), self.args[1], open_flags, 0)
    }

    /// A descriptor that is named in `/proc/self/fd` as the source of a link.
    pub(super) fn published(
        &mut self,
        path: &PathRef,
    ) -> Option<std::rc::Rc<crate::event::OpenFile>> {
        let fd = path.follow.then(|| paths::own_descriptor(&path.path))??;
        self.file(fd)
    }

    /// A rare descriptor: reported as not modelled, then taken from `/proc`.
    pub(super) fn fetch(&mut self, reason: &'static str) -> Option<Step> {
        Some(Step::Fetch(Announce::Unsupported(reason)))
    }

    pub(super) fn list(&mut self) -> Option<Step> {
        let file = self.file(self.int(0))?;
        self.push(IoEvent::List { file });
        None
    }
}
