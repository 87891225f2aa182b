//! The runtime in its host process: other threads, other children, attaching.

mod common;

use std::cell::Cell;
use std::io::{BufRead, BufReader};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};
use std::rc::Rc;

use common::{Seen, c, count, record, seccomp};
use ptrace_async::runtime::{
    HostThreads, Interception, Options, Program, Runtime, Started, Stop, Tracee,
};

#[test]
fn several_runtimes_and_the_hosts_own_children_do_not_disturb_each_other() {
    let traced = |status: i32| {
        move || {
            let script = format!("for i in 1 2 3 4 5; do cat /dev/null; done; exit {status}");
            let (first, log) = record(&["sh", "-c", &script], seccomp(&[libc::SYS_openat]));
            assert_eq!(log.last(), Some(&(first, Seen::Exited(status))));
            assert_eq!(count(&log, |seen| matches!(seen, Seen::Started(_))), 6);
        }
    };
    let threads: Vec<_> = (1..5).map(|n| std::thread::spawn(traced(n))).collect();
    for status in 0..20 {
        let script = format!("exit {status}");
        let ended = Command::new("sh").args(["-c", &script]).status();
        assert_eq!(ended.expect("ours to wait for").code(), Some(status));
    }
    for thread in threads {
        thread.join().expect("traced its own");
    }
}

#[test]
fn no_wake_up_of_a_blocking_job_is_lost() {
    let program = c(
        "int main() {
            for (int i = 0; i < 3; i++) fork();
            for (int i = 0; i < 250; i++) syscall(SYS_getppid);
            while (wait(0) > 0) {}
            return 0;
        }",
        &[],
    );
    let runtime = Runtime::new(seccomp(&[libc::SYS_getppid]));
    let argv = [program.path()];
    let command = Program::new(&argv).expect("no NUL");
    runtime.spawn(&command).expect("ptrace is allowed");
    let handle = runtime.handle();
    let total = Rc::new(Cell::new(0));
    let sum = total.clone();
    runtime
        .run(move |tracee: Tracee<Started>| {
            let (handle, sum) = (handle.clone(), sum.clone());
            async move {
                let mut running = tracee.resume();
                loop {
                    let stop = running.stop().await;
                    if matches!(stop, Stop::Prehook(_)) {
                        let one = handle.blocking(|| 1).await;
                        sum.set(sum.get() + one);
                    }
                    match stop.resume() {
                        Some(next) => running = next,
                        None => return,
                    }
                }
            }
        })
        .expect("waiting works");
    assert_eq!(total.get(), 8 * 250);
}

#[test]
fn a_panic_in_a_blocking_job_is_the_functions_and_ends_the_tracees() {
    let runtime = Runtime::new(seccomp(&[libc::SYS_openat]));
    let program = Program::new(&["cat", "/dev/null"]).expect("no NUL");
    let tid = runtime.spawn(&program).expect("ptrace is allowed");
    let handle = runtime.handle();
    let run = AssertUnwindSafe(|| {
        runtime.run(move |tracee: Tracee<Started>| {
            let handle = handle.clone();
            async move {
                let stop = tracee.resume().stop().await;
                handle.blocking(|| panic!("a job's own panic")).await;
                drop(stop);
            }
        })
    });
    let panic = catch_unwind(run).expect_err("the panic comes through");
    assert_eq!(panic.downcast_ref(), Some(&"a job's own panic"));
    assert!(!std::fs::exists(format!("/proc/{tid}")).expect("readable"));
}

/// SIGKILL does not end the stop of a task that exits.
#[test]
fn a_panic_while_a_task_stops_at_its_exit_ends_it() {
    let runtime = Runtime::new(seccomp(&[]));
    let program = Program::new(&["true"]).expect("no NUL");
    let tid = runtime.spawn(&program).expect("ptrace is allowed");
    let run = AssertUnwindSafe(|| {
        runtime.run(|tracee: Tracee<Started>| async move {
            let mut running = tracee.resume();
            loop {
                let stop = running.stop().await;
                assert!(!matches!(stop, Stop::PreExit(_)), "it stops at its exit");
                match stop.resume() {
                    Some(next) => running = next,
                    None => return,
                }
            }
        })
    });
    let panic = catch_unwind(run).expect_err("the panic comes through");
    assert_eq!(panic.downcast_ref(), Some(&"it stops at its exit"));
    assert!(!std::fs::exists(format!("/proc/{tid}")).expect("readable"));
}

#[test]
fn a_runtime_that_never_runs_leaves_no_process() {
    let runtime = Runtime::new(seccomp(&[]));
    let program = Program::new(&["cat"]).expect("no NUL");
    let tid = runtime.spawn(&program).expect("ptrace is allowed");
    drop(runtime);
    assert!(!std::fs::exists(format!("/proc/{tid}")).expect("readable"));
}

