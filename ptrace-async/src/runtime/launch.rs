//! Starting the first tracee.
//!
//! The child waits on a pipe until it is seized, installs the filter and
//! executes; the tracer therefore sees its execve like any other.
//!
//! Until then it shares its parent's memory, as after vfork(2), but the parent runs on.
//! Neither pays for copies of pages that are never needed (2 to 6 % of a `pcache make` with
//! nothing to do).
//!
//! **Why that is safe.** The child has a stack of its own. It reads one block, which is not
//! changed and which lives until the child has executed or ended ([`Launched`]). It makes
//! raw system calls, because the C library's wrappers would write the parent's `errno`. All
//! signals are blocked until the child has no handlers any more, so that no handler of the
//! parent runs in it. If the child dumps core in these microseconds, Linux before 5.16 ends
//! its parent, too.
#![expect(
    unsafe_code,
    reason = "a child that shares our memory; see the argument above"
)]

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io::{self, Write};
use std::os::fd::AsRawFd;

use super::options::{Interception, Options, trace_options};
use crate::event::Tid;
use crate::sys;

/// A program to execute: the paths to try, arguments, environment, signal actions.
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

    /// Drops the leading candidates that do not exist. Keeps all if none exists.
    pub fn skip_missing(&mut self) {
        use std::os::unix::ffi::OsStrExt;
        let is_missing = |candidate: &CString| {
            let path = std::ffi::OsStr::from_bytes(candidate.as_bytes());
            std::fs::symlink_metadata(path)
                .is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        let all = self.candidates.iter();
        let missing = all.take_while(|candidate| is_missing(candidate)).count();
        if missing < self.candidates.len() {
            self.candidates.drain(..missing);
        }
    }
}

/// Exit status of a child that could not set itself up (the filter was refused).
pub const SETUP_FAILED: i32 = 125;

/// For execvp's rule that a file without a known format is a shell script.
const SHELL: &CStr = c"/bin/sh";
/// The child's stack in bytes, many times the size of its few frames.
const STACK: usize = 32 << 10;
/// Signals are numbered from 1 to this.
const SIGNALS: i32 = 64;

/// The memory of a child that has not executed yet.
pub(super) struct Launched {
    tid: Tid,
    /// Shared with the child. Only the child uses them until it has executed or ended.
    block: *mut Block,
    stack: *mut [u8],
}

/// Children that have not executed yet. The memory of those that remain is never freed,
/// because they may still use it.
#[derive(Default)]
pub(super) struct Launches(RefCell<Vec<Launched>>);

impl Launches {
    pub(super) fn add(&self, launched: Launched) -> Tid {
        let tid = launched.tid;
        self.0.borrow_mut().push(launched);
        tid
    }

    /// Frees a child's memory after the kernel reported its execve or its end. Other ids
    /// are ignored.
    pub(super) fn finished(&self, tid: Tid) {
        let mut all = self.0.borrow_mut();
        if let Some(at) = all.iter().position(|launched| launched.tid == tid) {
            // SAFETY: it does not use our memory any more.
            unsafe { all.swap_remove(at).free() };
        }
    }
}

impl Launched {
    /// Frees it.
    ///
    /// # Safety
    /// The child has executed a program or ended.
    unsafe fn free(self) {
        // SAFETY: both come from `Box::into_raw`, and the child does not use them any more.
        unsafe {
            drop(Box::from_raw(self.block));
            drop(Box::from_raw(self.stack));
        }
    }
}

/// Everything that the child reads.
struct Block {
    go_read: c_int,
    go_write: c_int,
    /// Signals whose action changes, with the new action.
    actions: Vec<(c_int, libc::sighandler_t)>,
    no_new_privs: bool,
    filter: Option<libc::sock_fprog>,
    /// The paths to try, in order.
    candidates: Vec<*const c_char>,
    argv: Vec<*const c_char>,
    /// The arguments for a script, whose path is the second.
    script_argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    mask: u64,
    /// The owners of the memory that the pointers above point into.
    _program: Program,
    _filter: Vec<libc::sock_filter>,
}

impl Block {
    fn new(program: &Program, options: &Options, mask: u64, go: [c_int; 2]) -> Self {
        // Moving the program does not move the heap memory of its strings.
        let mut program = program.clone();
        // Each attempt would be two stops.
        program.skip_missing();
        let pointers = |list: &[CString]| {
            let mut out: Vec<*const c_char> = list.iter().map(|s| s.as_ptr()).collect();
            out.push(std::ptr::null());
            out
        };
        let (argv, envp) = (pointers(&program.argv), pointers(&program.envp));
        let mut script_argv = argv.clone();
        script_argv.insert(0, SHELL.as_ptr());
        if script_argv.len() < 3 {
            script_argv.insert(1, std::ptr::null());
        }
        let candidates = program.candidates.iter();
        let candidates = candidates.map(|candidate| candidate.as_ptr()).collect();
        let rules = match &options.interception {
            Interception::Seccomp(filter) => filter.program().to_vec(),
            Interception::Ptrace(_) => Vec::new(),
        };
        let filter = (!rules.is_empty()).then(|| libc::sock_fprog {
            len: rules.len() as u16,
            filter: rules.as_ptr().cast_mut(),
        });
        let [go_read, go_write] = go;
        Self {
            go_read,
            go_write,
            actions: (1..=SIGNALS)
                .filter_map(|signal| Some((signal, action(&program, signal)?)))
                .collect(),
            no_new_privs: filter.is_some() && !sys::may_filter_with_privileges(),
            filter,
            candidates,
            argv,
            script_argv,
            envp,
            mask,
            _program: program,
            _filter: rules,
        }
    }

