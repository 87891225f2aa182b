//! Which call sites of a program are patched, and when.

use crate::common::c;
use crate::support::{PRELUDE, compare, counts_up, is_in_use, numbers, program, run_in_process};

/// Starts threads at once. All of them look, and none does before the last one has begun.
const THREADS: &str = r#"
    static pthread_barrier_t begun;
    static void *look(void *of) {
        char path[40];
        struct stat it;
        pthread_barrier_wait(&begun);
        for (int i = 0; i < COUNT; i++) {
            sprintf(path, "thread/%ld", (long)of * COUNT + i);
            CHECK(LOOK(path, &it) == -1);
        }
        return 0;
    }
    int main(int argc, char **argv) {
        pthread_t threads[4];
        begin(argv[1]);
        pthread_barrier_init(&begun, 0, 5);
        for (long i = 0; i < 4; i++) CHECK(!pthread_create(threads + i, 0, look, (void *)i));
        pthread_barrier_wait(&begun);
        for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
        return 0;
    }"#;

/// All numbers of the threads' lookups, sorted.
#[track_caller]
fn all_are_seen(run: &crate::support::Run, count: u32) {
    let mut found = numbers(run, "thread/");
    found.sort_unstable();
    let expected: Vec<u32> = (0..4 * count).collect();
    assert_eq!(found, expected);
    assert_eq!(run.lost, 0);
}

#[test]
fn threads_of_a_static_program_look_without_stops() {
    for linked in [&["-static", "-no-pie"][..], &["-static-pie", "-fPIE"]] {
        let source = format!("{PRELUDE}{THREADS}");
        let flags = [linked, &["-DCOUNT=200", "-DLOOK=stat"]].concat();
        let run = run_in_process(&c(&source, &flags));
        all_are_seen(&run, 200);
        // A thread that finds the log in use stops.
        is_in_use(&run, 100);
    }
}

/// A function as Go has it for all of its calls. It keeps the number of a call in a
/// register.
const GO: &str = r#"
    long go_syscall(long nr, long a, long b, long c);
    asm(".pushsection .text\n"
        ".balign 32\n"
        "go_syscall:\n"
        "mov %rdi, %rax\n"
        "mov %rsi, %rdi\n"
        "mov %rdx, %rsi\n"
        "mov %rcx, %rdx\n"
        "xor %r10d, %r10d\n"
        "syscall\n"
        "cmp $0xfffffffffffff001, %rax\n"
        "jbe 1f\n"
        "mov $-1, %rax\n"
        "1: ret\n"
        ".popsection\n");
    #define LOOK(path, it) go_syscall(SYS_stat, (long)path, (long)it, 0)
"#;

/// The note by which a program of Go's linker is known.
const GO_NOTE: &str = r#"
    asm(".pushsection .note.go.buildid, \"a\", @note\n"
        ".balign 4\n"
        ".long 4, 4, 4\n"
        ".ascii \"Go\\0\\0\"\n"
        ".ascii \"none\"\n"
        ".popsection\n");
"#;

#[test]
fn threads_of_a_go_program_look_without_stops() {
    for linked in [&["-static"][..], &[]] {
        let source = format!("{PRELUDE}{GO}{GO_NOTE}{THREADS}");
        let run = run_in_process(&c(&source, &[linked, &["-DCOUNT=200"]].concat()));
        all_are_seen(&run, 200);
        is_in_use(&run, 100);
    }
}

#[test]
fn a_site_that_may_be_data_is_patched_in_the_next_program() {
    let source = format!(
        "{PRELUDE}{GO}{}",
        r#"
        static void *paused(void *of) { pause(); }
        int main(int argc, char **argv) {
            pthread_t thread;
            struct stat it;
            begin(argv[1]);
            int rounds = argc > 2 ? atoi(argv[2]) : 2;
            /* The site stops while there are threads, so it is not patched there. */
            CHECK(!pthread_create(&thread, 0, paused, 0));
            for (int i = 0; i < 100; i++) {
                char path[40];
                sprintf(path, "round%d/%d", rounds, i);
                CHECK(LOOK(path, &it) == -1);
            }
            char *next = rounds == 2 ? "1" : 0;
            if (next) execl("/proc/self/exe", argv[0], ".", next, NULL);
            return 0;
        }"#
    );
    let run = run_in_process(&c(&source, &["-static"]));
    counts_up(&run, "round2/", 100);
    counts_up(&run, "round1/", 100);
    is_in_use(&run, 100);
    // Those of the first program have stopped.
    assert!(run.stops > 100);
}

#[test]
fn instructions_that_something_jumps_to_stay() {
    // The second call continues at the comparison of the first.
    let source = format!(
        "{PRELUDE}{}",
        r#"
        long look(long nr, const char *path, long mode, long second);
        asm(".pushsection .text\n"
            "look:\n"
            "mov %rdi, %rax\n"
            "mov %rsi, %rdi\n"
            "mov %rdx, %rsi\n"
            "test %rcx, %rcx\n"
            "jnz 2f\n"
            "syscall\n"
            "1: cmp $0xfffffffffffff001, %rax\n"
            "jae 3f\n"
            "ret\n"
            "2: syscall\n"
            "jmp 1b\n"
            "3: neg %rax\n"
            "ret\n"
            ".popsection\n");
        int main(int argc, char **argv) {
            begin(argv[1]);
            for (int i = 0; i < 300; i++) {
                CHECK(look(SYS_access, "missing", 0, i & 1) == ENOENT);
                CHECK(look(SYS_access, "/", 0, i & 1) == 0);
            }
            return 0;
        }"#
    );
    for linked in [&["-static"][..], &[]] {
        let run = run_in_process(&c(&source, linked));
        assert_eq!(run.marked("missing").len(), 300);
    }
}

#[test]
fn bytes_that_only_look_like_a_site_stay() {
    // They lie in the executable segment, but in no section of code.
    let built = program(
        r#"
        __attribute__((section(".looks"), aligned(64))) const unsigned char looks[] = {
            0xb8, 0x15, 0, 0, 0, 0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff, 0x77, 0, 0xc3,
        };
        int main(int argc, char **argv) {
            const unsigned char same[] = {
                0xb8, 0x15, 0, 0, 0, 0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff, 0x77, 0, 0xc3,
            };
            begin(argv[1]);
            for (int i = 0; i < 100; i++) access("missing", 0);
            CHECK(!memcmp(looks, same, sizeof same));
            return 0;
        }"#,
        &["-Wl,-z,noseparate-code"],
    );
    let run = compare(&[built.path()], 100);
    assert_eq!(run.marked("missing").len(), 100);
}

#[test]
fn a_program_at_the_lowest_addresses_starts_as_usual() {
    for base in ["0x10000", "0x100000", "0x200000", "0x40000000"] {
        let address = format!("-Wl,-Ttext-segment={base}");
        let source = r#"
            int main(int argc, char **argv) {
                begin(argv[1]);
                for (int i = 0; i < 100; i++) access("missing", 0);
                return 0;
            }"#;
        let run = run_in_process(&program(source, &["-no-pie", &address]));
        assert_eq!(run.marked("missing").len(), 100, "{base}");
    }
}
