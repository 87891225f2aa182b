//! The processes between the harness and a test: this program, called again.
//!
//! In a namespace there are two: one that enters the namespace, and its first process,
//! whose end is everybody's. Else there is one, which adopts what the test leaves behind.
//! Standard input is the socket to the harness in all of them; the test gets `/dev/null`.
//!
//! Where there is no namespace, two threads deal with the children: one starts the test, and
//! takes note of those that have ended; the other one ends them all when the harness hangs up.
//! **Invariant:** children come and go under one lock ([`children`]), and who ends them all
//! holds it. So no test is started behind his back, nobody whose parent is looked at is
//! forgotten meanwhile (its own children would be overlooked), and what is said of a test is
//! never how the harness has ended it.
//!
//! ```text
//! exit 101 2513000 0        exit status, nanoseconds, processes that were left
//! signal 6 2513000 1
//! failed - 0 0 No such file or directory (os error 2)
//! ```

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use rr_channel_tools::end_by;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus, getgid, getpid, getuid,
    kill_process, kill_process_group, set_child_subreaper, set_parent_process_death_signal, wait,
    waitid, waitpid,
};
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::{Ending, NETWORK};
use crate::platform::lock::lock;

/// The first argument of a process around a test.
pub(crate) const SANDBOX: &str = "__sandbox";
/// That of the first process of a namespace.
const FIRST: &str = "__first";
/// That of a process that becomes a program that wants to know its own id.
pub(crate) const BECOME: &str = "__become";
/// That of a process that becomes a program of low priority.
pub(crate) const BEHIND: &str = "__behind";
/// That of a process around a command of the harness's own.
pub(super) const GUARD: &str = "__guard";
/// That of a process that does nothing, for a try.
pub(crate) const NOTHING: &str = "__nothing";

/// Held by whoever starts children, forgets those that have ended, or ends them all.
fn children() -> MutexGuard<'static, ()> {
    static CHILDREN: Mutex<()> = Mutex::new(());
    lock(&CHILDREN)
}

/// Does what the arguments say, if they are those of a process around a test.
pub(crate) fn enter() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    let first = args.next()?;
    let args: Vec<OsString> = args.collect();
    let done = match first.to_str()? {
        SANDBOX => sandbox(&args),
        FIRST => first_of_namespace(&args),
        BECOME => become_program(&args),
        BEHIND => behind(&args),
        GUARD => return Some(guard(&args).unwrap_or_else(|error| failed(&error))),
        NOTHING => Ok(()),
        _ => return None,
    };
    Some(done.map_or_else(|error| failed(&error), |()| ExitCode::SUCCESS))
}

fn failed(error: &io::Error) -> ExitCode {
    SupervisorMessage::failed(error).say();
    ExitCode::FAILURE
}

/// A message about a test to the harness.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SupervisorMessage {
    pub(super) ending: Ending,
    pub(super) time: Duration,
    pub(super) left: u64,
}

impl SupervisorMessage {
    fn failed(error: &io::Error) -> SupervisorMessage {
        SupervisorMessage {
            ending: Ending::NotStarted(error.to_string()),
            time: Duration::ZERO,
            left: 0,
        }
    }

    fn say(&self) {
        let (kind, value, text) = match &self.ending {
            Ending::Exit(code) => ("exit", code.to_string(), ""),
            Ending::Signal(number) => ("signal", number.to_string(), ""),
            Ending::NotStarted(why) => ("failed", "-".to_owned(), why.as_str()),
            Ending::TimedOut | Ending::Interrupted | Ending::Lost => return,
        };
        let (time, left) = (self.time.as_nanos(), self.left);
        let line = format!("{kind} {value} {time} {left} {text}\n");
        // If the harness is gone, there is nobody to tell.
        let _ = rustix::io::write(io::stdin(), line.as_bytes());
    }

