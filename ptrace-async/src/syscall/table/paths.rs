//! Names and metadata: stat, access, directories, links, modes, times,
//! extended attributes.

use libc::{
    E2BIG, EAGAIN, EBUSY, EDQUOT, EEXIST, EFBIG, EINVAL, EIO, EISDIR, EMLINK, ENODATA, ENODEV,
    ENOSPC, ENOTEMPTY, ENXIO, EOPNOTSUPP, EOVERFLOW, EPERM, ERANGE, EROFS, ETXTBSY, EXDEV,
};

use super::prelude::*;

pub(super) const CALLS: &[Spec] = &[
    sys!(4 stat(pathname: Path, statbuf: Out(One(Stat))) -> Zero)
        .loads(&[Name(0), Node(0), Cwd, Root])
        .world(World::Metadata),
    sys!(5 fstat(fd: Fd, statbuf: Out(One(Stat))) -> Zero)
        .loads(&[FdTable, Content(0)])
        .world(World::Metadata),
    sys!(6 lstat(pathname: Path, statbuf: Out(One(Stat))) -> Zero)
        .loads(&[Name(0), Node(0), Cwd, Root])
        .world(World::Metadata),
    sys!(21 access(pathname: Path, mode: Flags(flags::ACCESS)) -> Zero)
        .loads(&[Name(0), Node(0), Cwd, Root, Credentials]),
    sys!(76 truncate(path: Path, length: Offset) -> Zero)
        .loads(&[Name(0), Cwd, Root])
        .stores(&[Node(0)])
        .fails(&[EDQUOT, EFBIG, EINVAL, EIO, EISDIR, ENOSPC, EPERM, EROFS, ETXTBSY]),
    sys!(79 getcwd(buf: Out(Bytes(Returned(1))), size: Size) -> Count)
        .loads(&[Cwd, Root, Mounts])
        .fails(&[ERANGE]),
    sys!(80 chdir(path: Path) -> Zero).loads(&[Name(0), Node(0), Cwd, Root]).stores(&[Cwd]),
    sys!(82 rename(oldpath: Path, newpath: Path) -> Zero)
        .loads(&[Name(0), Name(1), Cwd, Root])
        .stores(&[Name(0), Name(1), Node(0), Node(1)])
        .fails(&[
            EBUSY, EDQUOT, EEXIST, EINVAL, EISDIR, EMLINK, ENOSPC, ENOTEMPTY, EPERM, EROFS, EXDEV,
        ]),
    sys!(83 mkdir(pathname: Path, mode: Mode) -> Zero)
        .loads(&[Name(0), Cwd, Root, Umask])
        .stores(&[Name(0), Node(0)])
        .fails(&[EDQUOT, EEXIST, EMLINK, ENOSPC, EPERM, EROFS]),
    sys!(84 rmdir(pathname: Path) -> Zero)
        .loads(&[Name(0), Node(0), Cwd, Root])
        .stores(&[Name(0), Node(0)])
        .fails(&[EBUSY, EEXIST, EINVAL, ENOTEMPTY, EPERM, EROFS]),
    sys!(85 creat(pathname: Path, mode: Mode) -> Fd)
        .blocks()
        .loads(&[Name(0), Node(0), Cwd, Root, Umask])
        .stores(&[FdTable, Name(0), Node(0)])
        .fails(&[
            EAGAIN, EBUSY, EDQUOT, EEXIST, EFBIG, EISDIR, ENODEV, ENOSPC, ENXIO, EOVERFLOW, EPERM,
            EROFS, ETXTBSY,
        ]),
    sys!(86 link(oldpath: Path, newpath: Path) -> Zero)
        .loads(&[Name(0), Node(0), Name(1), Cwd, Root])
        .stores(&[Name(1), Node(0)])
        .fails(&[EDQUOT, EEXIST, EMLINK, ENOSPC, EPERM, EROFS, EXDEV]),
    sys!(87 unlink(pathname: Path) -> Zero)
        .loads(&[Name(0), Cwd, Root])
        .stores(&[Name(0), Node(0)])
        .fails(&[EBUSY, EISDIR, ENOTEMPTY, EPERM, EROFS]),
    sys!(88 symlink(target: Text, linkpath: Path) -> Zero)
        .loads(&[Name(1), Cwd, Root])
        .stores(&[Name(1), Node(1)])
        .fails(&[EDQUOT, EEXIST, EMLINK, ENOSPC, EPERM, EROFS]),
    sys!(89 readlink(pathname: Path, buf: Out(Bytes(Returned(2))), bufsiz: Int) -> Count)
        .loads(&[Name(0), Node(0), Cwd, Root]),
    sys!(90 chmod(pathname: Path, mode: Mode) -> Zero)
        .loads(&[Name(0), Cwd, Root])
        .stores(&[Node(0)])
        .fails(&[EDQUOT, EIO, ENOSPC, EOPNOTSUPP, EPERM, EROFS]),
    sys!(91 fchmod(fd: Fd, mode: Mode) -> Zero).loads(&[FdTable]).stores(&[Content(0)])
        .fails(&[EDQUOT, EIO, ENOSPC, EOPNOTSUPP, EPERM, EROFS]),
    sys!(92 chown(pathname: Path, owner: Uid, group: Gid) -> Zero)
        .loads(&[Name(0), Cwd, Root, Credentials])
        .stores(&[Node(0)])
        .fails(&[EDQUOT, EIO, ENOSPC, EOPNOTSUPP, EPERM, EROFS]),
    sys!(93 fchown(fd: Fd, owner: Uid, group: Gid) -> Zero)
        .loads(&[FdTable, Credentials])
        .stores(&[Content(0)])
        .fails(&[EDQUOT, EIO, ENOSPC, EOPNOTSUPP, EPERM, EROFS]),
    sys!(94 lchown(pathname: Path, owner: Uid, group: Gid) -> Zero)
        .loads(&[Name(0), Cwd, Root, Credentials])
        .stores(&[Node(0)])
        .fails(&[EDQUOT, EIO, ENOSPC, EOPNOTSUPP, EPERM, EROFS]),
    sys!(95 umask(mask: Mode) -> Value).loads(&[Umask]).stores(&[Umask]),
    sys!(132 utime(filename: Path, times: In(One(Utimbuf))) -> Zero)
        .loads(&[Name(0), Cwd, Root, Clock])
        .stores(&[Node(0)])
        .fails(&[EDQUOT, EIO, ENOSPC, EOPNOTSUPP, EPERM, EROFS]),
    sys!(133 mknod(pathname: Path, mode: Mode, dev: Device) -> Zero)
        .loads(&[Name(0), Cwd, Root, Umask])
        .stores(&[Name(0), Node(0)])
        .fails(&[EDQUOT, EEXIST, EMLINK, ENOSPC, EPERM, EROFS]),
    sys!(136 ustat(dev: Device, ubuf: Out(One(Ustat))) -> Zero)
        .loads(&[FileSystems])
        .world(World::Machine),
    sys!(137 statfs(path: Path, buf: Out(One(Statfs))) -> Zero)
        .loads(&[Name(0), Cwd, Root, FileSystems])
        .world(World::Machine),
    sys!(138 fstatfs(fd: Fd, buf: Out(One(Statfs))) -> Zero)
        .loads(&[FdTable, FileSystems])
        .world(World::Machine),
    sys!(161 chroot(path: Path) -> Zero)
        .loads(&[Name(0), Cwd, Root, Credentials])
        .stores(&[Root]),
    sys!(188 setxattr(
        path: Path, name: Text, value: In(Bytes(Arg(3))), size: Size, flags: Flags(flags::XATTR)
    ) -> Zero)
        .loads(&[Name(0), Cwd, Root])
        .stores(&[Node(0)])
        .fails(&[E2BIG, EDQUOT, EEXIST, ENODATA, ENOSPC, EOPNOTSUPP, EPERM, ERANGE, EROFS]),
    sys!(189 lsetxattr(
        path: Path, name: Text, value: In(Bytes(Arg(3))), size: Size, flags: Flags(flags::XATTR)
    ) -> Zero)
        .loads(&[Name(0), Cwd, Root])
        .stores(&[Node(0)])
        .fails(&[E2BIG, EDQUOT, EEXIST, ENODATA, ENOSPC, EOPNOTSUPP, EPERM, ERANGE, EROFS]),
    sys!(190 fsetxattr(
        fd: Fd, name: Text, value: In(Bytes(Arg(3))), size: Size, flags: Flags(flags::XATTR)
    ) -> Zero)
        .loads(&[FdTable])
        .stores(&[Content(0)])
        .fails(&[E2BIG, EDQUOT, EEXIST, ENODATA, ENOSPC, EOPNOTSUPP, EPERM, ERANGE, EROFS]),
    sys!(191 getxattr(path: Path, name: Text, value: Out(Bytes(Returned(3))), size: Size) -> Count)
        .loads(&[Name(0), Node(0), Cwd, Root])
        .fails(&[ENODATA, ERANGE]),
    sys!(192 lgetxattr(path: Path, name: Text, value: Out(Bytes(Returned(3))), size: Size) -> Count)
        .loads(&[Name(0), Node(0), Cwd, Root])
        .fails(&[ENODATA, ERANGE]),
    sys!(193 fgetxattr(fd: Fd, name: Text, value: Out(Bytes(Returned(3))), size: Size) -> Count)
        .loads(&[FdTable, Content(0)])
        .fails(&[ENODATA, ERANGE]),
    sys!(194 listxattr(path: Path, list: Out(Bytes(Returned(2))), size: Size) -> Count)
        .loads(&[Name(0), Node(0), Cwd, Root])
        .fails(&[ERANGE])
        .world(World::Order),
    sys!(195 llistxattr(path: Path, list: Out(Bytes(Returned(2))), size: Size) -> Count)
        .loads(&[Name(0), Node(0), Cwd, Root])
        .fails(&[ERANGE])
        .world(World::Order),
    sys!(196 flistxattr(fd: Fd, list: Out(Bytes(Returned(2))), size: Size) -> Count)
        .loads(&[FdTable, Content(0)])
        .fails(&[ERANGE])
        .world(World::Order),
    sys!(197 removexattr(path: Path, name: Text) -> Zero)
        .loads(&[Name(0), Cwd, Root])
        .stores(&[Node(0)])
        .fails(&[EDQUOT, ENODATA, ENOSPC, EOPNOTSUPP, EPERM, EROFS]),
    sys!(198 lremovexattr(path: Path, name: Text) -> Zero)
        .loads(&[Name(0), Cwd, Root])
        .stores(&[Node(0)])
        .fails(&[EDQUOT, ENODATA, ENOSPC, EOPNOTSUPP, EPERM, EROFS]),
    sys!(199 fremovexattr(fd: Fd, name: Text) -> Zero)
        .loads(&[FdTable])
        .stores(&[Content(0)])
        .fails(&[EDQUOT, ENODATA, ENOSPC, EOPNOTSUPP, EPERM, EROFS]),
    sys!(235 utimes(filename: Path, times: In(Many(Timeval, Fixed(2)))) -> Zero)
        .loads(&[Name(0), Cwd, Root, Clock])
        .stores(&[Node(0)])
        .fails(&[EDQUOT, EIO, ENOSPC, EOPNOTSUPP, EPERM, EROFS]),
    sys!(258 mkdirat(dirfd: DirFd, pathname: Path, mode: Mode) -> Zero)
        .loads(&[FdTable, Name(1), Cwd, Root, Umask])
        .stores(&[Name(1), Node(1)])
        .fails(&[EDQUOT, EEXIST, EMLINK, ENOSPC, EPERM, EROFS]),
    sys!(259 mknodat(dirfd: DirFd, pathname: Path, mode: Mode, dev: Device) -> Zero)
        .loads(&[FdTable, Name(1), Cwd, Root, Umask])
        .stores(&[Name(1), Node(1)])
        .fails(&[EDQUOT, EEXIST, EMLINK, ENOSPC, EPERM, EROFS]),
    sys!(260 fchownat(
        dirfd: DirFd, pathname: Path, owner: Uid, group: Gid, flags: Flags(flags::AT)
    ) -> Zero)
        .loads(&[FdTable, Name(1), Cwd, Root, Credentials])
        .stores(&[Node(1)])
        .fails(&[EDQUOT, EIO, ENOSPC, EOPNOTSUPP, EPERM, EROFS]),
    sys!(261 futimesat(
        dirfd: DirFd, pathname: Path, times: In(Many(Timeval, Fixed(2)))
    ) -> Zero)
        .loads(&[FdTable, Name(1), Cwd, Root, Clock])
        .stores(&[Node(1)])
        .fails(&[EDQUOT, EIO, ENOSPC, EOPNOTSUPP, EPERM, EROFS]),
    sys!(262 newfstatat(
        dirfd: DirFd, pathname: Path, statbuf: Out(One(Stat)), flags: Flags(flags::AT)
    ) -> Zero)
        .loads(&[FdTable, Name(1), Node(1), Cwd, Root])
        .world(World::Metadata),
    sys!(263 unlinkat(dirfd: DirFd, pathname: Path, flags: Flags(flags::AT)) -> Zero)
        .loads(&[FdTable, Name(1), Cwd, Root])
        .stores(&[Name(1), Node(1)])
        .fails(&[EBUSY, EISDIR, ENOTEMPTY, EPERM, EROFS]),
    sys!(264 renameat(
        olddirfd: DirFd, oldpath: Path, newdirfd: DirFd, newpath: Path
    ) -> Zero)
        .loads(&[FdTable, Name(1), Name(3), Cwd, Root])
        .stores(&[Name(1), Name(3), Node(1), Node(3)])
        .fails(&[
            EBUSY, EDQUOT, EEXIST, EINVAL, EISDIR, EMLINK, ENOSPC, ENOTEMPTY, EPERM, EROFS, EXDEV,
        ]),
    sys!(265 linkat(
        olddirfd: DirFd, oldpath: Path, newdirfd: DirFd, newpath: Path, flags: Flags(flags::AT)
    ) -> Zero)
        .loads(&[FdTable, Name(1), Node(1), Name(3), Cwd, Root])
        .stores(&[Name(3), Node(1)])
        .fails(&[EDQUOT, EEXIST, EMLINK, ENOSPC, EPERM, EROFS, EXDEV]),
    sys!(266 symlinkat(target: Text, newdirfd: DirFd, linkpath: Path) -> Zero)
        .loads(&[FdTable, Name(2), Cwd, Root])
        .stores(&[Name(2), Node(2)])
        .fails(&[EDQUOT, EEXIST, EMLINK, ENOSPC, EPERM, EROFS]),
    sys!(267 readlinkat(
        dirfd: DirFd, pathname: Path, buf: Out(Bytes(Returned(3))), bufsiz: Int
    ) -> Count)
        .loads(&[FdTable, Name(1), Node(1), Cwd, Root]),
    sys!(268 fchmodat(dirfd: DirFd, pathname: Path, mode: Mode) -> Zero)
        .loads(&[FdTable, Name(1), Cwd, Root])
        .stores(&[Node(1)])
        .fails(&[EDQUOT, EIO, ENOSPC, EOPNOTSUPP, EPERM, EROFS]),
    sys!(269 faccessat(dirfd: DirFd, pathname: Path, mode: Flags(flags::ACCESS)) -> Zero)
        .loads(&[FdTable, Name(1), Node(1), Cwd, Root, Credentials]),
    sys!(280 utimensat(
        dirfd: DirFd, pathname: Path, times: In(Many(Timespec, Fixed(2))), flags: Flags(flags::AT)
    ) -> Zero)
        .loads(&[FdTable, Name(1), Cwd, Root, Clock])
        .stores(&[Node(1)])
        .fails(&[EDQUOT, EIO, ENOSPC, EOPNOTSUPP, EPERM, EROFS]),
    sys!(303 name_to_handle_at(
        dirfd: DirFd, pathname: Path, handle: Address, mount_id: Address, flags: Flags(flags::AT)
    ) -> Zero)
        .loads(&[FdTable, Name(1), Node(1), Cwd, Root, Mounts])
        .world(World::Metadata)
        .rule(Rule::FileHandle),
    sys!(304 open_by_handle_at(
        mount_fd: DirFd, handle: Address, flags: Flags(flags::OPEN)
    ) -> Fd)
        .blocks()
        .loads(&[FdTable, FileSystems, Credentials])
        .stores(&[FdTable])
        .rule(Rule::FileHandle)
        .fails(&[
            EAGAIN, EBUSY, EDQUOT, EEXIST, EFBIG, EISDIR, ENODEV, ENOSPC, ENXIO, EOVERFLOW, EPERM,
            EROFS, ETXTBSY,
        ]),
    sys!(316 renameat2(
        olddirfd: DirFd, oldpath: Path, newdirfd: DirFd, newpath: Path,
        flags: Flags(flags::RENAME)
    ) -> Zero)
        .loads(&[FdTable, Name(1), Name(3), Cwd, Root])
        .stores(&[Name(1), Name(3), Node(1), Node(3)])
        .fails(&[
            EBUSY, EDQUOT, EEXIST, EINVAL, EISDIR, EMLINK, ENOSPC, ENOTEMPTY, EPERM, EROFS, EXDEV,
        ]),
    sys!(332 statx(
        dirfd: DirFd, pathname: Path, flags: Flags(flags::AT), mask: Flags(flags::STATX),
        statxbuf: Out(One(Statx))
    ) -> Zero)
        .loads(&[FdTable, Name(1), Node(1), Cwd, Root])
        .world(World::Metadata),
    sys!(439 faccessat2(
        dirfd: DirFd, pathname: Path, mode: Flags(flags::ACCESS), flags: Flags(flags::AT_ACCESS)
    ) -> Zero)
        .loads(&[FdTable, Name(1), Node(1), Cwd, Root, Credentials]),
    sys!(452 fchmodat2(
        dirfd: DirFd, pathname: Path, mode: Mode, flags: Flags(flags::AT)
    ) -> Zero)
        .loads(&[FdTable, Name(1), Cwd, Root])
        .stores(&[Node(1)])
        .fails(&[EDQUOT, EIO, ENOSPC, EOPNOTSUPP, EPERM, EROFS]),
    sys!(463 setxattrat(
        dirfd: DirFd, pathname: Path, at_flags: Flags(flags::AT), name: Text,
        uargs: In(Sized(XattrArgs, Arg(5))), usize: Size
    ) -> Zero)
        .loads(&[FdTable, Name(1), Cwd, Root])
        .stores(&[Node(1)])
        .rule(Rule::XattrAt)
        .fails(&[E2BIG, EDQUOT, EEXIST, ENODATA, ENOSPC, EOPNOTSUPP, EPERM, ERANGE, EROFS]),
    sys!(464 getxattrat(
        dirfd: DirFd, pathname: Path, at_flags: Flags(flags::AT), name: Text,
        uargs: In(Sized(XattrArgs, Arg(5))), usize: Size
    ) -> Count)
        .loads(&[FdTable, Name(1), Node(1), Cwd, Root])
        .fails(&[ENODATA, ERANGE])
        .rule(Rule::XattrAt),
    sys!(465 listxattrat(
        dirfd: DirFd, pathname: Path, at_flags: Flags(flags::AT), list: Out(Bytes(Returned(4))),
        size: Size
    ) -> Count)
        .loads(&[FdTable, Name(1), Node(1), Cwd, Root])
        .fails(&[ERANGE])
        .world(World::Order),
    sys!(466 removexattrat(
        dirfd: DirFd, pathname: Path, at_flags: Flags(flags::AT), name: Text
    ) -> Zero)
        .loads(&[FdTable, Name(1), Cwd, Root])
        .stores(&[Node(1)])
        .fails(&[EDQUOT, ENODATA, ENOSPC, EOPNOTSUPP, EPERM, EROFS]),
    sys!(468 file_getattr(
        dirfd: DirFd, pathname: Path, ufattr: Out(Sized(FileAttr, Arg(3))), usize: Size,
        at_flags: Flags(flags::AT)
    ) -> Zero)
        .loads(&[FdTable, Name(1), Node(1), Cwd, Root])
        .world(World::Metadata),
    sys!(469 file_setattr(
        dirfd: DirFd, pathname: Path, ufattr: In(Sized(FileAttr, Arg(3))), usize: Size,
        at_flags: Flags(flags::AT)
    ) -> Zero)
        .loads(&[FdTable, Name(1), Cwd, Root])
        .stores(&[Node(1)]),
];
