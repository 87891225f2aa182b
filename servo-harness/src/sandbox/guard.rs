//! Runs commands of the harness, such as builds, so that they end with it.
//!
//! This program stands between the harness and the command ([`GUARD`]), as around a test. When
//! the socket closes, the command and all processes that it started are killed. The socket also
//! closes when the user interrupts the harness. Otherwise the command runs as if it had been
//! called directly: it has the process group of the harness, so it gets signals from the
//! terminal, and processes that it leaves behind, such as compiler servers, stay.

use std::io::{self, ErrorKind, Read as _};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use anyhow::anyhow;
use rustix::event::{PollFd, PollFlags, poll};

use super::Ending;
use super::inside::{GUARD, SupervisorMessage};
use crate::platform::interrupt::Interrupt;

/// The part of a command's output that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Take {
    /// Nothing: its reports are for nobody, what it says is for the user.
    Nothing,
    /// Its standard output; its standard error is for the user.
    Reports,
    /// Both.
    All,
}

/// Runs a command to its end, or to that of this process; it has no input.
///
/// # Errors
/// If it cannot be started, or is [`Interrupted`](crate::platform::interrupt::Interrupted).
pub(crate) fn output(
    command: &Command,
    take: Take,
    interrupt: &Interrupt,
) -> anyhow::Result<Output> {
    let (mut ours, theirs) = UnixStream::pair()?;
    let mut guard = Command::new("/proc/self/exe");
    guard
        .arg(GUARD)
        .arg(command.get_program())
        .args(command.get_args())
        .stdin(OwnedFd::from(theirs))
        .stdout(match take {
            Take::Nothing => Stdio::null(),
            Take::Reports | Take::All => Stdio::piped(),
        })
        .stderr(match take {
            Take::Nothing | Take::Reports => Stdio::inherit(),
            Take::All => Stdio::piped(),
        });
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => guard.env(name, value),
            None => guard.env_remove(name),
        };
    }
    if let Some(dir) = command.get_current_dir() {
        guard.current_dir(dir);
    }
    let child = guard.spawn()?;
    // It holds the other end of the socket.
    drop(guard);
    let output = wait(child, &ours, interrupt)?;
    interrupt.check()?;
    ours.set_nonblocking(true)?;
    let mut said = Vec::new();
    match ours.read_to_end(&mut said) {
        // Of a guard that was killed somebody may still have the other end.
        Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error.into()),
        _ => {}
    }
    match SupervisorMessage::parse(&said).map(|said| said.ending) {
        Some(Ending::NotStarted(why)) => Err(anyhow!(why)),
        _ => Ok(output),
    }
}

/// Waits for the guard's end, and has it end the command if there is an interrupt.
fn wait(child: Child, guard: &UnixStream, interrupt: &Interrupt) -> io::Result<Output> {
    let Some(interrupted) = interrupt.fd() else {
        return child.wait_with_output();
    };
    let (waiting, ended) = UnixStream::pair()?;
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut fds = [
                PollFd::from_borrowed_fd(interrupted, PollFlags::IN),
                PollFd::new(&ended, PollFlags::IN),
            ];
            while matches!(poll(&mut fds, None), Err(rustix::io::Errno::INTR)) {}
            if interrupt.is_set() {
                // If that fails the guard has ended.
                let _ = guard.shutdown(Shutdown::Write);
            }
        });
        let output = child.wait_with_output();
        drop(waiting);
        output
    })
}
