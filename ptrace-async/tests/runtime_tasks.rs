//! Real process trees: the stops that come, even when tasks die at any moment.

mod common;

use std::cell::Cell;
use std::rc::Rc;

use common::{Seen, c, count, record, seccomp};
use ptrace_async::runtime::{Interception, Program, Runtime, SpawnKind, Started, Stop, Tracee};

#[test]
fn vfork_and_posix_spawn_report_the_child_and_its_end() {
    let program = c(
        r#"int main() {
            int status;
            pid_t child = vfork();
            if (child == 0) _exit(3);
            waitpid(child, &status, 0);
            if (WEXITSTATUS(status) != 3) return 1;
            char *argv[] = {"true", 0};
            if (posix_spawnp(&child, "true", 0, 0, argv, environ)) return 2;
            waitpid(child, &status, 0);
            return status;
        }"#,
        &[],
    );
    let (first, log) = record(&[program.path()], seccomp(&[]));
    let children: Vec<_> = log
        .iter()
        .filter_map(|(_, seen)| match seen {
            Seen::Spawned(kind, child) => Some((*kind, *child)),
            _ => None,
        })
        .collect();
    assert_eq!(children.len(), 2, "{log:?}");
    for (kind, child) in children {
        assert_eq!(kind, SpawnKind::Vfork);
        let place = |entry| log.iter().position(|seen| *seen == entry);
        let announced = place((first, Seen::Spawned(kind, child)));
        let started = place((child, Seen::Started(Some(first))));
        assert!(announced < started && announced.is_some(), "{log:?}");
    }
    assert_eq!(count(&log, |seen| *seen == Seen::Exited(3)), 1);
    assert_eq!(log.last(), Some(&(first, Seen::Exited(0))));
}

#[test]
fn exec_from_a_thread_supersedes_the_leader_and_ends_the_others() {
    let program = c(
        r#"void *sleeper(void *_) { for (;;) pause(); }
        void *execer(void *_) { execl("/bin/true", "true", (char *)0); return 0; }
        int main() {
            pthread_t a, b;
            pthread_create(&a, 0, sleeper, 0);
            pthread_create(&b, 0, execer, 0);
            for (;;) pause();
        }"#,
        &[],
    );
    let (first, log) = record(&[program.path()], seccomp(&[]));
    let threads: Vec<_> = log
        .iter()
        .filter_map(|(_, seen)| match seen {
            Seen::Spawned(_, child) => Some(*child),
            _ => None,
        })
        .collect();
    assert_eq!(threads.len(), 2, "{log:?}");
    assert!(log.contains(&(first, Seen::Superseded)), "{log:?}");
    assert!(log.contains(&(first, Seen::Exec(threads[1]))), "{log:?}");
    let sleeper_ended = log
        .iter()
        .any(|(tid, seen)| *tid == threads[0] && matches!(seen, Seen::Exited(_) | Seen::Killed(_)));
    assert!(sleeper_ended, "{log:?}");
    assert_eq!(log.last(), Some(&(first, Seen::Exited(0))));
}

