//! Effects that depend on the values of arguments: commands, operations,
//! options.

use super::ioctl::{self, Transfer};
use super::pass::Pass;
use super::range::count_of;
use crate::syscall::errno::error_of;
use crate::syscall::model::Rule;

const UNKNOWN_COMMAND: &str = "the command is not in the model";

type RuleResult = Result<(), &'static str>;

/// Adds the kernel's writes that the types do not describe.
pub(super) fn writes(pass: &mut Pass<'_>, rule: Rule) -> RuleResult {
    match rule {
        Rule::ArchPrctl => arch_prctl(pass),
        Rule::Capabilities => capabilities_written(pass),
        Rule::Clone => clone(pass),
        Rule::Clone3 => clone3(pass),
        Rule::Fcntl => fcntl(pass, Transfer::Out)?,
        Rule::FileHandle => file_handle_written(pass),
        Rule::Futex => futex_written(pass),
        Rule::Ioctl => return ioctl_effects(pass, Transfer::Out),
        Rule::ModifyLdt => {
            if pass.succeeded() && matches!(pass.arg(0) as u32, 0 | 2) {
                pass.push(pass.arg(1), result(pass));
            }
        }
        Rule::Madvise => madvise(pass),
        Rule::MessageQueue => {
            if pass.succeeded() && pass.invocation.syscall().name() == "msgrcv" {
                pass.push(pass.arg(1), 8 + result(pass));
            }
        }
        Rule::MsgCtl | Rule::SemCtl | Rule::ShmCtl => return control(pass, rule, Transfer::Out),
        Rule::Poll => poll(pass),
        Rule::Prctl => return prctl(pass, Transfer::Out),
        Rule::Seccomp => {
            if pass.succeeded() && pass.arg(0) as u32 == libc::SECCOMP_GET_NOTIF_SIZES {
                pass.push(pass.arg(2), 6);
            }
        }
        Rule::SysFs => {
            if pass.succeeded() && pass.arg(0) as u32 == 2 {
                pass.read_string(pass.arg(2), 256);
            }
        }
        Rule::Syslog => {
            // SYSLOG_ACTION_READ, READ_ALL and READ_CLEAR.
            if pass.succeeded() && matches!(pass.arg(0) as u32, 2..=4) {
                pass.push(pass.arg(1), result(pass));
            }
        }
        Rule::WaitId => wait_id(pass),
        Rule::XattrAt => {
            if pass.succeeded() && pass.invocation.syscall().name() == "getxattrat" {
                let value = pass.u64_at(pass.arg(4)).unwrap_or(0);
                let size = pass.u32_at(pass.arg(4).saturating_add(8)).unwrap_or(0);
                pass.push(value, result(pass).min(u64::from(size)));
            }
        }
        Rule::FsConfig | Rule::FutexWaitV | Rule::Kcmp | Rule::Pselect => {}
    }
    Ok(())
}

