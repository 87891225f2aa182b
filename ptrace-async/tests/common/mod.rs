//! The common parts of the runtime's tests: programs to trace, and a record of stops.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use ptrace_async::event::Tid;
use ptrace_async::filter::{Filter, Rule};
use ptrace_async::runtime::{
    Interception, Options, Program, Runtime, SpawnKind, Started, Stop, Tracee,
};

/// A stop, or an end, as a plain value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    Started(Option<Tid>),
    Prehook(i64),
    Posthook(i64),
    Exec(Tid),
    Spawned(SpawnKind, Tid),
    PreExit(i32),
    Signal(i32),
    GroupStop(i32),
    Interrupted,
    Exited(i32),
    Killed(i32),
    Superseded,
}

impl Seen {
    pub(crate) fn of(stop: &Stop) -> Self {
        match stop {
            Stop::Prehook(t) => Self::Prehook(t.invocation().nr.cast_signed()),
            Stop::Posthook(t) => Self::Posthook(t.value()),
            Stop::Exec(t) => Self::Exec(t.former()),
            Stop::Spawned(t) => Self::Spawned(t.kind(), t.child()),
            Stop::PreExit(t) => Self::PreExit(t.status()),
            Stop::Signal(t) => Self::Signal(t.signal()),
            Stop::GroupStop(t) => Self::GroupStop(t.signal()),
            Stop::Interrupted(_) => Self::Interrupted,
            Stop::Exited(status) => Self::Exited(*status),
            Stop::Killed { signal, .. } => Self::Killed(*signal),
            Stop::Superseded => Self::Superseded,
        }
    }
}

/// All stops of all tasks in the order of arrival.
pub(crate) type Log = Rc<RefCell<Vec<(Tid, Seen)>>>;

pub(crate) fn filter(traced: &'static [i64]) -> Filter {
    Filter::build(512, |nr| {
        if traced.contains(&i64::from(nr)) {
            Rule::Trace
        } else {
            Rule::Allow
        }
    })
}

pub(crate) fn options(interception: Interception) -> Options {
    Options {
        interception,
        exit_kill: true,
    }
}

pub(crate) fn seccomp(traced: &'static [i64]) -> Options {
    options(Interception::Seccomp(filter(traced)))
}

/// Follows a task and notes everything; the exit of each call is asked for.
pub(crate) async fn note(tracee: Tracee<Started>, log: Log) {
    log.borrow_mut()
        .push((tracee.tid(), Seen::Started(tracee.parent())));
    let mut tid = tracee.tid();
    let mut running = tracee.resume();
    loop {
        let stop = running.stop().await;
        // An execve may have changed it; an end has none any more.
        tid = tid_of(&stop).unwrap_or(tid);
        log.borrow_mut().push((tid, Seen::of(&stop)));
        let next = match stop {
            Stop::Prehook(tracee) => Some(tracee.resume_to_exit()),
            other => other.resume(),
        };
        match next {
            Some(next) => running = next,
            None => return,
        }
    }
}

fn tid_of(stop: &Stop) -> Option<Tid> {
    Some(match stop {
        Stop::Prehook(t) => t.tid(),
        Stop::Posthook(t) => t.tid(),
        Stop::Exec(t) => t.tid(),
        Stop::Spawned(t) => t.tid(),
        Stop::PreExit(t) => t.tid(),
        Stop::Signal(t) => t.tid(),
        Stop::GroupStop(t) => t.tid(),
        Stop::Interrupted(t) => t.tid(),
        Stop::Exited(_) | Stop::Killed { .. } | Stop::Superseded => return None,
    })
}

/// Runs a program to its end; what was seen, and the first task.
pub(crate) fn record(argv: &[&str], options: Options) -> (Tid, Vec<(Tid, Seen)>) {
    let runtime = Runtime::new(options);
    let first = runtime
        .spawn(&Program::new(argv).expect("no NUL"))
        .expect("ptrace is allowed");
    let log = Log::default();
    let shared = log.clone();
    runtime
        .run(move |tracee| note(tracee, shared.clone()))
        .expect("waiting works");
    (first, log.take())
}

pub(crate) fn count(log: &[(Tid, Seen)], test: impl Fn(&Seen) -> bool) -> usize {
    log.iter().filter(|(_, seen)| test(seen)).count()
}

/// Sends a signal, by the tool of that name.
///
/// The tool is started on another thread: the calling one may be a tracer,
/// whose wait would take the tool's end for a tracee's.
pub(crate) fn kill(tid: Tid, signal: &str) {
    assert!(tid > 0, "zero and below are groups");
    let arguments = [format!("-{signal}"), tid.to_string()];
    let status = std::thread::spawn(move || Command::new("kill").args(arguments).status())
        .join()
        .expect("no panic");
    assert!(status.is_ok_and(|status| status.success()));
}

/// A C program, compiled.
pub(crate) struct Built {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

impl Built {
    pub(crate) fn path(&self) -> &str {
        self.path.to_str().expect("UTF-8")
    }
}

/// Compiles a C program; the usual headers are there.
pub(crate) fn c(source: &str, flags: &[&str]) -> Built {
    let dir = tempfile::tempdir().expect("directory");
    let file = dir.path().join("program.c");
    let path = dir.path().join("program");
    std::fs::write(&file, format!("{HEADERS}\n{source}")).expect("written");
    compile(&file, &path, flags);
    Built { _dir: dir, path }
}

fn compile(file: &Path, path: &Path, flags: &[&str]) {
    let output = Command::new("gcc")
        .args(["-O1", "-w", "-pthread", "-o"])
        .args([path, file])
        .args(flags)
        .output()
        .expect("gcc is installed");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

const HEADERS: &str = "
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
";
