//! Starting the first tracee.
//!
//! The child waits on a pipe until it is seized, installs the filter and
//! executes; the tracer therefore sees its execve like any other.
#![expect(
    unsafe_code,
    reason = "fork and exec; the child calls async-signal-safe functions only"
)]

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::AsRawFd;

use super::events::trace_options;
use super::{Interception, Options};
use crate::event::Tid;
use crate::sys;

/// What to execute, as execve takes it, with the places to try.
#[derive(Debug, Clone)]
pub struct Program {
    /// Paths to try in order (what a search along `PATH` yields).
    pub candidates: Vec<CString>,
    /// Arguments, the program's name first.
    pub argv: Vec<CString>,
    /// Environment, `NAME=value` each.
    pub envp: Vec<CString>,
    /// Signals to set back to their default action in the child (those that
    /// the tracer itself ignores or handles).
    pub default_signals: Vec<i32>,
    /// Signals to ignore in the child.
    pub ignored_signals: Vec<i32>,
}

impl Program {
    /// A program found along `PATH` as a shell finds it, with the given
    /// arguments and our own environment.
    ///
    /// # Errors
    /// When an argument holds a NUL byte.
    pub fn new<A: AsRef<std::ffi::OsStr>>(argv: &[A]) -> io::Result<Self> {
        use std::os::unix::ffi::{OsStrExt, OsStringExt};
        let c = |bytes: Vec<u8>| CString::new(bytes).map_err(io::Error::from);
        let arguments = argv
            .iter()
            .map(|a| c(a.as_ref().as_bytes().to_vec()))
            .collect::<io::Result<Vec<_>>>()?;
        let name = argv
            .first()
            .map(|a| a.as_ref().as_bytes().to_vec())
            .unwrap_or_default();
        let candidates = if name.contains(&b'/') {
            vec![c(name)?]
        } else {
            let path = std::env::var_os("PATH")
                .map_or_else(|| b"/bin:/usr/bin".to_vec(), OsStringExt::into_vec);
            path.split(|&b| b == b':')
                .map(|dir| {
                    let dir = if dir.is_empty() { b"." } else { dir };
                    c([dir, b"/", &name].concat())
                })
                .collect::<io::Result<Vec<_>>>()?
        };
        let envp = std::env::vars_os()
            .map(|(name, value)| c([name.as_bytes(), b"=", value.as_bytes()].concat()))
            .collect::<io::Result<Vec<_>>>()?;
        Ok(Self {
            candidates,
            argv: arguments,
            envp,
            default_signals: vec![libc::SIGPIPE],
            ignored_signals: Vec::new(),
        })
    }
}

/// Exit status of a child that could not set itself up (the filter was refused).
pub const SETUP_FAILED: i32 = 125;

pub(super) fn launch(program: &Program, options: &Options) -> io::Result<Tid> {
    let pointers = |list: &[CString]| {
        let mut out: Vec<*const libc::c_char> = list.iter().map(|s| s.as_ptr()).collect();
        out.push(std::ptr::null());
        out
    };
    let (argv, envp) = (pointers(&program.argv), pointers(&program.envp));
    // For execvp's rule that a file without a known format is a shell script.
    let shell: &CStr = c"/bin/sh";
    let mut script_argv = argv.clone();
    script_argv.insert(0, shell.as_ptr());
    if script_argv.len() < 3 {
        script_argv.insert(1, std::ptr::null());
    }
    // Each attempt would be two stops; where there is nothing there is none.
    let candidates = program.candidates.iter();
    let tried: Vec<&CString> = candidates
        .skip_while(|candidate| {
            use std::os::unix::ffi::OsStrExt;
            let path = std::ffi::OsStr::from_bytes(candidate.as_bytes());
            std::fs::symlink_metadata(path)
                .is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        })
        .collect();
    let needs_no_new_privs = !sys::may_filter_with_privileges();
    let (go_read, go_write) = io::pipe()?;

    // SAFETY: the child below uses only prctl, sigaction, read, write, execve
    // and _exit on memory prepared before the fork.
    let Some(tid) = (unsafe { sys::fork()? }) else {
        // SAFETY: see above; all pointers stay valid, as the child's copy of
        // this stack frame is never left.
        unsafe {
            for &signal in &program.default_signals {
                libc::signal(signal, libc::SIG_DFL);
            }
            for &signal in &program.ignored_signals {
                libc::signal(signal, libc::SIG_IGN);
            }
            libc::close(go_write.as_raw_fd());
            let mut byte = 0_u8;
            if libc::read(go_read.as_raw_fd(), (&raw mut byte).cast(), 1) != 1 {
                libc::_exit(SETUP_FAILED);
            }
            if let Interception::Seccomp(filter) = &options.interception {
                if needs_no_new_privs && libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
                    libc::_exit(SETUP_FAILED);
                }
                if sys::install_filter(filter.program()).is_err() {
                    libc::_exit(SETUP_FAILED);
                }
            }
            let mut denied = false;
            for candidate in &tried {
                libc::execve(candidate.as_ptr(), argv.as_ptr(), envp.as_ptr());
                match *libc::__errno_location() {
                    libc::ENOEXEC => {
                        script_argv[1] = candidate.as_ptr();
                        libc::execve(shell.as_ptr(), script_argv.as_ptr(), envp.as_ptr());
                        libc::_exit(126);
                    }
                    libc::EACCES => denied = true,
                    libc::ENOENT | libc::ENOTDIR | libc::ESTALE | libc::ENODEV => {}
                    _ => libc::_exit(126),
                }
            }
            libc::_exit(if denied { 126 } else { 127 })
        }
    };
    drop(go_read);
    let seized = sys::seize(tid, trace_options(options)).and_then(|()| sys::interrupt(tid));
    if let Err(error) = seized {
        drop(go_write);
        // SAFETY: reaps our own child, which ends because its pipe closed.
        unsafe { libc::waitpid(tid, std::ptr::null_mut(), 0) };
        return Err(error);
    }
    use std::io::Write;
    (&go_write).write_all(&[1])?;
    Ok(tid)
}