#[test]
fn a_running_process_is_attached_to_and_left_with_all_its_threads() {
    let program = c(
        r#"volatile int over;
        void *one(void *_) { while (!over) syscall(SYS_getppid); return 0; }
        int main() {
            pthread_t threads[4];
            for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, one, 0);
            puts("ready"); fflush(stdout);
            char byte;
            read(0, &byte, 1);
            over = 1;
            for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
            return 6;
        }"#,
        &[],
    );
    let mut child = Command::new(program.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let mut line = String::new();
    let output = child.stdout.take().expect("a pipe");
    BufReader::new(output).read_line(&mut line).expect("ready");
    let pid = child.id() as i32;
    // The traced process is a child of this one: its end is reported to wait(2) here, and
    // not to the tracer alone.
    let seen = std::thread::spawn(move || {
        let runtime = Runtime::new(Options {
            interception: Interception::Ptrace(common::filter(&[libc::SYS_getppid])),
            exit_kill: false,
        });
        runtime.attach(pid).expect("attached");
        let tasks = Rc::new(Cell::new((0, 0)));
        let counter = tasks.clone();
        runtime
            .run(move |tracee: Tracee<Started>| {
                let tasks = counter.clone();
                async move {
                    assert_eq!((tracee.parent(), tracee.tgid()), (None, pid));
                    tasks.set((tasks.get().0 + 1, tasks.get().1));
                    if tracee.tid() == pid {
                        // The leader sleeps in its read.
                        tracee.detach().expect("alive");
                        return;
                    }
                    let mut running = tracee.resume();
                    for _ in 0..5 {
                        match running.stop().await {
                            Stop::Prehook(call) => running = call.resume(),
                            other => running = other.resume().expect("alive"),
                        }
                        tasks.set((tasks.get().0, tasks.get().1 + 1));
                    }
                    match running.stop().await {
                        Stop::Prehook(call) => call.detach().expect("alive"),
                        other => panic!("{other:?}"),
                    }
                }
            })
            .expect("waiting works");
        tasks.get()
    })
    .join()
    .expect("no panic");
    assert_eq!(seen, (5, 20));
    drop(child.stdin.take());
    assert_eq!(child.wait().expect("ours").code(), Some(6));
}

/// The CPUs that the calling thread may use.
fn own_affinity() -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("ours");
    let line = status
        .lines()
        .find(|line| line.starts_with("Cpus_allowed:"));
    line.expect("in every status").to_owned()
}

#[test]
fn the_affinity_of_the_tracing_thread_is_its_own_again_after_a_run() {
    const CALLS: &[i64] = &[
        libc::SYS_getppid,
        libc::SYS_sched_getaffinity,
        libc::SYS_sched_setaffinity,
    ];
    let program = c(
        "int main() { for (int i = 0; i < 100; i++) syscall(SYS_getppid); return 0; }",
        &[],
    );
    let before = own_affinity();
    for _ in 0..2 {
        let (first, log) = record(&[program.path()], seccomp(CALLS));
        assert_eq!(log.last(), Some(&(first, Seen::Exited(0))));
        assert_eq!(own_affinity(), before);
    }
}

#[test]
fn two_busy_tasks_do_not_share_a_processor() {
    if HostThreads::available() < 2 {
        eprintln!("skipped: there is one processor");
        return;
    }
    // Both have been kept where the tracer is, and make no call until they are apart.
    let program = c(
        "int main() {
            volatile int *at = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
            at[0] = at[1] = -1;
            for (int i = 0; i < 200; i++) syscall(SYS_getppid);
            for (int who = 0; who < 2; who++) {
                if (fork()) continue;
                syscall(SYS_getppid);
                do at[who] = sched_getcpu(); while (at[!who] == -1 || at[!who] == at[who]);
                at[who] = -2;
                return 0;
            }
            int failed = 0, status;
            while (wait(&status) > 0) failed += status != 0;
            return failed;
        }",
        &[],
    );
    const CALLS: &[i64] = &[
        libc::SYS_getppid,
        libc::SYS_sched_getaffinity,
        libc::SYS_sched_setaffinity,
    ];
    let (first, log) = record(&[program.path()], seccomp(CALLS));
    assert_eq!(log.last(), Some(&(first, Seen::Exited(0))));
}

