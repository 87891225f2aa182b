//! Sockets.

use libc::{EADDRINUSE, EAGAIN, ECONNREFUSED, ECONNRESET, EPIPE, ERANGE, ETIMEDOUT};

use super::prelude::*;

pub(super) const CALLS: &[Spec] = &[
    sys!(41 socket(
        domain: Flags(flags::AF), kind: Flags(flags::SOCK), protocol: Int
    ) -> Fd)
    .stores(&[FdTable]),
    sys!(42 connect(sockfd: Fd, addr: In(Sized(Sockaddr, Arg(2))), addrlen: UInt) -> Zero)
        .blocks()
        .loads(&[FdTable, Content(0), Network])
        .stores(&[Content(0), Network])
        .fails(&[EAGAIN, ECONNREFUSED, ETIMEDOUT])
        .world(World::Refuse),
    sys!(43 accept(
        sockfd: Fd, addr: Out(Sized(Sockaddr, Pointed(2))), addrlen: InOut(One(U32))
    ) -> Fd)
    .blocks()
    .loads(&[FdTable, Content(0)])
    .stores(&[FdTable, Content(0)])
    .fails(&[EAGAIN])
    .world(World::Schedule),
    sys!(44 sendto(
        sockfd: Fd, buf: In(Bytes(Returned(2))), len: Size, flags: Flags(flags::MSG),
        dest_addr: In(Sized(Sockaddr, Arg(5))), addrlen: UInt
    ) -> Count)
    .blocks()
    .loads(&[FdTable])
    .stores(&[Content(0), Network])
    .fails(&[EAGAIN, ECONNRESET, EPIPE])
    .world(World::Count),
    sys!(45 recvfrom(
        sockfd: Fd, buf: Out(Bytes(Returned(2))), len: Size, flags: Flags(flags::MSG),
        src_addr: Out(Sized(Sockaddr, Pointed(5))), addrlen: InOut(One(U32))
    ) -> Count)
    .blocks()
    .loads(&[FdTable, Content(0)])
    .stores(&[Content(0)])
    .fails(&[EAGAIN, ECONNRESET])
    .world(World::Count),
    sys!(46 sendmsg(sockfd: Fd, msg: In(Message), flags: Flags(flags::MSG)) -> Count)
        .blocks()
        .loads(&[FdTable])
        .stores(&[Content(0), Network])
        .fails(&[EAGAIN, ECONNRESET, EPIPE])
        .world(World::Count),
    sys!(47 recvmsg(sockfd: Fd, msg: Out(Message), flags: Flags(flags::MSG)) -> Count)
        .blocks()
        .loads(&[FdTable, Content(0)])
        .stores(&[Content(0), FdTable])
        .fails(&[EAGAIN, ECONNRESET])
        .world(World::Count),
    sys!(48 shutdown(sockfd: Fd, how: Flags(flags::SHUTDOWN)) -> Zero)
        .loads(&[FdTable])
        .stores(&[Content(0)]),
    sys!(49 bind(sockfd: Fd, addr: In(Sized(Sockaddr, Arg(2))), addrlen: UInt) -> Zero)
        .loads(&[FdTable, Network, Cwd, Root])
        .stores(&[Content(0), Network])
        .fails(&[EADDRINUSE]),
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
    .stores(&[FdTable]),
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
    .fails(&[EAGAIN])
    .world(World::Schedule),
    sys!(299 recvmmsg(
        sockfd: Fd, msgvec: Out(Messages(2)), vlen: UInt, flags: Flags(flags::MSG),
        timeout: InOutWhen(When::Success, One(Timespec))
    ) -> Count)
    .blocks()
    .loads(&[FdTable, Content(0), Clock])
    .stores(&[Content(0), FdTable])
    .fails(&[EAGAIN, ECONNRESET])
    .world(World::Count),
    sys!(307 sendmmsg(
        sockfd: Fd, msgvec: In(Messages(2)), vlen: UInt, flags: Flags(flags::MSG)
    ) -> Count)
    .blocks()
    .loads(&[FdTable])
    .stores(&[Content(0), Network])
    .fails(&[EAGAIN, ECONNRESET, EPIPE])
    .world(World::Count),
];
