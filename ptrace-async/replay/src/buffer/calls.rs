//! The calls that the stub performs, and the memory that each of them writes.

/// Conditions under which the stub performs a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// The call writes no memory.
    Nothing,
    /// It writes as many bytes as it returns to where the first register points, at most
    /// what the second says.
    Counted(Register, Register),
    /// It writes as many events as it returns (epoll_wait(2)), at most what the second says.
    Events(Register, Register),
    /// The call writes so many bytes if it returns 0.
    Fixed(Register, i32),
    /// As before, unless the pointer is null.
    Optional(Register, i32),
    /// It writes so many bytes if it returns 0 and is asked about a terminal (`TCGETS`).
    Terminal(Register, i32),
    /// The call writes nothing, and changes mappings.
    Memory,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Register {
    Rdi,
    Rsi,
    Rdx,
    R10,
}

/// Conditions on top of that.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum If {
    Always,
    /// Waiting is allowed, or the descriptor is quick.
    Quick,
    /// So is it, and the descriptor is hidden.
    Writes,
    /// The descriptor is hidden.
    Resizes,
    /// Nothing that was in the file goes away, or there was none, or that is allowed.
    Keeps,
    /// As [`If::Quick`], without an address.
    Receives,
    /// As [`If::Writes`], without an address.
    Sends,
    /// Waiting is allowed, or there is something without.
    Polls,
    /// As [`If::Polls`], and no signals are blocked for that.
    PollsUnmasked,
    /// The command reads flags, or sets that of the descriptor (fcntl(2)).
    Flags,
    /// Waking (futex(2)).
    Wakes,
    /// A time is wanted, and no time zone (gettimeofday(2)).
    NoZone,
    /// Nothing is set (prlimit(2)).
    Asks,
    /// It is asked whether it is a terminal (`TCGETS`), or made a copy, as [`If::Writes`]
    /// says (ioctl_ficlone(2)).
    TerminalOrCopy,
    /// As [`If::Writes`], between files, each from where it is (copy_file_range(2)).
    Copies,
    /// The memory is nobody else's, and without a file; or it is a part of the library that
    /// was mapped before, as loaders do (`MAP_DENYWRITE`).
    Private,
    /// Always; a descriptor of the library is one no more.
    Closes,
}

/// `struct epoll_event`.
pub(super) const EVENT: i32 = 12;
/// Flags of socket calls that the stub accepts: not to block, and to send no signal.
pub(super) const PLAIN: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
const STAT: i32 = 144;
const TIME: i32 = 16;
/// `struct termios` as the kernel has it.
pub(super) const TERMINAL: i32 = 36;
/// `struct sigaction` as the kernel has it.
const ACTION: i32 = 32;
/// Flags with which loaders map the parts of a library.
pub(super) const OF_LIBRARY: i32 = libc::MAP_DENYWRITE | libc::MAP_FIXED;

/// A call that writes no memory.
const fn plain(number: i64) -> (i64, Shape, If) {
    (number, Shape::Nothing, If::Always)
}

