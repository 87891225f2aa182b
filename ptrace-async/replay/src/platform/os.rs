//! The few system calls that have no safe wrapper.
#![expect(
    unsafe_code,
    reason = "raw system calls; each block argues its own case"
)]

use std::ops::Range;

use ptrace_async::event::Tid;

/// Whether two descriptors of two tasks are the same open file (kcmp(2)).
pub(crate) fn same_file(one: Tid, fd: u64, other: Tid, other_fd: u64) -> bool {
    const KCMP_FILE: i32 = 0;
    // SAFETY: kcmp takes numbers.
    unsafe { libc::syscall(libc::SYS_kcmp, one, other, KCMP_FILE, fd, other_fd) == 0 }
}

/// The processor's time stamp counter.
pub(crate) fn time_stamp() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and this process may use it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// A random number.
pub(crate) fn random() -> u64 {
    let mut bytes = [0; 8];
    // SAFETY: the kernel writes at most as many bytes as there are. It does not fail for so
    // few once the machine has started; before that, it waits.
    unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    u64::from_le_bytes(bytes)
}

/// The fields of a signal's description that a recorder looks at.
pub(crate) fn sender(info: &libc::siginfo_t) -> Tid {
    // SAFETY: all variants of the union are plain data, and this is in its first words,
    // which are always there.
    unsafe { info.si_pid() }
}

/// Ends this process by a signal.
pub(crate) fn die_by(signal: i32) -> ! {
    // SAFETY: the set and the action are plain data that outlive the calls.
    unsafe {
        let none = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // The core is the program's, not ours.
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        libc::signal(signal, libc::SIG_DFL);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
        libc::raise(signal);
        libc::_exit(128 + signal)
    }
}

/// Leaves the terminal's signals to the program, and lets writing too much be an error:
/// those that the program is to have as they were.
pub(crate) fn ignore_signals() -> Vec<i32> {
    [libc::SIGINT, libc::SIGQUIT, libc::SIGXFSZ]
        .into_iter()
        .filter(|&signal| {
            // SAFETY: no handler is installed.
            unsafe { libc::signal(signal, libc::SIG_IGN) == libc::SIG_DFL }
        })
        .collect()
}

/// The list of robust futexes of a task (get_robust_list(2)): its head, if it has any.
pub(crate) fn robust_list(tid: Tid) -> Option<u64> {
    let (mut head, mut length) = (0_u64, 0_usize);
    // SAFETY: the kernel writes a pointer and a size.
    let got = unsafe {
        libc::syscall(
            libc::SYS_get_robust_list,
            tid,
            &raw mut head,
            &raw mut length,
        )
    };
    (got == 0 && head != 0).then_some(head)
}

/// Lets this process have as many open files as it may.
pub(crate) fn allow_many_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // As many as before may do.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// A file in memory.
pub(crate) fn memory(name: &std::ffi::CStr) -> std::io::Result<std::fs::File> {
    let fd = rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC)?;
    Ok(fd.into())
}

/// A file in memory that can be executed.
pub(crate) fn executable_memory(name: &std::ffi::CStr) -> std::io::Result<std::fs::File> {
    use std::os::fd::FromRawFd;
    let flags = libc::MFD_CLOEXEC | libc::MFD_EXEC;
    // SAFETY: the name ends with a NUL.
    let mut fd = unsafe { libc::memfd_create(name.as_ptr(), flags) };
    if fd < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL) {
        // Before Linux 6.3 all are.
        // SAFETY: as above.
        fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    }
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nobody else's.
    Ok(unsafe { std::fs::File::from_raw_fd(fd) })
}

/// A range of pages, as PAGEMAP_SCAN tells it (`struct page_region` of `linux/fs.h`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PageRange {
    pub(crate) start: u64,
    pub(crate) end: u64,
    categories: u64,
}

/// Looks through memory for pages that are there, of no file, and not the page of zeros: how
/// many ranges were found, and up to where was looked. `pagemap` is that of a process.
///
/// # Errors
/// `ENOTTY` before Linux 6.7, `EINVAL` where it does not know these categories.
pub(crate) fn scan_pages(
    pagemap: &std::fs::File,
    range: Range<u64>,
    found: &mut [PageRange],
) -> std::io::Result<(usize, u64)> {
    use std::os::fd::AsRawFd;
    const SCAN: u64 = 0xc060_6610;
    const FILE: u64 = 1 << 2;
    const PRESENT: u64 = 1 << 3;
    const SWAPPED: u64 = 1 << 4;
    const ZEROS: u64 = 1 << 5;
    /// `struct pm_scan_arg`.
    #[repr(C)]
    struct Scan {
        size: u64,
        flags: u64,
        start: u64,
        end: u64,
        walk_end: u64,
        found: u64,
        room: u64,
        most_pages: u64,
        inverted: u64,
        all_of: u64,
        any_of: u64,
        told: u64,
    }
    let mut scan = Scan {
        size: size_of::<Scan>() as u64,
        flags: 0,
        start: range.start,
        end: range.end,
        walk_end: 0,
        found: found.as_mut_ptr() as u64,
        room: found.len() as u64,
        most_pages: 0,
        inverted: FILE | ZEROS,
        all_of: FILE | ZEROS,
        any_of: PRESENT | SWAPPED,
        told: 0,
    };
    // SAFETY: both structures are those of the kernel, and outlive the call; it writes at most
    // as many ranges as there is room for.
    let got = unsafe { libc::ioctl(pagemap.as_raw_fd(), SCAN, &raw mut scan) };
    let count = usize::try_from(got).map_err(|_| std::io::Error::last_os_error())?;
    Ok((count.min(found.len()), scan.walk_end))
}

/// The processors that this process may use, as the kernel tells a program
/// (sched_getaffinity(2)).
pub(crate) fn allowed_processors() -> Vec<u8> {
    let mut set = vec![0_u8; 1024];
    // SAFETY: the kernel writes at most the size given.
    let got = unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, set.len(), set.as_mut_ptr()) };
    set.truncate(usize::try_from(got).unwrap_or(0));
    set
}
