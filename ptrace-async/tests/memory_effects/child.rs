//! Runs one case in a process of its own.
//!
//! The child reports through a pipe and leaves with `_exit`; the parent ends a
//! child that does not report in time. The raw syscalls are safe for the test
//! as far as the case hands the kernel only addresses in the arena.
#![expect(unsafe_code, reason = "it forks and makes raw syscalls")]

use std::arch::asm;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _};

use ptrace_async::syscall::effects::{Before, Range, reads, writes, writes_since};
use ptrace_async::syscall::{Invocation, table};

use super::arena::{Arena, Own};
use super::cases::{self, Case, SetupFailed};

/// The child's observations.
pub(crate) struct Report {
    /// The raw result.
    pub(crate) result: i64,
    /// How many bytes of the arena changed.
    pub(crate) changed: usize,
    /// How many bytes of the arena were declared as written.
    pub(crate) declared: usize,
    /// Offsets in the arena of changed bytes that were not declared.
    pub(crate) undeclared: Vec<usize>,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// A syscall of the set-up failed.
    #[error("{name} in the set-up failed with errno {error}")]
    Setup {
        /// With this error.
        error: i32,
        /// Its name.
        name: String,
    },
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

/// A change to the child's memory or files before the call, which shows whether they
/// matter.
#[derive(Default)]
pub(crate) struct Tampering {
    /// Takes away bytes from each range that the call is declared to write.
    pub(crate) shrink_writes: u64,
    /// Inverts every byte that the call is not declared to read.
    pub(crate) poison: bool,
    /// Takes the declared reads for empty, when poisoning.
    pub(crate) forget_reads: bool,
}

/// Runs `case` with some tampering.
pub(crate) fn run_with(case: &Case, pattern: u8, tampering: &Tampering) -> Result<Report, Trouble> {
    let directory = tempfile::tempdir().map_err(|error| Trouble::Other(error.to_string()))?;
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for the two descriptors.
    let made = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) };
    assert_eq!(made, 0, "no pipe");
    // SAFETY: both descriptors are new and have no other owner.
    let (mut reader, mut writer) =
        unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) };
    // SAFETY: the child uses only what `fork` keeps usable in glibc (memory,
    // descriptors) and never returns from this function.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "no process");
    if pid == 0 {
        let line = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            std::env::set_current_dir(directory.path()).map_err(|error| error.to_string())?;
            inside(case, pattern, tampering)
        }));
        cases::clean_up();
        let line = match line {
            Ok(Ok(line)) => line,
            Ok(Err(trouble)) => format!("!{trouble}"),
            Err(payload) => match payload.downcast::<SetupFailed>() {
                Ok(failed) => format!("?{} {}", failed.error, failed.name),
                Err(_) => "!the set-up panicked".to_owned(),
            },
        };
        let _ = writer.write_all(line.as_bytes());
        // SAFETY: ends the process without running anything else of it.
        unsafe { libc::_exit(0) }
    }
    drop(writer);
    let mut ready = libc::pollfd {
        fd: reader.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: `ready` is one pollfd, and outlives the call.
    let answered = unsafe { libc::poll(&raw mut ready, 1, 20_000) } == 1;
    if !answered {
        // SAFETY: the child has not been waited for, so that the id is still its.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
    let mut line = String::new();
    reader
        .read_to_string(&mut line)
        .map_err(|error| Trouble::Other(error.to_string()))?;
    let mut status = 0;
    // SAFETY: `status` outlives the call, and the child is this process's.
    unsafe { libc::waitpid(pid, &raw mut status, 0) };
    if let Some(failed) = line.strip_prefix('?') {
        let (error, name) = failed.split_once(' ').unwrap_or((failed, ""));
        let error = error.parse().unwrap_or(0);
        return Err(Trouble::Setup {
            error,
            name: name.to_owned(),
        });
    }
    if let Some(trouble) = line.strip_prefix('!') {
        return Err(Trouble::Other(trouble.to_owned()));
    }
    parse(&line).ok_or_else(|| {
        Trouble::Other(format!(
            "no report (status {status:#x}, answered {answered})"
        ))
    })
}

fn parse(line: &str) -> Option<Report> {
    let mut words = line.split_whitespace();
    Some(Report {
        result: words.next()?.parse().ok()?,
        changed: words.next()?.parse().ok()?,
        declared: words.next()?.parse().ok()?,
        undeclared: words.filter_map(|word| word.parse().ok()).collect(),
    })
}

/// The child's part; the result is the line to report.
fn inside(case: &Case, pattern: u8, tampering: &Tampering) -> Result<String, String> {
    let covers = |ranges: &[Range], at: u64| ranges.iter().any(|range| range.contains(at));
    let spec = table::by_name(case.name).ok_or("no such syscall")?;
    let mut arena = Arena::new(pattern);
    let args = (case.setup)(&mut arena);
    let invocation = Invocation {
        nr: u64::from(spec.number),
        args,
    };
    let mut inputs = reads(&invocation, None, &Own).map_err(|error| error.to_string())?;
    if tampering.poison {
        if tampering.forget_reads {
            inputs.clear();
        }
        arena.poison(|at| covers(&inputs, at));
    }
    let before = Before::capture(&invocation, &Own);
    let old = arena.snapshot();
    let result = if matches!(case.name, "fork" | "vfork" | "clone" | "clone3") {
        fork_like(&invocation)
    } else {
        raw(&invocation)
    };
    let new = arena.snapshot();
    cases::made(case.name, args, result);

    let mut ranges =
        writes_since(&before, &invocation, result, &Own).map_err(|error| error.to_string())?;
    let loose = writes(&invocation, result, &Own).map_err(|error| error.to_string())?;
    reads(&invocation, Some(result), &Own).map_err(|error| error.to_string())?;
    for range in &mut ranges {
        range.len = range.len.saturating_sub(tampering.shrink_writes);
    }
    let address = |at: usize| arena.start() + at as u64;
    let changed: Vec<usize> = (0..old.len()).filter(|&at| old[at] != new[at]).collect();
    let declared = (0..old.len())
        .filter(|&at| covers(&ranges, address(at)))
        .count();
    if ranges
        .iter()
        .any(|range| range.len > 0 && !covers(&loose, range.start))
    {
        return Err("the ranges without entry lengths are not a superset".to_owned());
    }
    let mut line = format!("{result} {} {declared}", changed.len());
    for at in changed
        .iter()
        .filter(|&&at| !covers(&ranges, address(at)))
        .take(20)
    {
        line.push_str(&format!(" {at}"));
    }
    Ok(line)
}

/// Makes the call.
pub(crate) fn raw(call: &Invocation) -> i64 {
    let result: i64;
    // SAFETY: the case hands the kernel addresses in the arena, or none; calls
    // that would change this program's own memory or control flow have no case.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") call.nr => result,
            in("rdi") call.args[0],
            in("rsi") call.args[1],
            in("rdx") call.args[2],
            in("r10") call.args[3],
            in("r8") call.args[4],
            in("r9") call.args[5],
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    result
}

/// Makes a call that returns twice; the second time, it ends the new process
/// before it touches the stack that it may share.
fn fork_like(call: &Invocation) -> i64 {
    let result: i64;
    // SAFETY: as in `raw`; the child executes nothing but the `exit` call.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor edi, edi",
            "mov eax, 60",
            "syscall",
            "2:",
            inlateout("rax") call.nr => result,
            inlateout("rdi") call.args[0] => _,
            in("rsi") call.args[1],
            in("rdx") call.args[2],
            in("r10") call.args[3],
            in("r8") call.args[4],
            in("r9") call.args[5],
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    result
}
