//! The address space: mappings, protection, advice, NUMA placement.

use libc::{
    EACCES, EAGAIN, EBUSY, EDQUOT, EEXIST, EINVAL, EIO, ENFILE, ENODEV, ENOMEM, ENOSPC, EOPNOTSUPP,
    EOVERFLOW, EPERM, ETXTBSY,
};

use super::prelude::*;

pub(super) const CALLS: &[Spec] = &[
    sys!(9 mmap(
        addr: Address, length: Size, prot: Flags(flags::PROT), flags: Flags(flags::MMAP), fd: Fd,
        offset: Offset
    ) -> Address)
    .loads(&[AddressSpace, FdTable, Limits])
    .stores(&[AddressSpace])
    .world(World::Address)
    .special()
    .fails(&[
        EACCES, EAGAIN, EEXIST, EINVAL, ENFILE, ENODEV, ENOMEM, EOPNOTSUPP, EOVERFLOW, EPERM,
        ETXTBSY,
    ])
    .means(&[(EAGAIN, Failure::Resource)]),
    sys!(10 mprotect(addr: Address, len: Size, prot: Flags(flags::PROT)) -> Zero)
        .loads(&[AddressSpace])
        .stores(&[AddressSpace])
        .fails(&[ENOMEM])
        .reexecuted(),
    sys!(11 munmap(addr: Address, length: Size) -> Zero)
        .loads(&[AddressSpace])
        .stores(&[AddressSpace])
        .fails(&[ENOMEM])
        .reexecuted(),
    sys!(12 brk(addr: Address) -> Address)
        .loads(&[AddressSpace, Limits])
        .stores(&[AddressSpace])
        .world(World::Address)
        .reexecuted(),
    sys!(25 mremap(
        old_address: Address, old_size: Size, new_size: Size, flags: Flags(flags::MREMAP),
        new_address: Address
    ) -> Address)
    .loads(&[AddressSpace, Limits])
    .stores(&[AddressSpace])
    .world(World::Address)
    .special()
    .fails(&[EAGAIN, EINVAL, ENOMEM, EPERM])
    .means(&[(EAGAIN, Failure::Resource)]),
    sys!(26 msync(addr: Address, length: Size, flags: Flags(flags::MSYNC)) -> Zero)
        .blocks()
        .loads(&[AddressSpace])
        .stores(&[FileSystems])
        .fails(&[EBUSY, EDQUOT, EINVAL, EIO, ENOMEM, ENOSPC])
        .means(&[(ENOMEM, Failure::Fact)]),
    sys!(27 mincore(addr: Address, length: Size, vec: Out(Bytes(Pages(1)))) -> Zero)
        .loads(&[AddressSpace, Machine])
        .fails(&[EAGAIN, ENOMEM])
        .world(World::Machine),
    sys!(28 madvise(addr: Address, length: Size, advice: Flags(flags::MADVISE)) -> Zero)
        .loads(&[AddressSpace])
        .stores(&[AddressSpace])
        .fails(&[EAGAIN, ENOMEM])
        .rule(Rule::Madvise)
        .special(),
    sys!(149 mlock(addr: Address, len: Size) -> Zero)
        .loads(&[AddressSpace, Limits])
        .stores(&[AddressSpace])
        .fails(&[EAGAIN, EINVAL, ENOMEM, EPERM])
        .means(&[(EAGAIN, Failure::Resource)]),
    sys!(150 munlock(addr: Address, len: Size) -> Zero)
        .loads(&[AddressSpace])
        .stores(&[AddressSpace])
        .fails(&[EAGAIN, ENOMEM]),
    sys!(151 mlockall(flags: Flags(flags::MLOCKALL)) -> Zero)
        .loads(&[AddressSpace, Limits])
        .stores(&[AddressSpace])
        .fails(&[EAGAIN, EINVAL, ENOMEM, EPERM])
        .means(&[(EAGAIN, Failure::Resource)]),
    sys!(152 munlockall() -> Zero).stores(&[AddressSpace]),
    sys!(216 remap_file_pages(
        addr: Address, size: Size, prot: Flags(flags::PROT), pgoff: Size,
        flags: Flags(flags::MMAP)
    ) -> Zero)
    .loads(&[AddressSpace])
    .stores(&[AddressSpace])
    .special()
    .unsupported("it rearranges the pages of a shared mapping, and nothing current uses it"),
    sys!(237 mbind(
        addr: Address, len: Size, mode: Int, nodemask: In(NodeSet(4)), maxnode: Size, flags: UInt
    ) -> Zero)
    .loads(&[AddressSpace])
    .stores(&[AddressSpace])
    .fails(&[EIO, ENOMEM]),
    sys!(238 set_mempolicy(mode: Int, nodemask: In(NodeSet(2)), maxnode: Size) -> Zero)
        .stores(&[Myself])
        .fails(&[ENOMEM]),
    sys!(239 get_mempolicy(
        mode: Out(One(I32)), nodemask: Out(NodeSet(2)), maxnode: Size, addr: Address, flags: UInt
    ) -> Zero)
    .loads(&[AddressSpace, Myself])
    .world(World::Machine),
    sys!(256 migrate_pages(
        pid: Pid, maxnode: Size, old_nodes: In(NodeSet(1)), new_nodes: In(NodeSet(1))
    ) -> Count)
    .loads(&[Process(0)])
    .stores(&[Machine])
    .world(World::Machine),
    sys!(279 move_pages(
        pid: Pid, count: Size, pages: In(Many(U64, Arg(1))), nodes: In(Many(I32, Arg(1))),
        status: OutWhen(When::Always, Many(I32, Arg(1))), flags: UInt
    ) -> Count)
    .loads(&[Process(0), Machine])
    .stores(&[Machine])
    .fails(&[ENOMEM])
    .world(World::Machine),
    sys!(319 memfd_create(name: Text, flags: Flags(flags::MEMFD)) -> Fd)
        .loads(&[FdTable])
        .stores(&[FdTable])
        .fails(&[ENOMEM]),
    sys!(323 userfaultfd(flags: Flags(flags::PIPE)) -> Fd)
        .stores(&[FdTable])
        .unsupported("another task decides what memory reads as"),
    sys!(325 mlock2(addr: Address, len: Size, flags: Flags(flags::MLOCK)) -> Zero)
        .loads(&[AddressSpace, Limits])
        .stores(&[AddressSpace])
        .fails(&[EAGAIN, EINVAL, ENOMEM, EPERM])
        .means(&[(EAGAIN, Failure::Resource)]),
    sys!(329 pkey_mprotect(
        addr: Address, len: Size, prot: Flags(flags::PROT), pkey: Int
    ) -> Zero)
    .loads(&[AddressSpace])
    .stores(&[AddressSpace])
    .fails(&[ENOMEM])
    .reexecuted(),
    sys!(330 pkey_alloc(flags: UInt, access_rights: UInt) -> Value)
        .loads(&[AddressSpace, Machine])
        .stores(&[AddressSpace])
        .world(World::Machine)
        .reexecuted(),
    sys!(331 pkey_free(pkey: Int) -> Zero)
        .loads(&[AddressSpace])
        .stores(&[AddressSpace])
        .reexecuted(),
    sys!(440 process_madvise(
        pidfd: Fd, vec: In(Many(Iovec, Arg(2))), vlen: Size, advice: Flags(flags::MADVISE),
        flags: Flags(flags::PLAIN)
    ) -> Count)
    .loads(&[FdTable])
    .stores(&[Process(0)])
    .fails(&[ENOMEM])
    .special()
    .unmodelled("with the caller's own process it can discard pages of any listed range"),
    sys!(447 memfd_secret(flags: Flags(flags::PIPE)) -> Fd)
        .stores(&[FdTable])
        .unsupported("its memory cannot be read from outside of the process"),
    sys!(448 process_mrelease(pidfd: Fd, flags: Flags(flags::PLAIN)) -> Zero)
        .blocks()
        .loads(&[FdTable])
        .stores(&[Process(0)])
        .fails(&[EAGAIN]),
    sys!(450 set_mempolicy_home_node(
        start: Address, len: Size, home_node: Size, flags: Flags(flags::PLAIN)
    ) -> Zero)
    .loads(&[AddressSpace])
    .stores(&[AddressSpace])
    .fails(&[ENOMEM]),
    sys!(453 map_shadow_stack(addr: Address, size: Size, flags: UInt) -> Address)
        .stores(&[AddressSpace])
        .unsupported("a shadow stack has return addresses that a replay would have to keep"),
    sys!(462 mseal(start: Address, len: Size, flags: Flags(flags::PLAIN)) -> Zero)
        .loads(&[AddressSpace])
        .stores(&[AddressSpace])
        .fails(&[ENOMEM])
        .reexecuted(),
];
