//! A small strace: every syscall of a command and of all that it starts.
//!
//! ```text
//! cargo run --example strace -- ls /
//! ```
//!
//! A line is printed when a call has returned, so that its outputs are there;
//! lines of several tasks begin with the task's id.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

use ptrace_async::filter::{Filter, Rule};
use ptrace_async::runtime::{Interception, Options, Program, Runtime, Started, Stop, Tracee};
use ptrace_async::syscall::Decoded;

/// Where the lines go; shared by the functions of all tasks.
pub(crate) type Output = Rc<RefCell<dyn Write>>;

/// Runs a program to its end and prints what it does.
///
/// # Errors
/// When it cannot be traced.
pub(crate) fn strace(program: &Program, output: &Output) -> io::Result<()> {
    let runtime = Runtime::new(Options {
        interception: Interception::Seccomp(Filter::build(512, |_| Rule::Trace)),
        exit_kill: true,
    });
    runtime.spawn(program)?;
    let output = output.clone();
    runtime.run(move |tracee| follow(tracee, output.clone()))
}

async fn follow(tracee: Tracee<Started>, output: Output) {
    let mut running = tracee.resume();
    loop {
        let tid = running.tid();
        // The reader of our output may have gone; the command still runs on.
        let print = |line: &dyn std::fmt::Display| {
            let _ = writeln!(output.borrow_mut(), "[{tid}] {line}");
        };
        let mut stop = running.stop().await;
        if let Stop::Prehook(call) = stop {
            let invocation = call.invocation();
            // The arguments of an execve are gone when it returns.
            let entry = Decoded::at_entry(invocation, &call);
            stop = match call.posthook().await {
                Ok(done) => {
                    print(&Decoded::at_exit(invocation, done.value(), &done));
                    Stop::Posthook(done)
                }
                Err(other) => {
                    print(&entry);
                    other
                }
            };
        }
        match &stop {
            Stop::Signal(tracee) => print(&format_args!("--- signal {} ---", tracee.signal())),
            Stop::Exited(status) => print(&format_args!("+++ exited with {status} +++")),
            Stop::Killed { signal, .. } => print(&format_args!("+++ killed by {signal} +++")),
            _ => {}
        }
        match stop.resume() {
            Some(next) => running = next,
            None => return,
        }
    }
}

fn main() -> io::Result<()> {
    let argv: Vec<_> = std::env::args_os().skip(1).collect();
    let output: Output = Rc::new(RefCell::new(io::stderr()));
    strace(&Program::new(&argv)?, &output)
}
