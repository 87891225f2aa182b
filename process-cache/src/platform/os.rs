//! Operating system calls without a safe wrapper.
//!
//! The safety of the module rests on two facts: signal handlers only store to atomics or call
//! kill(2), and fork happens while the process has one thread.
#![expect(
    unsafe_code,
    reason = "signals, fork and siginfo; each block argues its own case"
)]

use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ptrace_async::event::Tid;

/// Returns the process that sent a signal.
pub fn signal_sender(info: &libc::siginfo_t) -> Tid {
    // SAFETY: for signals sent by processes (si_code <= 0), which the caller checked, this member
    // is filled; otherwise the value is arbitrary.
    unsafe { info.si_pid() }
}

/// Converts seconds since the epoch to the local clock: year, month, day, hour, minute, second.
pub fn local_time(seconds: i64) -> Option<[i32; 6]> {
    // SAFETY: `tm` is plain data, for which zeros are a value; the call reads one
    // number, writes one `tm`, and both outlive it.
    let (tm, found) = unsafe {
        let mut tm: libc::tm = std::mem::zeroed();
        let found = !libc::localtime_r(&seconds, &mut tm).is_null();
        (tm, found)
    };
    found.then_some([
        tm.tm_year.checked_add(1900)?,
        tm.tm_mon + 1,
        tm.tm_mday,
        tm.tm_hour,
        tm.tm_min,
        tm.tm_sec,
    ])
}

/// Whether SIGPIPE was ignored when the program started, before the Rust runtime ignored it.
static PIPE_WAS_IGNORED: AtomicI32 = AtomicI32::new(0);

/// Standard descriptors that were closed when the program started, before the Rust runtime opened
/// `/dev/null` there (bits).
static CLOSED: AtomicI32 = AtomicI32::new(0);

/// Keeps descriptors that were closed at the start of pcache closed in executed programs.
pub fn keep_closed() {
    let closed = CLOSED.load(Ordering::Relaxed);
    for fd in 0..3 {
        if closed & (1 << fd) != 0 {
            // SAFETY: fcntl takes numbers.
            unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
}

/// Runs before main, while signal dispositions are still the inherited ones.
#[used]
#[unsafe(link_section = ".init_array")]
static EARLY: extern "C" fn() = {
    extern "C" fn early() {
        // SAFETY: sigaction with a null action only reads; zero is a valid
        // sigaction.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut action) == 0 {
                let ignored = action.sa_sigaction == libc::SIG_IGN;
                PIPE_WAS_IGNORED.store(i32::from(ignored), Ordering::Relaxed);
            }
            let mut closed = 0;
            for fd in 0..3 {
                if libc::fcntl(fd, libc::F_GETFD) == -1 {
                    closed |= 1 << fd;
                }
            }
            CLOSED.store(closed, Ordering::Relaxed);
        }
    }
    early
};

/// Whether SIGPIPE was ignored at the start of pcache.
pub fn pipe_was_ignored() -> bool {
    PIPE_WAS_IGNORED.load(Ordering::Relaxed) != 0
}

/// Ignores a signal, or restores its default.
pub fn ignore(signal: i32, ignored: bool) {
    // SAFETY: both dispositions are always valid.
    unsafe {
        libc::signal(
            signal,
            if ignored {
                libc::SIG_IGN
            } else {
                libc::SIG_DFL
            },
        )
    };
}

/// Whether a signal is ignored now.
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: as in `early`.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}

static FORWARD_TO: AtomicI32 = AtomicI32::new(0);

/// Signals that came before there was a process to receive them, as bits.
static MISSED: AtomicU64 = AtomicU64::new(0);

