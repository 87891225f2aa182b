//! Threads, forks and execs: whose calls they are.

use std::collections::BTreeSet;

use ptrace_async::event::Tid;

use crate::common::Seen;
use crate::support::{
    How, Lookup, counts_up, is_in_use, numbers, program, run_in_process, storm, traced,
};

#[test]
fn a_forked_child_and_its_parent_have_logs_of_their_own() {
    let built = storm(
        r#"
        int main(int argc, char **argv) {
            begin(argv[1]);
            warm();
            for (int round = 0; round < 5; round++) {
                pid_t child = fork();
                if (!child) {
                    for (int i = 0; i < 300; i++) make("child/", round * 300 + i);
                    pid_t inner = fork();
                    if (!inner) {
                        make("inner/", round);
                        _exit(0);
                    }
                    waitpid(inner, 0, 0);
                    _exit(0);
                }
                for (int i = 0; i < 300; i++) make("parent/", round * 300 + i);
                waitpid(child, 0, 0);
            }
            return 0;
        }"#,
    );
    let run = run_in_process(&built);
    counts_up(&run, "child/", 1500);
    counts_up(&run, "parent/", 1500);
    counts_up(&run, "inner/", 5);
    for (tid, lookup) in &run.lookups {
        let path = lookup.path.as_deref().unwrap_or_default();
        let child = path.starts_with("child/") || path.starts_with("inner/");
        assert!(!child || *tid != run.first, "{path}");
        assert!(!path.starts_with("parent/") || *tid == run.first, "{path}");
    }
    is_in_use(&run, 3000);
}

#[test]
fn children_beyond_the_last_log_run_with_stops() {
    let built = storm(
        r#"
        int main(int argc, char **argv) {
            enum { CHILDREN = 250 };
            int gate[2];
            char byte;
            begin(argv[1]);
            warm();
            CHECK(!pipe(gate));
            for (int k = 0; k < CHILDREN; k++) {
                pid_t child = fork();
                CHECK(child >= 0);
                if (child) continue;
                close(gate[1]);
                CHECK(read(gate[0], &byte, 1) == 0);
                for (int i = 0; i < 4; i++) make("child/", 4 * k + i);
                _exit(0);
            }
            /* They all live. */
            close(gate[1]);
            int status;
            for (int k = 0; k < CHILDREN; k++) CHECK(wait(&status) > 0 && status == 0);
            /* Their logs are free again. */
            pid_t child = fork();
            if (!child) {
                for (int i = 0; i < 300; i++) make("later/", i);
                _exit(0);
            }
            CHECK(waitpid(child, &status, 0) == child && status == 0);
            return 0;
        }"#,
    );
    let run = run_in_process(&built);
    let mut numbers = numbers(&run, "child/");
    numbers.sort_unstable();
    assert_eq!(numbers, (0..1000).collect::<Vec<u32>>());
    counts_up(&run, "later/", 300);
    // Of about 125 children, and of the last.
    is_in_use(&run, 800 + 450 + 300);
    let stopped = run.lookups.len() - run.logged;
    assert!(stopped >= 200, "{stopped}");
}

#[test]
fn a_program_never_sees_its_affinity_narrowed() {
    let built = storm(
        r#"
        static void allowed(char *line) {
            char text[8192];
            int fd = open("/proc/self/status", O_RDONLY);
            CHECK(fd >= 0);
            ssize_t length = read(fd, text, sizeof text - 1);
            CHECK(length > 0);
            close(fd);
            text[length] = 0;
            char *found = strstr(text, "Cpus_allowed:");
            CHECK(found);
            CHECK(sscanf(found, "%*s %63s", line) == 1);
        }
        int main(int argc, char **argv) {
            char first[64], now[64];
            begin(argv[1]);
            warm();
            allowed(first);
            for (int round = 0; round < 40; round++) {
                pid_t child = fork();
                if (!child) {
                    for (int i = 0; i < 20; i++) {
                        /* Files of /proc that do not show it. */
                        close(open("/proc/filesystems", O_RDONLY));
                        close(open("/proc/self/maps", O_RDONLY));
                        /* A stop, from which it is woken. */
                        mkdir("directory", 0777);
                        allowed(now);
                        CHECK(!strcmp(first, now));
                    }
                    _exit(0);
                }
                int status;
                CHECK(waitpid(child, &status, 0) == child && status == 0);
            }
            return 0;
        }"#,
    );
    let run = run_in_process(&built);
    is_in_use(&run, 800);
}