/// Adds the kernel's reads that the types do not describe.
pub(super) fn reads(pass: &mut Pass<'_>, rule: Rule) -> RuleResult {
    match rule {
        Rule::Capabilities => {
            if pass.invocation.syscall().name() == "capset" {
                pass.push(pass.arg(1), capability_bytes(pass));
            }
        }
        Rule::Clone3 => {
            let at = pass.arg(0);
            let ids = pass.u64_at(at.saturating_add(64)).unwrap_or(0);
            let count = pass.u64_at(at.saturating_add(72)).unwrap_or(0);
            if pass.arg(1) >= 80 {
                // A process is in at most 32 nested pid namespaces.
                pass.push(ids, count.min(32) * 4);
            }
        }
        Rule::Fcntl => fcntl(pass, Transfer::In)?,
        Rule::FileHandle => {
            let handle = pass.arg(if pass.invocation.nr == 304 { 1 } else { 2 });
            let bytes = pass.u32_at(handle).unwrap_or(0).min(128);
            let all = pass.invocation.nr == 304;
            pass.push(handle, 8 + if all { u64::from(bytes) } else { 0 });
        }
        Rule::FsConfig => match pass.arg(1) as u32 {
            1 | 3 | 4 => pass.read_string(pass.arg(3), 4096),
            2 => pass.push(pass.arg(3), u64::try_from(pass.arg(4) as i32).unwrap_or(0)),
            _ => {}
        },
        Rule::Futex => futex_read(pass),
        Rule::FutexWaitV => {
            let count = if pass.invocation.nr == 456 {
                2
            } else {
                pass.arg(1).min(128)
            };
            for index in 0..count {
                let at = pass.arg(0).saturating_add(index * 24 + 8);
                let Some(word) = pass.u64_at(at) else { break };
                pass.push(word, 4);
            }
        }
        Rule::Ioctl => return ioctl_effects(pass, Transfer::In),
        Rule::Kcmp => {
            // KCMP_EPOLL_TFD names its target by a struct kcmp_epoll_slot.
            if pass.arg(2) as u32 == 7 {
                pass.push(pass.arg(4), 12);
            }
        }
        Rule::ModifyLdt => {
            if matches!(pass.arg(0) as u32, 1 | 0x11) {
                pass.push(pass.arg(1), 16);
            }
        }
        Rule::MessageQueue => {
            if pass.invocation.syscall().name() == "msgsnd" {
                pass.push(pass.arg(1), pass.arg(2).saturating_add(8));
            }
        }
        Rule::MsgCtl | Rule::SemCtl | Rule::ShmCtl => return control(pass, rule, Transfer::In),
        Rule::Prctl => return prctl(pass, Transfer::In),
        Rule::Pselect => {
            let pack = pass.arg(5);
            if pack != 0 {
                let mask = pass.u64_at(pack).unwrap_or(0);
                pass.push(mask, 8);
            }
        }
        Rule::Seccomp => match pass.arg(0) as u32 {
            libc::SECCOMP_SET_MODE_FILTER => filter_program(pass, pass.arg(2)),
            libc::SECCOMP_GET_ACTION_AVAIL => pass.push(pass.arg(2), 4),
            _ => {}
        },
        Rule::SysFs => {
            if pass.arg(0) as u32 == 1 {
                pass.read_string(pass.arg(1), 4096);
            }
        }
        Rule::XattrAt => {
            if pass.invocation.syscall().name() == "setxattrat" {
                let value = pass.u64_at(pass.arg(4)).unwrap_or(0);
                let size = pass.u32_at(pass.arg(4).saturating_add(8)).unwrap_or(0);
                pass.push(value, u64::from(size));
            }
        }
        Rule::ArchPrctl
        | Rule::Clone
        | Rule::Madvise
        | Rule::Poll
        | Rule::Syslog
        | Rule::WaitId => {}
    }
    Ok(())
}

/// The result as a number of bytes.
fn result(pass: &Pass<'_>) -> u64 {
    pass.result.unwrap_or(0).max(0).cast_unsigned()
}

fn arch_prctl(pass: &mut Pass<'_>) {
    // The codes that store a word: FS and GS base, features, tags, shadow stack.
    let stores = matches!(
        pass.arg(0) as u32,
        0x1003 | 0x1004 | 0x1021 | 0x1022 | 0x1024 | 0x4001 | 0x4003 | 0x5005
    );
    if pass.succeeded() && stores {
        pass.push(pass.arg(1), 8);
    }
}

/// `struct __user_cap_data_struct`, once or twice by the version in the header.
fn capability_bytes(pass: &Pass<'_>) -> u64 {
    match pass.u32_at(pass.arg(0)) {
        Some(0x1998_0330) => 12,
        Some(0x2007_1026 | 0x2008_0522) => 24,
        _ => 0,
    }
}

fn capabilities_written(pass: &mut Pass<'_>) {
    let asks_for_version = pass.succeeded() && pass.arg(1) == 0;
    if pass.failed_with(libc::EINVAL) || asks_for_version {
        pass.push(pass.arg(0), 4);
    }
    if pass.succeeded() && pass.invocation.syscall().name() == "capget" {
        pass.push(pass.arg(1), capability_bytes(pass));
    }
}

fn clone(pass: &mut Pass<'_>) {
    let parent = libc::CLONE_PARENT_SETTID | libc::CLONE_PIDFD;
    let places = Places {
        flags: pass.arg(0),
        parent,
        tid: pass.arg(2),
        child: pass.arg(3),
    };
    places.written(pass);
}

