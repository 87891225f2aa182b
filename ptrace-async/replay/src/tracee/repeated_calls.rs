//! Calls that a replay repeats, because they shape the task itself.

/// Repeated calls and the action. For all other calls a replay uses the recorded results.
const AGAIN: &[(i64, &str)] = &[
    (
        libc::SYS_mmap,
        "mapped at the same address, from the trace's files",
    ),
    (libc::SYS_brk, "memory is mapped or unmapped"),
    (libc::SYS_munmap, "performed again"),
    (libc::SYS_mprotect, "performed again"),
    (libc::SYS_pkey_mprotect, "performed again"),
    (libc::SYS_pkey_alloc, "performed again, for the same key"),
    (libc::SYS_pkey_free, "performed again"),
    (libc::SYS_mremap, "moved to the same address"),
    (
        libc::SYS_madvise,
        "performed again where it changes content",
    ),
    (libc::SYS_arch_prctl, "the register is set"),
    (libc::SYS_setrlimit, "performed again for the stack limit"),
    (libc::SYS_prlimit64, "performed again for the stack limit"),
];

/// Calls whose effect on tasks has a record of its own.
const TASKS: &[(i64, &str)] = &[
    (libc::SYS_clone, MADE),
    (libc::SYS_clone3, MADE),
    (libc::SYS_fork, MADE),
    (libc::SYS_vfork, MADE),
    (libc::SYS_execve, EXECUTED),
    (libc::SYS_execveat, EXECUTED),
    (libc::SYS_exit, ENDED),
    (libc::SYS_exit_group, ENDED),
    (libc::SYS_rt_sigreturn, "all registers are set"),
];
const MADE: &str = "a task is created";
const EXECUTED: &str = "the program's memory is built from the trace's files";
const ENDED: &str = "the task ends";

/// Whether a replay repeats the call.
pub(crate) fn is_made_again(nr: u64) -> bool {
    AGAIN.iter().any(|(known, _)| known.cast_unsigned() == nr)
}

/// The action of a replay on a call, beyond its result.
pub(crate) fn made_again(nr: u64) -> Option<&'static str> {
    let mut all = AGAIN.iter().chain(TASKS);
    let (_, what) = all.find(|(known, _)| known.cast_unsigned() == nr)?;
    Some(what)
}
