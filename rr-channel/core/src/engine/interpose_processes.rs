#![expect(unsafe_code, reason = "defines functions of the C library")]
//! The identity of each new process, passed in its environment.
//!
//! As with `pthread_create`, definitions in the program come before the C library's. This module
//! defines `posix_spawn` and `posix_spawnp`, `fork`, and the functions that execute a program with
//! an array of arguments. `std`'s `Command` uses only these. A process that is started in another
//! way (`system`, `popen`, clone(2) itself, from inside of other libraries) is not part of a
//! recording.
//!
//! **Safety** rests on: the signatures are the C library's. Arguments are passed on as they came,
//! except for the environment. That is a copy of the pointers in the caller's environment, some of
//! them replaced by strings that live as long. Between fork and exec nothing is allocated from the
//! heap and no lock is taken.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use crate::engine::session;
use crate::platform::sys;
use crate::recorder::process::{LOG, Variables};

type Strings = *const *const c_char;
type Spawn = unsafe extern "C" fn(
    *mut libc::pid_t,
    *const c_char,
    *const c_void,
    *const c_void,
    Strings,
    Strings,
) -> c_int;
type Fork = unsafe extern "C" fn() -> libc::pid_t;
type Exec = unsafe extern "C" fn(*const c_char, Strings, Strings) -> c_int;

/// Makes sure that the linker takes these definitions: references to them.
pub(super) fn link() {
    let all = [
        posix_spawn as *const () as usize,
        posix_spawnp as *const () as usize,
        fork as *const () as usize,
        execve as *const () as usize,
        execv as *const () as usize,
        execvp as *const () as usize,
        execvpe as *const () as usize,
    ];
    std::hint::black_box(all);
    // Looked up where that may take locks: not between fork and exec.
    let _ = (real_execve(), real_execvpe());
}

/// The C library's own function of this name and type; `None` if there is none to be found.
macro_rules! real {
    ($function:ident, $name:literal, $type:ty) => {
        fn $function() -> Option<$type> {
            static REAL: OnceLock<Option<$type>> = OnceLock::new();
            *REAL.get_or_init(|| {
                // SAFETY: a valid C string; the result is checked.
                let symbol = unsafe { libc::dlsym(libc::RTLD_NEXT, $name.as_ptr()) };
                // SAFETY: the C library's function of this name has this type, and a null
                // pointer becomes `None`.
                unsafe { std::mem::transmute::<*mut c_void, Option<$type>>(symbol) }
            })
        }
    };
}

real!(real_posix_spawn, c"posix_spawn", Spawn);
real!(real_posix_spawnp, c"posix_spawnp", Spawn);
real!(real_fork, c"fork", Fork);
real!(real_execve, c"execve", Exec);
real!(real_execvpe, c"execvpe", Exec);

unsafe extern "C" {
    static environ: Strings;
}

/// Starts a program. See posix_spawn(3).
///
/// # Safety
/// As the function of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawn(
    pid: *mut libc::pid_t,
    path: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: Strings,
    environment: Strings,
) -> c_int {
    // SAFETY: the caller's environment, and its other arguments to the function that it
    // called.
    unsafe {
        spawn_told(pid, environment, |environment| {
            let spawn = real_posix_spawn()?;
            Some(spawn(
                pid,
                path,
                actions,
                attributes,
                arguments,
                environment,
            ))
        })
    }
}

/// Starts a program that is searched for. See posix_spawn(3).
///
/// # Safety
/// As the function of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawnp(
    pid: *mut libc::pid_t,
    file: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: Strings,
    environment: Strings,
) -> c_int {
    // SAFETY: as in `posix_spawn`.
    unsafe {
        spawn_told(pid, environment, |environment| {
            let spawn = real_posix_spawnp()?;
            Some(spawn(
                pid,
                file,
                actions,
                attributes,
                arguments,
                environment,
            ))
        })
    }
}

/// Starts a process by `spawn`, with an environment that tells it its identity.
///
/// # Safety
/// As of [`with_told`]; `pid` is null, or written by `spawn` where that returns zero.
unsafe fn spawn_told(
    pid: *const libc::pid_t,
    environment: Strings,
    spawn: impl FnOnce(Strings) -> Option<c_int>,
) -> c_int {
    let told = session::next_process();
    // SAFETY: as the caller promised.
    let result = unsafe { with_told(environment, told.as_ref(), spawn) };
    if let (Some(told), Some(0), false) = (told, result, pid.is_null()) {
        // SAFETY: as the caller promised.
        session::started(told.number, unsafe { *pid });
    }
    result.unwrap_or(libc::ENOSYS)
}