#[test]
fn a_child_whose_parent_has_ended_is_seen() {
    // The parent executes another program, or dies, at once.
    for end in [
        r#"execl("/bin/true", "true", (char *)0)"#,
        "kill(getpid(), SIGKILL)",
        "_exit(0)",
    ] {
        let main = r#"
        int main(int argc, char **argv) {
            begin(argv[1]);
            for (int round = 0; round < 12; round++) {
                int ends[2];
                char byte;
                pipe(ends);
                pid_t middle = fork();
                if (!middle) {
                    warm();
                    pid_t child = fork();
                    if (!child) {
                        for (int i = 0; i < 20; i++) make("child/", round * 20 + i);
                        _exit(0);
                    }
                    END;
                }
                close(ends[1]);
                waitpid(middle, 0, 0);
                read(ends[0], &byte, 1);
                close(ends[0]);
            }
            return 0;
        }"#;
        let built = storm(&main.replace("END", end));
        let run = run_in_process(&built);
        counts_up(&run, "child/", 240);
        is_in_use(&run, 5_000);
    }
}

#[test]
fn calls_of_a_partial_sharer_are_not_attributed_to_its_parent() {
    let spawned = [
        // Children that the parent waits for.
        "pid_t child = vfork(); if (!child) { work(0); _exit(0); }",
        // And one that runs beside it.
        "pid_t child = clone(work, stack + sizeof stack, CLONE_VM | SIGCHLD, 0);",
        "pid_t child = clone(work, stack + sizeof stack, CLONE_VM | CLONE_FS | SIGCHLD, 0);",
    ];
    for spawned in spawned {
        let main = r#"
        static char stack[1 << 16] __attribute__((aligned(16)));
        static int number;
        static int work(void *unused) {
            close(100);
            for (int i = 0; i < 100; i++) make("child/", number++);
            return 0;
        }
        int main(int argc, char **argv) {
            begin(argv[1]);
            warm();
            for (int round = 0; round < 10; round++) {
                for (int i = 0; i < 20; i++) make("before/", round * 20 + i);
                SPAWNED
                for (int i = 0; i < 20; i++) make("after/", round * 20 + i);
                waitpid(child, 0, 0);
                mkdir("directory", 0777);
            }
            CHECK(fcntl(100, F_GETFD) == FD_CLOEXEC);
            for (int i = 0; i < 500; i++) make("later/", i);
            return 0;
        }"#;
        let built = storm(&main.replace("SPAWNED", spawned));
        let run = run_in_process(&built);
        counts_up(&run, "before/", 200);
        counts_up(&run, "after/", 200);
        counts_up(&run, "later/", 500);
        counts_up(&run, "child/", 1000);
        for (tid, lookup) in &run.lookups {
            let path = lookup.path.as_deref().unwrap_or_default();
            let child =
                path.starts_with("child/") || lookup.nr == libc::SYS_close && lookup.fd == 100;
            assert_eq!(child, *tid != run.first, "{lookup:?}");
        }
        is_in_use(&run, 500);
    }
}

#[test]
fn children_that_execute_programs_leave_their_parents_log_alone() {
    let built = storm(
        r#"
        int main(int argc, char **argv) {
            char *words[] = {"true", 0};
            begin(argv[1]);
            warm();
            posix_spawn_file_actions_t actions;
            posix_spawn_file_actions_init(&actions);
            posix_spawn_file_actions_addclose(&actions, 100);
            posix_spawn_file_actions_addopen(&actions, 7, "/dev/null", O_RDONLY, 0);
            for (int i = 0; i < 30; i++) {
                pid_t child;
                int status;
                make("parent/", 2 * i);
                CHECK(!posix_spawn(&child, "/bin/true", &actions, 0, words, environ));
                make("parent/", 2 * i + 1);
                CHECK(waitpid(child, &status, 0) == child && status == 0);
                child = vfork();
                if (!child) {
                    execv("/nonexistent", words);
                    execv("/bin/true", words);
                    _exit(1);
                }
                CHECK(waitpid(child, &status, 0) == child && status == 0);
            }
            for (int i = 0; i < 500; i++) make("later/", i);
            return 0;
        }"#,
    );
    let run = run_in_process(&built);
    counts_up(&run, "parent/", 60);
    counts_up(&run, "later/", 500);
    let own = run.of(run.first);
    assert_eq!(own.iter().filter(|lookup| lookup.fd == 100).count(), 0);
    is_in_use(&run, 500);
}

