//! Counts the syscall stops of a command.
use std::cell::Cell;
use std::rc::Rc;

use ptrace_async::filter::{Filter, Rule};
use ptrace_async::runtime::{Interception, Options, Program, Runtime, Stop};

fn main() -> std::io::Result<()> {
    let argv: Vec<_> = std::env::args_os().skip(1).collect();
    let exits = std::env::var_os("EXITS").is_some();
    let filter = Filter::build(470, |nr| match i64::from(nr) {
        libc::SYS_openat | libc::SYS_newfstatat | libc::SYS_readlink | libc::SYS_access => {
            Rule::Trace
        }
        libc::SYS_execve => Rule::Trace,
        _ => Rule::Allow,
    });
    let runtime = Runtime::new(Options {
        interception: Interception::Seccomp(filter),
        exit_kill: true,
    });
    runtime.spawn(&Program::new(&argv)?)?;
    let handle = runtime.handle();
    let calls = Rc::new(Cell::new(0_u64));
    let counter = calls.clone();
    runtime.run(move |tracee| {
        let calls = counter.clone();
        async move {
            let mut running = tracee.resume();
            loop {
                running = match running.stop().await {
                    Stop::Prehook(t) => {
                        calls.set(calls.get() + 1);
                        if exits {
                            t.resume_to_exit()
                        } else {
                            t.resume()
                        }
                    }
                    Stop::Posthook(t) => t.resume(),
                    Stop::Exec(t) => t.resume(),
                    Stop::Spawned(t) => t.resume(),
                    Stop::PreExit(t) => t.resume(),
                    Stop::Signal(t) => t.deliver(),
                    Stop::GroupStop(t) => t.listen(),
                    Stop::Interrupted(t) => t.resume(),
                    Stop::Exited(_) | Stop::Killed { .. } | Stop::Superseded => return,
                }
            }
        }
    })?;
    eprintln!("{} calls, {} stops", calls.get(), handle.stops());
    Ok(())
}