/// Forwards `signals` to a process from now on, including earlier ones (0: to no process yet).
pub fn forward(signals: &[i32], to: Tid) {
    extern "C" fn handler(signal: i32) {
        let to = FORWARD_TO.load(Ordering::Relaxed);
        if to > 0 {
            // SAFETY: kill takes numbers and is async-signal-safe.
            unsafe { libc::kill(to, signal) };
        } else {
            MISSED.fetch_or(1 << signal, Ordering::Relaxed);
        }
    }
    FORWARD_TO.store(to, Ordering::Relaxed);
    for &signal in signals {
        if is_ignored(signal) {
            continue;
        }
        // SAFETY: the action is fully initialised, and its handler is
        // async-signal-safe.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
    if to > 0 {
        let early = MISSED.swap(0, Ordering::Relaxed);
        for &signal in signals {
            if early & 1 << signal != 0 {
                // SAFETY: kill takes numbers.
                unsafe { libc::kill(to, signal) };
            }
        }
    }
}

/// Returns the number of threads of this process; 1 if unknown.
fn threads() -> u64 {
    // A directory has a link for each below it, and two for itself.
    let tasks = std::fs::metadata("/proc/self/task");
    tasks.map_or(1, |tasks| tasks.nlink().saturating_sub(2))
}

/// Whether this process has one thread, or will soon: a joined thread has released all memory, and
/// ends a moment later.
fn has_one_thread() -> bool {
    let patience = Instant::now() + Duration::from_secs(5);
    while threads() > 1 {
        if Instant::now() >= patience {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

/// Forks. Returns the child's id, or `None` in the child.
///
/// # Errors
/// Same as fork(2).
///
/// # Panics
/// Panics if the process has more than one thread: the child could not use the allocator.
pub fn fork() -> io::Result<Option<Tid>> {
    assert!(has_one_thread(), "fork in a process with threads");
    // SAFETY: with a single thread (checked above) the child is a full copy
    // that may do anything.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        pid => Ok(Some(pid)),
    }
}

/// Runs `work` in a child process and returns its bytes; kills the child after `limit`. The
/// process must have one thread.
///
/// # Errors
/// `TimedOut`, or another error of the child.
pub fn in_child(work: impl FnOnce() -> Vec<u8>, limit: Duration) -> io::Result<Vec<u8>> {
    let (from_child, mut to_parent) = io::pipe()?;
    let Some(child) = fork()? else {
        drop(from_child);
        // The reader may be gone.
        let _ = io::Write::write_all(&mut to_parent, &work());
        // SAFETY: ends this process without running exit handlers of the parent.
        unsafe { libc::_exit(0) }
    };
    drop(to_parent);
    let result = read_until(from_child, Instant::now() + limit);
    if result.is_err() {
        // SAFETY: kill takes numbers; the child has not been waited for.
        unsafe { libc::kill(child, libc::SIGKILL) };
    }
    wait_for(child);
    result
}

/// Runs `work` in a child process and does not wait for it. This process closes all descriptors
/// first, and can only end after this call. So the child has no inherited descriptors, and a
/// process that waits for the end of a pipe, or for a lock, waits for this process only.
///
/// # Errors
/// Same as fork(2), or `WouldBlock` if this process has other threads.
pub fn leave_behind(work: impl FnOnce()) -> io::Result<()> {
    if !has_one_thread() {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    let_go_of_streams();
    // SAFETY: closes descriptors by number; their owners are neither used nor dropped any more, as
    // this process ends after this and the child ends below. Later code opens its own.
    unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) };
    if fork()?.is_none() {
        work();
        // SAFETY: as in `in_child`.
        unsafe { libc::_exit(0) }
    }
    Ok(())
}

/// Reads to the end of the pipe, or until `end`.
fn read_until(mut from: io::PipeReader, end: Instant) -> io::Result<Vec<u8>> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut bytes = Vec::new();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        let mut waiting = [PollFd::new(&from, PollFlags::IN)];
        match poll(&mut waiting, Some(&left)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let mut piece = [0; 4096];
        match io::Read::read(&mut from, &mut piece)? {
            0 => return Ok(bytes),
            count => bytes.extend_from_slice(&piece[..count]),
        }
    }
}

/// Requests SIGKILL at the death of the parent, or cancels that request.
pub fn die_with_parent(yes: bool) {
    // SAFETY: PR_SET_PDEATHSIG takes a number.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, if yes { libc::SIGKILL } else { 0 }) };
}

/// The job-control signals of a terminal.
pub const TERMINAL_STOPS: [i32; 3] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

/// Blocks [`TERMINAL_STOPS`] until [`stop_self`] admits them. A child undoes this with
/// [`admit_stops`].
pub fn hold_stops() {
    set_held(libc::SIG_BLOCK);
}

/// Unblocks [`TERMINAL_STOPS`], except those that were inherited blocked.
pub fn admit_stops() {
    set_held(libc::SIG_UNBLOCK);
}

fn set_held(how: i32) {
    static INHERITED: OnceLock<[bool; 3]> = OnceLock::new();
    let inherited = INHERITED.get_or_init(|| TERMINAL_STOPS.map(is_blocked));
    // SAFETY: an initialised signal set that outlives its use.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for (signal, inherited) in TERMINAL_STOPS.into_iter().zip(inherited) {
            if !inherited {
                libc::sigaddset(&raw mut set, signal);
            }
        }
        libc::sigprocmask(how, &raw const set, std::ptr::null_mut());
    }
}

