//! Probes of single kernel features. None of them changes this process or another one.
#![expect(
    unsafe_code,
    reason = "raw system calls; each block argues its own case"
)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::process::{Command, Stdio};

use crate::platform::os;

/// Converts the return value of a raw call.
fn result(value: i64) -> io::Result<i64> {
    if value < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(value)
    }
}

/// Whether a filter may hand calls to a tracer.
pub(super) fn seccomp_trace() -> io::Result<()> {
    const GET_ACTION_AVAIL: u32 = 2;
    let action = libc::SECCOMP_RET_TRACE;
    // SAFETY: the kernel reads one word, which outlives the call.
    result(unsafe { libc::syscall(libc::SYS_seccomp, GET_ACTION_AVAIL, 0, &raw const action) })?;
    Ok(())
}

/// Whether the time stamp counter can be made to trap.
pub(super) fn time_stamp_trap() -> io::Result<()> {
    let mut mode = 0_i32;
    // SAFETY: the kernel writes one word.
    result(i64::from(unsafe {
        libc::prctl(libc::PR_GET_TSC, &raw mut mode)
    }))?;
    Ok(())
}

/// Whether `cpuid` can be made to trap.
pub(super) fn cpuid_trap() -> io::Result<()> {
    const SET_CPUID: u64 = 0x1012;
    // SAFETY: it allows the instruction, as it is already.
    result(unsafe { libc::syscall(libc::SYS_arch_prctl, SET_CPUID, 1_u64) })?;
    Ok(())
}

/// Whether written pages can be noted without a stop (userfaultfd(2), Linux 6.7).
pub(super) fn write_protection() -> io::Result<()> {
    const USER_MODE_ONLY: i32 = 1;
    const API: u64 = 0xc018_aa3f;
    const ASYNC: u64 = 1 << 15;
    let flags = libc::O_CLOEXEC | USER_MODE_ONLY;
    // SAFETY: it takes a number.
    let fd = result(unsafe { libc::syscall(libc::SYS_userfaultfd, flags) })?;
    // SAFETY: the descriptor is new, and nobody else's.
    let file = unsafe { File::from_raw_fd(fd as i32) };
    let mut api = [0xaa_u64, ASYNC, 0];
    // SAFETY: the structure has three words, which outlive the call.
    result(i64::from(unsafe {
        libc::ioctl(file.as_raw_fd(), API, api.as_mut_ptr())
    }))?;
    Ok(())
}

/// Whether the kernel lists such pages (PAGEMAP_SCAN, Linux 6.7).
pub(super) fn page_scan() -> io::Result<()> {
    let file = File::open("/proc/self/pagemap")?;
    os::scan_pages(&file, 0..0, &mut []).map(drop)
}

/// Whether the memory of another process can be read in one call.
pub(super) fn read_memory() -> io::Result<()> {
    let from = 7_u64;
    let mut to = 0_u64;
    let one = |at: *mut u64| libc::iovec {
        iov_base: at.cast(),
        iov_len: 8,
    };
    let (local, remote) = (one(&raw mut to), one((&raw const from).cast_mut()));
    let own = std::process::id() as i32;
    // SAFETY: eight bytes are read from one variable into another; both outlive the call.
    let got = unsafe { libc::process_vm_readv(own, &raw const local, 1, &raw const remote, 1, 0) };
    result(got as i64)?;
    Ok(())
}

/// Whether two descriptors can be compared (kcmp(2)).
pub(super) fn compare_descriptors() -> io::Result<()> {
    const KCMP_FILE: i32 = 0;
    let file = File::open("/proc/self/maps")?;
    let (own, fd) = (std::process::id(), file.as_raw_fd());
    // SAFETY: kcmp takes numbers.
    result(unsafe { libc::syscall(libc::SYS_kcmp, own, own, KCMP_FILE, fd, fd) })?;
    Ok(())
}

/// Results of tracing a child of this process.
#[derive(Debug)]
pub(super) struct Tracing {
    /// To trace it.
    pub(super) seize: io::Result<()>,
    /// To set a breakpoint of the processor's in it.
    pub(super) breakpoint: io::Result<()>,
}

/// Tries on a child that waits.
///
/// # Errors
/// When there can be none.
pub(super) fn tracing() -> io::Result<Tracing> {
    let mut child = Command::new("/bin/sh")
        .args(["-c", "read line"])
        .stdin(Stdio::piped())
        .spawn()?;
    let pid = child.id() as i32;
    let request = |request, address: usize, data: usize| {
        // SAFETY: these requests take numbers; the task is our child, which is not waited
        // for before, so the id is its own.
        result(unsafe { libc::ptrace(request, pid, address, data) }).map(drop)
    };
    let seize = request(libc::PTRACE_SEIZE, 0, 0);
    let breakpoint = match &seize {
        Err(error) => Err(io::Error::from(error.kind())),
        Ok(()) => (|| {
            request(libc::PTRACE_INTERRUPT, 0, 0)?;
            let mut status = 0;
            // SAFETY: the kernel writes one word. The child stops now, or has ended.
            result(i64::from(unsafe {
                libc::waitpid(pid, &raw mut status, libc::__WALL)
            }))?;
            if !libc::WIFSTOPPED(status) {
                return Err(io::Error::other("the child ended"));
            }
            let registers = std::mem::offset_of!(libc::user, u_debugreg);
            // An address that no program has there, for execution, and then none any more.
            let set = request(libc::PTRACE_POKEUSER, registers, 0x1000)
                .and_then(|()| request(libc::PTRACE_POKEUSER, registers + 7 * 8, 1))
                .and_then(|()| request(libc::PTRACE_POKEUSER, registers + 7 * 8, 0));
            request(libc::PTRACE_DETACH, 0, 0)?;
            set
        })(),
    };
    drop(child.stdin.take());
    // If it was left in a stop.
    let _ = child.kill();
    let _ = child.wait();
    Ok(Tracing { seize, breakpoint })
}