    /// Reads what was said; the first line counts.
    pub(super) fn parse(bytes: &[u8]) -> Option<SupervisorMessage> {
        let text = String::from_utf8_lossy(bytes);
        let (line, _) = text.split_once('\n')?;
        let mut words = line.splitn(5, ' ');
        let (kind, value) = (words.next()?, words.next()?);
        let time = Duration::from_nanos(words.next()?.parse().ok()?);
        let left = words.next()?.parse().ok()?;
        let ending = match kind {
            "exit" => Ending::Exit(value.parse().ok()?),
            "signal" => Ending::Signal(value.parse().ok()?),
            "failed" => Ending::NotStarted(words.next()?.trim_end().to_owned()),
            _ => return None,
        };
        Some(SupervisorMessage { ending, time, left })
    }
}

fn missing() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "an argument is missing")
}

/// `ISOLATION NUMBER PROGRAM ARGS...`
fn sandbox(args: &[OsString]) -> io::Result<()> {
    let [isolation, number, job @ ..] = args else {
        return Err(missing());
    };
    if isolation == "namespace" || isolation == NETWORK {
        return enter_namespace(number, job, isolation == NETWORK);
    }
    set_child_subreaper(Some(getpid()))?;
    end_all_on_hang_up();
    let said = run(job, true, None).and_then(|said| said.ok_or_else(missing));
    let left = end_all_below(&children());
    SupervisorMessage { left, ..said? }.say();
    Ok(())
}

/// `PROGRAM ARGS...`: ends as the program does, or ends it with what it started.
fn guard(job: &[OsString]) -> io::Result<ExitCode> {
    set_child_subreaper(Some(getpid()))?;
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
        // It is for the program as well, and this process ends as that does.
        signal_hook::flag::register(signal, Arc::default())?;
    }
    end_all_on_hang_up();
    let said = run(job, false, None)?.ok_or_else(missing)?;
    Ok(match said.ending {
        Ending::Exit(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        Ending::Signal(number) => ExitCode::from(end_by(number)),
        _ => ExitCode::FAILURE,
    })
}

/// Ends all that this process has started, and then itself, when the harness hangs up.
fn end_all_on_hang_up() {
    on_hang_up(|| {
        // To the end of this process.
        let children = children();
        end_all_below(&children);
        std::process::exit(0);
    });
}

/// Makes a namespace and starts its first process there, perhaps with a network of its own.
fn enter_namespace(number: &OsStr, job: &[OsString], has_network: bool) -> io::Result<()> {
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    let mut flags = UnshareFlags::NEWPID | UnshareFlags::NEWNS;
    let is_root = uid == 0;
    // As root a namespace of users would take rights away that tests may count on.
    if !is_root {
        flags |= UnshareFlags::NEWUSER;
    }
    if has_network {
        flags |= UnshareFlags::NEWNET;
    }
    unshare(flags)?;
    if has_network {
        bring_loopback_up()?;
    }
    if !is_root {
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
        fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))?;
        // Kept through the next execve, for mounting.
        let mut sets = rustix::thread::capabilities(None)?;
        sets.inheritable = CapabilitySet::SYS_ADMIN;
        rustix::thread::set_capabilities(None, sets)?;
        rustix::thread::configure_capability_in_ambient_set(CapabilitySet::SYS_ADMIN, true)?;
    }
    // The harness's end is noticed by the socket; this is for an end of this process.
    let child = Command::new("/proc/self/exe")
        .arg0("servo-harness")
        .arg(FIRST)
        .arg(number)
        .args(job)
        .spawn()?;
    // It has said all there is to say.
    wait_for(child.id())?;
    Ok(())
}

