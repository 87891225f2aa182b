//! Descriptors: opening, reading, writing, positions, duplication.

use libc::{
    EACCES, EAGAIN, EBUSY, EDEADLK, EDQUOT, EEXIST, EFBIG, EINTR, EINVAL, EIO, EISDIR, EMFILE,
    ENFILE, ENODEV, ENOLCK, ENOMEM, ENOSPC, ENOTTY, ENXIO, EOPNOTSUPP, EOVERFLOW, EPERM, EPIPE,
    EROFS, ESPIPE, ESTALE, ETXTBSY, EXDEV,
};

use super::prelude::*;

pub(super) const CALLS: &[Spec] = &[
    sys!(0 read(fd: Fd, buf: Out(Bytes(Returned(2))), count: Size) -> Count)
        .blocks()
        .loads(&[FdTable, File(0), Content(0)])
        .stores(&[File(0)])
        .world(World::Count)
        .fails(&[EAGAIN, EINVAL, EIO, EISDIR, ESTALE])
        .means(&[(EAGAIN, Failure::Retried)]),
    sys!(1 write(fd: Fd, buf: In(Bytes(Returned(2))), count: Size) -> Count)
        .blocks()
        .loads(&[FdTable, File(0)])
        .stores(&[File(0), Content(0)])
        .world(World::Count)
        .fails(&[EAGAIN, EDQUOT, EFBIG, EIO, ENOMEM, ENOSPC, EPERM, EPIPE])
        .means(&[(EAGAIN, Failure::Retried), (EPERM, Failure::Moment)]),
    sys!(2 open(pathname: Path, flags: Flags(flags::OPEN), mode: Mode) -> Fd)
        .blocks()
        .loads(&[Name(0), Node(0), Cwd, Root, Umask])
        .stores(&[FdTable, Name(0), Node(0)])
        .fails(&[
            EAGAIN, EBUSY, EDQUOT, EEXIST, EFBIG, EISDIR, ENODEV, ENOSPC, ENXIO, EOVERFLOW, EPERM,
            EROFS, ETXTBSY,
        ]),
    sys!(3 close(fd: Fd) -> Zero)
        .loads(&[FdTable])
        .stores(&[FdTable, File(0)])
        .fails(&[EDQUOT, EIO, ENOSPC]),
    sys!(8 lseek(fd: Fd, offset: Offset, whence: Flags(flags::WHENCE)) -> Offset)
        .loads(&[FdTable, File(0), Content(0)])
        .stores(&[File(0)])
        .fails(&[EINVAL, ENXIO, EOVERFLOW, ESPIPE]),
    sys!(16 ioctl(fd: Fd, request: Flags(flags::IOCTL), argp: Word) -> Value)
        .blocks()
        .loads(&[FdTable, File(0), Content(0)])
        .stores(&[File(0), Content(0)])
        .rule(Rule::Ioctl)
        .fails(&[
            EBUSY, EDQUOT, EINVAL, EIO, ENOSPC, ENOTTY, EOPNOTSUPP, EPERM, ETXTBSY, EXDEV,
        ]),
    sys!(17 pread64(fd: Fd, buf: Out(Bytes(Returned(2))), count: Size, offset: Offset) -> Count)
        .blocks()
        .loads(&[FdTable, Content(0)])
        .world(World::Count)
        .fails(&[EAGAIN, EINVAL, EIO, EISDIR, ESTALE])
        .means(&[(EAGAIN, Failure::Retried)]),
    sys!(18 pwrite64(fd: Fd, buf: In(Bytes(Returned(2))), count: Size, offset: Offset) -> Count)
        .blocks()
        .loads(&[FdTable])
        .stores(&[Content(0)])
        .world(World::Count)
        .fails(&[EAGAIN, EDQUOT, EFBIG, EIO, ENOMEM, ENOSPC, EPERM, EPIPE])
        .means(&[(EAGAIN, Failure::Retried), (EPERM, Failure::Moment)]),
    sys!(19 readv(fd: Fd, iov: Out(Vectors(2)), iovcnt: Size) -> Count)
        .blocks()
        .loads(&[FdTable, File(0), Content(0)])
        .stores(&[File(0)])
        .world(World::Count)
        .fails(&[EAGAIN, EINVAL, EIO, EISDIR, ESTALE])
        .means(&[(EAGAIN, Failure::Retried)]),
    sys!(20 writev(fd: Fd, iov: In(Vectors(2)), iovcnt: Size) -> Count)
        .blocks()
        .loads(&[FdTable, File(0)])
        .stores(&[File(0), Content(0)])
        .world(World::Count)
        .fails(&[EAGAIN, EDQUOT, EFBIG, EIO, ENOMEM, ENOSPC, EPERM, EPIPE])
        .means(&[(EAGAIN, Failure::Retried), (EPERM, Failure::Moment)]),
    sys!(22 pipe(pipefd: Out(One(FdPair))) -> Zero)
        .stores(&[FdTable])
        .fails(&[EMFILE, ENFILE, ENOMEM]),
    sys!(32 dup(oldfd: Fd) -> Fd)
        .loads(&[FdTable])
        .stores(&[FdTable]),
    sys!(33 dup2(oldfd: Fd, newfd: Fd) -> Fd)
        .loads(&[FdTable])
        .stores(&[FdTable, File(1)])
        .fails(&[EBUSY]),
    sys!(40 sendfile(
        out_fd: Fd, in_fd: Fd, offset: InOut(One(I64)), count: Size
    ) -> Count)
    .blocks()
    .loads(&[FdTable, File(1), Content(1)])
    .stores(&[File(0), File(1), Content(0)])
    .world(World::Count)
    .fails(&[EAGAIN, EDQUOT, EINVAL, EIO, ENOMEM, ENOSPC, EPIPE])
    .means(&[(EAGAIN, Failure::Retried)]),
    sys!(72 fcntl(fd: Fd, cmd: Flags(flags::FCNTL), arg: Word) -> Value)
        .blocks()
        .loads(&[FdTable, File(0), Content(0)])
        .stores(&[FdTable, File(0), Content(0)])
        .rule(Rule::Fcntl)
        .fails(&[
            EACCES, EAGAIN, EBUSY, EDEADLK, EINTR, EINVAL, EMFILE, ENOLCK, EPERM,
        ])
        .means(&[(EACCES, Failure::Moment), (EINTR, Failure::Moment)]),
    sys!(73 flock(fd: Fd, operation: Flags(flags::FLOCK)) -> Zero)
        .blocks()
        .loads(&[FdTable, Content(0)])
        .stores(&[Content(0)])
        .world(World::Schedule)
        .fails(&[EAGAIN, EINVAL, ENOLCK])
        .means(&[(EINTR, Failure::Moment)]),
    sys!(74 fsync(fd: Fd) -> Zero)
        .blocks()
        .loads(&[FdTable])
        .fails(&[EDQUOT, EINVAL, EIO, ENOSPC, EROFS]),
    sys!(75 fdatasync(fd: Fd) -> Zero)
        .blocks()
        .loads(&[FdTable])
        .fails(&[EDQUOT, EINVAL, EIO, ENOSPC, EROFS]),
    sys!(77 ftruncate(fd: Fd, length: Offset) -> Zero)
        .loads(&[FdTable])
        .stores(&[Content(0)])
        .fails(&[
            EDQUOT, EFBIG, EINVAL, EIO, EISDIR, ENOSPC, EPERM, EROFS, ETXTBSY,
        ]),
    sys!(78 getdents(fd: Fd, dirp: Out(Bytes(Returned(2))), count: UInt) -> Count)
        .loads(&[FdTable, File(0), Content(0)])
        .stores(&[File(0)])
        .world(World::Order),
    sys!(81 fchdir(fd: Fd) -> Zero)
        .loads(&[FdTable, Content(0)])
        .stores(&[Cwd]),
    sys!(187 readahead(fd: Fd, offset: Offset, count: Size) -> Zero).loads(&[FdTable]),
    sys!(217 getdents64(fd: Fd, dirp: Out(Bytes(Returned(2))), count: UInt) -> Count)
        .loads(&[FdTable, File(0), Content(0)])
        .stores(&[File(0)])
        .world(World::Order),
    sys!(221 fadvise64(
        fd: Fd, offset: Offset, len: Size, advice: Flags(flags::FADVISE)
    ) -> Zero)
    .loads(&[FdTable]),
    sys!(257 openat(
        dirfd: DirFd, pathname: Path, flags: Flags(flags::OPEN), mode: Mode
    ) -> Fd)
    .blocks()
    .loads(&[FdTable, Name(1), Node(1), Cwd, Root, Umask])
    .stores(&[FdTable, Name(1), Node(1)])
    .fails(&[
        EAGAIN, EBUSY, EDQUOT, EEXIST, EFBIG, EISDIR, ENODEV, ENOSPC, ENXIO, EOVERFLOW, EPERM,
        EROFS, ETXTBSY,
    ]),
    sys!(275 splice(
        fd_in: Fd, off_in: InOut(One(I64)), fd_out: Fd, off_out: InOut(One(I64)), len: Size,
        flags: Flags(flags::SPLICE)
    ) -> Count)
    .blocks()
    .loads(&[FdTable, File(0), Content(0)])
    .stores(&[File(0), Content(0), File(2), Content(2)])
    .world(World::Count)
    .fails(&[EAGAIN, EDQUOT, EINVAL, EIO, ENOMEM, ENOSPC, EPIPE])
    .means(&[(EAGAIN, Failure::Retried)]),
    sys!(276 tee(fd_in: Fd, fd_out: Fd, len: Size, flags: Flags(flags::SPLICE)) -> Count)
        .blocks()
        .loads(&[FdTable, Content(0)])
        .stores(&[Content(1)])
        .world(World::Count)
        .fails(&[EAGAIN, EDQUOT, EINVAL, EIO, ENOMEM, ENOSPC, EPIPE])
        .means(&[(EAGAIN, Failure::Retried)]),
    sys!(277 sync_file_range(
        fd: Fd, offset: Offset, nbytes: Offset, flags: Flags(flags::SYNC_RANGE)
    ) -> Zero)
    .blocks()
    .loads(&[FdTable])
    .fails(&[EDQUOT, EINVAL, EIO, ENOSPC, EROFS]),
    sys!(278 vmsplice(
        fd: Fd, iov: In(Many(Iovec, Arg(2))), nr_segs: Size, flags: Flags(flags::SPLICE)
    ) -> Count)
    .blocks()
    .loads(&[FdTable, Content(0)])
    .stores(&[Content(0)])
    .world(World::Count)
    .unmodelled("the direction depends on the end of the pipe, and pages stay shared with it")
    .fails(&[EAGAIN, EDQUOT, EINVAL, EIO, ENOMEM, ENOSPC, EPIPE])
    .means(&[(EAGAIN, Failure::Retried)]),
    sys!(285 fallocate(
        fd: Fd, mode: Flags(flags::FALLOCATE), offset: Offset, len: Offset
    ) -> Zero)
    .loads(&[FdTable])
    .stores(&[Content(0)])
    .fails(&[
        EDQUOT, EFBIG, EINTR, EINVAL, EIO, ENODEV, ENOSPC, EOPNOTSUPP, EPERM, ESPIPE, ETXTBSY,
    ])
    .means(&[(EINTR, Failure::Retried)]),
    sys!(292 dup3(oldfd: Fd, newfd: Fd, flags: Flags(flags::PIPE)) -> Fd)
        .loads(&[FdTable])
        .stores(&[FdTable, File(1)])
        .fails(&[EBUSY]),
    sys!(293 pipe2(pipefd: Out(One(FdPair)), flags: Flags(flags::PIPE)) -> Zero)
        .stores(&[FdTable])
        .fails(&[EMFILE, ENFILE, ENOMEM]),
    sys!(295 preadv(
        fd: Fd, iov: Out(Vectors(2)), iovcnt: Size, pos_l: Offset, pos_h: Offset
    ) -> Count)
    .blocks()
    .loads(&[FdTable, Content(0)])
    .world(World::Count)
    .fails(&[EAGAIN, EINVAL, EIO, EISDIR, ESTALE])
    .means(&[(EAGAIN, Failure::Retried)]),
    sys!(296 pwritev(
        fd: Fd, iov: In(Vectors(2)), iovcnt: Size, pos_l: Offset, pos_h: Offset
    ) -> Count)
    .blocks()
    .loads(&[FdTable])
    .stores(&[Content(0)])
    .world(World::Count)
    .fails(&[EAGAIN, EDQUOT, EFBIG, EIO, ENOMEM, ENOSPC, EPERM, EPIPE])
    .means(&[(EAGAIN, Failure::Retried), (EPERM, Failure::Moment)]),
    sys!(326 copy_file_range(
        fd_in: Fd, off_in: InOut(One(I64)), fd_out: Fd, off_out: InOut(One(I64)), len: Size,
        flags: Flags(flags::PLAIN)
    ) -> Count)
    .blocks()
    .loads(&[FdTable, File(0), Content(0)])
    .stores(&[File(0), File(2), Content(2)])
    .world(World::Count)
    .fails(&[
        EDQUOT, EFBIG, EINVAL, EIO, EISDIR, ENOMEM, ENOSPC, EOPNOTSUPP, EOVERFLOW, EPERM, ETXTBSY,
        EXDEV,
    ]),
    sys!(327 preadv2(
        fd: Fd, iov: Out(Vectors(2)), iovcnt: Size, pos_l: Offset, pos_h: Offset,
        flags: Flags(flags::RWF)
    ) -> Count)
    .blocks()
    .loads(&[FdTable, File(0), Content(0)])
    .stores(&[File(0)])
    .world(World::Count)
    .fails(&[EAGAIN, EINVAL, EIO, EISDIR, ESTALE])
    .means(&[(EAGAIN, Failure::Retried)]),
    sys!(328 pwritev2(
        fd: Fd, iov: In(Vectors(2)), iovcnt: Size, pos_l: Offset, pos_h: Offset,
        flags: Flags(flags::RWF)
    ) -> Count)
    .blocks()
    .loads(&[FdTable, File(0)])
    .stores(&[File(0), Content(0)])
    .world(World::Count)
    .fails(&[EAGAIN, EDQUOT, EFBIG, EIO, ENOMEM, ENOSPC, EPERM, EPIPE])
    .means(&[(EAGAIN, Failure::Retried), (EPERM, Failure::Moment)]),
    sys!(436 close_range(
        first: UInt, last: UInt, flags: Flags(flags::CLOSE_RANGE)
    ) -> Zero)
    .loads(&[FdTable])
    .stores(&[FdTable]),
    sys!(437 openat2(
        dirfd: DirFd, pathname: Path, how: In(Sized(OpenHow, Arg(3))), size: Size
    ) -> Fd)
    .blocks()
    .loads(&[FdTable, Name(1), Node(1), Cwd, Root, Umask])
    .stores(&[FdTable, Name(1), Node(1)])
    .fails(&[
        EAGAIN, EBUSY, EDQUOT, EEXIST, EFBIG, EISDIR, ENODEV, ENOSPC, ENXIO, EOVERFLOW, EPERM,
        EROFS, ETXTBSY,
    ]),
    sys!(451 cachestat(
        fd: Fd, range: In(One(CachestatRange)), cstat: Out(One(Cachestat)),
        flags: Flags(flags::PLAIN)
    ) -> Zero)
    .loads(&[FdTable, Content(0), Machine])
    .world(World::Machine),
];
