//! Known descriptors: reads and writes that are not logged, or not with their bytes.

use crate::common::Seen;
use crate::support::{How, Run, program, traced};

/// Runs a program, telling the runtime at the first read of a descriptor that no more reads are
/// needed, and at the creation of a file that its bytes are not.
#[track_caller]
fn run(source: &str) -> Run {
    let built = program(&format!("{WRITES}{source}"), &[]);
    let run = traced(&[built.path()], How::Forgoes);
    assert_eq!(run.end(), Seen::Exited(0), "{}", run.output);
    assert_eq!(run.lost, 0);
    run
}

/// Makes so many writes that their sites are patched.
const WRITES: &str = r#"
#include <sys/uio.h>
__attribute__((unused)) static void warm_writes(void) {
    int null = fcntl(open("/dev/null", O_WRONLY), F_DUPFD, 70);
    struct iovec part = {"x", 1};
    for (int i = 0; i < 100; i++) {
        CHECK(write(null, "x", 1) == 1 && writev(null, &part, 1) == 1);
        CHECK(pwrite(null, "x", 1, 0) == 1);
        CHECK(dup2(null, 60) == 60 && dup(60) > 0);
    }
    for (int i = 3; i < 200; i++) if (i != out) close(i);
}
"#;

/// The number of reports of a call on a descriptor.
fn reports(run: &Run, nr: i64, fd: i32) -> usize {
    let all = run.all().into_iter();
    all.filter(|lookup| lookup.nr == nr && lookup.fd == fd)
        .count()
}

