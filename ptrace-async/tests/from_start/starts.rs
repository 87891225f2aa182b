//! How programs start.

use crate::common::Seen;
use crate::support::{How, compare, counts_up, is_in_use, program, traced, untraced};

/// A program that lives shortly, and makes ten lookups.
const SHORT: &str = r#"
    int main(int argc, char **argv) {
        char path[40];
        begin(argv[1]);
        for (int i = 0; i < 10; i++) {
            sprintf(path, "short/%d", i);
            access(path, 0);
        }
        return 0;
    }"#;

#[test]
fn a_short_program_starts_without_stops_for_its_loader() {
    let built = program(SHORT, &[]);
    let run = compare(&[built.path()], 15);
    counts_up(&run, "short/", 10);
    let libraries = run.marked("libc.so.6");
    assert!(!libraries.is_empty());
    let stops = traced(&[built.path()], How::Stops).stops;
    assert!(run.stops < stops / 2, "{} of {stops}", run.stops);
}

#[test]
fn a_short_static_program_performs_its_calls() {
    let built = program(SHORT, &["-static"]);
    let stops = traced(&[built.path()], How::Stops);
    let run = traced(&[built.path()], How::InProcess);
    assert_eq!(run.end(), Seen::Exited(0), "{}", run.output);
    assert_eq!(run.all(), stops.all());
    is_in_use(&run, 10);
}

#[test]
fn a_program_starts_with_the_kernels_registers_and_stack() {
    let built = program(
        r#"
        #include <sys/auxv.h>
        #include <fcntl.h>
        extern char **environ;
        int main(int argc, char **argv) {
            begin(argv[1]);
            for (int i = 2; i < argc; i++) dprintf(out, "%s\n", argv[i]);
            for (char **at = environ; *at; at++) dprintf(out, "%s\n", *at);
            dprintf(out, "%lu %lu %s\n", getauxval(AT_PHNUM), getauxval(AT_PAGESZ),
                (char *)getauxval(AT_EXECFN));
            /* Nothing is open that was not. */
            for (int fd = 3; fd < 90; fd++)
                if (fcntl(fd, F_GETFD) != -1) dprintf(out, "%d\n", fd);
            sigset_t set;
            CHECK(!sigprocmask(0, 0, &set));
            for (int signal = 1; signal < 32; signal++) CHECK(!sigismember(&set, signal));
            return 0;
        }"#,
        &[],
    );
    let argv = [built.path(), "one", "", "a longer argument"];
    let [stops, run] = [How::Stops, How::InProcess].map(|how| {
        let run = traced(&argv, how);
        assert_eq!(run.end(), Seen::Exited(0), "{}", run.output);
        let name_of_directory = |line: &&str| !line.contains("/.tmp");
        let lines = run.output.lines().filter(name_of_directory);
        lines.map(str::to_owned).collect::<Vec<_>>()
    });
    assert_eq!(run, stops);
}

#[test]
fn a_library_that_a_program_reads_is_the_real_one() {
    let built = program(
        r#"
        #include <link.h>
        static char bytes[4 << 20];
        static int each(struct dl_phdr_info *info, size_t size, void *data) {
            if (strstr(info->dlpi_name, "libc.so.6")) strcpy(data, info->dlpi_name);
            return 0;
        }
        int main(int argc, char **argv) {
            char path[500] = "";
            begin(argv[1]);
            dl_iterate_phdr(each, path);
            CHECK(path[0] == '/');
            int fd = open(path, O_RDONLY);
            CHECK(fd >= 0);
            unsigned long sum = 0;
            ssize_t got;
            while ((got = read(fd, bytes, sizeof bytes)) > 0)
                for (ssize_t at = 0; at < got; at++) sum = sum * 31 + bytes[at];
            struct stat it;
            CHECK(!fstat(fd, &it));
            dprintf(out, "%s %lu %lu %lu\n", path, sum, (long)it.st_ino, (long)it.st_size);
            return 0;
        }"#,
        &[],
    );
    compare(&[built.path()], 5);
}