/// `NUMBER PROGRAM ARGS...`: looks after a namespace, until the test or the harness ends.
fn first_of_namespace(args: &[OsString]) -> io::Result<()> {
    let [number, job @ ..] = args else {
        return Err(missing());
    };
    set_parent_process_death_signal(Some(Signal::KILL))?;
    on_hang_up(|| std::process::exit(0));
    mount_change(
        "/",
        MountPropagationFlags::REC | MountPropagationFlags::PRIVATE,
    )?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "/proc", "proc", flags, None)?;
    let next = choose_next_id(number);
    rustix::thread::clear_ambient_capability_set()?;
    if getuid().as_raw() != 0 {
        rustix::thread::set_capabilities(
            None,
            CapabilitySets {
                effective: CapabilitySet::empty(),
                permitted: CapabilitySet::empty(),
                inheritable: CapabilitySet::empty(),
            },
        )?;
    }
    let said = match (job, next) {
        // One program less to be executed.
        ([own, become_it, variable, rest @ ..], Some(next))
            if own == "/proc/self/exe" && become_it == BECOME =>
        {
            let said = run(rest, false, Some((variable, next)))?;
            // Nobody else makes processes here, so this is not to be expected.
            said.ok_or_else(|| io::Error::other("the process has another id than was said"))?
        }
        _ => run(job, false, None)?.ok_or_else(missing)?,
    };
    let own = getpid();
    let left = processes().filter(|process| process.pid != own).count() as u64;
    SupervisorMessage { left, ..said }.say();
    Ok(())
}

/// Chooses the id of the next process of a new namespace, if that is allowed: file names that
/// are made of process ids differ then between sandboxes.
fn choose_next_id(number: &OsStr) -> Option<u32> {
    const LAST: &str = "/proc/sys/kernel/ns_last_pid";
    let number: u32 = number.to_str()?.parse().ok()?;
    let last = 100 + number % 300 * 100;
    fs::write(LAST, last.to_string()).ok()?;
    let written = fs::read_to_string(LAST).ok()?;
    (written.trim_end() == last.to_string()).then_some(last + 1)
}

/// Leaves namespaces that processes started from here on shall not share.
fn unshare(flags: UnshareFlags) -> io::Result<()> {
    #![expect(
        unsafe_code,
        reason = "rustix marks it so because of shared file descriptors"
    )]
    // SAFETY: what is unsafe is to end the sharing of descriptors (CLONE_FILES) behind the
    // back of other threads; no caller asks for that, and there is one thread here.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(Into::into)
}

/// Brings the loopback interface of a new network up. See netdevice(7).
fn bring_loopback_up() -> io::Result<()> {
    #![expect(unsafe_code, reason = "ioctl(2) with a structure")]
    /// `struct ifreq`, with flags.
    #[repr(C)]
    struct Request {
        name: [u8; 16],
        flags: i16,
        rest: [u8; 22],
    }
    const SIOCSIFFLAGS: u32 = 0x8914;
    const IFF_UP: i16 = 1;
    let mut request = Request {
        name: [0; 16],
        flags: IFF_UP,
        rest: [0; 22],
    };
    request.name[..2].copy_from_slice(b"lo");
    let kind = rustix::net::SocketType::DGRAM;
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, kind, None)?;
    // SAFETY: the call reads a structure of this layout and writes none.
    unsafe {
        let call = rustix::ioctl::Setter::<SIOCSIFFLAGS, Request>::new(request);
        rustix::ioctl::ioctl(&socket, call)?;
    }
    Ok(())
}

/// Does this when the harness closes its end of the socket, or has ended.
fn on_hang_up(then: impl FnOnce() + Send + 'static) {
    thread::spawn(move || {
        let mut byte = [0];
        while let Ok(1..) | Err(rustix::io::Errno::INTR) = rustix::io::read(io::stdin(), &mut byte)
        {
        }
        then();
    });
}

/// Runs the test to its end; other children that end meanwhile are forgotten. In a variable
/// it may find the id that it is going to have; `None` if it had another one.
fn run(
    job: &[OsString],
    in_group: bool,
    id: Option<(&OsString, u32)>,
) -> io::Result<Option<SupervisorMessage>> {
    let [program, args @ ..] = job else {
        return Err(missing());
    };
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null());
    if let Some((variable, id)) = id {
        command.env(variable, id.to_string());
    }
    if in_group {
        command.process_group(0);
    }
    let start = Instant::now();
    let started = children();
    let mut child = command.spawn()?;
    drop(started);
    if id.is_some_and(|(_, id)| id != child.id()) {
        child.kill()?;
        return Ok(None);
    }
    let status = wait_for(child.id())?;
    let time = start.elapsed();
    let ending = match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Ending::Exit(code),
        (None, Some(signal)) => Ending::Signal(signal),
        (None, None) => Ending::Lost,
    };
    if in_group && let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // It may have no members any more.
        let _ = kill_process_group(group, Signal::KILL);
    }
    Ok(Some(SupervisorMessage {
        ending,
        time,
        left: 0,
    }))
}

