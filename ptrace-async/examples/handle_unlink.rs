//! The inode of each file that a command deletes.
//!
//! ```text
//! cargo run --example handle_unlink -- rm notes.txt
//! ```
//!
//! The worked example of libptrace (Navarro Leija, 2022, section 5.2.1). After the `unlink`
//! the inode cannot be read any more, so a `newfstatat` is injected before it. It runs in
//! the tracee, where the path leads to the same file as for the `unlink`. The function has
//! six steps and two waits, in the order in which they happen.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use ptrace_async::filter::{Filter, Rule};
use ptrace_async::invocation::Invocation;
use ptrace_async::memory::Memory;
use ptrace_async::runtime::{
    Interception, Options, Posthook, Prehook, Program, Runtime, Started, Stop, Tracee,
};
use ptrace_async::syscall::error_of;

/// A file that was deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Deleted {
    /// The path as the program gave it.
    pub(crate) path: Vec<u8>,
    /// Which file that was.
    pub(crate) inode: u64,
}

/// Runs a program to its end; what it deleted.
///
/// # Errors
/// When it cannot be traced.
pub(crate) fn deletions(program: &Program) -> io::Result<Vec<Deleted>> {
    let filter = Filter::build(512, |nr| match i64::from(nr) {
        libc::SYS_unlink | libc::SYS_unlinkat => Rule::Trace,
        _ => Rule::Allow,
    });
    let runtime = Runtime::new(Options {
        interception: Interception::Seccomp(filter),
        exit_kill: true,
    });
    runtime.spawn(program)?;
    let deleted = Rc::new(RefCell::new(Vec::new()));
    let list = deleted.clone();
    runtime.run(move |tracee| follow(tracee, list.clone()))?;
    Ok(deleted.take())
}

async fn follow(tracee: Tracee<Started>, deleted: Rc<RefCell<Vec<Deleted>>>) {
    let mut running = tracee.resume();
    loop {
        let stop = match running.stop().await {
            Stop::Prehook(call) => match handle_unlink(call).await {
                Ok((done, file)) => {
                    deleted.borrow_mut().extend(file);
                    Stop::Posthook(done)
                }
                Err(other) => other,
            },
            other => other,
        };
        match stop.resume() {
            Some(next) => running = next,
            None => return,
        }
    }
}

/// Follows one `unlink` or `unlinkat`; `Err` is the stop that came instead of
/// its end.
async fn handle_unlink(
    unlink: Tracee<Prehook>,
) -> Result<(Tracee<Posthook>, Option<Deleted>), Stop> {
    let Invocation { nr, args } = unlink.invocation();
    let (directory, path) = if nr == libc::SYS_unlinkat as u64 {
        (args[0], args[1])
    } else {
        (libc::AT_FDCWD as u64, args[0])
    };
    let name = unlink.read_c_string(path, libc::PATH_MAX as usize);

    let (unlink, buffer) = unlink.scratch(size_of::<libc::stat>()).await?;
    let Ok(buffer) = buffer else {
        return Ok((unlink.posthook().await?, None));
    };
    let stat = Invocation {
        nr: libc::SYS_newfstatat as u64,
        args: [
            directory,
            path,
            buffer.address(),
            libc::AT_SYMLINK_NOFOLLOW as u64,
            0,
            0,
        ],
    };
    let (unlink, found) = unlink.inject(stat).await?;
    let inode_at = buffer.address() + std::mem::offset_of!(libc::stat, st_ino) as u64;
    let inode = unlink.read_value::<u64>(inode_at);

    let done = unlink.posthook().await?;
    let deleted = match (name, inode) {
        (Ok(path), Ok(inode)) if error_of(found).is_none() && done.value() == 0 => {
            Some(Deleted { path, inode })
        }
        _ => None,
    };
    Ok((done, deleted))
}

fn main() -> io::Result<()> {
    let argv: Vec<_> = std::env::args_os().skip(1).collect();
    for Deleted { path, inode } in deletions(&Program::new(&argv)?)? {
        eprintln!("{inode} {}", String::from_utf8_lossy(&path));
    }
    Ok(())
}