fn is_blocked(signal: i32) -> bool {
    // SAFETY: a null set only reads the mask into one that outlives the call.
    unsafe {
        let mut mask: libc::sigset_t = std::mem::zeroed();
        libc::sigprocmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut mask) == 0
            && libc::sigismember(&raw const mask, signal) == 1
    }
}

/// Stops this process as job control stopped the command; returns when it is continued.
///
/// A terminal sends its signal to the whole job, and the tracer sends this process other stops of
/// the command. So this process's signal has been pending until the command's stop was reported.
/// If it is no longer pending, the job was continued meanwhile, or the signal stopped this process
/// right after the last continuation. A second stop would be wrong in both cases.
pub fn stop_self() {
    admit_stops();
    hold_stops();
}

/// Sends a signal to a process.
pub fn send_signal(process: Tid, signal: i32) {
    // SAFETY: kill takes numbers.
    unsafe { libc::kill(process, signal) };
}

/// Whether a process is stopped, or is about to be stopped by this signal.
pub fn is_stopped(process: Tid, by: Option<i32>) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    status.lines().any(|line| match line.split_once(":\t") {
        Some(("State", state)) => state.starts_with('T'),
        Some(("ShdPnd", pending)) => {
            let pending = u64::from_str_radix(pending, 16).unwrap_or(0);
            by.is_some_and(|signal| pending & (1 << (signal - 1)) != 0)
        }
        _ => false,
    })
}

/// Ends this process by a signal, without a core; returns if the signal does not kill.
pub fn kill_self(signal: i32) {
    // SAFETY: numbers only, and an empty signal set that outlives its use.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0);
        libc::signal(signal, libc::SIG_DFL);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
        libc::raise(signal);
    }
}

/// Closes a descriptor that this process inherited at its execve and that nothing in it uses.
pub fn close_inherited(fd: i32) {
    // SAFETY: the callers pass numbers that were open without close-on-exec before this process
    // opened anything; no object in this process owns them.
    unsafe { libc::close(fd) };
}

/// Redirects descriptors 0, 1 and 2 to `/dev/null`.
pub fn let_go_of_streams() {
    if let Ok(null) = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")
    {
        use std::os::fd::AsRawFd;
        for fd in 0..3 {
            // SAFETY: dup2 over the standard streams; nothing in this process owns them as
            // descriptors.
            unsafe { libc::dup2(null.as_raw_fd(), fd) };
        }
    }
}

/// Writes all bytes to a descriptor, waiting where it would block.
///
/// # Errors
/// When a write fails. A position that can be moved is then back where it was.
pub fn write_all(fd: i32, bytes: &[u8]) -> io::Result<()> {
    let mut rest = bytes;
    let result = write_rest(fd, &mut rest);
    if result.is_err() {
        take_back(fd, bytes.len() - rest.len());
    }
    result
}

/// Moves the position of a descriptor back, if it has one.
pub fn take_back(fd: i32, by: usize) {
    // SAFETY: lseek takes numbers.
    unsafe { libc::lseek(fd, -(by as i64), libc::SEEK_CUR) };
}

fn write_rest(fd: i32, bytes: &mut &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        // SAFETY: the kernel reads at most `bytes.len()` bytes.
        let put = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
        if let Ok(put) = usize::try_from(put) {
            *bytes = &bytes[put..];
            continue;
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EAGAIN) => {
                let mut poll = libc::pollfd {
                    fd,
                    events: libc::POLLOUT,
                    revents: 0,
                };
                // SAFETY: one pollfd, as stated.
                unsafe { libc::poll(&raw mut poll, 1, -1) };
            }
            _ => return Err(error),
        }
    }
    Ok(())
}

/// Moves a descriptor's position forward.
pub fn advance(fd: i32, by: u64) {
    // SAFETY: lseek takes numbers.
    unsafe { libc::lseek(fd, by as i64, libc::SEEK_CUR) };
}