/// Waits for the end of a child; other children that end meanwhile are forgotten.
fn wait_for(id: u32) -> io::Result<WaitStatus> {
    loop {
        // Only looked at: it is forgotten under the lock.
        match waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let forgotten = children();
        while let Some((pid, status)) = wait(WaitOptions::NOHANG)? {
            if pid.as_raw_nonzero().get().unsigned_abs() == id {
                return Ok(status);
            }
        }
        drop(forgotten);
    }
}

/// Ends all children, and those that become children thereby; how many that were.
///
/// Whoever has descendants has a child until it is forgotten, which is done between two looks
/// at all processes: one that finds no child has missed nobody.
fn end_all_below(_: &MutexGuard<'static, ()>) -> u64 {
    let own = getpid();
    let mut ended = 0;
    // A test that forks faster than this is not ended; the rounds are.
    for _ in 0..10_000 {
        let children: Vec<Pid> = processes()
            .filter(|process| process.parent == Some(own))
            .map(|process| process.pid)
            .collect();
        if children.is_empty() {
            break;
        }
        for child in children {
            let _ = kill_process(child, Signal::KILL);
            if let Ok(Some(_)) = waitpid(Some(child), WaitOptions::empty()) {
                ended += 1;
            }
        }
    }
    ended
}

struct Process {
    pid: Pid,
    parent: Option<Pid>,
}

/// All processes that `/proc` shows.
fn processes() -> impl Iterator<Item = Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| {
        let pid: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name is in brackets and may contain anything.
        let (_, rest) = stat.rsplit_once(')')?;
        let mut fields = rest.split_ascii_whitespace();
        let parent: i32 = fields.nth(1)?.parse().ok()?;
        Some(Process {
            pid: Pid::from_raw(pid)?,
            parent: Pid::from_raw(parent),
        })
    })
}

/// `VARIABLE PROGRAM ARGS...`: becomes the program, which finds its id in the variable.
fn become_program(args: &[OsString]) -> io::Result<()> {
    let [variable, program, args @ ..] = args else {
        return Err(missing());
    };
    execute(
        Command::new(program)
            .args(args)
            .env(variable, std::process::id().to_string()),
    )
}

/// `PROGRAM ARGS...`: becomes the program, with a third of the others' share of a processor.
fn behind(args: &[OsString]) -> io::Result<()> {
    let [program, args @ ..] = args else {
        return Err(missing());
    };
    rustix::process::nice(5)?;
    execute(Command::new(program).args(args))
}

fn execute(command: &mut Command) -> ! {
    let error = command.exec();
    // Standard input is not the socket any more: the harness sees this exit status.
    tell!(
        "servo-harness: cannot execute {}: {error}",
        command.get_program().display()
    );
    std::process::exit(127)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_the_supervisor_read_back() {
        let said = |ending| SupervisorMessage {
            ending,
            time: Duration::from_nanos(25),
            left: 3,
        };
        let check = |text: &str, ending| {
            assert_eq!(
                SupervisorMessage::parse(text.as_bytes()),
                Some(said(ending))
            )
        };
        check("exit 101 25 3 \n", Ending::Exit(101));
        check("signal 6 25 3 \nmore", Ending::Signal(6));
        check(
            "failed - 25 3 no such file\n",
            Ending::NotStarted("no such file".to_owned()),
        );
        for text in ["", "exit 1", "exit 1 2 3", "exit x 2 3 \n", "odd 1 2 3 \n"] {
            assert_eq!(SupervisorMessage::parse(text.as_bytes()), None, "{text}");
        }
    }
}
