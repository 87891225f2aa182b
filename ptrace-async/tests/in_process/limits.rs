//! Where the mechanism gives way.

use crate::calls::EVERY_FORM;
use crate::common::c;
use crate::support::{
    compare, counts_up, goes_on_with_stops, is_in_use, program, run_in_process, storm, storm_with,
    untraced,
};

#[test]
fn a_mapping_in_place_of_a_patched_library_is_left_alone() {
    let library = c(
        r#"long look(const char *path) {
            long result;
            asm volatile("syscall\n\tcmp $-4095, %%rax" : "=a"(result)
                : "a"(SYS_access), "D"(path), "S"(0) : "rcx", "r11", "memory", "cc");
            return result;
        }"#,
        &["-shared", "-fPIC"],
    );
    let built = storm_with(
        r#"
        int main(int argc, char **argv) {
            begin(argv[1]);
            warm();
            for (int round = 0; round < 3; round++) {
                void *library = dlopen(argv[2], RTLD_NOW);
                CHECK(library);
                long (*look)(const char *) = dlsym(library, "look");
                char path[40];
                for (int i = 0; i < 200; i++) {
                    sprintf(path, "library/%d", round * 200 + i);
                    CHECK(look(path) == -ENOENT);
                }
                unsigned char *page = (void *)((uintptr_t)look & -4096);
                dlclose(library);
                unsigned char *there = mmap(page, 4096, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
                CHECK(there == page);
                memset(there, 0xe9, 4096);
                pid_t child = fork();
                int status;
                if (!child) {
                    for (int i = 0; i < 4096; i++) CHECK(there[i] == 0xe9);
                    make("child/", round);
                    _exit(0);
                }
                CHECK(waitpid(child, &status, 0) == child && status == 0);
                munmap(there, 4096);
                make("parent/", round);
            }
            return 0;
        }"#,
        &["-ldl"],
    );
    let run = compare(&[built.path(), library.path()], 600);
    counts_up(&run, "library/", 600);
    counts_up(&run, "child/", 3);
}

/// Installs a filter that kills at what it does not name, and at opens and
/// accesses that do not come from the program's own code.
const STRICT: &str = r#"
    extern char __executable_start, etext;
    static void restrict_calls(int by_prctl) {
        uint64_t from = (uintptr_t)&__executable_start, to = (uintptr_t)&etext;
        CHECK(from >> 32 == to >> 32);
    #define LOAD(x, more) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, x) + more)
    #define PASS(nr) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
        struct sock_filter code[] = {
            LOAD(nr, 0), PASS(SYS_write), PASS(SYS_exit_group), PASS(SYS_wait4), PASS(SYS_clone),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_access, 1, 0),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
            LOAD(instruction_pointer, 4),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, from >> 32, 1, 0),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
            LOAD(instruction_pointer, 0),
            BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (uint32_t)from, 0, 1),
            BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (uint32_t)to, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = {sizeof code / sizeof *code, code};
        CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
        if (by_prctl) CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
        else CHECK(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program));
    }
    static void look(int number) {
        char path[40];
        sprintf(path, "look/%d", number);
        if (raw(SYS_access, (long)path, 0, 0, 0) != -ENOENT) raw(SYS_exit_group, 3, 0, 0, 0);
    }
"#;

#[test]
fn a_program_that_restricts_its_calls_is_left_alone() {
    // Before and after it was patched.
    for (first, by_prctl, forks) in [(0, 0, 0), (0, 1, 1), (150, 0, 0), (150, 1, 0), (150, 0, 1)] {
        let main = r#"int main(int argc, char **argv) {
            begin(argv[1]);
            int i = 0;
            for (; i < FIRST; i++) look(i);
            restrict_calls(BY_PRCTL);
            if (FORKS) {
                int status;
                pid_t child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
                if (child) return !(wait4(child, &status, 0, 0) == child && status == 0);
            }
            for (; i < 300; i++) look(i);
            raw(SYS_exit_group, 0, 0, 0, 0);
        }"#;
        let main = main
            .replace("FIRST", &first.to_string())
            .replace("BY_PRCTL", &by_prctl.to_string())
            .replace("FORKS", &forks.to_string());
        let run = goes_on_with_stops(&format!("{STRICT}{main}"));
        assert_eq!(run.logged > 50, first > 0, "{first}");
        assert!(run.logged < 150);
    }
}

#[test]
fn static_programs_perform_calls_in_process() {
    for flags in [
        ["-static", "-no-pie", "-DRAW"],
        ["-static", "-no-pie", "-DLIBC_SITES"],
        ["-static-pie", "-fPIE", "-DLIBC_SITES"],
    ] {
        let built = program(EVERY_FORM, &flags);
        compare(&[built.path()], 1_000);
    }
}

#[test]
fn a_program_under_address_sanitizer_performs_calls_in_process() {
    let built = program(EVERY_FORM, &["-DLIBC_SITES", "-fsanitize=address"]);
    // LeakSanitizer would trace the program itself.
    let (status, output) = untraced(&[built.path()]);
    assert_eq!(status, 0, "untraced: {output}");
    let run = run_in_process(&built);
    assert_eq!(run.output, output);
    is_in_use(&run, 1000);
}

#[test]
fn a_program_that_overwrites_its_log_is_detected() {
    let built = storm(
        r#"
        int main(int argc, char **argv) {
            begin(argv[1]);
            warm();
            for (int i = 0; i < 10; i++) make("before/", i);
            /* Where the entries are. */
            memset(*(char **)0x7e9000002000 + 704, 0xff, 1000);
            for (int i = 0; i < 10; i++) make("meanwhile/", i);
            mkdir("directory", 0777);
            for (int i = 0; i < 100; i++) make("after/", i);
            return 0;
        }"#,
    );
    let run = run_in_process(&built);
    assert_eq!(run.lost, 1);
    counts_up(&run, "after/", 100);
}
