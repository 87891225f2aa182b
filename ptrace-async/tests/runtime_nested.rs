//! LeakSanitizer traces its own program at the exit, and works under this runtime.

mod common;

use std::process::Command;

use common::{c, seccomp};
use ptrace_async::runtime::{Emulation, Program, Runtime, Started, Stop, Tracee};

const CALLS: &[i64] = &[libc::SYS_ptrace, libc::SYS_clone, libc::SYS_clone3];

async fn follow(tracee: Tracee<Started>) {
    let mut running = tracee.resume();
    loop {
        let mut stop = running.stop().await;
        if let Stop::Prehook(mut call) = stop {
            call.keep_traced().expect("alive");
            stop = match call.emulate_ptrace().await {
                Emulation::Answered(next) => {
                    running = next;
                    continue;
                }
                Emulation::NotOurs(call) => Stop::Prehook(call),
            };
        }
        match stop.resume() {
            Some(next) => running = next,
            None => return,
        }
    }
}

/// The exit status of a traced program as its shell sees it, and its output.
fn traced(program: &str) -> (String, String) {
    let dir = tempfile::tempdir().expect("directory");
    let (status, said) = (dir.path().join("status"), dir.path().join("said"));
    let script = format!(
        "{program} 2> {}; echo $? > {}",
        said.display(),
        status.display()
    );
    let runtime = Runtime::new(seccomp(CALLS));
    let program = Program::new(&["sh", "-c", &script]).expect("no NUL");
    runtime.spawn(&program).expect("ptrace is allowed");
    runtime.run(follow).expect("waiting works");
    let read = |path| std::fs::read_to_string(path).expect("written");
    (read(&status), read(&said))
}

fn has_sanitizer() -> bool {
    // Not every compiler comes with the library.
    let output = Command::new("gcc")
        .arg("-print-file-name=libasan.so")
        .output();
    output.is_ok_and(|output| output.stdout.contains(&b'/'))
}

#[test]
fn leak_sanitizer_finds_no_leak_where_there_is_none() {
    if !has_sanitizer() {
        return;
    }
    let program = c(
        r#"void *held;
        pthread_barrier_t started;
        void *sleeper(void *_) {
            void *volatile mine = malloc(8);
            pthread_barrier_wait(&started);
            for (;;) pause();
        }
        int main() {
            pthread_t thread;
            held = malloc(8);
            pthread_barrier_init(&started, 0, 3);
            pthread_create(&thread, 0, sleeper, 0);
            pthread_create(&thread, 0, sleeper, 0);
            pthread_barrier_wait(&started);
            return 0;
        }"#,
        &["-fsanitize=address"],
    );
    let (status, said) = traced(program.path());
    assert_eq!(status, "0\n", "{said}");
    assert_eq!(said, "");
}

#[test]
fn leak_sanitizer_finds_the_leak_that_there_is() {
    if !has_sanitizer() {
        return;
    }
    let program = c(
        "void *volatile held;
        int main() { held = malloc(123); held = 0; return 0; }",
        &["-fsanitize=address"],
    );
    let (status, said) = traced(program.path());
    assert!(said.contains("123 byte(s)"), "{said}");
    assert_ne!(status, "0\n");
}
