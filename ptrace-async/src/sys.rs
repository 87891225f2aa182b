//! Safe wrappers of the system calls that the runtime needs.
//!
//! They wrap ptrace(2), waitid(2), process_vm_readv(2) and seccomp(2) as the man pages
//! document them. The safety of the module rests on two facts. Every pointer that the
//! kernel gets comes from a Rust reference, and its size is passed along. Addresses in a
//! tracee are only passed to the kernel and never dereferenced.
#![expect(
    unsafe_code,
    reason = "raw system calls; each block argues its own case"
)]

use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicU32;

use crate::event::Tid;

/// Turns a libc return value into a result.
fn check(value: i64) -> io::Result<i64> {
    if value == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(value)
    }
}

/// A ptrace request whose address and data are plain numbers.
fn request(request: u32, tid: Tid, address: usize, data: usize) -> io::Result<i64> {
    // SAFETY: used only with requests that take no pointer into this process
    // (CONT, SYSCALL, LISTEN, DETACH, INTERRUPT, SEIZE, SETOPTIONS).
    check(unsafe { libc::ptrace(request, tid, address, data) })
}

/// Attaches to a running task without stopping it (`PTRACE_SEIZE`).
pub(crate) fn seize(tid: Tid, options: i32) -> io::Result<()> {
    request(libc::PTRACE_SEIZE, tid, 0, options as usize).map(drop)
}

/// Stops a seized task (`PTRACE_INTERRUPT`).
pub(crate) fn interrupt(tid: Tid) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT, tid, 0, 0).map(drop)
}

/// How a stopped task is resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resume {
    /// Until the next filtered syscall, event or signal.
    Continue,
    /// Until the next syscall entry or exit as well.
    ToSyscall,
    /// Stays in its group stop and reports when that ends.
    Listen,
    /// For one instruction, or to the first one of a signal's handler.
    Step,
    /// Runs on untraced.
    Detach,
}

/// Resumes a stopped task, delivering `signal` (0: none).
pub(crate) fn resume(tid: Tid, how: Resume, signal: i32) -> io::Result<()> {
    let which = match how {
        Resume::Continue => libc::PTRACE_CONT,
        Resume::ToSyscall => libc::PTRACE_SYSCALL,
        Resume::Listen => libc::PTRACE_LISTEN,
        Resume::Step => libc::PTRACE_SINGLESTEP,
        Resume::Detach => libc::PTRACE_DETACH,
    };
    request(which, tid, 0, signal as usize).map(drop)
}

/// The number that belongs to the last event (`PTRACE_GETEVENTMSG`).
pub(crate) fn event_message(tid: Tid) -> io::Result<u64> {
    let mut message: libc::c_ulong = 0;
    // SAFETY: the kernel writes one unsigned long to `message`.
    check(unsafe { libc::ptrace(libc::PTRACE_GETEVENTMSG, tid, 0, &raw mut message) })?;
    Ok(message)
}

/// The general registers of a stopped task.
pub(crate) fn registers(tid: Tid) -> io::Result<libc::user_regs_struct> {
    let mut regs = MaybeUninit::<libc::user_regs_struct>::uninit();
    // SAFETY: PTRACE_GETREGS writes exactly one user_regs_struct.
    check(unsafe { libc::ptrace(libc::PTRACE_GETREGS, tid, 0, regs.as_mut_ptr()) })?;
    // SAFETY: the request succeeded, so the structure is filled.
    Ok(unsafe { regs.assume_init() })
}

/// Sets the general registers of a stopped task.
pub(crate) fn set_registers(tid: Tid, regs: &libc::user_regs_struct) -> io::Result<()> {
    // SAFETY: the kernel reads exactly one user_regs_struct.
    check(unsafe { libc::ptrace(libc::PTRACE_SETREGS, tid, 0, std::ptr::from_ref(regs)) }).map(drop)
}

/// Sets a debug register of a stopped task (`PTRACE_POKEUSER`).
pub(crate) fn set_debug_register(tid: Tid, register: usize, value: u64) -> io::Result<()> {
    let offset = std::mem::offset_of!(libc::user, u_debugreg) + register * size_of::<u64>();
    // SAFETY: address and value are numbers here, and the kernel checks both.
    check(unsafe { libc::ptrace(libc::PTRACE_POKEUSER, tid, offset, value) }).map(drop)
}