    /// Runs in the child. Returns the status to exit with.
    ///
    /// # Safety
    /// Only the child may call it.
    unsafe fn run(&mut self) -> c_int {
        let pointer = |of: *const c_void| of as usize;
        // SAFETY: all pointers are to this block or to this frame, and of the types
        // that the calls take; what `rt_sigaction` takes begins with the handler.
        unsafe {
            for &(signal, handler) in &self.actions {
                let action = [handler, 0, 0, 0];
                let place = action.as_ptr() as usize;
                call(libc::SYS_rt_sigaction, [signal as usize, place, 0, 8, 0]);
            }
            let mask = pointer((&raw const self.mask).cast());
            let set = libc::SIG_SETMASK as usize;
            call(libc::SYS_rt_sigprocmask, [set, mask, 0, 8, 0]);
            call(libc::SYS_close, [self.go_write as usize, 0, 0, 0, 0]);
            let mut byte = 0_u8;
            let place = (&raw mut byte) as usize;
            if call(libc::SYS_read, [self.go_read as usize, place, 1, 0, 0]) != 1 {
                return SETUP_FAILED;
            }
            if self.no_new_privs {
                let which = libc::PR_SET_NO_NEW_PRIVS as usize;
                if call(libc::SYS_prctl, [which, 1, 0, 0, 0]) != 0 {
                    return SETUP_FAILED;
                }
            }
            if let Some(filter) = &self.filter {
                let filter = pointer((&raw const *filter).cast());
                let mode = libc::SECCOMP_SET_MODE_FILTER as usize;
                if call(libc::SYS_seccomp, [mode, 0, filter, 0, 0]) != 0 {
                    return SETUP_FAILED;
                }
            }
            let mut denied = false;
            let (argv, envp) = (self.argv.as_ptr() as usize, self.envp.as_ptr() as usize);
            for &candidate in &self.candidates {
                let error = call(libc::SYS_execve, [candidate as usize, argv, envp, 0, 0]);
                match -error as i32 {
                    libc::ENOEXEC => {
                        self.script_argv[1] = candidate;
                        let shell = SHELL.as_ptr() as usize;
                        let argv = self.script_argv.as_ptr() as usize;
                        call(libc::SYS_execve, [shell, argv, envp, 0, 0]);
                        return 126;
                    }
                    libc::EACCES => denied = true,
                    libc::ENOENT | libc::ENOTDIR | libc::ESTALE | libc::ENODEV => {}
                    _ => return 126,
                }
            }
            if denied { 126 } else { 127 }
        }
    }
}

/// The action that a signal gets in the child; `None` if it has it already. Programs do not
/// inherit handlers, and the child must not run any.
fn action(program: &Program, signal: c_int) -> Option<libc::sighandler_t> {
    let mut present = [0_usize; 4];
    let place = present.as_mut_ptr() as usize;
    // SAFETY: the kernel writes 32 bytes, the handler first.
    unsafe { call(libc::SYS_rt_sigaction, [signal as usize, 0, place, 8, 0]) };
    let wanted = if program.ignored_signals.contains(&signal) {
        libc::SIG_IGN
    } else if program.default_signals.contains(&signal) || present[0] != libc::SIG_IGN {
        libc::SIG_DFL
    } else {
        libc::SIG_IGN
    };
    (wanted != present[0]).then_some(wanted)
}

