//! The recorder's decision on each syscall: perform, modify, answer or refuse it.

use ptrace_async::memory::Memory;
use ptrace_async::syscall::{Effects, Invocation, Support, Syscall, effects};

/// The treatment of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plan {
    /// Perform it.
    Perform,
    /// Perform it with other arguments.
    Modify(Invocation),
    /// Return this value without performing it.
    Answer(i64),
    /// Report success for an affinity, which is kept and not applied.
    SetAffinity,
    /// Return the affinity that the task has chosen.
    GetAffinity,
    /// The task is told that its memory can be dumped, or cannot, as it wants. Of memory that
    /// cannot, the kernel shows nothing to a tracer without rights (`ptrace_access_vm` in
    /// kernel/ptrace.c).
    SetDumpable,
    /// Return the chosen setting.
    GetDumpable,
    /// Return this error without performing it, because it cannot be recorded.
    Refuse(i64, &'static str),
}

const NO_SUCH_CALL: i64 = -(libc::ENOSYS as i64);

/// Decides the treatment of a call.
pub(super) fn plan(call: &Invocation, memory: &dyn Memory) -> Plan {
    let syscall = call.syscall();
    if let Support::Unsupported(reason) = syscall.support() {
        if call.nr == libc::SYS_restart_syscall as u64 {
            return Plan::Perform;
        }
        if call.nr == libc::SYS_ptrace as u64 {
            return Plan::Refuse(-i64::from(libc::EPERM), reason);
        }
        return Plan::Refuse(NO_SUCH_CALL, reason);
    }
    match call.nr.cast_signed() {
        // The kernel would write to it at any time.
        libc::SYS_rseq => Plan::Answer(NO_SUCH_CALL),
        // Each scheduler has one processor; programs see the affinity that they set.
        libc::SYS_sched_setaffinity => Plan::SetAffinity,
        libc::SYS_sched_getaffinity => Plan::GetAffinity,
        libc::SYS_prctl => prctl(call),
        libc::SYS_seccomp => Plan::Refuse(
            NO_SUCH_CALL,
            "a seccomp filter of the program would hide calls from the recorder",
        ),
        libc::SYS_madvise if call.args[2] as i32 == libc::MADV_FREE => {
            // The kernel takes such pages when it likes; here, at once.
            let mut other = *call;
            other.args[2] = libc::MADV_DONTNEED as u64;
            Plan::Modify(other)
        }
        libc::SYS_clone if call.args[0] & libc::CLONE_UNTRACED as u64 != 0 => {
            let mut other = *call;
            other.args[0] &= !(libc::CLONE_UNTRACED as u64);
            Plan::Modify(other)
        }
        libc::SYS_shmat | libc::SYS_shmget => {
            Plan::Refuse(NO_SUCH_CALL, "System V shared memory is not recorded")
        }
        _ => effect(call, syscall, memory),
    }
}

/// Decides by whether the effects of the call are modelled.
fn effect(call: &Invocation, syscall: Syscall, memory: &dyn Memory) -> Plan {
    if syscall
        .spec()
        .is_some_and(|spec| spec.effects == Effects::Typed)
    {
        // What the types of the arguments say is all.
        return Plan::Perform;
    }
    match effects::writes(call, 0, memory) {
        Ok(_) => Plan::Perform,
        Err(unmodelled) => {
            let refusal = if syscall.number() == libc::SYS_ioctl as u64 {
                -i64::from(libc::ENOTTY)
            } else {
                NO_SUCH_CALL
            };
            Plan::Refuse(refusal, unmodelled.reason)
        }
    }
}

fn prctl(call: &Invocation) -> Plan {
    match call.args[0] as i32 {
        // The recorder traps the time stamp counter, and must go on to.
        libc::PR_SET_TSC => Plan::Answer(0),
        libc::PR_SET_DUMPABLE => Plan::SetDumpable,
        libc::PR_GET_DUMPABLE => Plan::GetDumpable,
        libc::PR_SET_SECCOMP => Plan::Refuse(
            -i64::from(libc::EINVAL),
            "a seccomp filter of the program would hide calls from the recorder",
        ),
        _ => Plan::Perform,
    }
}

/// Whether a call gives up where it is disturbed, without a handler having run: signal(7)
/// lists those that a stop and a continue end.
pub(super) fn gives_up(call: &Invocation) -> bool {
    matches!(
        call.nr.cast_signed(),
        libc::SYS_epoll_wait
            | libc::SYS_epoll_pwait
            | libc::SYS_epoll_pwait2
            | libc::SYS_rt_sigtimedwait
            | libc::SYS_semop
            | libc::SYS_semtimedop
            // Of inotify, and of sockets with a time-out.
            | libc::SYS_read
            | libc::SYS_recvfrom
            | libc::SYS_recvmsg
    )
}

/// Whether a call takes a lock with priority inheritance, which the kernel knows of.
pub(super) fn locks_with_inheritance(call: &Invocation) -> bool {
    const LOCK_PI2: i32 = 13;
    let operation = (call.args[1] & 0x7f) as i32;
    call.nr == libc::SYS_futex as u64 && matches!(operation, libc::FUTEX_LOCK_PI | LOCK_PI2)
}

/// Whether a call wakes waiters of a futex.
pub(super) fn wakes(call: &Invocation) -> bool {
    let operation = (call.args[1] & 0x7f) as i32;
    call.nr == libc::SYS_futex as u64
        && matches!(
            operation,
            libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET | libc::FUTEX_WAKE_OP
        )
}

/// Whether a call is made from the vsyscall page.
pub(super) fn is_vsyscall(ip: u64) -> bool {
    (0xffff_ffff_ff60_0000..0xffff_ffff_ff60_1000).contains(&ip)
}

/// Whether a call may wait for another task of its group.
pub(super) fn may_wait(call: &Invocation) -> bool {
    let executes = matches!(
        call.nr.cast_signed(),
        // The other threads end before it does.
        libc::SYS_execve | libc::SYS_execveat
    );
    let yields = call.nr == libc::SYS_sched_yield as u64;
    if call.nr == libc::SYS_futex as u64 {
        // The others do not wait, and some of them write the word: not while others run.
        return matches!(
            (call.args[1] & 0x7f) as i32,
            libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET | libc::FUTEX_WAIT_REQUEUE_PI
        ) || locks_with_inheritance(call);
    }
    executes || yields || call.syscall().spec().is_some_and(|spec| spec.blocks)
}

/// Whether a call reads or writes a stream, which may take its time.
pub(super) fn is_on_stream(call: &Invocation) -> bool {
    matches!(
        call.nr.cast_signed(),
        libc::SYS_read
            | libc::SYS_write
            | libc::SYS_pread64
            | libc::SYS_pwrite64
            | libc::SYS_recvfrom
            | libc::SYS_sendto
    )
}
