//! Sockets.

use libc::{
    EACCES, EADDRINUSE, EADDRNOTAVAIL, EAFNOSUPPORT, EAGAIN, EALREADY, ECONNABORTED, ECONNREFUSED,
    ECONNRESET, EHOSTUNREACH, EINPROGRESS, EINTR, EINVAL, EISCONN, EMFILE, ENETUNREACH, ENFILE,
    ENOBUFS, ENOMEM, ENOSPC, ENOTCONN, EPERM, EPIPE, EPROTONOSUPPORT, EPROTOTYPE, ERANGE, EROFS,
    ETIMEDOUT,
};

use super::prelude::*;

pub(super) const CALLS: &[Spec] = &[
    sys!(41 socket(
        domain: Flags(flags::AF), kind: Flags(flags::SOCK), protocol: Int
    ) -> Fd)
    .stores(&[FdTable])
    .fails(&[
        EACCES,
        EAFNOSUPPORT,
        EINVAL,
        ENOBUFS,
        EPERM,
        EPROTONOSUPPORT,
    ]),
    sys!(42 connect(sockfd: Fd, addr: In(Sized(Sockaddr, Arg(2))), addrlen: UInt) -> Zero)
        .blocks()
        .loads(&[FdTable, Content(0), Network])
        .stores(&[Content(0), Network])
        .world(World::Refuse)
        .fails(&[
            EADDRINUSE,
            EADDRNOTAVAIL,
            EAGAIN,
            EALREADY,
            ECONNREFUSED,
            ECONNRESET,
            EHOSTUNREACH,
            EINPROGRESS,
            EISCONN,
            ENETUNREACH,
            EPERM,
            EPROTOTYPE,
            ETIMEDOUT,
        ])
        .means(&[(EINTR, Failure::Moment)]),
    sys!(43 accept(
        sockfd: Fd, addr: Out(Sized(Sockaddr, Pointed(2))), addrlen: InOut(One(U32))
    ) -> Fd)
    .blocks()
    .loads(&[FdTable, Content(0)])
    .stores(&[FdTable, Content(0)])
    .world(World::Schedule)
    .fails(&[EAGAIN, ECONNABORTED, EINVAL, ENOBUFS])
    .means(&[(EAGAIN, Failure::Retried)]),
    sys!(44 sendto(
        sockfd: Fd, buf: In(Bytes(Returned(2))), len: Size, flags: Flags(flags::MSG),
        dest_addr: In(Sized(Sockaddr, Arg(5))), addrlen: UInt
    ) -> Count)
    .blocks()
    .loads(&[FdTable])
    .stores(&[Content(0), Network])
    .world(World::Count)
    .fails(&[EAGAIN, ECONNRESET, ENOBUFS, ENOTCONN, EPIPE])
    .means(&[(EAGAIN, Failure::Retried)]),
    sys!(45 recvfrom(
        sockfd: Fd, buf: Out(Bytes(Returned(2))), len: Size, flags: Flags(flags::MSG),
        src_addr: Out(Sized(Sockaddr, Pointed(5))), addrlen: InOut(One(U32))
    ) -> Count)
    .blocks()
    .loads(&[FdTable, Content(0)])
    .stores(&[Content(0)])
    .world(World::Count)
    .fails(&[EAGAIN, ECONNREFUSED, ECONNRESET, ENOTCONN])
    .means(&[(EAGAIN, Failure::Retried)]),
    sys!(46 sendmsg(sockfd: Fd, msg: In(Message), flags: Flags(flags::MSG)) -> Count)
        .blocks()
        .loads(&[FdTable])
        .stores(&[Content(0), Network])
        .world(World::Count)
        .fails(&[EAGAIN, ECONNRESET, ENOBUFS, ENOTCONN, EPIPE])
        .means(&[(EAGAIN, Failure::Retried)]),
    sys!(47 recvmsg(sockfd: Fd, msg: Out(Message), flags: Flags(flags::MSG)) -> Count)
        .blocks()
        .loads(&[FdTable, Content(0)])
        .stores(&[Content(0), FdTable])
        .world(World::Count)
        .fails(&[EAGAIN, ECONNREFUSED, ECONNRESET, ENOTCONN])
        .means(&[(EAGAIN, Failure::Retried)]),
    sys!(48 shutdown(sockfd: Fd, how: Flags(flags::SHUTDOWN)) -> Zero)
        .loads(&[FdTable])
        .stores(&[Content(0)]),
    sys!(49 bind(sockfd: Fd, addr: In(Sized(Sockaddr, Arg(2))), addrlen: UInt) -> Zero)
        .loads(&[FdTable, Network, Cwd, Root])
        .stores(&[Content(0), Network])
        .fails(&[
            EACCES,
            EADDRINUSE,
            EADDRNOTAVAIL,
            EINVAL,
            ENOSPC,
            EPERM,
            EROFS,
        ]),
    sys!(50 listen(sockfd: Fd, backlog: Int) -> Zero)
        .loads(&[FdTable])
        .stores(&[Content(0), Network])
        .fails(&[EADDRINUSE]),
    sys!(51 getsockname(
        sockfd: Fd, addr: Out(Sized(Sockaddr, Pointed(2))), addrlen: InOut(One(U32))
    ) -> Zero)
    .loads(&[FdTable, Content(0)])
    .world(World::Pid),
    sys!(52 getpeername(
        sockfd: Fd, addr: Out(Sized(Sockaddr, Pointed(2))), addrlen: InOut(One(U32))
    ) -> Zero)
    .loads(&[FdTable, Content(0)])
    .world(World::Pid),
    sys!(53 socketpair(
        domain: Flags(flags::AF), kind: Flags(flags::SOCK), protocol: Int, sv: Out(One(FdPair))
    ) -> Zero)
    .stores(&[FdTable])
    .fails(&[EMFILE, ENFILE, ENOMEM]),
    sys!(54 setsockopt(
        sockfd: Fd, level: Flags(flags::SOL), optname: Int, optval: In(Bytes(Arg(4))),
        optlen: Int
    ) -> Zero)
    .loads(&[FdTable])
    .stores(&[Content(0)]),
    sys!(55 getsockopt(
        sockfd: Fd, level: Flags(flags::SOL), optname: Int, optval: Out(Bytes(Pointed(4))),
        optlen: InOutWhen(When::Always, One(U32))
    ) -> Zero)
    .loads(&[FdTable, Content(0)])
    .fails(&[ERANGE]),
    sys!(288 accept4(
        sockfd: Fd, addr: Out(Sized(Sockaddr, Pointed(2))), addrlen: InOut(One(U32)),
        flags: Flags(flags::ACCEPT)
    ) -> Fd)
    .blocks()
    .loads(&[FdTable, Content(0)])
    .stores(&[FdTable, Content(0)])
    .world(World::Schedule)
    .fails(&[EAGAIN, ECONNABORTED, EINVAL, ENOBUFS])
    .means(&[(EAGAIN, Failure::Retried)]),
    sys!(299 recvmmsg(
        sockfd: Fd, msgvec: Out(Messages(2)), vlen: UInt, flags: Flags(flags::MSG),
        timeout: InOutWhen(When::Success, One(Timespec))
    ) -> Count)
    .blocks()
    .loads(&[FdTable, Content(0), Clock])
    .stores(&[Content(0), FdTable])
    .world(World::Count)
    .fails(&[EAGAIN, ECONNREFUSED, ECONNRESET, ENOTCONN])
    .means(&[(EAGAIN, Failure::Retried)]),
    sys!(307 sendmmsg(
        sockfd: Fd, msgvec: In(Messages(2)), vlen: UInt, flags: Flags(flags::MSG)
    ) -> Count)
    .blocks()
    .loads(&[FdTable])
    .stores(&[Content(0), Network])
    .world(World::Count)
    .fails(&[EAGAIN, ECONNRESET, ENOBUFS, ENOTCONN, EPIPE])
    .means(&[(EAGAIN, Failure::Retried)]),
];