/// The calls that the stub performs.
pub(super) const CALLS: &[(i64, Shape, If)] = {
    use Register::{R10, Rdi, Rdx, Rsi};
    const UTSNAME: i32 = 390;
    &[
        (libc::SYS_read, Shape::Counted(Rsi, Rdx), If::Quick),
        (libc::SYS_write, Shape::Nothing, If::Writes),
        (libc::SYS_epoll_wait, Shape::Events(Rsi, Rdx), If::Polls),
        (
            libc::SYS_epoll_pwait,
            Shape::Events(Rsi, Rdx),
            If::PollsUnmasked,
        ),
        (libc::SYS_recvfrom, Shape::Counted(Rsi, Rdx), If::Receives),
        (libc::SYS_sendto, Shape::Nothing, If::Sends),
        (libc::SYS_clock_gettime, Shape::Fixed(Rsi, TIME), If::Always),
        (libc::SYS_newfstatat, Shape::Fixed(Rdx, STAT), If::Always),
        (libc::SYS_openat, Shape::Nothing, If::Keeps),
        (libc::SYS_close, Shape::Nothing, If::Closes),
        plain(libc::SYS_lseek),
        (libc::SYS_fstat, Shape::Fixed(Rsi, STAT), If::Always),
        (libc::SYS_stat, Shape::Fixed(Rsi, STAT), If::Always),
        (libc::SYS_lstat, Shape::Fixed(Rsi, STAT), If::Always),
        plain(libc::SYS_access),
        plain(libc::SYS_faccessat),
        plain(libc::SYS_faccessat2),
        (libc::SYS_readlink, Shape::Counted(Rsi, Rdx), If::Always),
        (libc::SYS_readlinkat, Shape::Counted(Rdx, R10), If::Always),
        (libc::SYS_pread64, Shape::Counted(Rsi, Rdx), If::Quick),
        (libc::SYS_pwrite64, Shape::Nothing, If::Writes),
        (libc::SYS_getdents64, Shape::Counted(Rsi, Rdx), If::Always),
        (libc::SYS_gettimeofday, Shape::Fixed(Rdi, TIME), If::NoZone),
        (libc::SYS_futex, Shape::Nothing, If::Wakes),
        (libc::SYS_fcntl, Shape::Nothing, If::Flags),
        plain(libc::SYS_epoll_ctl),
        plain(libc::SYS_getpid),
        plain(libc::SYS_gettid),
        plain(libc::SYS_getppid),
        plain(libc::SYS_getuid),
        plain(libc::SYS_geteuid),
        plain(libc::SYS_getgid),
        plain(libc::SYS_getegid),
        (libc::SYS_mmap, Shape::Memory, If::Private),
        (libc::SYS_munmap, Shape::Memory, If::Always),
        (libc::SYS_mprotect, Shape::Memory, If::Always),
        (libc::SYS_brk, Shape::Memory, If::Always),
        (
            libc::SYS_rt_sigaction,
            Shape::Optional(Rdx, ACTION),
            If::Always,
        ),
        (
            libc::SYS_ioctl,
            Shape::Terminal(Rdx, TERMINAL),
            If::TerminalOrCopy,
        ),
        (libc::SYS_copy_file_range, Shape::Nothing, If::Copies),
        plain(libc::SYS_fadvise64),
        (libc::SYS_prlimit64, Shape::Optional(R10, TIME), If::Asks),
        (libc::SYS_getcwd, Shape::Counted(Rdi, Rsi), If::Always),
        (libc::SYS_getrandom, Shape::Counted(Rdi, Rsi), If::Always),
        (libc::SYS_pipe2, Shape::Fixed(Rdi, 8), If::Always),
        (libc::SYS_uname, Shape::Fixed(Rdi, UTSNAME), If::Always),
        (libc::SYS_getrusage, Shape::Fixed(Rsi, STAT), If::Always),
        plain(libc::SYS_set_robust_list),
        plain(libc::SYS_umask),
        plain(libc::SYS_getpgrp),
        plain(libc::SYS_mkdir),
        plain(libc::SYS_mkdirat),
        plain(libc::SYS_rmdir),
        plain(libc::SYS_unlink),
        plain(libc::SYS_unlinkat),
        plain(libc::SYS_rename),
        plain(libc::SYS_renameat),
        plain(libc::SYS_renameat2),
        plain(libc::SYS_symlink),
        plain(libc::SYS_symlinkat),
        plain(libc::SYS_link),
        plain(libc::SYS_linkat),
        plain(libc::SYS_chmod),
        plain(libc::SYS_fchmod),
        plain(libc::SYS_fchmodat),
        plain(libc::SYS_chown),
        plain(libc::SYS_lchown),
        plain(libc::SYS_fchown),
        plain(libc::SYS_fchownat),
        plain(libc::SYS_utimensat),
        plain(libc::SYS_chdir),
        plain(libc::SYS_fchdir),
        plain(libc::SYS_socket),
        plain(libc::SYS_setsockopt),
        plain(libc::SYS_shutdown),
        (libc::SYS_connect, Shape::Nothing, If::Quick),
        (libc::SYS_ftruncate, Shape::Nothing, If::Resizes),
    ]
};

/// Whether an entry has the arguments of its call, which a replay has to make again.
pub(super) fn shapes_memory(number: u64) -> bool {
    CALLS
        .iter()
        .any(|(known, shape, _)| known.cast_unsigned() == number && matches!(shape, Shape::Memory))
}

/// Whether the stub performs calls of this number.
pub(crate) fn performs(number: u64) -> bool {
    CALLS
        .iter()
        .any(|(known, ..)| known.cast_unsigned() == number)
}