/// A register set of a stopped task (`PTRACE_GETREGSET`), at most `len` bytes.
pub(crate) fn register_set(tid: Tid, set: u32, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0_u8; len];
    let mut vector = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: len,
    };
    // SAFETY: `vector` describes `bytes`, and the kernel writes at most its
    // length there and the length written into `vector`.
    check(unsafe { libc::ptrace(libc::PTRACE_GETREGSET, tid, set as usize, &raw mut vector) })?;
    bytes.truncate(vector.iov_len);
    Ok(bytes)
}

/// Sets a register set of a stopped task (`PTRACE_SETREGSET`).
pub(crate) fn set_register_set(tid: Tid, set: u32, bytes: &[u8]) -> io::Result<()> {
    let mut vector = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: `vector` describes `bytes`, which the kernel only reads.
    check(unsafe { libc::ptrace(libc::PTRACE_SETREGSET, tid, set as usize, &raw mut vector) })
        .map(drop)
}

/// Changes the `siginfo_t` of the signal that a task is stopped for.
pub(crate) fn set_signal_info(tid: Tid, info: &libc::siginfo_t) -> io::Result<()> {
    // SAFETY: PTRACE_SETSIGINFO reads exactly one siginfo_t.
    check(unsafe { libc::ptrace(libc::PTRACE_SETSIGINFO, tid, 0, std::ptr::from_ref(info)) })
        .map(drop)
}

/// Sends a signal to one thread.
pub(crate) fn send_signal(tgid: Tid, tid: Tid, signal: i32) -> io::Result<()> {
    // SAFETY: tgkill takes numbers.
    check(unsafe { libc::syscall(libc::SYS_tgkill, tgid, tid, signal) }).map(drop)
}

/// The signal a task is stopped for.
pub(crate) fn signal_info(tid: Tid) -> io::Result<libc::siginfo_t> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: PTRACE_GETSIGINFO writes at most one siginfo_t.
    check(unsafe { libc::ptrace(libc::PTRACE_GETSIGINFO, tid, 0, info.as_mut_ptr()) })?;
    // SAFETY: zeroed before, and the kernel filled it.
    Ok(unsafe { info.assume_init() })
}

/// The signals a stopped task blocks (`PTRACE_GETSIGMASK`).
pub(crate) fn signal_mask(tid: Tid) -> io::Result<u64> {
    const GETSIGMASK: u32 = 0x420a;
    let mut mask = 0_u64;
    // SAFETY: the kernel writes the eight bytes that the size announces.
    check(unsafe { libc::ptrace(GETSIGMASK, tid, size_of::<u64>(), &raw mut mask) })?;
    Ok(mask)
}

/// Sets the signals a stopped task blocks (`PTRACE_SETSIGMASK`).
pub(crate) fn set_signal_mask(tid: Tid, mask: u64) -> io::Result<()> {
    const SETSIGMASK: u32 = 0x420b;
    // SAFETY: the kernel reads the eight bytes that the size announces.
    check(unsafe { libc::ptrace(SETSIGMASK, tid, size_of::<u64>(), &raw const mask) }).map(drop)
}

/// The kind of syscall stop that a task is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SyscallInfo {
    /// Not in a syscall stop.
    None,
    /// Entry (or seccomp) stop.
    Entry {
        arch: u32,
        nr: u64,
        args: [u64; 6],
        ip: u64,
        sp: u64,
    },
    /// Exit stop.
    Exit { value: i64 },
}

/// `PTRACE_GET_SYSCALL_INFO` (Linux 5.3).
pub(crate) fn syscall_info(tid: Tid) -> io::Result<SyscallInfo> {
    #[repr(C)]
    #[derive(Default)]
    struct Raw {
        op: u8,
        pad: [u8; 3],
        arch: u32,
        ip: u64,
        sp: u64,
        nr: u64,
        args: [u64; 6],
        ret_data: u64,
    }
    const GET_SYSCALL_INFO: u32 = 0x420e;
    let mut raw = Raw::default();
    // SAFETY: the kernel writes at most `size_of::<Raw>()` bytes, the size given.
    check(unsafe {
        libc::ptrace(
            GET_SYSCALL_INFO,
            tid,
            size_of::<Raw>(),
            std::ptr::from_mut(&mut raw),
        )
    })?;
    Ok(match raw.op {
        1 | 3 => SyscallInfo::Entry {
            arch: raw.arch,
            nr: raw.nr,
            args: raw.args,
            ip: raw.ip,
            sp: raw.sp,
        },
        // For an exit stop the union begins with the return value.
        2 => SyscallInfo::Exit {
            value: raw.nr.cast_signed(),
        },
        _ => SyscallInfo::None,
    })
}