fn clone3(pass: &mut Pass<'_>) {
    let at = pass.arg(0);
    let field = |offset| pass.u64_at(at.saturating_add(offset)).unwrap_or(0);
    let (flags, pidfd, child, tid) = (field(0), field(8), field(16), field(24));
    let places = Places {
        flags,
        parent: libc::CLONE_PARENT_SETTID,
        tid,
        child,
    };
    places.written(pass);
    if flags & libc::CLONE_PIDFD as u64 != 0 && result(pass) > 0 {
        pass.push(pidfd, 4);
    }
}

/// Where `clone` stores thread ids.
struct Places {
    flags: u64,
    /// Flags that make it store through `tid`.
    parent: i32,
    tid: u64,
    child: u64,
}

impl Places {
    fn written(self, pass: &mut Pass<'_>) {
        if !pass.succeeded() {
            return;
        }
        let has = |flag: i32| self.flags & u64::from(flag.cast_unsigned()) != 0;
        let in_child = pass.result == Some(0);
        if has(self.parent) && (!in_child || has(libc::CLONE_VM)) {
            pass.push(self.tid, 4);
        }
        // The child's copy of the word is the caller's only in shared memory.
        if has(libc::CLONE_CHILD_SETTID) && (in_child || has(libc::CLONE_VM)) {
            pass.push(self.child, 4);
        }
    }
}

fn fcntl(pass: &mut Pass<'_>, direction: Transfer) -> RuleResult {
    let (transfer, len) = match pass.arg(1) as u32 {
        // GETLK and OFD_GETLK take a struct flock and return one.
        5 | 36 => (Transfer::InOut, 32),
        6 | 7 | 37 | 38 => (Transfer::In, 32),
        // SETOWN_EX, GETOWN_EX, GETOWNER_UIDS.
        15 => (Transfer::In, 8),
        16 | 17 => (Transfer::Out, 8),
        // Write hints, of the inode and of the file.
        1035 | 1037 => (Transfer::Out, 8),
        1036 | 1038 => (Transfer::In, 8),
        // GETDELEG, SETDELEG.
        1039 => (Transfer::InOut, 8),
        1040 => (Transfer::In, 8),
        0..=4 | 8..=11 | 1024..=1034 => return Ok(()),
        _ if direction == Transfer::Out && !pass.succeeded() => return Ok(()),
        _ => return Err(UNKNOWN_COMMAND),
    };
    transfer_word(pass, 2, transfer, direction, len);
    Ok(())
}

/// Adds `len` bytes behind argument `index` if the transfer goes in `direction`
/// (and, outwards, if the call succeeded).
fn transfer_word(
    pass: &mut Pass<'_>,
    index: usize,
    transfer: Transfer,
    direction: Transfer,
    len: u64,
) {
    let goes = transfer == direction || transfer == Transfer::InOut;
    if goes && (direction == Transfer::In || pass.succeeded()) {
        pass.push(pass.arg(index), len);
    }
}

fn file_handle_written(pass: &mut Pass<'_>) {
    if pass.invocation.nr != 303 {
        return;
    }
    let overflow = pass.failed_with(libc::EOVERFLOW);
    if !pass.succeeded() && !overflow {
        return;
    }
    // AT_HANDLE_MNT_ID_UNIQUE asks for the 64-bit id.
    let id = if pass.arg(4) & 1 != 0 { 8 } else { 4 };
    pass.push(pass.arg(3), id);
    let handle = pass.arg(2);
    let now = pass.u32_at(handle).unwrap_or(0);
    let bytes = pass
        .before
        .word(handle)
        .map_or(now, |before| before.min(now))
        .min(128);
    pass.push(handle, 8 + if overflow { 0 } else { u64::from(bytes) });
}

fn futex_written(pass: &mut Pass<'_>) {
    let (word, second) = (pass.arg(0), pass.arg(4));
    match (pass.arg(1) & 0x7f) as i32 {
        libc::FUTEX_WAKE_OP if pass.succeeded() => pass.push(second, 4),
        // The kernel sets the waiters bit also where the call then fails.
        libc::FUTEX_LOCK_PI | 13 | libc::FUTEX_UNLOCK_PI | libc::FUTEX_TRYLOCK_PI => {
            pass.push(word, 4);
        }
        libc::FUTEX_WAIT_REQUEUE_PI | libc::FUTEX_CMP_REQUEUE_PI => pass.push(second, 4),
        _ => {}
    }
}

