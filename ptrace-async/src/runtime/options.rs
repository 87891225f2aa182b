//! How a runtime makes syscalls stop, and its ptrace(2) options.

use crate::filter::Filter;

/// How syscalls are made to stop.
#[derive(Debug, Clone)]
pub enum Interception {
    /// By a seccomp filter in the tracee: only what the filter names stops.
    /// Needs no_new_privs (which disarms set-uid programs) or `CAP_SYS_ADMIN`.
    Seccomp(Filter),
    /// Every syscall stops twice, and calls that the filter does not name are resumed at
    /// once. This is slow, but keeps privileges and installs nothing in the tracee.
    Ptrace(Filter),
}

impl Interception {
    pub(super) fn filter(&self) -> &Filter {
        match self {
            Self::Seccomp(filter) | Self::Ptrace(filter) => filter,
        }
    }
}

/// Options of a [`Runtime`](super::Runtime).
#[derive(Debug, Clone)]
pub struct Options {
    /// How syscalls are made to stop.
    pub interception: Interception,
    /// Kill all tracees when the tracer dies (`PTRACE_O_EXITKILL`). Tracees
    /// with a filter cannot live without their tracer: filtered syscalls
    /// would fail with `ENOSYS`.
    pub exit_kill: bool,
}

/// The ptrace options of every tracee.
pub(super) fn trace_options(options: &Options) -> i32 {
    let seccomp = match options.interception {
        Interception::Seccomp(_) => libc::PTRACE_O_TRACESECCOMP,
        // Any filter in the tracee is then its own.
        Interception::Ptrace(_) => 0,
    };
    libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_TRACEEXIT
        | seccomp
        | if options.exit_kill {
            libc::PTRACE_O_EXITKILL
        } else {
            0
        }
}
