//! Programs that are executable but not readable.
//!
//! The kernel hides the memory of a process that executes such a program from an unprivileged
//! tracer (`would_dump` in fs/exec.c), so nothing of it could be recorded.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ptrace_async::event::Tid;
use ptrace_async::memory::Memory;
use ptrace_async::runtime::{Prehook, Stop, Tracee};
use ptrace_async::syscall::Invocation;
use rustix::fs::{Access, AtFlags, CWD};
use rustix::io::Errno;

use crate::record::descriptors;

/// Why such a program is not executed.
pub(super) const HIDDEN: &str =
    "the program is executable but not readable; make it readable, or record as root";

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
    if let Ok(name) = tracee.read_c_string(path, libc::PATH_MAX as usize) {
        let tid = tracee.tid();
        let program = seen_from_here(tid, directory, &name);
        match may(&program, Access::READ_OK) {
            Err(Errno::ACCESS) => {}
            // What is not there is not executed.
            Err(_) => return Ok((tracee, true)),
            Ok(()) => {
                let Some(name) = interpreter(&program) else {
                    return Ok((tracee, true));
                };
                let program = seen_from_here(tid, libc::AT_FDCWD as u64, &name);
                let is_hidden = may(&program, Access::READ_OK) == Err(Errno::ACCESS)
                    && may(&program, Access::EXEC_OK).is_ok();
                return Ok((tracee, !is_hidden));
            }
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
        descriptors::path(tid, directory)
    };
    from.join(name)
}

/// The program that the kernel executes for a script (execve(2), "Interpreter scripts").
fn interpreter(program: &Path) -> Option<Vec<u8>> {
    // To open something else may do something, or wait.
    let is_file = fs::metadata(program).is_ok_and(|metadata| metadata.is_file());
    let mut file = is_file.then(|| File::open(program).ok()).flatten()?;
    let mut head = [0; 256];
    let length = file.read(&mut head).ok()?;
    let line = head[..length].strip_prefix(b"#!")?;
    let line = line.split(|&byte| byte == b'\n').next()?.trim_ascii();
    let name = line.split(|byte| b" \t".contains(byte)).next()?;
    Some(name.to_vec())
}

fn may(path: &Path, mode: Access) -> rustix::io::Result<()> {
    rustix::fs::accessat(CWD, path, mode, AtFlags::EACCESS)
}
