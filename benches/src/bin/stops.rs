//! The cost of a stop: a loop of failing `readlink` calls, plainly and traced,
//! alone and two at a time.
//!
//! ```text
//! cargo run --release -p benches --bin stops [CALLS] [ROUNDS]
//! ```
//!
//! One line per case: the least time of all rounds, in microseconds a call (of
//! each of the loops that run at the same time), and the tracer's stops.

use std::ffi::OsString;
use std::io;
use std::process::Command;
use std::time::{Duration, Instant};

use ptrace_async::filter::{Filter, Rule};
use ptrace_async::runtime::{Interception, Options, Program, Runtime, Started, Tracee};

const LOOP: &str = "--loop";

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1).peekable();
    let looping = arguments.next_if(|word| word == LOOP).is_some();
    let mut number = |usual: u32| {
        let word = arguments.next();
        word.and_then(|word| word.parse().ok()).unwrap_or(usual)
    };
    let calls = number(50_000);
    if looping {
        for _ in 0..calls {
            let _ = std::fs::read_link("/no");
        }
        return Ok(());
    }
    let rounds = number(5);
    for (name, script) in [
        ("alone", "\"$0\" --loop \"$1\""),
        ("two", "\"$0\" --loop \"$1\" & \"$0\" --loop \"$1\"; wait"),
    ] {
        let argv: Vec<OsString> = vec![
            "sh".into(),
            "-c".into(),
            script.into(),
            std::env::current_exe()?.into(),
            calls.to_string().into(),
        ];
        let (mut plain, mut traced, mut stops) = (Duration::MAX, Duration::MAX, 0);
        for _ in 0..rounds {
            let start = Instant::now();
            Command::new(&argv[0]).args(&argv[1..]).status()?;
            plain = plain.min(start.elapsed());
            let start = Instant::now();
            stops = trace(&argv)?;
            traced = traced.min(start.elapsed());
        }
        let each = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(calls);
        println!(
            "{name}: plain {:.2} us, traced {:.2} us, {stops} stops",
            each(plain),
            each(traced)
        );
    }
    Ok(())
}

fn trace(argv: &[OsString]) -> io::Result<u64> {
    let filter = Filter::build(512, |nr| match i64::from(nr) {
        libc::SYS_readlink | libc::SYS_sched_getaffinity | libc::SYS_sched_setaffinity => {
            Rule::Trace
        }
        _ => Rule::Allow,
    });
    let runtime = Runtime::new(Options {
        interception: Interception::Seccomp(filter),
        exit_kill: true,
    });
    runtime.spawn(&Program::new(argv)?)?;
    let handle = runtime.handle();
    runtime.run(async |tracee: Tracee<Started>| {
        let mut running = tracee.resume();
        while let Some(next) = running.stop().await.resume() {
            running = next;
        }
    })?;
    Ok(handle.stops())
}