/// Reads tracee memory; returns the number of bytes before the first fault.
pub(crate) fn read_memory(tid: Tid, address: u64, buffer: &mut [u8]) -> usize {
    // Split at the page boundary: process_vm_readv returns partial results only in whole
    // iovec elements. A short buffer near the end of a mapping would otherwise yield
    // nothing.
    let first = (4096 - (address as usize & 4095)).min(buffer.len());
    let remote = [
        libc::iovec {
            iov_base: address as *mut _,
            iov_len: first,
        },
        libc::iovec {
            // The tracee chose the address, so it may lie in the last page.
            iov_base: (address as usize).wrapping_add(first) as *mut _,
            iov_len: buffer.len() - first,
        },
    ];
    let local = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let parts = if buffer.len() > first { 2 } else { 1 };
    // SAFETY: `local` describes `buffer`, which outlives the call; the remote
    // ranges belong to the tracee and are checked by the kernel.
    let got =
        unsafe { libc::process_vm_readv(tid, &raw const local, 1, remote.as_ptr(), parts, 0) };
    usize::try_from(got).unwrap_or(0)
}

/// Reads several ranges in one call into one buffer; returns the total.
pub(crate) fn read_ranges(tid: Tid, ranges: &[(u64, u64)], buffer: &mut [u8]) -> usize {
    let mut total = 0;
    for chunk in ranges.chunks(1024) {
        let remote: Vec<libc::iovec> = chunk
            .iter()
            .map(|&(address, length)| libc::iovec {
                iov_base: address as *mut _,
                iov_len: length as usize,
            })
            .collect();
        let rest = &mut buffer[total..];
        let local = libc::iovec {
            iov_base: rest.as_mut_ptr().cast(),
            iov_len: rest.len(),
        };
        // SAFETY: as in `read_memory`.
        let got = unsafe {
            libc::process_vm_readv(
                tid,
                &raw const local,
                1,
                remote.as_ptr(),
                remote.len() as libc::c_ulong,
                0,
            )
        };
        let Ok(got) = usize::try_from(got) else { break };
        total += got;
        if (got as u64) < chunk.iter().map(|range| range.1).sum() {
            break;
        }
    }
    total
}

/// As [`read_ranges`], through `/proc/TID/mem`. Opening that file costs as much as reading
/// a few pages. But `process_vm_readv` pins the pages that it reads, and the kernel then
/// copies each page that parent and child still share after a fork.
pub(crate) fn read_shared_ranges(tid: Tid, ranges: &[(u64, u64)], buffer: &mut [u8]) -> usize {
    use std::os::unix::fs::FileExt;
    let Ok(memory) = std::fs::File::open(format!("/proc/{tid}/mem")) else {
        return 0;
    };
    let mut total = 0;
    for (address, length) in ranges {
        let Some(to) = buffer.get_mut(total..total + *length as usize) else {
            break;
        };
        let got = memory.read_at(to, *address).unwrap_or(0);
        total += got;
        if got < to.len() {
            break;
        }
    }
    total
}

/// Writes tracee memory, read-only pages included (through `/proc/TID/mem`
/// when `process_vm_writev` refuses).
pub(crate) fn write_memory(tid: Tid, address: u64, bytes: &[u8]) -> io::Result<()> {
    if write_writable(tid, address, bytes) == bytes.len() {
        return Ok(());
    }
    write_protected(tid, std::iter::once((address, bytes)))
}

