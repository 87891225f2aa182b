//! Signals, and what ends in the middle.

use crate::common::Seen;
use crate::support::{How, counts_up, is_in_use, numbers, run_in_process, storm, traced};

#[test]
fn many_signals_with_handlers_that_make_lookups_lose_no_call() {
    for flags in ["SA_RESTART", "SA_ONSTACK", "SA_ONSTACK | SA_NODEFER"] {
        let main = r#"int main(int argc, char **argv) {
            begin(argv[1]);
            warm();
            for (int i = 0; i < 100; i++) make("handler/ready", i);
            size_t size = sysconf(_SC_MINSIGSTKSZ) + 2048;
            stack_t stack = {.ss_sp = malloc(size), .ss_size = size};
            CHECK(!sigaltstack(&stack, 0));
            start(handler, FLAGS);
            for (int i = 0; i < 20000; i++) {
                make("main/", i);
                int fd = open("/dev/null", O_RDONLY);
                CHECK(fd == 3);
                CHECK(!close(fd));
            }
            stop();
            dprintf(out, "%d", handled);
            return 0;
        }"#;
        // With SA_NODEFER handlers nest, and need more room.
        let room = if flags.contains("NODEFER") {
            "* 100"
        } else {
            "+ 2048"
        };
        let main = main.replace("FLAGS", flags).replace("+ 2048", room);
        let built = storm(&main);
        let run = traced(&[built.path()], How::InProcess);
        assert_eq!(run.end(), Seen::Exited(0), "{flags}: {}", run.output);
        counts_up(&run, "main/", 20_000);
        let handled: usize = run.output.parse().expect("a number");
        let mut told = numbers(&run, "handler/");
        told.sort_unstable();
        assert_eq!(told.len(), handled, "{flags}");
        is_in_use(&run, 50_000);
    }
}

#[test]
fn a_handler_may_jump_out_of_a_lookup() {
    let built = storm(
        r#"
        static void jump(int signal) { handled++; siglongjmp(back, 1); }
        int main(int argc, char **argv) {
            begin(argv[1]);
            warm();
            static volatile int i;
            start(jump, 0);
            while (sigsetjmp(back, 1), i < 30000) {
                int number = i++;
                char path[40];
                sprintf(path, "jump/%d", number);
                CHECK(access(path, 0) == -1 && errno == ENOENT);
            }
            stop();
            for (int i = 0; i < 1000; i++) make("after/", i);
            dprintf(out, "%d", handled);
            return 0;
        }"#,
    );
    let run = run_in_process(&built);
    assert_ne!(run.output, "0", "no signal came");
    let told = numbers(&run, "jump/");
    assert!(told.is_sorted_by(|one, other| one < other), "told twice");
    let handled: usize = run.output.parse().expect("a number");
    assert!(told.len() + handled >= 30_000, "{} of 30000", told.len());
    counts_up(&run, "after/", 1000);
    // No task still holds the lock.
    is_in_use(&run, 30_000);
}

#[test]
fn an_interrupted_open_comes_again_or_fails_as_the_program_wants() {
    let built = storm(
        r#"
        static volatile int restarts;
        static void enough(int signal) {
            if (++handled == 3 && restarts) raw(SYS_open, (long)"fifo", O_RDWR | O_NONBLOCK, 0, 0);
        }
        int main(int argc, char **argv) {
            begin(argv[1]);
            warm();
            mkfifo("fifo", 0600);
            for (int i = 0; i < 100; i++) {
                restarts = 0;
                start(enough, 0);
                CHECK(open("fifo", O_RDONLY) == -1 && errno == EINTR);
                stop();
                handled = 0;
                restarts = 1;
                start(enough, SA_RESTART);
                int fd = open("fifo", O_RDONLY);
                stop();
                CHECK(fd >= 0 && handled >= 3);
                close_range(3, 99, 0);
                handled = 0;
            }
            for (int i = 0; i < 1000; i++) make("after/", i);
            return 0;
        }"#,
    );
    let run = run_in_process(&built);
    counts_up(&run, "after/", 1000);
    is_in_use(&run, 1000);
}

