//! Programs that may be executed and not read.
//!
//! The kernel hides the memory of a process that executes one (`would_dump` in fs/exec.c) from
//! a tracer without rights as well: nothing of it could be recorded.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ptrace_async::event::Tid;
use ptrace_async::memory::Memory;
use ptrace_async::runtime::{Prehook, Stop, Tracee};
use ptrace_async::syscall::Invocation;
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags};

use super::exit::descriptor;

/// Whether a call executes a program.
pub(super) fn executes(call: &Invocation) -> bool {
    matches!(call.nr.cast_signed(), libc::SYS_execve | libc::SYS_execveat)
}

/// Whether the task may read the program that it is about to execute, or may not execute it
/// either, which the kernel tells it.
pub(super) async fn is_readable(
    tracee: Tracee<Prehook>,
    call: &Invocation,
) -> Result<(Tracee<Prehook>, bool), Stop> {
    let (directory, path, flags) = if call.nr == libc::SYS_execve as u64 {
        (libc::AT_FDCWD as u64, call.args[0], 0)
    } else {
        (call.args[0], call.args[1], call.args[4])
    };
    // As a rule it can be seen from here: nothing that follows is needed then.
    let name = tracee.read_c_string(path, libc::PATH_MAX as usize);
    if let Ok(name) = name {
        let tid = tracee.tid();
        let program = seen_from_here(tid, directory, &name);
        if may_read(&program) {
            let interpreter =
                interpreter(&program).map(|name| seen_from_here(tid, libc::AT_FDCWD as u64, &name));
            let is_readable = interpreter.is_none_or(|path| may_read(&path) || !may_execute(&path));
            return Ok((tracee, is_readable));
        }
    }
    let access = |mode: i32| Invocation {
        nr: libc::SYS_faccessat2 as u64,
        args: [
            directory,
            path,
            mode as u64,
            flags | libc::AT_EACCESS as u64,
            0,
            0,
        ],
    };
    let (tracee, readable) = tracee.inject(access(libc::R_OK)).await?;
    if readable != -i64::from(libc::EACCES) {
        return Ok((tracee, true));
    }
    let (tracee, executable) = tracee.inject(access(libc::X_OK)).await?;
    Ok((tracee, executable != 0))
}

/// Where this process finds what a task calls so.
fn seen_from_here(tid: Tid, directory: u64, name: &[u8]) -> PathBuf {
    let name = Path::new(OsStr::from_bytes(name));
    if let Ok(below) = name.strip_prefix("/") {
        return PathBuf::from(format!("/proc/{tid}/root")).join(below);
    }
    let from = if directory as i32 == libc::AT_FDCWD {
        PathBuf::from(format!("/proc/{tid}/cwd"))
    } else {
        descriptor(tid, directory)
    };
    from.join(name)
}

/// The program that the kernel executes for a script (execve(2), "Interpreter scripts").
fn interpreter(program: &Path) -> Option<Vec<u8>> {
    // A pipe would keep whoever opens it.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(program, flags, Mode::empty()).ok()?;
    let mut head = [0; 256];
    let length = rustix::io::read(&file, &mut head).ok()?;
    let line = head[..length].strip_prefix(b"#!")?;
    let line = line.split(|&byte| byte == b'\n').next()?.trim_ascii();
    let name = line.split(|byte| b" \t".contains(byte)).next()?;
    Some(name.to_vec())
}

fn may_read(path: &Path) -> bool {
    may(path, Access::READ_OK)
}

fn may_execute(path: &Path) -> bool {
    may(path, Access::EXEC_OK)
}

fn may(path: &Path, mode: Access) -> bool {
    rustix::fs::accessat(CWD, path, mode, AtFlags::EACCESS).is_ok()
}