/// Writes tracee memory that the tracee itself could write; returns the number of bytes.
pub(crate) fn write_writable(tid: Tid, address: u64, bytes: &[u8]) -> usize {
    let remote = libc::iovec {
        iov_base: address as *mut _,
        iov_len: bytes.len(),
    };
    let local = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: the kernel only reads `bytes`; the remote range is the tracee's.
    let put = unsafe { libc::process_vm_writev(tid, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(put).unwrap_or(0)
}

/// Writes the memory of a stopped task, even where it is protected.
pub(crate) fn write_protected<'a>(
    tid: Tid,
    mut writes: impl Iterator<Item = (u64, &'a [u8])>,
) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    let memory = std::fs::OpenOptions::new()
        .write(true)
        .open(format!("/proc/{tid}/mem"))?;
    writes.try_for_each(|(address, bytes)| memory.write_all_at(bytes, address))
}

/// Reads an aligned word of a stopped task's memory, even where it is protected. For a
/// single word this takes half the time of [`read_memory`].
pub(crate) fn peek(tid: Tid, address: u64) -> io::Result<u64> {
    let mut word = 0_u64;
    let to = std::ptr::from_mut(&mut word);
    // SAFETY: the system call, unlike the C library's function, puts one word at `to`.
    check(unsafe { libc::syscall(libc::SYS_ptrace, libc::PTRACE_PEEKDATA, tid, address, to) })?;
    Ok(word)
}

/// Writes an aligned word into a stopped task's memory, even where it is protected.
pub(crate) fn poke(tid: Tid, address: u64, word: u64) -> io::Result<()> {
    request(libc::PTRACE_POKEDATA, tid, address as usize, word as usize).map(drop)
}

/// Whether the address space of a task is limited (prlimit(2)).
pub(crate) fn limits_memory(tid: Tid) -> bool {
    let mut limit = libc::rlimit64 {
        rlim_cur: libc::RLIM64_INFINITY,
        rlim_max: libc::RLIM64_INFINITY,
    };
    // SAFETY: nothing is set, and the kernel writes one such structure.
    unsafe { libc::prlimit64(tid, libc::RLIMIT_AS, std::ptr::null(), &raw mut limit) };
    limit.rlim_cur != libc::RLIM64_INFINITY
}

/// The clock that gives files their times, in nanoseconds since the epoch.
pub(crate) fn file_time() -> i64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes one structure.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, &raw mut now) };
    match result {
        0 => now
            .tv_sec
            .saturating_mul(1_000_000_000)
            .saturating_add(now.tv_nsec),
        _ => i64::MIN,
    }
}

/// Our own thread id.
pub(crate) fn own_tid() -> Tid {
    // SAFETY: gettid has no preconditions.
    unsafe { libc::gettid() }
}

/// A child's change of state as waitid reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waited {
    pub(crate) tid: Tid,
    /// `CLD_*`.
    pub(crate) code: i32,
    /// Exit status, or signal with the event in bits 8 and above.
    pub(crate) status: i32,
}

impl Waited {
    /// Whether the task has ended, rather than stopped.
    pub(crate) fn is_end(&self) -> bool {
        matches!(
            self.code,
            libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED
        )
    }
}

std::arch::global_asm!(
    ".pushsection .text.ptrace_async_waitid,\"ax\",@progbits",
    ".globl ptrace_async_waitid",
    ".globl ptrace_async_waitid_start",
    ".globl ptrace_async_waitid_end",
    ".globl ptrace_async_waitid_abort",
    "ptrace_async_waitid:",
    // (rdi: flag, rsi: siginfo, rdx: options) -> waitid(P_ALL, 0, rsi, rdx, NULL)
    "mov r9, rdi",
    "mov r10, rdx",
    "mov rdx, rsi",
    "xor edi, edi",
    "xor esi, esi",
    "xor r8d, r8d",
    "mov eax, 247",
    "ptrace_async_waitid_start:",
    "cmp dword ptr [r9], 0",
    "jne ptrace_async_waitid_abort",
    "syscall",
    "ptrace_async_waitid_end:",
    "ret",
    "ptrace_async_waitid_abort:",
    "mov rax, -4",
    "ret",
    ".popsection",
);

unsafe extern "C" {
    fn ptrace_async_waitid(flag: *const u32, info: *mut libc::siginfo_t, options: u64) -> i64;
    fn ptrace_async_waitid_start();
    fn ptrace_async_waitid_end();
    fn ptrace_async_waitid_abort();
}