/// Makes a raw system call, which does not touch `errno`. Returns its result or the negated
/// error.
///
/// # Safety
/// As of the call.
unsafe fn call(number: i64, arguments: [usize; 5]) -> isize {
    let result;
    // SAFETY: up to the caller; the kernel changes rax, rcx and r11 only.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") arguments[2],
            in("r10") arguments[3],
            in("r8") arguments[4],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

extern "C" fn child(block: *mut c_void) -> c_int {
    // SAFETY: `launch` passes the block, which no other thread touches now. The child ends
    // here: returning would run the C library's exit code.
    unsafe {
        let status = (*block.cast::<Block>()).run();
        call(libc::SYS_exit_group, [status as usize, 0, 0, 0, 0]);
    }
    0
}

/// Blocks all signals in the calling thread, as raw as the kernel takes them (the C
/// library keeps two for itself); returns what was blocked before.
fn block_signals(mask: u64) -> u64 {
    let mut before = 0_u64;
    let (new, old) = ((&raw const mask) as usize, (&raw mut before) as usize);
    // SAFETY: both are sets of the size that is passed.
    unsafe {
        call(
            libc::SYS_rt_sigprocmask,
            [libc::SIG_SETMASK as usize, new, old, 8, 0],
        )
    };
    before
}

/// Whether the child has ended already. Its end can still be waited for.
fn has_exited(child: Tid) -> bool {
    // SAFETY: a structure of numbers, which the kernel fills.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the kernel writes what it found, zeros for nothing.
    let waited = unsafe { libc::waitid(libc::P_PID, child as u32, &raw mut info, options) };
    // SAFETY: what waitid leaves has this field.
    waited == 0 && unsafe { info.si_pid() } == child
}

/// Waits until the child has ended; `false` if its end cannot be learned.
fn wait_for_end(child: Tid) -> bool {
    loop {
        let mut status = 0;
        // SAFETY: the kernel writes the status.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        if waited == child && (libc::WIFEXITED(status) || libc::WIFSIGNALED(status)) {
            return true;
        }
        let interrupted = io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
        if waited != child && !interrupted {
            return false;
        }
    }
}

/// Creates the child that will execute the program, and seizes it.
///
/// A child that is killed before it is seized is not an error: its end is reported like any
/// other.
pub(super) fn launch(program: &Program, options: &Options) -> io::Result<Launched> {
    let (launched, go_write) = clone(program, options)?;
    if let Err(error) = trace(&launched, options, &go_write) {
        // The child ends because its pipe closes.
        drop(go_write);
        if wait_for_end(launched.tid) {
            // SAFETY: it does not use our memory any more.
            unsafe { launched.free() };
        }
        return Err(error);
    }
    Ok(launched)
}

/// Creates a child that waits for a byte in the pipe.
fn clone(program: &Program, options: &Options) -> io::Result<(Launched, io::PipeWriter)> {
    let (go_read, go_write) = io::pipe()?;
    let mask = block_signals(u64::MAX);
    let go = [go_read.as_raw_fd(), go_write.as_raw_fd()];
    let block = Box::into_raw(Box::new(Block::new(program, options, mask, go)));
    let stack = Box::into_raw(vec![0_u8; STACK].into_boxed_slice());
    let flags = libc::CLONE_VM | libc::SIGCHLD;
    // SAFETY: the stack grows down from its end, which is aligned; see above for
    // what the child does.
    let tid = unsafe {
        let top = stack.cast::<u8>().add(STACK);
        let top = top.sub(top as usize % 16);
        libc::clone(child, top.cast(), flags, block.cast())
    };
    let error = io::Error::last_os_error();
    block_signals(mask);
    let launched = Launched { tid, block, stack };
    if tid == -1 {
        // SAFETY: there is no child.
        unsafe { launched.free() };
        return Err(error);
    }
    Ok((launched, go_write))
}

/// Seizes the child and resumes it. Its first stop comes before its execve, or at its end.
fn trace(launched: &Launched, options: &Options, go: &io::PipeWriter) -> io::Result<()> {
    let tid = launched.tid;
    sys::seize(tid, trace_options(options))
        .and_then(|()| sys::interrupt(tid))
        .and_then(|()| { go }.write_all(&[1]))
        // A child that has ended cannot be seized.
        .or_else(|error| if has_exited(tid) { Ok(()) } else { Err(error) })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::{Program, clone, has_exited, trace};
    use crate::filter::{Filter, Rule};
    use crate::runtime::{Interception, Options, Runtime, Started, Stop, Tracee};

    #[test]
    fn a_child_that_is_killed_before_it_is_traced_ends_like_any_other() {
        let runtime = Runtime::new(Options {
            interception: Interception::Seccomp(Filter::build(512, |_| Rule::Allow)),
            exit_kill: true,
        });
        let program = Program::new(&["true"]).expect("no NUL");
        let options = &runtime.shared.options;
        let (launched, go) = clone(&program, options).expect("there may be one more");
        assert!(!has_exited(launched.tid));
        // SAFETY: our own child, which was not waited for yet.
        unsafe { libc::kill(launched.tid, libc::SIGKILL) };
        while !has_exited(launched.tid) {
            std::thread::yield_now();
        }
        trace(&launched, options, &go).expect("its end is not an error");
        runtime.expect(launched);
        let ends = Rc::new(Cell::new(None));
        let seen = ends.clone();
        runtime
            .run(move |tracee: Tracee<Started>| {
                let seen = seen.clone();
                async move {
                    if let Stop::Killed { signal, .. } = tracee.resume().stop().await {
                        seen.set(Some(signal));
                    }
                }
            })
            .expect("waiting works");
        assert_eq!(ends.get(), Some(libc::SIGKILL));
    }
}
