//! The cases: for each syscall the arguments of a harmless call.
//!
//! A set-up runs in the child, in an empty directory of its own.
#![expect(unsafe_code, reason = "set-ups install a signal handler")]

mod files;
mod io;
mod messages;
mod paths;
mod process;
mod system;

use std::fs::OpenOptions;
use std::io::{Seek as _, Write as _};
use std::os::fd::IntoRawFd as _;
use std::sync::Mutex;

use ptrace_async::syscall::{Invocation, error_of, table};

use super::arena::Arena;
use super::child::raw;

/// One call to make.
pub(crate) struct Case {
    /// The syscall.
    pub(crate) name: &'static str,
    /// The difference of this case from others of the same syscall.
    pub(crate) note: &'static str,
    /// Prepares the arena and returns the arguments.
    pub(crate) setup: fn(&mut Arena) -> [u64; 6],
    /// The result to expect.
    pub(crate) expect: Expect,
}

/// Which result a case must have.
#[derive(Clone, Copy)]
pub(crate) enum Expect {
    /// Any that is not an error.
    Success,
    /// This error.
    Error(i32),
    /// Any at all: the machine decides.
    Anything,
}

impl Case {
    /// Its name in a failure message.
    pub(crate) fn label(&self) -> String {
        if self.note.is_empty() {
            self.name.to_owned()
        } else {
            format!("{} ({})", self.name, self.note)
        }
    }

    fn note(mut self, note: &'static str) -> Self {
        self.note = note;
        self
    }

    fn fails(mut self, error: i32) -> Self {
        self.expect = Expect::Error(error);
        self
    }

    fn anything(mut self) -> Self {
        self.expect = Expect::Anything;
        self
    }
}

/// Every case.
pub(crate) fn all() -> Vec<Case> {
    let mut cases = files::cases();
    cases.extend(io::cases());
    cases.extend(paths::cases());
    cases.extend(process::cases());
    cases.extend(messages::cases());
    cases.extend(system::cases());
    cases
}

/// Modelled syscalls without a case, with the reason.
pub(crate) const NOT_RUN: &[(&str, &str)] = &[
    ("rt_sigreturn", "it restores registers from a signal frame"),
    ("exit", "it ends the reporter"),
    ("exit_group", "it ends the reporter"),
    (
        "vhangup",
        "it hangs up the terminal of whoever runs the tests",
    ),
    ("pivot_root", "it changes the mounts of the machine"),
    ("mount", "it changes the mounts of the machine"),
    ("umount2", "it changes the mounts of the machine"),
    ("move_mount", "it changes the mounts of the machine"),
    ("mount_setattr", "it changes the mounts of the machine"),
    ("sethostname", "it changes the name of the machine"),
    ("setdomainname", "it changes the name of the machine"),
    ("settimeofday", "it changes the clock of the machine"),
    ("clock_settime", "it changes the clock of the machine"),
    ("sync", "it makes every file system of the machine busy"),
    ("syslog", "it consumes the kernel's messages"),
    ("setns", "it needs a second namespace"),
    ("fsmount", "it needs a configured file system"),
    ("process_mrelease", "it needs a process that is dying"),
    (
        "request_key",
        "it may start a helper program of the machine",
    ),
    ("lsm_set_self_attr", "it needs a policy"),
    ("fanotify_mark", "it watches accesses of other processes"),
    (
        "file_setattr",
        "it needs a file system with such attributes",
    ),
];

const CWD: u64 = libc::AT_FDCWD as i64 as u64;

fn case(name: &'static str, setup: fn(&mut Arena) -> [u64; 6]) -> Case {
    Case {
        name,
        note: "",
        setup,
        expect: Expect::Success,
    }
}

/// Arguments, the rest being zero.
fn args<const N: usize>(given: [u64; N]) -> [u64; 6] {
    let mut all = [0; 6];
    all[..N].copy_from_slice(&given);
    all
}

