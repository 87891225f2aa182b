//! Clock reads through the vdso.

use crate::common::Seen;
use crate::support::{Clock, How, Run, program, traced, untraced};

const HEADERS: &str = "
    #include <sys/time.h>
    #include <time.h>
    static struct timespec at;
    static struct timeval day;
";

#[track_caller]
fn run(source: &str, flags: &[&str]) -> Run {
    let source = format!("{HEADERS}{source}");
    let built = program(&source, flags);
    let run = traced(&[built.path()], How::InProcess);
    assert_eq!(run.end(), Seen::Exited(0), "{}", run.output);
    run
}

/// The clocks that were read, in ascending order.
fn clocks(run: &Run) -> Vec<Clock> {
    let mut clocks: Vec<Clock> = run.clocks.iter().map(|(_, clock)| *clock).collect();
    clocks.sort_by_key(|clock| match clock {
        Clock::Logged(clock) | Clock::Stopped(clock) => *clock,
    });
    clocks
}

/// Whether the vdso of this machine can read clocks.
fn vdso_reads_clocks() -> bool {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let source = std::fs::read_to_string(path).unwrap_or_default();
    let reads = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page"].contains(&source.trim());
    if !reads {
        eprintln!("skipped: the vdso cannot read the clock source {source}");
    }
    reads
}

const KINDS: [&[&str]; 3] = [&[], &["-static"], &["-static-pie"]];

#[test]
fn each_read_of_a_clock_is_logged_in_every_kind_of_program() {
    if !vdso_reads_clocks() {
        return;
    }
    for flags in KINDS {
        let run = run(
            r#"
            int main(int argc, char **argv) {
                begin(argv[1]);
                for (int i = 0; i < 3; i++) CHECK(!clock_gettime(CLOCK_MONOTONIC, &at));
                CHECK(!clock_gettime(CLOCK_REALTIME, &at) && at.tv_sec > 1000000000);
                CHECK(!clock_gettime(CLOCK_BOOTTIME, &at));
                CHECK(!clock_gettime(CLOCK_MONOTONIC_COARSE, &at));
                CHECK(!gettimeofday(&day, 0) && labs(day.tv_sec - time(0)) < 2);
                CHECK(clock_gettime(77, &at) == -1 && errno == EINVAL);
                CHECK(!clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at));
                CHECK(!clock_getres(CLOCK_REALTIME, &at) && at.tv_nsec);
                return 0;
            }"#,
            flags,
        );
        let expected = [-1, -1, 0, 1, 1, 1, 6, 7].map(Clock::Logged).into_iter();
        let expected: Vec<Clock> = expected.chain([Clock::Stopped(77)]).collect();
        assert_eq!(clocks(&run), expected, "{flags:?}");
    }
}

#[test]
fn many_reads_cost_no_stops() {
    if !vdso_reads_clocks() {
        return;
    }
    for flags in KINDS {
        let run = run(
            r#"
            int main(int argc, char **argv) {
                begin(argv[1]);
                for (int i = 0; i < 100000; i++) {
                    clock_gettime(CLOCK_MONOTONIC, &at);
                    gettimeofday(&day, 0);
                }
                return 0;
            }"#,
            flags,
        );
        assert!(run.stops < 200, "{} {flags:?}", run.stops);
        let of = |clock| clocks(&run).iter().filter(|of| **of == clock).count();
        assert!((4..100).contains(&of(Clock::Logged(1))), "{flags:?}");
        assert!((4..100).contains(&of(Clock::Logged(-1))), "{flags:?}");
    }
}