/// Kills the tracee in the first stop for which `choose` holds, and then goes
/// on as if nothing had happened.
async fn kill_in_stop(tracee: Tracee<Started>, choose: fn(&Stop) -> bool, ends: Rc<Cell<u32>>) {
    let pid = tracee.tgid();
    let mut running = tracee.resume();
    loop {
        let stop = running.stop().await;
        if choose(&stop) {
            common::kill(pid, "KILL");
        }
        match &stop {
            Stop::Prehook(t) => drop(t.registers()),
            Stop::Killed { signal: 9, .. } => ends.set(ends.get() + 1),
            _ => {}
        }
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

fn killed_in(choose: fn(&Stop) -> bool) -> u32 {
    let runtime = Runtime::new(seccomp(&[libc::SYS_openat]));
    let script = "kill -USR1 $$; cat /dev/null & wait; cat /dev/null";
    let script = format!("trap : USR1; {script}; kill -KILL $$");
    let program = Program::new(&["sh", "-c", &script]).expect("no NUL");
    runtime.spawn(&program).expect("ptrace is allowed");
    let ends = Rc::new(Cell::new(0));
    let counter = ends.clone();
    runtime
        .run(move |tracee| kill_in_stop(tracee, choose, counter.clone()))
        .expect("waiting works");
    ends.get()
}

#[test]
fn a_tracee_killed_in_any_stop_is_reported_as_killed() {
    assert!(killed_in(|stop| matches!(stop, Stop::Prehook(_))) > 0);
    assert!(killed_in(|stop| matches!(stop, Stop::Posthook(_))) > 0);
    assert!(killed_in(|stop| matches!(stop, Stop::Exec(_))) > 0);
    assert!(killed_in(|stop| matches!(stop, Stop::Spawned(_))) > 0);
    assert!(killed_in(|stop| matches!(stop, Stop::Signal(_))) > 0);
    // Too late to change the status of a task on its way out.
    killed_in(|stop| matches!(stop, Stop::PreExit(_)));
}

#[test]
fn a_parent_killed_while_it_forks_leaves_no_child_behind_in_a_stop() {
    // How often the event is lost depends on the moment; none may hang.
    let program = c(
        r#"int main() {
            for (int round = 0; round < 40; round++) {
                int ready[2];
                pipe(ready);
                pid_t forker = fork();
                if (forker < 0) return 1;
                if (forker == 0) {
                    write(ready[1], "x", 1);
                    for (;;) { if (fork() == 0) _exit(0); waitpid(-1, 0, WNOHANG); }
                }
                char byte;
                read(ready[0], &byte, 1);
                for (int i = 0; i < round * 3; i++) sched_yield();
                kill(forker, SIGKILL);
                waitpid(forker, 0, 0);
                close(ready[0]); close(ready[1]);
            }
            return 0;
        }"#,
        &[],
    );
    let (first, log) = record(&[program.path()], seccomp(&[]));
    assert!(log.contains(&(first, Seen::Exited(0))));
    let started = count(&log, |seen| matches!(seen, Seen::Started(_)));
    let ended = count(&log, |seen| {
        matches!(seen, Seen::Exited(_) | Seen::Killed(_))
    });
    assert_eq!(started, ended);
}

#[test]
fn an_announced_child_that_is_killed_before_its_first_stop_has_a_function() {
    let runtime = Runtime::new(seccomp(&[]));
    let program = Program::new(&["sh", "-c", "(exit 4); (exit 5)"]).expect("no NUL");
    runtime.spawn(&program).expect("ptrace is allowed");
    let log = common::Log::default();
    let shared = log.clone();
    runtime
        .run(move |tracee| {
            let log = shared.clone();
            async move {
                log.borrow_mut()
                    .push((tracee.tid(), Seen::Started(tracee.parent())));
                let tid = tracee.tid();
                let mut running = tracee.resume();
                loop {
                    let stop = running.stop().await;
                    log.borrow_mut().push((tid, Seen::of(&stop)));
                    if let Stop::Spawned(parent) = &stop {
                        common::kill(parent.child(), "KILL");
                    }
                    match stop.resume() {
                        Some(next) => running = next,
                        None => return,
                    }
                }
            }
        })
        .expect("waiting works");
    let log = log.take();
    let spawned = count(&log, |seen| matches!(seen, Seen::Spawned(..)));
    assert!(spawned > 0, "{log:?}");
    assert_eq!(
        count(&log, |seen| *seen == Seen::Killed(9)),
        spawned,
        "{log:?}"
    );
}

#[test]
fn orphans_and_daemons_are_followed_to_their_end() {
    let program = c(
        r#"int main() {
            if (fork() == 0) {
                setsid();
                pid_t parent = getpid();
                if (fork() == 0) {
                    while (getppid() == parent) sched_yield();
                    _exit(7);
                }
                _exit(0);
            }
            return 0;
        }"#,
        &[],
    );
    let (_, log) = record(&[program.path()], seccomp(&[]));
    assert_eq!(count(&log, |seen| *seen == Seen::Exited(7)), 1, "{log:?}");
    assert_eq!(count(&log, |seen| *seen == Seen::Exited(0)), 2, "{log:?}");
}