/// Whether two descriptors of a process are one open file description, if the kernel can tell; the
/// caller has found that they look alike.
pub fn same_description(tid: Tid, one: i32, other: i32) -> bool {
    // The constants of <linux/kcmp.h>; descriptors are not negative.
    const KCMP_FILE: i32 = 0;
    // SAFETY: kcmp takes numbers.
    let order = unsafe {
        libc::syscall(
            libc::SYS_kcmp,
            tid,
            tid,
            KCMP_FILE,
            one as libc::c_ulong,
            other as libc::c_ulong,
        )
    };
    // A kernel without the call leaves it undecided.
    matches!(order, 0 | -1)
}

/// Sets the status flags of a descriptor.
pub fn set_flags(fd: i32, flags: i32) {
    // SAFETY: fcntl takes numbers.
    unsafe { libc::fcntl(fd, libc::F_SETFL, flags) };
}

/// Replaces this process by another program, found along `PATH`; signal dispositions stay. Returns
/// the error.
pub fn execute(command: &[std::ffi::OsString]) -> io::Error {
    use std::os::unix::ffi::OsStrExt;
    let words: Result<Vec<_>, _> = command
        .iter()
        .map(|word| std::ffi::CString::new(word.as_bytes()))
        .collect();
    let words = match words {
        Ok(words) if !words.is_empty() => words,
        _ => return io::ErrorKind::InvalidInput.into(),
    };
    let mut pointers: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    // SAFETY: a NULL-terminated array of C strings that outlive the call.
    unsafe { libc::execvp(pointers[0], pointers.as_ptr()) };
    io::Error::last_os_error()
}

/// Returns the process group of a process (0: of this one) that has not been reaped. `None` if
/// there is no such process, or if the group belongs to another PID namespace.
pub fn process_group(process: Tid) -> Option<Tid> {
    // SAFETY: getpgid takes and returns numbers.
    let group = unsafe { libc::getpgid(process) };
    (group > 0).then_some(group)
}

/// Says that `program` cannot be executed, and exits as shells do: with 127 if it is missing, and
/// with 126 otherwise.
pub fn exit_for_missing(program: &std::ffi::OsStr, error: &io::Error) -> ! {
    let _ = writeln!(
        io::stderr(),
        "pcache: cannot run {}: {error}",
        program.display()
    );
    let is_missing = error.kind() == io::ErrorKind::NotFound;
    std::process::exit(if is_missing { 127 } else { 126 });
}

/// Waits for a child; returns its wait status.
pub fn wait_for(pid: Tid) -> Option<i32> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is writable.
        let got = unsafe { libc::waitpid(pid, &raw mut status, 0) };
        if got == pid {
            return Some(status);
        }
        if io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
            return None;
        }
    }
}

/// Makes the heap grow in large steps and keep its memory: the kernel has to clear returned memory
/// again at the next use.
pub fn keep_memory() {
    const MIB: i32 = 1 << 20;
    for (parameter, value) in [
        (libc::M_TOP_PAD, MIB),
        (libc::M_TRIM_THRESHOLD, 256 * MIB),
        (libc::M_MMAP_THRESHOLD, 8 * MIB),
    ] {
        // SAFETY: takes numbers. A failure changes nothing.
        unsafe { libc::mallopt(parameter, value) };
    }
}

/// Returns the soft and hard limits (prlimit(2)) of all resources of a process, by their numbers;
/// of this process for 0.
///
/// # Errors
/// `EPERM` for processes of other users.
pub fn limits(process: Tid) -> io::Result<Vec<[u64; 2]>> {
    let mut limits = Vec::with_capacity(16);
    for resource in 0.. {
        let mut found = libc::rlimit64 {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: nothing is read but a null pointer, and written where `found` is.
        let result = unsafe { libc::prlimit64(process, resource, std::ptr::null(), &mut found) };
        let error = (result != 0).then(io::Error::last_os_error);
        match error {
            None => limits.push([found.rlim_cur, found.rlim_max]),
            Some(error) if error.raw_os_error() == Some(libc::EINVAL) && resource > 0 => break,
            Some(error) => return Err(error),
        }
    }
    Ok(limits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn a_signal_that_comes_early_is_passed_on_late() {
        let signals = [libc::SIGUSR2];
        forward(&signals, 0);
        // SAFETY: raise takes a number, and has a handler to go to.
        unsafe { libc::raise(libc::SIGUSR2) };
        let mut child = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .expect("sleep starts");
        forward(&signals, child.id() as Tid);
        let status = child.wait().expect("it ends");
        assert_eq!(status.signal(), Some(libc::SIGUSR2));
    }
}