#[test]
fn calls_of_a_killed_process_are_reported() {
    let built = storm(
        r#"
        int main(int argc, char **argv) {
            begin(argv[1]);
            warm();
            for (int i = 0; i < 100; i++) make("killed/", i);
            syscall(SYS_tgkill, getpid(), gettid(), SIGKILL);
        }"#,
    );
    let run = traced(&[built.path()], How::InProcess);
    assert_eq!(run.end(), Seen::Killed(libc::SIGKILL), "{}", run.output);
    counts_up(&run, "killed/", 100);
    // By another process, at any moment.
    let built = storm(
        r#"
        int main(int argc, char **argv) {
            begin(argv[1]);
            for (int round = 0; round < 60; round++) {
                int *made = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
                pid_t child = fork();
                if (!child) {
                    warm();
                    for (;; ++*made) make("victim/", *made);
                }
                while (*(volatile int *)made < 100 + round * 10) usleep(10);
                kill(child, SIGKILL);
                waitpid(child, 0, 0);
                dprintf(out, "%d ", *made);
            }
            return 0;
        }"#,
    );
    let run = run_in_process(&built);
    let told = numbers(&run, "victim/");
    let mut ends = Vec::new();
    for (at, number) in told.iter().enumerate() {
        let next = told.get(at + 1).copied().unwrap_or(0);
        assert!(next == number + 1 || next == 0, "{number}, then {next}");
        if next == 0 {
            ends.push(*number);
        }
    }
    let made: Vec<u32> = run
        .output
        .split_whitespace()
        .filter_map(|n| n.parse().ok())
        .collect();
    assert_eq!(ends.len(), made.len());
    for (told, made) in ends.iter().zip(&made) {
        assert!(told + 1 >= *made, "{told} of {made}");
    }
}

#[test]
fn a_handler_may_fork() {
    let built = storm(
        r#"
        static volatile int inside;
        static pid_t first;
        static void forks(int signal) {
            int saved = errno;
            if (getpid() != first || handled >= 400) return;
            handled++;
            pid_t child = fork();
            /* Both go on with the lookup that was interrupted. */
            if (!child) stop();
            errno = saved;
        }
        int main(int argc, char **argv) {
            begin(argv[1]);
            warm();
            first = getpid();
            struct sigaction action = {.sa_handler = SIG_IGN};
            sigaction(SIGCHLD, &action, 0);
            start(forks, 0);
            for (int i = 0; i < 200000 && handled < 400; i++) {
                char path[40];
                sprintf(path, "parent/%d", i);
                CHECK(access(path, 0) == -1 && errno == ENOENT);
                close(open("/dev/null", O_RDONLY));
                if (getpid() != first) break;
            }
            if (getpid() != first) {
                access("child/0", 0);
                _exit(0);
            }
            stop();
            dprintf(out, "%d", handled);
            return 0;
        }"#,
    );
    let run = run_in_process(&built);
    // Not one of the children was in the log of its parent.
    let handled: usize = run.output.parse().expect("a number");
    assert!(handled > 10, "{handled}");
    assert_eq!(numbers(&run, "child/").len(), handled);
    for (tid, lookup) in &run.lookups {
        let path = lookup.path.as_deref().unwrap_or_default();
        assert!(!path.starts_with("child/") || *tid != run.first, "{path}");
    }
    let parents: Vec<u32> = run
        .of(run.first)
        .iter()
        .filter_map(|lookup| {
            lookup
                .path
                .as_deref()?
                .strip_prefix("parent/")?
                .parse()
                .ok()
        })
        .collect();
    let wrong = parents
        .iter()
        .enumerate()
        .find(|(at, number)| *at != **number as usize);
    assert_eq!(wrong, None, "{} lookups", parents.len());
    is_in_use(&run, 400);
}