fn futex_read(pass: &mut Pass<'_>) {
    let operation = (pass.arg(1) & 0x7f) as i32;
    if operation != libc::FUTEX_WAKE && operation != libc::FUTEX_WAKE_BITSET {
        pass.push(pass.arg(0), 4);
    }
    match operation {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET | libc::FUTEX_LOCK_PI | 13 => {
            pass.push(pass.arg(3), 16);
        }
        libc::FUTEX_WAIT_REQUEUE_PI => {
            pass.push(pass.arg(3), 16);
            pass.push(pass.arg(4), 4);
        }
        libc::FUTEX_WAKE_OP | libc::FUTEX_CMP_REQUEUE_PI => pass.push(pass.arg(4), 4),
        _ => {}
    }
}

fn ioctl_effects(pass: &mut Pass<'_>, direction: Transfer) -> RuleResult {
    let request = pass.arg(1) as u32;
    match ioctl::effect(request) {
        Some((transfer, len)) => {
            transfer_word(pass, 2, transfer, direction, u64::from(len));
            Ok(())
        }
        // The driver does not know the request either.
        None if pass.failed_with(libc::ENOTTY) || pass.failed_with(libc::EBADF) => Ok(()),
        None => Err("the ioctl request is not in the model"),
    }
}

/// Advice that changes what the pages read as. It has effects up to the first
/// hole also where the call fails with `ENOMEM`.
fn madvise(pass: &mut Pass<'_>) {
    let discards = matches!(pass.arg(2) as i32, libc::MADV_DONTNEED | libc::MADV_FREE)
        || matches!(pass.arg(2) as i32, libc::MADV_REMOVE | 24 | 102);
    if discards && (pass.succeeded() || pass.failed_with(libc::ENOMEM)) {
        let len = pass
            .arg(1)
            .checked_next_multiple_of(4096)
            .unwrap_or(u64::MAX);
        pass.push(pass.arg(0), len);
    }
}

/// `semctl`, `shmctl` and `msgctl`.
fn control(pass: &mut Pass<'_>, rule: Rule, direction: Transfer) -> RuleResult {
    let (command, argument) = match rule {
        Rule::SemCtl => (pass.arg(2) as i32, 3),
        _ => (pass.arg(1) as i32, 2),
    };
    let (transfer, len) = match (rule, command) {
        (_, libc::IPC_RMID) => return Ok(()),
        (Rule::SemCtl, libc::IPC_STAT | 18 | 20) => (Transfer::Out, 104),
        (Rule::SemCtl, libc::IPC_SET) => (Transfer::In, 104),
        // IPC_INFO and SEM_INFO.
        (Rule::SemCtl, 3 | 19) => (Transfer::Out, 40),
        // GETPID, GETVAL, GETNCNT, GETZCNT, SETVAL.
        (Rule::SemCtl, 11 | 12 | 14..=16) => return Ok(()),
        (Rule::SemCtl, 13 | 17) => {
            return Err("the size depends on the number of semaphores in the set");
        }
        (Rule::ShmCtl, libc::IPC_STAT | 13 | 15) => (Transfer::Out, 112),
        (Rule::ShmCtl, libc::IPC_SET) => (Transfer::In, 112),
        (Rule::ShmCtl, 3) => (Transfer::Out, 72),
        (Rule::ShmCtl, 14) => (Transfer::Out, 48),
        // SHM_LOCK and SHM_UNLOCK.
        (Rule::ShmCtl, 11 | 12) => return Ok(()),
        (Rule::MsgCtl, libc::IPC_STAT | 11 | 13) => (Transfer::Out, 120),
        (Rule::MsgCtl, libc::IPC_SET) => (Transfer::In, 120),
        // IPC_INFO and MSG_INFO.
        (Rule::MsgCtl, 3 | 12) => (Transfer::Out, 32),
        _ if direction == Transfer::Out && !pass.succeeded() => return Ok(()),
        _ => return Err(UNKNOWN_COMMAND),
    };
    transfer_word(pass, argument, transfer, direction, len);
    Ok(())
}