#[test]
fn a_thread_that_executes_keeps_its_affinity() {
    // Its leader has ended long before, and it then has that one's number.
    let program = c(
        "static char **words;
        void *thread(void *leader) {
            pthread_join(*(pthread_t *)leader, 0);
            nanosleep(&(struct timespec){ 0, 30000000 }, 0);
            for (int i = 0; i < 100; i++) syscall(SYS_getppid);
            execl(words[0], words[0], words[1], \"told\", (char *)0);
            return 0;
        }
        int main(int argc, char **argv) {
            cpu_set_t its;
            if (argc > 2) {
                sched_getaffinity(0, sizeof its, &its);
                return CPU_COUNT(&its) != atoi(argv[1]);
            }
            words = argv;
            for (int i = 0; i < 200; i++) syscall(SYS_getppid);
            static pthread_t leader;
            leader = pthread_self();
            pthread_t other;
            pthread_create(&other, 0, thread, &leader);
            pthread_exit(0);
        }",
        &[],
    );
    let all = HostThreads::available().to_string();
    const CALLS: &[i64] = &[
        libc::SYS_getppid,
        libc::SYS_sched_getaffinity,
        libc::SYS_sched_setaffinity,
    ];
    let (first, log) = record(&[program.path(), &all], seccomp(CALLS));
    assert_eq!(log.last(), Some(&(first, Seen::Exited(0))));
}

#[test]
fn a_task_that_executes_or_looks_has_its_own_affinity() {
    let programs = "for i in 1 2 3 4 5 6 7 8 9; do /bin/true; done;
        (for i in 1 2 3 4 5 6 7 8 9; do /bin/true; done) &
        for i in 1 2 3 4 5 6 7 8 9; do grep Cpus_allowed: /proc/self/status; done; wait";
    let dir = tempfile::tempdir().expect("a directory");
    let output = dir.path().join("output");
    let script = format!("exec > {}; {programs}", output.display());
    let runtime = Runtime::new(seccomp(&[
        libc::SYS_execve,
        libc::SYS_openat,
        libc::SYS_sched_getaffinity,
        libc::SYS_sched_setaffinity,
    ]));
    let command = Program::new(&["sh", "-c", &script]).expect("no NUL");
    runtime.spawn(&command).expect("ptrace is allowed");
    let before = own_affinity();
    let executed = Rc::new(Cell::new(0));
    let (count, expected) = (executed.clone(), before.clone());
    runtime
        .run(move |tracee: Tracee<Started>| {
            let (executed, expected) = (count.clone(), expected.clone());
            let check = move |tid: i32| {
                let status = std::fs::read_to_string(format!("/proc/{tid}/status"));
                let status = status.expect("it is stopped");
                assert!(status.lines().any(|line| line == expected), "{status}");
            };
            async move {
                let mut running = tracee.resume();
                loop {
                    running = match running.stop().await {
                        Stop::Prehook(tracee) => {
                            if tracee.invocation().nr == libc::SYS_execve as u64 {
                                check(tracee.tid());
                            }
                            // A program that is executed stops before it runs.
                            tracee.resume_to_exit()
                        }
                        Stop::Exec(tracee) => {
                            executed.set(executed.get() + 1);
                            tracee.resume()
                        }
                        stop => match stop.resume() {
                            Some(running) => running,
                            None => return,
                        },
                    }
                }
            }
        })
        .expect("it runs");
    assert_eq!(executed.get(), 1 + 3 * 9);
    let told = std::fs::read_to_string(output).expect("it was written");
    assert_eq!(told, format!("{before}\n").repeat(9));
}

/// Whether a task runs, or is going to; not if it has stopped or ended.
fn is_running(tid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{tid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| rest.starts_with('R'))
}

#[test]
fn a_child_of_a_task_that_executes_at_once_has_its_parents_affinity() {
    // Each round: when stops have come from one task for a while, a process makes a child and executes something else before the
    // child has run. The child tells on how many CPUs it may run.
    let program = c(
        "int main(int argc, char **argv) {
            int ends[2], few = 0, all = atoi(argv[1]);
            cpu_set_t its;
            pipe(ends);
            for (int i = 0; i < 250; i++) {
                for (int k = 0; k < 80; k++) syscall(SYS_getppid);
                if (fork() == 0) {
                    if (fork() == 0) {
                        sched_getaffinity(0, sizeof its, &its);
                        char count = CPU_COUNT(&its);
                        write(ends[1], &count, 1);
                        _exit(0);
                    }
                    execl(\"/bin/true\", \"true\", (char *)0);
                    _exit(1);
                }
                wait(0);
                char count;
                read(ends[0], &count, 1);
                few += count != all;
            }
            return few;
        }",
        &[],
    );
    let runtime = Runtime::new(seccomp(&[
        libc::SYS_getppid,
        libc::SYS_execve,
        libc::SYS_sched_getaffinity,
        libc::SYS_sched_setaffinity,
    ]));
    // The child must not ask for its own affinity: a task that has asked is not narrowed.
    let all = std::thread::available_parallelism()
        .expect("some")
        .to_string();
    let argv = [program.path(), all.as_str()];
    let command = Program::new(&argv).expect("no NUL");
    let first = runtime.spawn(&command).expect("ptrace is allowed");
    let few = Rc::new(Cell::new(None));
    let told = few.clone();
    runtime
        .run(move |tracee: Tracee<Started>| {
            let told = told.clone();
            let mut child = None;
            async move {
                let tid = tracee.tid();
                let mut running = tracee.resume();
                loop {
                    running = match running.stop().await {
                        Stop::Spawned(tracee) => {
                            child = Some(tracee.child());
                            tracee.resume()
                        }
                        Stop::Prehook(tracee) => {
                            // The child's stop comes, and is handled while its
                            // parent executes.
                            let executes = tracee.invocation().nr == libc::SYS_execve as u64;
                            while executes && child.is_some_and(is_running) {
                                std::thread::yield_now();
                            }
                            tracee.resume_to_exit()
                        }
                        Stop::Exited(status) if tid == first => {
                            told.set(Some(status));
                            return;
                        }
                        stop => match stop.resume() {
                            Some(running) => running,
                            None => return,
                        },
                    }
                }
            }
        })
        .expect("it runs");
    assert_eq!(few.get(), Some(0));
}