#[test]
fn a_second_library_in_a_namespace_of_its_own_works() {
    let built = program(
        r#"
        #define LM_ID_NEWLM -1
        void *dlmopen(long, const char *, int);
        int main(int argc, char **argv) {
            begin(argv[1]);
            void *other = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW);
            CHECK(other);
            int (*its)(const char *, int) = (int (*)(const char *, int))dlsym(other, "access");
            CHECK(its && its != access);
            CHECK(its("other/missing", 0) == -1);
            CHECK(its("/", 0) == 0);
            return 0;
        }"#,
        &["-ldl"],
    );
    let run = compare(&[built.path()], 8);
    assert_eq!(run.marked("other/").len(), 1);
}

/// A program that starts itself again under a limit, for which there is too
/// little to start in process.
fn limited(limit: &str) -> String {
    format!(
        r#"
        int main(int argc, char **argv) {{
            begin(argv[1]);
            if (argc == 2) {{
                char *again[] = {{argv[0], argv[1], "again", 0}};
                {limit}
                execv(argv[0], again);
                CHECK(0);
            }}
            for (int i = 0; i < 10; i++) access("again/missing", 0);
            return 0;
        }}"#
    )
}

#[test]
fn without_descriptors_a_program_starts_as_usual() {
    // One at a time is what the loader needs, and a second the copy.
    for limit in [4, 5] {
        let source = limited(&format!(
            "struct rlimit limit = {{{limit}, {limit}}}; close(out); \
             for (int fd = 3; fd < 90; fd++) close(fd); \
             CHECK(!setrlimit(RLIMIT_NOFILE, &limit));",
        ));
        let source = source.replace("begin(argv[1]);", "if (argc == 2) begin(argv[1]);");
        let built = program(&source, &[]);
        let run = traced(&[built.path()], How::InProcess);
        assert_eq!(run.end(), Seen::Exited(0), "{}", run.output);
        assert_eq!(run.marked("again/").len(), 10);
    }
}

#[test]
fn without_memory_a_program_starts_as_usual() {
    // Enough for the program, and not for all logs.
    let source =
        limited("struct rlimit limit = {5 << 20, 5 << 20}; CHECK(!setrlimit(RLIMIT_AS, &limit));");
    let built = program(&source, &[]);
    let (status, output) = untraced(&[built.path()]);
    assert_eq!(status, 0, "{output}");
    let run = traced(&[built.path()], How::InProcess);
    assert_eq!(run.end(), Seen::Exited(0), "{}", run.output);
    assert_eq!(run.marked("again/").len(), 10);
}

#[test]
fn many_programs_start_one_after_the_other() {
    let built = program(
        r#"
        int main(int argc, char **argv) {
            begin(argv[1]);
            int left = argc == 2 ? 300 : atoi(argv[2]);
            char path[40], number[20];
            sprintf(path, "round/%d", 300 - left);
            access(path, 0);
            if (left > 1) {
                sprintf(number, "%d", left - 1);
                char *next[] = {argv[0], argv[1], number, 0};
                close(out);
                execv(argv[0], next);
                CHECK(0);
            }
            return 0;
        }"#,
        &[],
    );
    let run = traced(&[built.path()], How::InProcess);
    assert_eq!(run.end(), Seen::Exited(0), "{}", run.output);
    assert_eq!(run.marked("round/").len(), 300);
}

#[test]
fn a_pending_signal_is_delivered_to_the_program() {
    // It is blocked over the execve, or kills the program before its main.
    let built = program(
        r#"
        int main(int argc, char **argv) {
            sigset_t set;
            begin(argv[1]);
            sigemptyset(&set);
            sigaddset(&set, SIGUSR1);
            if (argc == 2) {
                char *again[] = {argv[0], argv[1], "again", 0};
                sigprocmask(SIG_BLOCK, &set, 0);
                raise(SIGUSR1);
                execv(argv[0], again);
                CHECK(0);
            }
            CHECK(!sigpending(&set) && sigismember(&set, SIGUSR1));
            for (int i = 0; i < 10; i++) access("pending/missing", 0);
            sigprocmask(SIG_UNBLOCK, &set, 0);
            CHECK(0);
            return 0;
        }"#,
        &[],
    );
    let run = traced(&[built.path()], How::InProcess);
    assert_eq!(run.end(), Seen::Killed(libc::SIGUSR1), "{}", run.output);
    assert_eq!(run.marked("pending/").len(), 10);
}