#[test]
fn reads_of_standard_input_are_reported_once_for_each_description() {
    let run = run(r#"
        static void read_all(int count) {
            char byte;
            for (int i = 0; i < count; i++) CHECK(read(0, &byte, 1) == 1);
        }
        int main(int argc, char **argv) {
            static char bytes[4000];
            int pair[2], other[2];
            begin(argv[1]);
            warm();
            CHECK(!pipe(pair) && !pipe(other));
            CHECK(write(pair[1], bytes, 4000) == 4000 && write(other[1], bytes, 4000) == 4000);
            int in = fcntl(pair[0], F_DUPFD, 40), others = fcntl(other[0], F_DUPFD, 50);
            CHECK(in == 40 && others == 50);
            /* 1, 2: one after the other. */
            CHECK(dup2(in, 0) == 0);
            read_all(1000);
            CHECK(dup2(others, 0) == 0);
            read_all(1000);
            /* 3: closed, and the lowest number again. */
            CHECK(!close(0) && dup(in) == 0);
            read_all(500);
            CHECK(!close(0) && fcntl(others, F_DUPFD, 0) == 0);
            /* 4 */
            read_all(500);
            /* 5: by calls that stop. */
            CHECK(!raw(SYS_close_range, 0, 0, 0, 0));
            CHECK(raw(SYS_dup, in, 0, 0, 0) == 0);
            read_all(500);
            /* 6 */
            CHECK(raw(SYS_dup3, others, 0, O_CLOEXEC, 0) == 0);
            read_all(500);
            /* None: a file that is opened for reading is known. */
            CHECK(!close(0) && open("/dev/zero", O_RDONLY) == 0);
            read_all(500);
            int zero = dup(0);
            CHECK(zero > 2 && dup2(in, 0) == 0);
            /* 7 */
            read_all(100);
            CHECK(dup2(zero, 0) == 0);
            read_all(500);
            /* 8: a child knows nothing. */
            CHECK(dup2(in, 0) == 0);
            /* 9 */
            read_all(100);
            int status, child = fork();
            if (!child) {
                read_all(100);
                _exit(0);
            }
            CHECK(waitpid(child, &status, 0) == child && !status);
            read_all(100);
            /* 10: nothing is there, which is said. */
            CHECK(!close(0));
            CHECK(read(0, bytes, 1) == -1 && errno == EBADF);
            CHECK(dup(in) == 0);
            /* 11 */
            read_all(100);
            return 0;
        }"#);
    assert_eq!(reports(&run, libc::SYS_read, 0), 11);
}

#[test]
fn a_read_that_fails_is_reported_also_where_reads_are_not_needed() {
    let run = run(r#"int main(int argc, char **argv) {
            char byte;
            int pair[2];
            begin(argv[1]);
            warm();
            CHECK(!pipe2(pair, O_NONBLOCK) && dup2(pair[0], 0) == 0);
            CHECK(write(pair[1], "xy", 2) == 2);
            CHECK(read(0, &byte, 1) == 1 && read(0, &byte, 1) == 1);
            for (int i = 0; i < 100; i++) CHECK(read(0, &byte, 1) == -1 && errno == EAGAIN);
            return 0;
        }"#);
    assert_eq!(reports(&run, libc::SYS_read, 0), 101);
}

#[test]
fn writes_to_a_file_that_was_made_need_no_stop_and_no_bytes() {
    let run = run(r#"
        int main(int argc, char **argv) {
            static char text[50000];
            struct stat stat_;
            begin(argv[1]);
            warm();
            warm_writes();
            for (int i = 0; i < 50000; i++) text[i] = 'a' + (i * 7 + i / 256) % 26;
            int file = open("made", O_CREAT | O_WRONLY | O_TRUNC, 0666);
            CHECK(file == 3);
            long size = 0;
            for (int i = 1; i <= 1000; i++) {
                CHECK(write(file, text + i, 40 * i) == 40 * i);
                size += 40 * i;
                CHECK(!stat("made", &stat_) && stat_.st_size == size);
                struct iovec parts[3] = {{text, i}, {0, 0}, {text + 100, 20}};
                CHECK(writev(file, parts, 3) == i + 20);
                size += i + 20;
                CHECK(!fstat(file, &stat_) && stat_.st_size == size);
                CHECK(pwrite(file, "pwrite", 6, 5 * i) == 6);
            }
            CHECK(writev(file, 0, 0) == 0);
            /* With another name all is reported as usual. */
            CHECK(!link("made", "other"));
            CHECK(write(file, "bytes", 5) == 5);
            int back = open("made", O_RDONLY);
            unsigned long sum = 0;
            for (long got; (got = read(back, text, 50000)) > 0; )
                for (long i = 0; i < got; i++) sum = sum * 31 + (unsigned char)text[i];
            dprintf(out, "%lx", sum);
            return 0;
        }"#);
    assert!(run.stops < 500, "{}", run.stops);
    assert_eq!(reports(&run, libc::SYS_write, 3), 1001);
    let with_bytes = run.all().into_iter().filter(|lookup| {
        lookup.nr == libc::SYS_write && lookup.fd == 3 && lookup.path.as_deref() != Some("")
    });
    let with_bytes: Vec<_> = with_bytes.map(|lookup| lookup.path.as_deref()).collect();
    // Some stop because the log is full.
    assert!(with_bytes.len() < 50, "{}", with_bytes.len());
    assert_eq!(with_bytes.last(), Some(&Some("bytes")));
    assert_eq!(reports(&run, libc::SYS_writev, 3), 1001);
    assert_eq!(reports(&run, libc::SYS_pwrite64, 3), 1000);
}

#[test]
fn what_is_written_is_known_of_no_other_file_with_the_number() {
    let run = run(r#"int main(int argc, char **argv) {
            begin(argv[1]);
            warm();
            warm_writes();
            int pair[2];
            CHECK(!pipe(pair) && dup2(pair[1], 21) == 21 && dup2(pair[0], 20) == 20);
            CHECK(!close(pair[0]) && !close(pair[1]));
            for (int i = 0; i < 50; i++) {
                CHECK(open("made", O_CREAT | O_WRONLY | O_TRUNC, 0666) == 3);
                CHECK(write(3, "unseen", 6) == 6);
                CHECK(i % 2 ? dup2(21, 3) == 3 : !close(3) && dup(21) == 3);
                CHECK(write(3, "seen", 4) == 4);
                CHECK(!close(3));
            }
            return 0;
        }"#);
    let written = |text: &str| {
        let all = run.all().into_iter();
        all.filter(|lookup| lookup.path.as_deref() == Some(text))
            .count()
    };
    assert_eq!((written("unseen"), written("seen")), (0, 50));
}

#[test]
fn names_are_listed_without_a_stop_in_a_directory_that_has_not_changed() {
    let source = r#"
        static long list(const char *path, unsigned *sum) {
            static char names[3000];
            int fd = open(path, O_RDONLY | O_DIRECTORY);
            CHECK(fd >= 0);
            long calls = 0;
            for (long got; (got = syscall(SYS_getdents64, fd, names, sizeof names)); calls++) {
                CHECK(got > 0);
                for (long i = 0; i < got; i++) *sum = *sum * 31 + (unsigned char)names[i];
            }
            CHECK(!close(fd));
            return calls + 1;
        }
        int main(int argc, char **argv) {
            begin(argv[1]);
            warm();
            unsigned sum = 0;
            long calls = 0;
            for (int i = 0; i < 300; i++) calls += list("/usr/bin", &sum);
            CHECK(calls > 600);
            dprintf(out, "%x", sum);
            /* This one has just been changed. */
            for (int i = 0; i < 100; i++) list(".", &sum);
            return 0;
        }"#;
    let built = program(source, &[]);
    let (status, output) = crate::support::untraced(&[built.path()]);
    assert_eq!(status, 0, "{output}");
    let run = traced(&[built.path()], How::InProcess);
    assert_eq!(run.end(), Seen::Exited(0), "{}", run.output);
    assert_eq!(run.output, output);
    // Each list once, and perhaps both calls where they stop.
    let listed = reports(&run, libc::SYS_getdents64, 3);
    assert!((400..700).contains(&listed), "{listed}");
    assert!(run.stops < 700, "{}", run.stops);
    assert!(!run.listed.is_empty());
    let changed = std::fs::metadata("/usr/bin").expect("metadata");
    use std::os::unix::fs::MetadataExt;
    let changed = changed.ctime() * 1_000_000_000 + changed.ctime_nsec();
    let unchanged = run.listed.iter().filter(|time| **time == changed);
    assert!(unchanged.count() > 250);
}

#[test]
fn an_absent_attribute_is_logged_with_its_name() {
    let run = run(r#"
        #include <sys/xattr.h>
        int main(int argc, char **argv) {
            char value[10];
            begin(argv[1]);
            close(open("file", O_CREAT | O_WRONLY, 0666));
            warm();
            for (int i = 0; i < 500; i++) {
                CHECK(getxattr("file", "user.one", value, 10) == -1 && errno != ENOENT);
                CHECK(lgetxattr("file", "user.second", value, 10) == -1 && errno != ENOENT);
                CHECK(lgetxattr("absent", "user.third", value, 10) == -1 && errno == ENOENT);
            }
            return 0;
        }"#);
    let named = |name: &str| run.marked(&format!("file\0user.{name}")).len();
    assert_eq!((named("one"), named("second")), (500, 500));
    assert_eq!(run.marked("absent\0user.third").len(), 500);
    // Those that find no file, and those before the sites are patched.
    assert!((500..1000).contains(&run.stops), "{}", run.stops);
}