#[test]
fn job_control_looks_to_the_parent_as_without_a_tracer() {
    let program = c(
        r#"int main() {
            int status, go[2];
            char byte;
            pipe(go);
            pid_t child = fork();
            if (child == 0) { raise(SIGSTOP); read(go[0], &byte, 1); _exit(5); }
            if (waitpid(child, &status, WUNTRACED) != child) return 1;
            if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGSTOP) return 2;
            kill(child, SIGCONT);
            if (waitpid(child, &status, WCONTINUED) != child) return 3;
            if (!WIFCONTINUED(status)) return 4;
            write(go[1], "x", 1);
            if (waitpid(child, &status, 0) != child) return 5;
            return WIFEXITED(status) && WEXITSTATUS(status) == 5 ? 0 : 6;
        }"#,
        &[],
    );
    let (first, log) = record(&[program.path()], seccomp(&[]));
    let stops = count(&log, |seen| *seen == Seen::GroupStop(libc::SIGSTOP));
    assert_eq!(stops, 1, "{log:?}");
    assert_eq!(log.last(), Some(&(first, Seen::Exited(0))), "{log:?}");
}

#[test]
fn a_thousand_short_lived_processes_are_all_seen() {
    let program = c(
        r#"int main() {
            for (int i = 0; i < 1000; i++) {
                pid_t child = fork();
                if (child == 0) _exit(9);
                if (i % 2) waitpid(child, 0, 0);
            }
            while (wait(0) > 0) {}
            return 0;
        }"#,
        &[],
    );
    let (_, log) = record(&[program.path()], seccomp(&[]));
    assert_eq!(count(&log, |seen| *seen == Seen::Exited(9)), 1000);
}

#[test]
fn two_hundred_threads_are_all_seen() {
    let program = c(
        r#"pthread_barrier_t all;
        void *one(void *_) { pthread_barrier_wait(&all); syscall(SYS_getppid); return 0; }
        int main() {
            pthread_t threads[200];
            pthread_barrier_init(&all, 0, 200);
            for (int i = 0; i < 200; i++) if (pthread_create(&threads[i], 0, one, 0)) return 1;
            for (int i = 0; i < 200; i++) pthread_join(threads[i], 0);
            return 0;
        }"#,
        &[],
    );
    let (first, log) = record(&[program.path()], seccomp(&[libc::SYS_getppid]));
    let calls = count(&log, |seen| *seen == Seen::Prehook(libc::SYS_getppid));
    assert_eq!(calls, 200);
    assert_eq!(count(&log, |seen| *seen == Seen::Exited(0)), 201);
    assert_eq!(log.last(), Some(&(first, Seen::Exited(0))));
}

const STEPS: &str = r#"int main() {
    int status;
    open("/no/such/file", O_RDONLY);
    pid_t child = fork();
    if (child == 0) { syscall(SYS_getppid); open("/dev/null", O_RDONLY); _exit(0); }
    waitpid(child, &status, 0);
    execl("/bin/true", "true", (char *)0);
}"#;

/// The observations without the ids and values that differ from run to run.
fn shape(log: &[(i32, Seen)]) -> Vec<Vec<String>> {
    let mut tasks: Vec<i32> = Vec::new();
    for (tid, _) in log {
        if !tasks.contains(tid) {
            tasks.push(*tid);
        }
    }
    let of = |task: i32| {
        log.iter()
            .filter(|(tid, _)| *tid == task)
            .map(|(_, seen)| match seen {
                Seen::Started(parent) => format!("started {}", parent.is_some()),
                Seen::Spawned(kind, _) => format!("spawned {kind:?}"),
                Seen::Exec(_) => "exec".to_owned(),
                Seen::Posthook(value) if *value > 100 => "posthook".to_owned(),
                other => format!("{other:?}"),
            })
            .collect()
    };
    tasks.into_iter().map(of).collect()
}