/// The `revents` field of each descriptor.
fn poll(pass: &mut Pass<'_>) {
    let interrupted = matches!(
        pass.result.and_then(error_of),
        Some(libc::EINTR | 512..=516)
    );
    if !pass.succeeded() && !interrupted {
        return;
    }
    let Some(spec) = pass.invocation.syscall().spec() else {
        return;
    };
    let count = count_of(spec, pass.invocation, 1);
    let fds = pass.arg(0);
    if count > 4096 {
        // Beyond this, one range costs less than the exact ones.
        pass.push(fds, count.saturating_mul(8));
        return;
    }
    for index in 0..count {
        pass.push(fds.saturating_add(index * 8 + 6), 2);
    }
}

fn prctl(pass: &mut Pass<'_>, direction: Transfer) -> RuleResult {
    let option = pass.arg(0) as i32;
    match option {
        libc::PR_GET_PDEATHSIG
        | libc::PR_GET_UNALIGN
        | libc::PR_GET_FPEMU
        | libc::PR_GET_FPEXC
        | libc::PR_GET_ENDIAN
        | libc::PR_GET_TSC
        | libc::PR_GET_CHILD_SUBREAPER => {
            transfer_word(pass, 1, Transfer::Out, direction, 4);
        }
        libc::PR_GET_TID_ADDRESS | 74 => transfer_word(pass, 1, Transfer::Out, direction, 8),
        libc::PR_GET_NAME => transfer_word(pass, 1, Transfer::Out, direction, 16),
        libc::PR_SET_NAME if direction == Transfer::In => {
            // The kernel copies up to 16 bytes, or to the NUL.
            match pass.memory.read_c_string(pass.arg(1), 16) {
                Ok(name) => pass.push(pass.arg(1), name.len() as u64 + 1),
                Err(_) => pass.push(pass.arg(1), 16),
            }
        }
        libc::PR_SET_SECCOMP if direction == Transfer::In => {
            if pass.arg(1) == u64::from(libc::SECCOMP_MODE_FILTER) {
                filter_program(pass, pass.arg(2));
            }
        }
        // PR_SCHED_CORE with PR_SCHED_CORE_GET.
        libc::PR_SCHED_CORE if pass.arg(1) == 0 => {
            transfer_word(pass, 4, Transfer::Out, direction, 8);
        }
        // PR_GET_AUXV answers the full size.
        0x4155_5856 => {
            if direction == Transfer::Out && pass.succeeded() {
                pass.push(pass.arg(1), result(pass).min(pass.arg(2)));
            }
        }
        libc::PR_SET_VMA => {
            if direction == Transfer::In {
                pass.read_string(pass.arg(4), 256);
            }
        }
        // PR_SET_SYSCALL_USER_DISPATCH, unless it is switched off.
        59 if pass.arg(1) != 0 => {
            return Err("a byte that the program changes turns its syscalls into signals");
        }
        libc::PR_SET_MM => return Err("it rewrites the kernel's idea of the address space"),
        0x5961_6d61 | 1..=34 | 36..=39 | 41..=73 | 75..=78 => {}
        _ if direction == Transfer::Out && !pass.succeeded() => {}
        _ => return Err(UNKNOWN_COMMAND),
    }
    Ok(())
}

/// A `struct sock_fprog` and the instructions that it points to.
fn filter_program(pass: &mut Pass<'_>, program: u64) {
    pass.push(program, 16);
    let count = pass.u32_at(program).unwrap_or(0) & 0xffff;
    let filter = pass.u64_at(program.saturating_add(8)).unwrap_or(0);
    pass.push(filter, u64::from(count) * 8);
}

/// `waitid` stores six fields of its `siginfo_t`, zeros where it found no child
/// and where it failed; the usage only with a child.
fn wait_id(pass: &mut Pass<'_>) {
    if pass.result.is_none() || pass.failed_with(libc::EFAULT) {
        return;
    }
    let info = pass.arg(2);
    if info != 0 {
        pass.push(info, 12);
        pass.push(info.saturating_add(16), 12);
    }
    let found = info == 0 || pass.u32_at(info) != Some(0);
    if pass.succeeded() && found {
        pass.push(pass.arg(4), 144);
    }
}