#[test]
fn threads_lose_no_lookup_of_each_other() {
    let built = storm(
        r#"
        static void *thread(void *number) {
            char name[40];
            for (int i = 0; i < 500; i++) {
                sprintf(name, "thread%ld/", (long)number);
                make(name, i);
                int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
                CHECK(fd >= 0);
                CHECK(!close(fd));
            }
            return 0;
        }
        int main(int argc, char **argv) {
            pthread_t threads[16];
            begin(argv[1]);
            warm();
            for (long i = 0; i < 16; i++) pthread_create(threads + i, 0, thread, (void *)i);
            for (int i = 0; i < 500; i++) { make("main/", i); if (i % 50 == 0) mkdir("directory", 0777); }
            for (int i = 0; i < 16; i++) pthread_join(threads[i], 0);
            for (int i = 0; i < 100; i++) make("after/", i);
            return 0;
        }"#,
    );
    let run = run_in_process(&built);
    for thread in 0..16 {
        counts_up(&run, &format!("thread{thread}/"), 500);
    }
    counts_up(&run, "main/", 500);
    counts_up(&run, "after/", 100);
    let opens = |lookup: &&Lookup| lookup.path.as_deref() == Some("/dev/null");
    assert_eq!(run.all().into_iter().filter(opens).count(), 200 + 16 * 500);
    is_in_use(&run, 500);
}

#[test]
fn descriptors_that_threads_close_are_reported_in_order() {
    // A descriptor that one thread closes is reused by another. The closing threads are
    // often preempted in the middle.
    let built = program(
        r#"
        static volatile int done;
        static long now(void) {
            struct timespec now;
            clock_gettime(CLOCK_MONOTONIC, &now);
            return now.tv_sec * 1000 + now.tv_nsec / 1000000;
        }
        static void here(int cpu, int policy) {
            cpu_set_t set;
            struct sched_param none = {0};
            CPU_ZERO(&set);
            CPU_SET(cpu, &set);
            sched_setaffinity(0, sizeof set, &set);
            sched_setscheduler(0, policy, &none);
        }
        static void *turns(void *unused) {
            here(0, SCHED_IDLE);
            long end = now() + 2000;
            while (now() < end) {
                long fd = raw(SYS_open, (long)"/dev/null", O_RDONLY, 0, 0);
                CHECK(fd >= 0);
                CHECK(!raw(SYS_close, fd, 0, 0, 0));
            }
            done = 1;
            return 0;
        }
        static void *opens(void *unused) {
            here(1, SCHED_OTHER);
            while (!done) {
                long fd = raw(SYS_open, (long)"/dev/null", O_WRONLY, 0, 0);
                CHECK(fd >= 0);
                CHECK(!raw(SYS_close, fd, 0, 0, 0));
            }
            return 0;
        }
        static void *spins(void *unused) {
            here(0, SCHED_OTHER);
            while (!done) for (volatile int i = 0; i < 20000; i++);
            return 0;
        }
        int main(int argc, char **argv) {
            void *(*work[])(void *) = {turns, opens, spins};
            pthread_t threads[3];
            begin(argv[1]);
            for (int i = 0; i < 200; i++)
                raw(SYS_close, raw(SYS_open, (long)"/dev/null", O_RDONLY, 0, 0), 0, 0, 0);
            for (int i = 0; i < 3; i++) pthread_create(threads + i, 0, work[i], 0);
            for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
            return 0;
        }"#,
        &[],
    );
    let run = run_in_process(&built);
    // The close of a thread is reported before the call that reuses its descriptor.
    assert_eq!(run.clashes, 0);
    // Those of the first loop; how far the others come is a matter of time.
    is_in_use(&run, 300);
}