/// Unwinds from a set-up that could not be made.
pub(crate) struct SetupFailed {
    /// The syscall that failed.
    pub(crate) name: String,
    /// How.
    pub(crate) error: i32,
}

/// Makes a call that a set-up needs; the result.
fn sys<const N: usize>(name: &str, given: [u64; N]) -> u64 {
    let number = table::by_name(name).expect("a syscall's name").number;
    let result = raw(&Invocation {
        nr: u64::from(number),
        args: args(given),
    });
    if let Some(error) = error_of(result) {
        std::panic::resume_unwind(Box::new(SetupFailed {
            name: name.to_owned(),
            error,
        }));
    }
    made(name, args(given), result);
    result.cast_unsigned()
}

/// The removal of an object that outlives its process.
static LEFT_BEHIND: Mutex<Vec<(&str, [u64; 6])>> = Mutex::new(Vec::new());

/// Notes what a call made, if it would outlive the process.
pub(crate) fn made(name: &str, given: [u64; 6], result: i64) {
    let id = result.cast_unsigned();
    let removal = match name {
        _ if error_of(result).is_some() => return,
        "shmget" => ("shmctl", args([id, libc::IPC_RMID as u64])),
        "semget" => ("semctl", args([id, 0, libc::IPC_RMID as u64])),
        "msgget" => ("msgctl", args([id, libc::IPC_RMID as u64])),
        "mq_open" => ("mq_unlink", args([given[0]])),
        _ => return,
    };
    LEFT_BEHIND.lock().expect("one thread").push(removal);
}

/// Removes what would outlive the process. What is gone already is no error.
pub(crate) fn clean_up() {
    for (name, args) in LEFT_BEHIND.lock().expect("one thread").drain(..) {
        let nr = u64::from(table::by_name(name).expect("a syscall's name").number);
        raw(&Invocation { nr, args });
    }
}

/// The file `name` with this content, open for reading and writing.
fn file_named(name: &str, content: &[u8]) -> u64 {
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(name)
        .expect("a file in the case's directory");
    file.write_all(content).expect("its content");
    file.rewind().expect("its position");
    file.into_raw_fd() as u64
}

/// The file `f` with this content.
fn file(content: &[u8]) -> u64 {
    file_named("f", content)
}

/// The case's directory.
fn directory() -> u64 {
    std::fs::File::open(".")
        .expect("the case's directory")
        .into_raw_fd() as u64
}

/// A pipe that holds these bytes: (reading, writing) end.
fn pipe(arena: &mut Arena, content: &[u8]) -> (u64, u64) {
    let ends = pair(arena, |at| sys("pipe", [at]));
    if !content.is_empty() {
        let data = arena.bytes(content);
        sys("write", [ends.1, data, content.len() as u64]);
    }
    ends
}

/// A pair of connected local sockets.
fn sockets(arena: &mut Arena, kind: i32) -> (u64, u64) {
    pair(arena, |at| {
        sys("socketpair", [libc::AF_UNIX as u64, kind as u64, 0, at])
    })
}

fn pair(arena: &mut Arena, make: impl FnOnce(u64) -> u64) -> (u64, u64) {
    let at = arena.ints(&[0, 0]);
    make(at);
    let both = arena.read_word(at);
    (both & 0xffff_ffff, both >> 32)
}

extern "C" fn ignore(_: libc::c_int) {}

/// Lets a signal with a handler arrive soon, and again and again.
fn interrupt_soon() {
    let handler: extern "C" fn(libc::c_int) = ignore;
    // SAFETY: the handler does nothing, so that it may run at any point.
    unsafe { libc::signal(libc::SIGALRM, handler as *const () as libc::sighandler_t) };
    let every = libc::itimerval {
        it_interval: libc::timeval {
            tv_sec: 0,
            tv_usec: 50_000,
        },
        it_value: libc::timeval {
            tv_sec: 0,
            tv_usec: 50_000,
        },
    };
    sys("setitimer", [0, (&raw const every) as u64, 0]);
}