/// Copies the process. See fork(2).
///
/// # Safety
/// As the function of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn fork() -> libc::pid_t {
    let Some(fork) = real_fork() else {
        // SAFETY: the C library's own variable of this thread.
        unsafe { *libc::__errno_location() = libc::ENOSYS };
        return -1;
    };
    // SAFETY: takes nothing; the child's permitted actions are its caller's concern.
    session::forking(|| unsafe { fork() })
}

/// Executes a program in place of this one. See execve(2).
///
/// # Safety
/// As the function of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn execve(
    path: *const c_char,
    arguments: Strings,
    environment: Strings,
) -> c_int {
    // SAFETY: the caller's arguments, to the function that it called.
    unsafe { execute(real_execve(), path, arguments, environment) }
}

/// The same, with the process's environment. See exec(3).
///
/// # Safety
/// As the function of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn execv(path: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: as for `execve`; that is what the function adds to the arguments.
    unsafe { execute(real_execve(), path, arguments, environ) }
}

/// The same, searching for the program. See exec(3).
///
/// # Safety
/// As the function of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn execvp(file: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: as for `execv`.
    unsafe { execute(real_execvpe(), file, arguments, environ) }
}

/// The same, searching for the program, with another environment. See exec(3).
///
/// # Safety
/// As the function of the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn execvpe(
    file: *const c_char,
    arguments: Strings,
    environment: Strings,
) -> c_int {
    // SAFETY: as for `execve`.
    unsafe { execute(real_execvpe(), file, arguments, environment) }
}

/// Executes a program by `exec`.
///
/// # Safety
/// The arguments are good for `exec`.
unsafe fn execute(
    exec: Option<Exec>,
    file: *const c_char,
    arguments: Strings,
    environment: Strings,
) -> c_int {
    let Some(exec) = exec else {
        // SAFETY: the C library's own variable of this thread.
        unsafe { *libc::__errno_location() = libc::ENOSYS };
        return -1;
    };
    let own;
    let told = if sys::is_forked() {
        session::left_for_program()
    } else {
        own = session::next_program();
        own.as_ref()
    };
    // SAFETY: as the caller promised.
    unsafe {
        with_told(environment, told, |environment| {
            exec(file, arguments, environment)
        })
    }
}

/// Calls `f` with the environment `given`, in which a new process is `told` its identity, if it
/// has one.
///
/// # Safety
/// `given` is an array of strings that ends with a null pointer, or is null itself.
unsafe fn with_told<R>(
    given: Strings,
    told: Option<&Variables>,
    f: impl FnOnce(Strings) -> R,
) -> R {
    let Some(told) = told.filter(|_| !given.is_null()) else {
        return f(given);
    };
    let mut count = 0;
    let mut log = None;
    // SAFETY: within the array, as the caller promised: it ends with a null pointer.
    while let Some(entry) = unsafe { string(given, count) } {
        if is_variable(entry, LOG) {
            log = Some(entry.to_bytes());
        }
        count += 1;
    }
    if !told.are_meant(log) {
        return f(given);
    }
    let Some(pages) = sys::Pages::<c_char>::of(count + told.set.len() + 1) else {
        return f(given);
    };
    let mut written = 0;
    let mut write = |entry: *const c_char| {
        // SAFETY: room for all entries, those that are told, and the last one.
        unsafe { pages.start().add(written).write(entry) };
        written += 1;
    };
    for at in 0..count {
        // SAFETY: as above.
        let Some(entry) = (unsafe { string(given, at) }) else {
            break;
        };
        if !told.set.iter().any(|new| have_same_name(entry, new)) {
            write(entry.as_ptr());
        }
    }
    told.set.iter().for_each(|new| write(new.as_ptr()));
    write(ptr::null());
    f(pages.start())
}

/// One of an array of strings; `None` at its end.
///
/// # Safety
/// The array has so many entries before, none of which is null, and lives as long as the
/// result is used.
unsafe fn string<'a>(strings: Strings, at: usize) -> Option<&'a CStr> {
    // SAFETY: as the caller promised.
    let entry = unsafe { *strings.add(at) };
    // SAFETY: a string, as it is no null pointer.
    (!entry.is_null()).then(|| unsafe { CStr::from_ptr(entry) })
}

fn is_variable(entry: &CStr, name: &str) -> bool {
    let rest = entry.to_bytes().strip_prefix(name.as_bytes());
    rest.is_some_and(|rest| rest.starts_with(b"="))
}

fn have_same_name(entry: &CStr, new: &CString) -> bool {
    let name = new.to_bytes().split_inclusive(|byte| *byte == b'=').next();
    name.is_some_and(|name| entry.to_bytes().starts_with(name))
}
