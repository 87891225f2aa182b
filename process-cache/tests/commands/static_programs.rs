//! Static programs, whose call sites are patched: they are skipped, and run again, as others are.

use std::fs;
use std::process::Command;

use tempfile::TempDir;

use crate::support::Sandbox;

/// Compiles a C program that is linked statically; prints a note if that cannot be done here.
fn linked_statically(source: &str) -> Option<TempDir> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("program.c");
    fs::write(&file, source).expect("written");
    let compiled = Command::new("cc")
        .args(["-static", "-pthread", "-O1", "-w", "-o"])
        .arg(dir.path().join("program"))
        .arg(&file)
        .output();
    let built = compiled.is_ok_and(|output| output.status.success());
    if !built {
        eprintln!("skipped: cc makes no static programs here");
    }
    built.then_some(dir)
}

/// A sandbox that holds the program as `p`.
fn sandbox(program: &TempDir, setup: &str) -> Sandbox {
    let path = program.path().join("program");
    Sandbox::new(&format!("cp {} p; {setup}", path.display()))
}

/// Four threads look at eight files, open and read those that exist, and copy `f3`.
const THREADS: &str = r#"
    #include <fcntl.h>
    #include <pthread.h>
    #include <signal.h>
    #include <stdio.h>
    #include <string.h>
    #include <sys/stat.h>
    #include <sys/time.h>
    #include <unistd.h>
    static pthread_barrier_t begun;
    static volatile int signals;
    static long sums[4];
    static void count(int signal) { struct stat it; stat("f0", &it); signals++; }
    static void *look(void *of) {
        long number = (long)of;
        pthread_barrier_wait(&begun);
        for (int i = 0; i < 400; i++) {
            char path[8], bytes[64];
            struct stat it;
            sprintf(path, "f%d", i % 8);
            long missing = stat(path, &it) != 0;
            int file = open(path, O_RDONLY | O_CLOEXEC);
            if (missing != (file < 0)) _exit(9);
            sums[number] += missing;
            if (file < 0) continue;
            long got;
            while ((got = read(file, bytes, sizeof bytes)) > 0)
                for (long at = 0; at < got; at++) sums[number] += bytes[at];
            close(file);
        }
        return 0;
    }
    int main(int argc, char **argv) {
        pthread_t threads[4];
        if (argc > 1) {
            struct itimerval often = {{0, 500}, {0, 500}};
            signal(SIGPROF, count);
            setitimer(ITIMER_PROF, &often, 0);
        }
        pthread_barrier_init(&begun, 0, 4);
        for (long i = 0; i < 4; i++) pthread_create(threads + i, 0, look, (void *)i);
        for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
        for (int i = 1; i < 4; i++) if (sums[i] != sums[0]) return 8;
        char bytes[64];
        int from = open("f3", O_RDONLY), to = open("copy", O_CREAT | O_WRONLY | O_TRUNC, 0644);
        long got = from < 0 ? 0 : read(from, bytes, sizeof bytes);
        if (got > 0 && write(to, bytes, got) != got) return 7;
        printf("%ld\n", sums[0]);
        return 0;
    }"#;

const FILES: &str = "echo one > f1; echo two > f2; echo three > f3; echo five > f5";

#[test]
fn a_static_program_with_threads_is_skipped_until_what_they_saw_changes() {
    let Some(program) = linked_statically(THREADS) else {
        return;
    };
    for (edit, difference) in [
        ("echo six > f2", "f2"),
        ("echo new > f4", "f4"),
        ("rm f5", "f5"),
        ("echo One > f1", "f1"),
        ("rm f1; ln -s f2 f1", "f1"),
    ] {
        let sandbox = sandbox(&program, FILES);
        let first = sandbox.cached("./p");
        assert_eq!(first.whole().result, "stored", "{:#?}", first.units);
        // The files stay, because the program looks at their inode numbers.
        sandbox.edit("rm copy");
        let second = sandbox.cached("./p");
        second.assert_hit();
        assert_eq!(second.out, first.out);
        assert_eq!(sandbox.text("copy"), "three\n");
        sandbox.edit(&format!("rm copy; {edit}"));
        let third = sandbox.cached("./p");
        third.assert_miss(difference);
        sandbox.edit("rm copy");
        third.assert_like(&sandbox.plain("./p"), edit);
    }
}

#[test]
fn signals_during_its_calls_change_no_result() {
    if let Some(program) = linked_statically(THREADS) {
        let sandbox = sandbox(&program, FILES);
        let plain = sandbox.plain("./p with signals");
        for _ in 0..3 {
            sandbox.reset();
            let run = sandbox.cached("./p with signals");
            run.assert_like(&plain, "under signals");
        }
    }
}

/// A program that cannot be stored, because it reads the time often. It looks around, copies `in`
/// to `made`, and has `cat` copy that.
const LOST: &str = r#"
    #include <fcntl.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <sys/stat.h>
    #include <sys/syscall.h>
    #include <sys/wait.h>
    #include <unistd.h>
    int main(void) {
        long time[2];
        struct stat it;
        char bytes[64];
        for (int i = 0; i < 100; i++) syscall(SYS_gettimeofday, time, 0);
        /* More than a log holds. */
        for (int i = 0; i < 3000; i++) stat(i & 1 ? "in" : "missing", &it);
        int from = open("in", O_RDONLY), to = open("made", O_CREAT | O_WRONLY | O_TRUNC, 0644);
        long got = read(from, bytes, sizeof bytes);
        if (write(to, bytes, got) != got) return 7;
        close(from), close(to);
        int status;
        pid_t child = fork();
        if (!child) {
            to = open("out", O_CREAT | O_WRONLY | O_TRUNC, 0644);
            dup2(to, 1), close(to);
            for (int i = 0; i < 100; i++) stat(i & 1 ? "in" : "missing", &it);
            execlp("cat", "cat", "made", "other", NULL);
            _exit(9);
        }
        waitpid(child, &status, 0);
        return status != 0;
    }"#;

#[test]
fn children_of_a_program_that_cannot_be_stored_are_skipped_and_run_again() {
    let Some(program) = linked_statically(LOST) else {
        return;
    };
    let sandbox = sandbox(&program, "echo in > in; echo other > other");
    let expect = |result: &str, out: &str| {
        let run = sandbox.cached("./p");
        assert!(run.status.success(), "{run:?}");
        run.assert_uncacheable("time of day");
        assert_eq!(run.unit("cat").result, result, "{:#?}", run.units);
        assert_eq!(sandbox.text("out"), out);
    };
    expect("stored", "in\nother\n");
    expect("hit", "in\nother\n");
    sandbox.edit("echo another > other");
    expect("stored", "in\nanother\n");
    sandbox.edit("echo out > in");
    expect("stored", "out\nanother\n");
    expect("hit", "out\nanother\n");
}