/// The signal other threads interrupt a waiting tracer with.
pub(crate) fn wake_signal() -> i32 {
    libc::SIGRTMAX() - 4
}

/// Makes `waitid` below interruptible: installs the handler of the wake signal.
///
/// The handler closes the window between looking at the flag and entering the
/// kernel: if the signal finds the thread inside that window, it moves it to
/// the abort path, so a wake-up is never lost.
pub(crate) fn install_wake_handler() {
    extern "C" fn handler(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        let context = context.cast::<libc::ucontext_t>();
        // SAFETY: the kernel passes a valid ucontext to an SA_SIGINFO handler;
        // changing RIP is what the context is writable for, and the abort
        // path expects exactly the register state of the window.
        unsafe {
            let ip = &mut (*context).uc_mcontext.gregs[libc::REG_RIP as usize];
            let (start, end) = (
                ptrace_async_waitid_start as *const () as i64,
                ptrace_async_waitid_end as *const () as i64,
            );
            if (start..end).contains(ip) {
                *ip = ptrace_async_waitid_abort as *const () as i64;
            }
        }
    }
    // SAFETY: the action is fully initialised and the handler is
    // async-signal-safe (it touches only its context argument).
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(wake_signal(), &raw const action, std::ptr::null_mut());
    }
}

/// Unblocks the wake signal in the calling thread, which its host may have blocked.
pub(crate) fn unblock_wake_signal() {
    // SAFETY: the set is initialised by sigemptyset and outlives the calls.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, wake_signal());
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
    }
}

/// Kills a task's process.
pub(crate) fn kill(tid: Tid) {
    assert!(tid > 0, "zero and below are groups");
    // SAFETY: kill takes numbers; a vanished process yields ESRCH.
    unsafe { libc::kill(tid, libc::SIGKILL) };
}

/// Waits for a change of any child or tracee **of this thread**. `Ok(None)`
/// when `flag` became non-zero (see [`wake`]) or a signal came.
///
/// # Errors
/// `ECHILD` when the thread has none.
pub(crate) fn wait(flag: &AtomicU32, block: bool) -> io::Result<Option<Waited>> {
    // Not WCONTINUED: it would take the report away from the real parent.
    let mut options = libc::WEXITED | libc::WSTOPPED | libc::__WALL | libc::__WNOTHREAD;
    if !block {
        options |= libc::WNOHANG;
    }
    // SAFETY: siginfo_t is plain data; zero is a valid value.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: `flag` is an aligned u32 that outlives the call, `info` is
    // writable, and the assembly follows the C calling convention (it
    // clobbers only caller-saved registers).
    let result = unsafe { ptrace_async_waitid(flag.as_ptr(), &raw mut info, options as u64) };
    if result < 0 {
        return if result == -i64::from(libc::EINTR) {
            Ok(None)
        } else {
            Err(io::Error::from_raw_os_error(-result as i32))
        };
    }
    // SAFETY: waitid filled the SIGCHLD members (or left si_pid zero).
    let (tid, status) = unsafe { (info.si_pid(), info.si_status()) };
    if tid == 0 {
        return Ok(None);
    }
    Ok(Some(Waited {
        tid,
        code: info.si_code,
        status,
    }))
}

/// Interrupts [`wait`] in the thread `tid` of this process.
pub(crate) fn wake(tid: Tid) {
    // SAFETY: tgkill takes numbers; a vanished thread yields ESRCH.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, wake_signal()) };
}

/// Whether the calling thread may install a filter without no_new_privs.
pub(crate) fn may_filter_with_privileges() -> bool {
    // _LINUX_CAPABILITY_VERSION_3 and the calling thread; then effective, permitted,
    // inheritable, twice 32 of each (capget(2)).
    let header: [u32; 2] = [0x2008_0522, 0];
    let mut sets = [0_u32; 6];
    // SAFETY: the kernel reads the header and writes six words.
    let got = unsafe { libc::syscall(libc::SYS_capget, header.as_ptr(), sets.as_mut_ptr()) };
    // CAP_SYS_ADMIN is bit 21 of the effective set.
    got == 0 && sets[0] & (1 << 21) != 0
}
