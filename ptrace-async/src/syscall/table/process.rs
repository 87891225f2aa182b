//! Processes and threads: creation, execution, end, identity, credentials,
//! limits, scheduling.

use libc::{
    E2BIG, EACCES, EAGAIN, EBUSY, ECHILD, EINVAL, EIO, EISDIR, ELIBBAD, EMFILE, ENFILE, ENOEXEC,
    ENOMEM, ENOSPC, EPERM, ETXTBSY, EUSERS,
};

use super::prelude::*;

pub(super) const CALLS: &[Spec] = &[
    sys!(24 sched_yield() -> Zero)
        .loads(&[Scheduling])
        .world(World::Schedule),
    sys!(39 getpid() -> Pid).loads(&[Myself]).world(World::Pid),
    sys!(56 clone(
        flags: Flags(flags::CLONE), stack: Address, parent_tid: Address, child_tid: Address,
        tls: Word
    ) -> Pid)
    .loads(&[Limits, AddressSpace, FdTable, SignalActions])
    .stores(&[Children])
    .world(World::Pid)
    .rule(Rule::Clone)
    .later(Later::AtExit)
    .special()
    .fails(&[EAGAIN, EINVAL, ENOMEM, ENOSPC, EPERM, EUSERS])
    .means(&[(EAGAIN, Failure::Resource)]),
    sys!(57 fork() -> Pid)
        .loads(&[Limits, AddressSpace, FdTable, SignalActions])
        .stores(&[Children])
        .world(World::Pid)
        .special()
        .fails(&[EAGAIN, EINVAL, ENOMEM, ENOSPC, EPERM, EUSERS])
        .means(&[(EAGAIN, Failure::Resource)]),
    sys!(58 vfork() -> Pid)
        .blocks()
        .loads(&[Limits, AddressSpace, FdTable, SignalActions])
        .stores(&[Children])
        .world(World::Pid)
        .special()
        .fails(&[EAGAIN, EINVAL, ENOMEM, ENOSPC, EPERM, EUSERS])
        .means(&[(EAGAIN, Failure::Resource)]),
    sys!(59 execve(pathname: Path, argv: Strings, envp: Strings) -> Zero)
        .loads(&[Name(0), Node(0), Cwd, Root, Credentials, Limits])
        .stores(&[
            AddressSpace,
            FdTable,
            SignalActions,
            SignalMask,
            Myself,
            Timers,
            Credentials,
        ])
        .special()
        .fails(&[
            E2BIG, EAGAIN, EINVAL, EIO, EISDIR, ELIBBAD, EMFILE, ENFILE, ENOEXEC, ENOMEM, EPERM,
            ETXTBSY,
        ])
        .means(&[(EAGAIN, Failure::Resource)]),
    sys!(60 exit(status: Int) -> Never)
        .stores(&[Myself, AddressSpace, FdTable])
        .special(),
    sys!(61 wait4(
        pid: Pid, wstatus: OutWhen(When::Positive, One(WaitStatus)), options: Flags(flags::WAIT),
        rusage: OutWhen(When::Positive, One(Rusage))
    ) -> Pid)
    .blocks()
    .loads(&[Children])
    .stores(&[Children, Usage])
    .fails(&[ECHILD])
    .world(World::Schedule),
    sys!(97 getrlimit(resource: Flags(flags::RLIMIT), rlim: Out(One(Rlimit))) -> Zero)
        .loads(&[Limits]),
    sys!(98 getrusage(who: Flags(flags::RUSAGE_WHO), usage: Out(One(Rusage))) -> Zero)
        .loads(&[Usage])
        .world(World::Usage),
    sys!(101 ptrace(
        request: Flags(flags::PTRACE), pid: Pid, addr: Word, data: Word
    ) -> Value)
    .blocks()
    .loads(&[Process(1)])
    .stores(&[Process(1)])
    .world(World::Refuse)
    .unmodelled("its effects depend on the state of another task")
    .unsupported("a task has one tracer, and it is traced already"),
    sys!(102 getuid() -> Id).loads(&[Credentials]),
    sys!(104 getgid() -> Id).loads(&[Credentials]),
    sys!(105 setuid(uid: Uid) -> Zero)
        .stores(&[Credentials])
        .fails(&[EAGAIN, EPERM])
        .means(&[(EAGAIN, Failure::Resource)]),
    sys!(106 setgid(gid: Gid) -> Zero)
        .stores(&[Credentials])
        .fails(&[EPERM]),
    sys!(107 geteuid() -> Id).loads(&[Credentials]),
    sys!(108 getegid() -> Id).loads(&[Credentials]),
    sys!(109 setpgid(pid: Pid, pgid: Pid) -> Zero)
        .loads(&[Children, Groups])
        .stores(&[Groups])
        .fails(&[EPERM]),
    sys!(110 getppid() -> Pid)
        .loads(&[Myself])
        .world(World::Pid),
    sys!(111 getpgrp() -> Pid)
        .loads(&[Groups])
        .world(World::Pid),
    sys!(112 setsid() -> Pid)
        .stores(&[Groups])
        .fails(&[EPERM])
        .world(World::Pid),
    sys!(113 setreuid(ruid: Uid, euid: Uid) -> Zero)
        .stores(&[Credentials])
        .fails(&[EAGAIN, EPERM])
        .means(&[(EAGAIN, Failure::Resource)]),
    sys!(114 setregid(rgid: Gid, egid: Gid) -> Zero)
        .stores(&[Credentials])
        .fails(&[EPERM]),
    sys!(115 getgroups(size: Int, list: Out(Many(U32, Returned(0)))) -> Count)
        .loads(&[Credentials]),
    sys!(116 setgroups(size: Int, list: In(Many(U32, Arg(0)))) -> Zero)
        .stores(&[Credentials])
        .fails(&[EPERM]),
    sys!(117 setresuid(ruid: Uid, euid: Uid, suid: Uid) -> Zero)
        .stores(&[Credentials])
        .fails(&[EAGAIN, EPERM])
        .means(&[(EAGAIN, Failure::Resource)]),
    sys!(118 getresuid(
        ruid: Out(One(U32)), euid: Out(One(U32)), suid: Out(One(U32))
    ) -> Zero)
    .loads(&[Credentials]),
    sys!(119 setresgid(rgid: Gid, egid: Gid, sgid: Gid) -> Zero)
        .stores(&[Credentials])
        .fails(&[EPERM]),
    sys!(120 getresgid(
        rgid: Out(One(U32)), egid: Out(One(U32)), sgid: Out(One(U32))
    ) -> Zero)
    .loads(&[Credentials]),
    sys!(121 getpgid(pid: Pid) -> Pid)
        .loads(&[Groups, Process(0)])
        .world(World::Pid),
    sys!(122 setfsuid(uid: Uid) -> Id)
        .loads(&[Credentials])
        .stores(&[Credentials]),
    sys!(123 setfsgid(gid: Gid) -> Id)
        .loads(&[Credentials])
        .stores(&[Credentials]),
    sys!(124 getsid(pid: Pid) -> Pid)
        .loads(&[Groups, Process(0)])
        .world(World::Pid),
    sys!(125 capget(
        hdrp: In(One(CapHeader)), datap: Address
    ) -> Zero)
    .loads(&[Credentials])
    .rule(Rule::Capabilities),
    sys!(126 capset(hdrp: In(One(CapHeader)), datap: Address) -> Zero)
        .stores(&[Credentials])
        .fails(&[EPERM])
        .rule(Rule::Capabilities),
    sys!(135 personality(persona: Word) -> Value)
        .loads(&[Myself])
        .stores(&[Myself])
        .reexecuted(),
    sys!(140 getpriority(which: Flags(flags::PRIORITY_WHICH), who: Pid) -> Value)
        .loads(&[Scheduling]),
    sys!(141 setpriority(which: Flags(flags::PRIORITY_WHICH), who: Pid, prio: Int) -> Zero)
        .stores(&[Scheduling])
        .fails(&[EPERM]),
    sys!(142 sched_setparam(pid: Pid, param: In(One(SchedParam))) -> Zero)
        .stores(&[Scheduling])
        .fails(&[EPERM]),
    sys!(143 sched_getparam(pid: Pid, param: Out(One(SchedParam))) -> Zero).loads(&[Scheduling]),
    sys!(144 sched_setscheduler(
        pid: Pid, policy: Flags(flags::SCHED), param: In(One(SchedParam))
    ) -> Zero)
    .stores(&[Scheduling])
    .fails(&[EPERM]),
    sys!(145 sched_getscheduler(pid: Pid) -> Value).loads(&[Scheduling]),
    sys!(146 sched_get_priority_max(policy: Flags(flags::SCHED)) -> Value),
    sys!(147 sched_get_priority_min(policy: Flags(flags::SCHED)) -> Value),
    sys!(148 sched_rr_get_interval(pid: Pid, tp: Out(One(Timespec))) -> Zero)
        .loads(&[Scheduling])
        .world(World::Machine),
    sys!(154 modify_ldt(func: Int, ptr: Address, bytecount: Size) -> Count)
        .stores(&[AddressSpace])
        .rule(Rule::ModifyLdt)
        .reexecuted()
        .unsupported("segment descriptors are not part of the process model"),
    sys!(157 prctl(
        option: Flags(flags::PRCTL), arg2: Word, arg3: Word, arg4: Word, arg5: Word
    ) -> Value)
    .loads(&[Myself])
    .stores(&[Myself])
    .rule(Rule::Prctl)
    .special(),
    sys!(158 arch_prctl(code: Flags(flags::ARCH_PRCTL), addr: Word) -> Value)
        .loads(&[Myself])
        .stores(&[Myself])
        .rule(Rule::ArchPrctl)
        .reexecuted(),
    sys!(160 setrlimit(resource: Flags(flags::RLIMIT), rlim: In(One(Rlimit))) -> Zero)
        .stores(&[Limits])
        .fails(&[EPERM]),
    sys!(186 gettid() -> Pid).loads(&[Myself]).world(World::Pid),
    sys!(203 sched_setaffinity(pid: Pid, cpusetsize: UInt, mask: In(Bytes(Arg(1)))) -> Zero)
        .stores(&[Scheduling])
        .fails(&[EPERM])
        .world(World::Machine),
    sys!(204 sched_getaffinity(pid: Pid, cpusetsize: UInt, mask: Out(Bytes(Returned(1)))) -> Count)
        .loads(&[Scheduling])
        .world(World::Machine),
    sys!(205 set_thread_area() -> NoSys),
    sys!(211 get_thread_area() -> NoSys),
    sys!(218 set_tid_address(tidptr: Address) -> Pid)
        .stores(&[Myself])
        .world(World::Pid)
        .later(Later::AtExit)
        .special(),
    sys!(231 exit_group(status: Int) -> Never)
        .stores(&[Myself, AddressSpace, FdTable])
        .special(),
    sys!(247 waitid(
        which: Flags(flags::WAIT_WHICH), pid: Pid, infop: Address, options: Flags(flags::WAIT),
        rusage: Address
    ) -> Zero)
    .blocks()
    .loads(&[Children])
    .stores(&[Children, Usage])
    .fails(&[ECHILD])
    .world(World::Schedule)
    .rule(Rule::WaitId),
    sys!(251 ioprio_set(which: Int, who: Pid, ioprio: Int) -> Zero)
        .stores(&[Scheduling])
        .fails(&[EPERM]),
    sys!(252 ioprio_get(which: Int, who: Pid) -> Value).loads(&[Scheduling]),
    sys!(272 unshare(flags: Flags(flags::UNSHARE)) -> Zero)
        .stores(&[Namespaces, FdTable, Cwd])
        .fails(&[ENOMEM, EPERM])
        .special(),
    sys!(273 set_robust_list(head: Address, len: Size) -> Zero)
        .stores(&[Myself])
        .later(Later::AtExit)
        .reexecuted(),
    sys!(274 get_robust_list(pid: Pid, head_ptr: Out(One(U64)), len_ptr: Out(One(U64))) -> Zero)
        .loads(&[Process(0)]),
    sys!(302 prlimit64(
        pid: Pid, resource: Flags(flags::RLIMIT), new_limit: In(One(Rlimit)),
        old_limit: Out(One(Rlimit))
    ) -> Zero)
    .loads(&[Limits, Process(0)])
    .stores(&[Limits])
    .fails(&[EPERM]),
    sys!(308 setns(fd: Fd, nstype: Flags(flags::UNSHARE)) -> Zero)
        .loads(&[FdTable])
        .stores(&[Namespaces, Cwd, Root])
        .fails(&[EPERM]),
    sys!(309 getcpu(cpu: Out(One(U32)), node: Out(One(U32))) -> Zero)
        .loads(&[Scheduling])
        .world(World::Machine),
    sys!(310 process_vm_readv(
        pid: Pid, local_iov: Out(Vectors(2)), liovcnt: Size, remote_iov: In(Many(Iovec, Arg(4))),
        riovcnt: Size, flags: Flags(flags::PLAIN)
    ) -> Count)
    .loads(&[Process(0)])
    .fails(&[EPERM]),
    sys!(311 process_vm_writev(
        pid: Pid, local_iov: In(Vectors(2)), liovcnt: Size, remote_iov: In(Many(Iovec, Arg(4))),
        riovcnt: Size, flags: Flags(flags::PLAIN)
    ) -> Count)
    .stores(&[Process(0)])
    .fails(&[EPERM])
    .unmodelled("it writes memory of another process, which may be the caller's own"),
    sys!(312 kcmp(
        pid1: Pid, pid2: Pid, kind: Flags(flags::KCMP), idx1: Word, idx2: Word
    ) -> Value)
    .loads(&[Process(0), Process(1)])
    .rule(Rule::Kcmp),
    sys!(314 sched_setattr(
        pid: Pid, attr: InOutWhen(When::TooBig, Sized(SchedAttr, Head(0))),
        flags: Flags(flags::PLAIN)
    ) -> Zero)
    .stores(&[Scheduling])
    .fails(&[EPERM]),
    sys!(315 sched_getattr(
        pid: Pid, attr: Out(Sized(SchedAttr, Arg(2))), size: UInt, flags: Flags(flags::PLAIN)
    ) -> Zero)
    .loads(&[Scheduling]),
    sys!(317 seccomp(operation: Flags(flags::SECCOMP), flags: UInt, args: Address) -> Value)
        .stores(&[Myself])
        .rule(Rule::Seccomp)
        .special()
        .fails(&[EACCES, EBUSY, EINVAL, ENOMEM, EPERM]),
    sys!(322 execveat(
        dirfd: DirFd, pathname: Path, argv: Strings, envp: Strings, flags: Flags(flags::AT)
    ) -> Zero)
    .loads(&[FdTable, Name(1), Node(1), Cwd, Root, Credentials, Limits])
    .stores(&[
        AddressSpace,
        FdTable,
        SignalActions,
        SignalMask,
        Myself,
        Timers,
        Credentials,
    ])
    .special()
    .fails(&[
        E2BIG, EAGAIN, EINVAL, EIO, EISDIR, ELIBBAD, EMFILE, ENFILE, ENOEXEC, ENOMEM, EPERM,
        ETXTBSY,
    ])
    .means(&[(EAGAIN, Failure::Resource)]),
    sys!(324 membarrier(cmd: Flags(flags::MEMBARRIER), flags: UInt, cpu_id: Int) -> Value)
        .stores(&[Myself]),
    sys!(334 rseq(rseq: Address, rseq_len: UInt, flags: UInt, sig: Word) -> Zero)
        .stores(&[Myself])
        .later(Later::Anytime)
        .special(),
    sys!(434 pidfd_open(pid: Pid, flags: Flags(flags::PIDFD)) -> Fd)
        .loads(&[Process(0)])
        .stores(&[FdTable]),
    sys!(435 clone3(cl_args: In(Sized(CloneArgs, Arg(1))), size: Size) -> Pid)
        .loads(&[Limits, AddressSpace, FdTable, SignalActions])
        .stores(&[Children])
        .world(World::Pid)
        .rule(Rule::Clone3)
        .later(Later::AtExit)
        .special()
        .fails(&[EAGAIN, EINVAL, ENOMEM, ENOSPC, EPERM, EUSERS])
        .means(&[(EAGAIN, Failure::Resource)]),
    sys!(438 pidfd_getfd(pidfd: Fd, targetfd: Int, flags: Flags(flags::PLAIN)) -> Fd)
        .loads(&[FdTable, Process(0)])
        .stores(&[FdTable])
        .fails(&[EPERM]),
];
