//! Loops of calls on memory.

use super::Arg::{Area, Fd, Got, N, Pid, Room, Vector, Words};
use super::Thing::{File, Out, Pidfd};
use super::{Arg, Loop, Step, c, close, n, often, seldom};

const LEN: Arg = N(4096);
const READ: Arg = N(libc::PROT_READ as i64);
const WRITE: Arg = N((libc::PROT_READ | libc::PROT_WRITE) as i64);
const ANONYMOUS: Arg = N((libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as i64);
const PRIVATE: Arg = N(libc::MAP_PRIVATE as i64);
const SHARED: Arg = N(libc::MAP_SHARED as i64);
const UNMAP: Step = c("munmap", &[Got(0), LEN]);

pub(super) const LOOPS: &[Loop] = &[
    often(
        "mmap, munmap: memory",
        &[
            c("mmap", &[N(0), LEN, WRITE, ANONYMOUS, N(-1), N(0)]),
            UNMAP,
        ],
    ),
    often(
        "mmap, munmap: a file, private",
        &[
            c("mmap", &[N(0), LEN, READ, PRIVATE, Fd(File), N(0)]),
            UNMAP,
        ],
    ),
    often(
        "mmap, munmap: a file, shared",
        &[c("mmap", &[N(0), LEN, READ, SHARED, Fd(File), N(0)]), UNMAP],
    ),
    seldom(
        "mmap, munmap: a file to write, shared",
        &[c("mmap", &[N(0), LEN, WRITE, SHARED, Fd(Out), N(0)]), UNMAP],
    ),
    often(
        "mprotect",
        &[
            c("mprotect", &[Area, LEN, READ]),
            c("mprotect", &[Area, LEN, WRITE]),
        ],
    ),
    often("brk: nothing new", &[c("brk", &[N(0)])]),
    often(
        "mremap: the same size",
        &[c("mremap", &[Area, LEN, LEN, N(0)])],
    ),
    often(
        "madvise: MADV_DONTNEED",
        &[c("madvise", &[Area, LEN, N(4)])],
    ),
    seldom(
        "msync",
        &[c("msync", &[Area, LEN, N(libc::MS_ASYNC as i64)])],
    ),
    seldom("mincore", &[c("mincore", &[Area, LEN, Room(16)])]),
    seldom(
        "mlock, munlock",
        &[c("mlock", &[Area, LEN]), c("munlock", &[Area, LEN])],
    ),
    seldom(
        "mlock2, munlock",
        &[c("mlock2", &[Area, LEN, N(0)]), c("munlock", &[Area, LEN])],
    ),
    seldom(
        "mlockall: nothing (EINVAL), munlockall",
        &[c("mlockall", &[N(0)]), c("munlockall", &[])],
    ),
    seldom(
        "remap_file_pages: no shared mapping (EINVAL)",
        &[n("remap_file_pages", &[Area, LEN, N(0), N(0), N(0)])],
    ),
    seldom(
        "mbind: the default",
        &[n("mbind", &[Area, LEN, N(0), N(0), N(0), N(0)])],
    ),
    seldom(
        "set_mempolicy: the default",
        &[n("set_mempolicy", &[N(0), N(0), N(0)])],
    ),
    seldom(
        "get_mempolicy",
        &[n("get_mempolicy", &[Room(8), N(0), N(0), N(0), N(0)])],
    ),
    seldom(
        "set_mempolicy_home_node: no policy",
        &[n("set_mempolicy_home_node", &[Area, LEN, N(0), N(0)])],
    ),
    seldom(
        "migrate_pages: none",
        &[n("migrate_pages", &[N(0), N(0), N(0), N(0)])],
    ),
    seldom(
        "move_pages: none",
        &[n("move_pages", &[N(0), N(0), N(0), N(0), N(0), N(0)])],
    ),
    seldom(
        "memfd_create, close",
        &[c("memfd_create", &[Arg::Text("x"), N(1)]), close(&[Got(0)])],
    ),
    seldom(
        "memfd_secret, close",
        &[n("memfd_secret", &[N(0)]), close(&[Got(0)])],
    ),
    seldom(
        "userfaultfd, close",
        &[n("userfaultfd", &[N(1)]), close(&[Got(0)])],
    ),
    seldom(
        "pkey_mprotect: no key",
        &[n("pkey_mprotect", &[Area, LEN, WRITE, N(-1)])],
    ),
    seldom(
        "pkey_alloc, pkey_free",
        &[n("pkey_alloc", &[N(0), N(0)]), n("pkey_free", &[Got(0)])],
    ),
    seldom(
        "process_madvise: of its own",
        &[n(
            "process_madvise",
            &[Fd(Pidfd), Vector(4096), N(1), N(20), N(0)],
        )],
    ),
    seldom(
        "map_shadow_stack, munmap",
        &[n("map_shadow_stack", &[N(0), LEN, N(0)]), UNMAP],
    ),
    seldom("mseal: nothing", &[n("mseal", &[Area, N(0), N(0)])]),
    seldom(
        "process_vm_readv: of its own",
        &[c(
            "process_vm_readv",
            &[Pid, Vector(8), N(1), Vector(8), N(1), N(0)],
        )],
    ),
    seldom(
        "process_vm_writev: of its own",
        &[c(
            "process_vm_writev",
            &[Pid, Vector(8), N(1), Vector(8), N(1), N(0)],
        )],
    ),
    seldom(
        "membarrier: MEMBARRIER_CMD_QUERY",
        &[n("membarrier", &[N(0), N(0), N(0)])],
    ),
    seldom(
        "modify_ldt: read",
        &[n("modify_ldt", &[N(0), Room(64), N(64)])],
    ),
    seldom(
        "arch_prctl: ARCH_GET_FS",
        &[n("arch_prctl", &[N(0x1003), Room(8)])],
    ),
    // Futexes, without anybody who waits.
    often(
        "futex: wake nobody",
        &[n("futex", &[Words(&[0]), N(129), N(1)])],
    ),
    often(
        "futex: wait for what has come",
        &[n("futex", &[Words(&[0]), N(128), N(1), N(0)])],
    ),
    seldom(
        "futex_wake: wake nobody",
        &[n("futex_wake", &[Words(&[0]), N(1), N(1), N(2)])],
    ),
    seldom(
        "futex_wait: for what has come",
        &[n(
            "futex_wait",
            &[Words(&[0]), N(1), N(1), N(2), N(0), N(1)],
        )],
    ),
    seldom(
        "futex_waitv: none (EINVAL)",
        &[n("futex_waitv", &[N(0), N(0), N(0), N(0), N(1)])],
    ),
    seldom(
        "futex_requeue: none (EINVAL)",
        &[n("futex_requeue", &[N(0), N(0), N(0), N(0)])],
    ),
];