#[test]
fn breakpoints_of_a_program_are_its_own() {
    let built = program(
        r#"
        static volatile int trapped;
        static void handler(int signal) { trapped++; }
        int main(int argc, char **argv) {
            begin(argv[1]);
            signal(SIGTRAP, handler);
            __asm__ volatile("int3");
            access("after/missing", 0);
            __asm__ volatile("int3");
            CHECK(trapped == 2);
            return 0;
        }"#,
        &[],
    );
    let run = traced(&[built.path()], How::InProcess);
    assert_eq!(run.end(), Seen::Exited(0), "{}", run.output);
    assert_eq!(run.marked("after/").len(), 1);
}

#[test]
fn programs_with_a_sanitizer_that_looks_at_mappings_start() {
    let name = std::process::Command::new("cc")
        .arg("-print-file-name=libtsan.so")
        .output()
        .expect("a compiler");
    if !name.stdout.starts_with(b"/") {
        eprintln!("skipped: there is no libtsan");
        return;
    }
    let built = program(SHORT, &["-fsanitize=thread"]);
    let (status, _) = untraced(&[built.path()]);
    let run = traced(&[built.path()], How::InProcess);
    assert_eq!(run.end(), Seen::Exited(status), "{}", run.output);
    if status == 0 {
        counts_up(&run, "short/", 10);
    }
}

/// Adds up the library's file, wherever the program has it from.
const SUM: &str = r#"
    static char bytes[4 << 20];
    int main(int argc, char **argv) {
        begin(argv[1]);
        int fd = open("/lib/x86_64-linux-gnu/libc.so.6", O_RDONLY);
        unsigned long sum = 0;
        ssize_t got;
        while ((got = read(fd, bytes, sizeof bytes)) > 0)
            for (ssize_t at = 0; at < got; at++) sum = sum * 31 + bytes[at];
        struct stat it;
        int asked = fstat(fd, &it);
        dprintf(out, "%lu %d %lu\n", sum, asked, (long)it.st_ino);
        return 0;
    }"#;

#[test]
fn a_program_that_loads_itself_is_no_loader() {
    let built = program(SUM, &["-static-pie"]);
    let (status, output) = untraced(&[built.path()]);
    let run = traced(&[built.path()], How::InProcess);
    assert_eq!(run.end(), Seen::Exited(status));
    assert_eq!(run.output, output);
}

#[test]
fn the_library_is_loaded_once_whether_there_is_a_copy_or_not() {
    let built = program(
        r#"
        #include <link.h>
        static int each(struct dl_phdr_info *info, size_t size, void *data) {
            if (strstr(info->dlpi_name, "libc.so.6")) strcpy(data, info->dlpi_name);
            return 0;
        }
        int main(int argc, char **argv) {
            char path[500] = "", other[600];
            begin(argv[1]);
            dl_iterate_phdr(each, path);
            CHECK(path[0] == '/');
            /* The same by another name, when there is no descriptor for a copy. */
            snprintf(other, sizeof other, "/.%s", path);
            int fd = dup(2);
            struct rlimit limit = {fd + 1, fd + 1};
            close(fd);
            CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
            void *again = dlopen(other, RTLD_NOW);
            CHECK(again);
            CHECK(dlsym(again, "malloc") == (void *)malloc);
            return 0;
        }"#,
        &["-ldl"],
    );
    compare(&[built.path()], 5);
}

#[test]
fn a_pipe_with_the_name_of_the_library_is_not_waited_for() {
    let built = program(
        r#"
        int main(int argc, char **argv) {
            char byte;
            begin(argv[1]);
            CHECK(!mkfifo("libc.so.6", 0600));
            char path[300];
            CHECK(getcwd(path, 200));
            strcat(path, "/libc.so.6");
            pid_t child = fork();
            if (!child) {
                int fd = open(path, O_WRONLY);
                _exit(write(fd, "x", 1) != 1);
            }
            int fd = open(path, O_RDONLY);
            CHECK(read(fd, &byte, 1) == 1 && byte == 'x');
            int status;
            CHECK(waitpid(child, &status, 0) == child && status == 0);
            return 0;
        }"#,
        &[],
    );
    let run = traced(&[built.path()], How::InProcess);
    assert_eq!(run.end(), Seen::Exited(0), "{}", run.output);
}