#[test]
fn without_a_filter_the_same_stops_are_seen() {
    const CALLS: &[i64] = &[
        libc::SYS_openat,
        libc::SYS_getppid,
        libc::SYS_execve,
        libc::SYS_clone,
        libc::SYS_wait4,
    ];
    let program = c(STEPS, &[]);
    let (_, filtered) = record(&[program.path()], seccomp(CALLS));
    let every = Interception::Ptrace(common::filter(CALLS));
    let (_, unfiltered) = record(&[program.path()], common::options(every));
    // The child may have ended when its parent begins to wait for it, or not.
    let without_its_end = |log| {
        let mut tasks = shape(log);
        for task in &mut tasks {
            task.retain(|seen| *seen != format!("Signal({})", libc::SIGCHLD));
        }
        tasks
    };
    assert_eq!(without_its_end(&filtered), without_its_end(&unfiltered));
    let exits = count(&filtered, |seen| matches!(seen, Seen::Posthook(_)));
    assert!(exits > 5, "{filtered:?}");
}

#[test]
fn a_static_program_is_seen_like_any_other() {
    let program = c(STEPS, &["-static"]);
    let calls: &[i64] = &[libc::SYS_openat, libc::SYS_getppid];
    let (first, log) = record(&[program.path()], seccomp(calls));
    let parents = count(&log, |seen| *seen == Seen::Prehook(libc::SYS_getppid));
    assert_eq!(parents, 1, "{log:?}");
    assert_eq!(log.last(), Some(&(first, Seen::Exited(0))));
}

#[test]
fn a_tracee_with_its_own_filter_gets_that_filters_answers() {
    let program = c(
        r#"volatile int trapped;
        void on_trap(int _, siginfo_t *info, void *context) { trapped = info->si_syscall; }
        void *other(void *started) {
            pthread_barrier_wait(started);
            pthread_barrier_wait(started);
            errno = 0;
            return (void *)(long)(access("/", F_OK) == -1 && errno == EBUSY);
        }
        #define RULE(nr, action) BPF_JUMP(BPF_JMP|BPF_JEQ|BPF_K, nr, 0, 1), \
            BPF_STMT(BPF_RET|BPF_K, action)
        int main() {
            struct sock_filter code[] = {
                BPF_STMT(BPF_LD|BPF_W|BPF_ABS, offsetof(struct seccomp_data, nr)),
                RULE(SYS_access, SECCOMP_RET_ERRNO | EBUSY),
                RULE(SYS_getpriority, SECCOMP_RET_TRAP),
                RULE(SYS_sysinfo, SECCOMP_RET_TRACE),
                BPF_STMT(BPF_RET|BPF_K, SECCOMP_RET_ALLOW),
            };
            struct sock_fprog program = {sizeof code / sizeof *code, code};
            struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
            sigaction(SIGSYS, &action, 0);
            pthread_barrier_t started;
            pthread_barrier_init(&started, 0, 2);
            pthread_t thread;
            pthread_create(&thread, 0, other, &started);
            pthread_barrier_wait(&started);
            prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program))
                return 1;
            pthread_barrier_wait(&started);
            void *denied;
            pthread_join(thread, &denied);
            if (!denied) return 2;
            syscall(SYS_getpriority, 0, 0);
            if (trapped != SYS_getpriority) return 3;
            char info[256];
            if (syscall(SYS_sysinfo, info) != -1 || errno != ENOSYS) return 4;
            // Both filters name this call: the tracer's filter stops it.
            return syscall(SYS_getppid) > 0 ? 0 : 5;
        }"#,
        &[],
    );
    let calls: &[i64] = &[libc::SYS_access, libc::SYS_getppid];
    let (first, log) = record(&[program.path()], seccomp(calls));
    assert_eq!(log.last(), Some(&(first, Seen::Exited(0))), "{log:?}");
    let every = Interception::Ptrace(common::filter(&[libc::SYS_getppid]));
    let (first, log) = record(&[program.path()], common::options(every));
    assert_eq!(log.last(), Some(&(first, Seen::Exited(0))), "{log:?}");
}