#[test]
fn a_thread_may_execute_another_program() {
    let built = storm(
        r#"
        static char **words;
        static void *thread(void *unused) {
            for (int i = 0; i < 200; i++) make("thread/", i);
            execv(words[0], words);
            return 0;
        }
        int main(int argc, char **argv) {
            char *next[] = {argv[0], argv[1], "again", 0};
            pthread_t id;
            begin(argv[1]);
            warm();
            if (argc > 2) { for (int i = 0; i < 300; i++) make("second/", i); return 0; }
            words = next;
            for (int i = 0; i < 300; i++) make("first/", i);
            pthread_create(&id, 0, thread, 0);
            for (int i = 0;; i++) make("beside/", i);
        }"#,
    );
    let run = traced(&[built.path()], How::InProcess);
    let end = run.ends.last().expect("an end").1;
    assert_eq!(end, Seen::Exited(0), "{}", run.output);
    counts_up(&run, "first/", 300);
    counts_up(&run, "thread/", 200);
    counts_up(&run, "second/", 300);
    let beside = numbers(&run, "beside/").len();
    counts_up(&run, "beside/", beside as u32);
    // The calls of the first program were reported before the second began.
    let position = |mark: &str| {
        let found = |(_, lookup): &(Tid, Lookup)| {
            lookup
                .path
                .as_deref()
                .is_some_and(|path| path.starts_with(mark))
        };
        (
            run.lookups.iter().position(found),
            run.lookups.iter().rposition(found),
        )
    };
    assert!(position("beside/").1 < position("second/").0);
    is_in_use(&run, 500);
}

#[test]
fn threads_beside_a_vfork_are_not_taken_for_the_child() {
    let built = storm(
        r#"
        static volatile int done;
        static void *thread(void *unused) {
            for (int i = 0; i < 3000 || !done; i++) make("thread/", i);
            return 0;
        }
        int main(int argc, char **argv) {
            char *words[] = {"true", 0};
            pthread_t id;
            begin(argv[1]);
            warm();
            pthread_create(&id, 0, thread, 0);
            for (int i = 0; i < 50; i++) {
                pid_t child;
                int status;
                posix_spawn_file_actions_t actions;
                posix_spawn_file_actions_init(&actions);
                posix_spawn_file_actions_addclose(&actions, 100);
                CHECK(!posix_spawn(&child, "/bin/true", &actions, 0, words, environ));
                CHECK(waitpid(child, &status, 0) == child && status == 0);
                make("main/", i);
            }
            done = 1;
            pthread_join(id, 0);
            return 0;
        }"#,
    );
    let run = run_in_process(&built);
    counts_up(&run, "main/", 50);
    let count = numbers(&run, "thread/").len();
    counts_up(&run, "thread/", count as u32);
    let threads: BTreeSet<Tid> = run
        .lookups
        .iter()
        .filter(|(_, lookup)| {
            lookup
                .path
                .as_deref()
                .is_some_and(|path| path.starts_with("thread/"))
        })
        .map(|(tid, _)| *tid)
        .collect();
    assert!(threads.len() <= 2, "{threads:?}");
    let closes = |(tid, lookup): &&(Tid, Lookup)| lookup.fd == 100 && threads.contains(tid);
    assert_eq!(run.lookups.iter().filter(closes).count(), 0);
    is_in_use(&run, 500);
}

#[test]
fn processes_that_share_a_directory_are_reported_in_order() {
    let built = storm(
        r#"
        #include <sched.h>
        int main(int argc, char **argv) {
            begin(argv[1]);
            mkdir("sub", 0777);
            warm();
            _Atomic int *turn = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
            long flags = argc > 2 ? CLONE_FILES : CLONE_FS;
            pid_t child = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
            for (int i = 0; i < 100; i++) {
                int mine = 2 * i + !child;
                while (*turn != mine) sched_yield();
                make("turn/", mine);
                *turn = mine + 1;
            }
            if (!child) _exit(0);
            int status;
            CHECK(waitpid(child, &status, 0) == child && status == 0);
            return 0;
        }"#,
    );
    for more in [&[][..], &["files"]] {
        let mut argv = vec![built.path()];
        argv.extend(more);
        let run = traced(&argv, How::InProcess);
        assert_eq!(run.end(), Seen::Exited(0), "{}", run.output);
        counts_up(&run, "turn/", 200);
    }
}