#[test]
fn reads_of_threads_and_children_are_logged() {
    if !vdso_reads_clocks() {
        return;
    }
    for flags in KINDS {
        let flags = [flags, &["-pthread"]].concat();
        let run = run(
            r#"
            #include <pthread.h>
            static void *reads(void *clock) {
                CHECK(!clock_gettime((long)clock, &at));
                return 0;
            }
            int main(int argc, char **argv) {
                begin(argv[1]);
                pthread_t thread;
                CHECK(!pthread_create(&thread, 0, reads, (void *)1));
                CHECK(!pthread_join(thread, 0));
                pid_t child = fork();
                if (!child) {
                    reads((void *)4);
                    CHECK(!pthread_create(&thread, 0, reads, (void *)7));
                    CHECK(!pthread_join(thread, 0));
                    _exit(0);
                }
                CHECK(waitpid(child, 0, 0) == child);
                child = vfork();
                if (!child) {
                    clock_gettime(11, &at);
                    _exit(0);
                }
                CHECK(waitpid(child, 0, 0) == child);
                return 0;
            }"#,
            &flags,
        );
        let found = clocks(&run);
        assert_eq!(found, [1, 4, 7, 11].map(Clock::Logged), "{flags:?}");
        let child = |number| {
            let of = run
                .clocks
                .iter()
                .find(|(_, clock)| *clock == Clock::Logged(number));
            of.expect("it was read").0
        };
        assert_ne!(child(4), run.first);
    }
}

#[test]
fn children_for_which_no_log_is_left_make_system_calls() {
    if !vdso_reads_clocks() {
        return;
    }
    let run = run(
        r#"
        int main(int argc, char **argv) {
            begin(argv[1]);
            int ends[2];
            char byte;
            CHECK(!pipe(ends));
            for (int i = 0; i < 140; i++) {
                if (fork()) continue;
                close(ends[1]);
                CHECK(read(ends[0], &byte, 1) == 0);
                CHECK(!clock_gettime(CLOCK_MONOTONIC, &at));
                _exit(0);
            }
            close(ends[1]);
            for (int i = 0; i < 140; i++) CHECK(wait(0) > 0);
            return 0;
        }"#,
        &[],
    );
    let found = clocks(&run);
    let stopped = found.iter().filter(|clock| **clock == Clock::Stopped(1));
    assert!(stopped.count() >= 10);
    assert_eq!(found.len(), 140);
}

#[test]
fn what_is_not_logged_is_not_found_in_the_vdso() {
    if !vdso_reads_clocks() {
        return;
    }
    run(
        r#"
        #include <dlfcn.h>
        int main(int argc, char **argv) {
            begin(argv[1]);
            void *vdso = dlopen("linux-vdso.so.1", RTLD_NOW | RTLD_NOLOAD);
            CHECK(vdso);
            int (*gets)(clockid_t, struct timespec *) =
                (int (*)(clockid_t, struct timespec *))dlvsym(vdso, "__vdso_clock_gettime", "LINUX_2.6");
            CHECK(gets && !gets(CLOCK_REALTIME, &at) && labs(at.tv_sec - time(0)) < 2);
            CHECK(dlsym(vdso, "__vdso_clock_getres"));
            CHECK(!dlsym(vdso, "__vdso_getcpu"));
            CHECK(!dlsym(vdso, "__vdso_getrandom"));
            return 0;
        }"#,
        &["-ldl"],
    );
}

#[test]
fn a_program_that_cannot_start_in_process_makes_system_calls() {
    let source = format!(
        "{HEADERS}{}",
        r#"
        int main(int argc, char **argv) {
            if (argc == 2) {
                begin(argv[1]);
                char *again[] = {argv[0], argv[1], "again", 0};
                struct rlimit limit = {3, 3};
                CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
                execv(argv[0], again);
                CHECK(0);
            }
            return clock_gettime(CLOCK_BOOTTIME, &at) || gettimeofday(&day, 0);
        }"#
    );
    let built = program(&source, &["-static"]);
    assert_eq!(untraced(&[built.path()]).0, 0);
    let run = traced(&[built.path()], How::InProcess);
    assert_eq!(run.end(), Seen::Exited(0), "{}", run.output);
    assert_eq!(clocks(&run), [-1, 7].map(Clock::Stopped));
}