#[test]
fn a_function_that_ends_early_leaves_its_task_running() {
    let dir = tempfile::tempdir().expect("directory");
    let told = dir.path().join("told");
    let script = format!(
        "cat /dev/null; sh -c 'kill -TERM $$'; echo $? > {}; exit 3",
        told.display()
    );
    // Functions end in their first prehook, or in their first signal stop.
    for calls in [&[libc::SYS_openat] as &'static [i64], &[]] {
        let runtime = Runtime::new(seccomp(calls));
        let program = Program::new(&["sh", "-c", &script]).expect("no NUL");
        runtime.spawn(&program).expect("ptrace is allowed");
        runtime
            .run(async |tracee: Tracee<Started>| {
                let mut running = tracee.resume();
                loop {
                    match running.stop().await {
                        Stop::Prehook(_) | Stop::Signal(_) => return,
                        other => match other.resume() {
                            Some(next) => running = next,
                            None => return,
                        },
                    }
                }
            })
            .expect("waiting works");
        assert_eq!(std::fs::read_to_string(&told).expect("written"), "143\n");
        std::fs::remove_file(&told).expect("removed");
    }
}

#[test]
fn a_go_program_and_its_threads_are_seen() {
    if std::process::Command::new("go")
        .arg("version")
        .output()
        .is_err()
    {
        return;
    }
    // The tool is itself a static Go program.
    let (first, log) = record(&["go", "version"], seccomp(&[libc::SYS_openat]));
    assert!(count(&log, |seen| matches!(seen, Seen::Spawned(..))) > 0);
    assert_eq!(log.last(), Some(&(first, Seen::Exited(0))), "{log:?}");
}

#[test]
fn a_script_is_executed_by_its_interpreter_once() {
    let dir = tempfile::tempdir().expect("directory");
    let script = dir.path().join("script");
    // Another process writes the file. A child that a concurrent test starts would inherit
    // our descriptor, and the execve would fail with ETXTBSY.
    let write = "printf '#!/bin/sh\\nexit 8\\n' > \"$0\"; chmod 755 \"$0\"";
    let written = std::process::Command::new("sh")
        .args(["-c", write])
        .arg(&script)
        .status();
    assert!(written.is_ok_and(|status| status.success()));
    let path = script.to_str().expect("UTF-8");
    let (first, log) = record(&[path], seccomp(&[libc::SYS_execve]));
    assert_eq!(log.last(), Some(&(first, Seen::Exited(8))), "{log:?}");
    assert_eq!(count(&log, |seen| matches!(seen, Seen::Exec(_))), 1);
}

#[test]
fn foreign_calls_stop_and_are_marked() {
    let program = c(
        r#"int main() {
            int value;
            asm volatile("int $0x80" : "=a"(value) : "a"(20) : "memory", "r8", "r9", "r10", "r11");
            return value == -ENOSYS || value == getpid() ? 0 : 1;
        }"#,
        &["-static"],
    );
    let runtime = Runtime::new(seccomp(&[]));
    let command = Program::new(&[program.path()]).expect("no NUL");
    runtime.spawn(&command).expect("ptrace is allowed");
    let foreign = Rc::new(Cell::new(0));
    let counter = foreign.clone();
    runtime
        .run(move |tracee: Tracee<Started>| {
            let foreign = counter.clone();
            async move {
                let mut running = tracee.resume();
                loop {
                    let stop = running.stop().await;
                    if let Stop::Prehook(call) = &stop {
                        assert!(call.is_foreign());
                        assert_eq!(call.invocation().nr, 20);
                        foreign.set(foreign.get() + 1);
                    }
                    match stop.resume() {
                        Some(next) => running = next,
                        None => return,
                    }
                }
            }
        })
        .expect("waiting works");
    assert_eq!(foreign.get(), 1);
}
