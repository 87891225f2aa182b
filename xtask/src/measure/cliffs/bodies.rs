//! Loops whose bodies are more than calls with arguments: processes, threads, hand-offs.
//!
//! `unsafe`: `fork` of a process whose child does nothing but end.
#![expect(unsafe_code, reason = "fork")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;

use anyhow::{Context, bail};

/// Prepares a body: what it returns makes so many rounds.
///
/// # Errors
///
/// When there is no such body, or something cannot be started.
pub(super) fn prepare(name: &str) -> anyhow::Result<Box<dyn FnMut(u64)>> {
    Ok(match name {
        "fork, exit, wait" => Box::new(|count| forks(count, libc_fork)),
        "fork, exit, wait: by its own number" => Box::new(|count| forks(count, fork_by_number)),
        "start of /bin/true, wait" => Box::new(|count| {
            for _ in 0..count {
                let _ = Command::new("/bin/true").status();
            }
        }),
        "thread, join" => Box::new(|count| {
            for _ in 0..count {
                let _ = thread::spawn(|| {}).join();
            }
        }),
        "hand-off between threads: a channel" => {
            let (ask, asked) = mpsc::sync_channel::<u8>(0);
            let (answer, answered) = mpsc::sync_channel::<u8>(0);
            thread::spawn(move || {
                for byte in asked {
                    if answer.send(byte).is_err() {
                        return;
                    }
                }
            });
            Box::new(move |count| {
                for _ in 0..count {
                    let _ = ask.send(1);
                    let _ = answered.recv();
                }
            })
        }
        "hand-off between threads: a pipe" => {
            let (asked, ask) = std::io::pipe()?;
            let (answered, answer) = std::io::pipe()?;
            thread::spawn(move || echo(asked, answer));
            exchange(ask, answered)
        }
        "hand-off between processes: pipes" => {
            // Each read of a cat is followed by a write.
            let mut cat = Command::new("cat")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .context("starting cat")?;
            let ends = cat.stdin.take().zip(cat.stdout.take());
            let (ask, answered) = ends.context("the pipes of cat")?;
            exchange(ask, answered)
        }
        "request and answer: TCP on the loopback" => {
            let listener = TcpListener::bind(("127.0.0.1", 0))?;
            let address = listener.local_addr()?;
            thread::spawn(move || {
                if let Ok((stream, _)) = listener.accept()
                    && let Ok(other) = stream.try_clone()
                {
                    let _ = stream.set_nodelay(true);
                    echo(stream, other);
                }
            });
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            exchange(stream.try_clone()?, stream)
        }
        _ => bail!("no body `{name}`"),
    })
}

fn forks(count: u64, fork: fn() -> i32) {
    for _ in 0..count {
        let child = fork();
        // SAFETY: the child ends at once, without anything of the C library's; the parent
        // gives no address.
        unsafe {
            match child {
                0 => libc::_exit(0),
                child => libc::waitpid(child, std::ptr::null_mut(), 0),
            };
        }
    }
}

fn libc_fork() -> i32 {
    // SAFETY: the child does nothing but `_exit`, which is safe with threads too.
    unsafe { libc::fork() }
}

fn fork_by_number() -> i32 {
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_fork) as i32 }
}

/// Sends back each byte.
fn echo(mut from: impl Read, mut to: impl Write) {
    let mut byte = [0];
    while from.read_exact(&mut byte).is_ok() && to.write_all(&byte).is_ok() {}
}

/// Sends a byte and waits for it, in each round.
fn exchange(
    mut ask: impl Write + 'static,
    mut answered: impl Read + 'static,
) -> Box<dyn FnMut(u64)> {
    Box::new(move |count| {
        let mut byte = [0];
        for _ in 0..count {
            let _ = ask.write_all(&byte);
            let _ = answered.read_exact(&mut byte);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::catalog::{self, Body};
    use super::*;

    #[test]
    fn each_body_of_the_catalog_can_be_run() {
        for one in catalog::loops() {
            if let Body::Program(name) = one.body {
                prepare(name).unwrap()(1);
            }
        }
    }
}
