//! Reads and writes.

use crate::support::{compare, counts_up, is_in_use, program, run_in_process, storm};

#[test]
fn writes_are_reported_with_their_bytes_in_order() {
    let built = program(
        r#"int main(int argc, char **argv) {
            static char text[10000];
            begin(argv[1]);
            warm();
            int fd = open("file", O_CREAT | O_RDWR, 0666), pair[2];
            CHECK(fd == 3 && !pipe(pair) && dup2(pair[0], 20) == 20 && dup2(pair[1], 21) == 21);
            for (int i = 0; i < 3000; i++) {
                int length = sprintf(text, "%d", i);
                CHECK(write(fd, text, length) == length);
                CHECK(write(21, text, length) == length);
            }
            for (int i = 0, length; i < 3000; i++) {
                length = sprintf(text, "%d", i);
                CHECK(read(20, text + 100, length) == length && !memcmp(text, text + 100, length));
            }
            /* Lengths around what there is room for, and odd ones. */
            memset(text, 'x', sizeof text);
            for (int length = 4080; length < 4110; length++)
                CHECK(write(fd, text + length % 7, length) == length);
            for (int length = 0; length < 40; length++)
                CHECK(write(fd, text, length) == length);
            CHECK(write(fd, text, sizeof text) == sizeof text);
            /* At the end of what is mapped. */
            char *pages = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            CHECK(!munmap(pages + 4096, 4096));
            memset(pages, 'y', 4096);
            for (int length = 1; length < 20; length++)
                CHECK(write(fd, pages + 4096 - length, length) == length);
            CHECK(write(fd, pages + 4096, 1) == -1 && errno == EFAULT);
            CHECK(write(50, text, 1) == -1 && errno == EBADF);
            CHECK(read(50, text, 1) == -1 && errno == EBADF);
            dprintf(out, "%ld", (long)lseek(fd, 0, SEEK_CUR));
            return 0;
        }"#,
        &[],
    );
    let run = compare(&[built.path()], 9000);
    assert!(run.stops < 600, "{}", run.stops);
}

#[test]
fn a_write_after_an_observation_stops_until_that_is_reported() {
    let built = program(
        r#"int main(int argc, char **argv) {
            struct stat stat;
            struct statx statx_;
            begin(argv[1]);
            warm();
            int fd = open("file", O_CREAT | O_RDWR, 0666);
            CHECK(dup2(fd, 20) == 20);
            char byte;
            for (int i = 0; i < 500; i++) {
                CHECK(write(fd, "x", 1) == 1);
                if (i % 2)
                    CHECK(!lstat("file", &stat) && stat.st_size == 2 * i + 1);
                else
                    CHECK(!statx(AT_FDCWD, "file", 0, i % 4 ? STATX_SIZE : 0xfff, &statx_)
                        && statx_.stx_size == 2 * i + 1);
                CHECK(write(fd, "y", 1) == 1);
                CHECK(read(20, &byte, 1) == 0);
            }
            return 0;
        }"#,
        &[],
    );
    let run = compare(&[built.path()], 1000);
    // Two of four calls of each round.
    assert!(run.stops > 1000, "{}", run.stops);
}

#[test]
fn a_blocked_reader_blocks_no_other_task() {
    let built = program(
        r#"
        #include <sys/wait.h>
        int main(int argc, char **argv) {
            begin(argv[1]);
            warm();
            int there[2], back[2];
            CHECK(!pipe(there) && !pipe(back));
            CHECK(dup2(there[0], 20) == 20 && dup2(there[1], 21) == 21);
            CHECK(dup2(back[0], 22) == 22 && dup2(back[1], 23) == 23);
            char byte;
            if (!fork()) {
                for (int i = 0; i < 300; i++)
                    if (read(20, &byte, 1) != 1 || write(23, &byte, 1) != 1) _exit(1);
                _exit(0);
            }
            for (int i = 0; i < 300; i++) {
                char name[20];
                sprintf(name, "name%d", i);
                CHECK(!mkdir(name, 0777));
                CHECK(write(21, "x", 1) == 1 && read(22, &byte, 1) == 1);
            }
            int status;
            CHECK(wait(&status) > 0 && !status);
            return 0;
        }"#,
        &[],
    );
    let run = run_in_process(&built);
    is_in_use(&run, 1200);
}

#[test]
fn an_interrupted_read_or_write_comes_again_or_fails_as_the_program_wants() {
    let built = storm(
        r#"
        static volatile int restarts;
        static void enough(int signal) {
            if (++handled == 3 && restarts) {
                char bytes[4096];
                if (restarts == 1) raw(SYS_write, 21, (long)"x", 1, 0);
                else for (int i = 0; i < 17; i++) raw(SYS_read, 20, (long)bytes, 4096, 0);
            }
        }
        int main(int argc, char **argv) {
            begin(argv[1]);
            warm();
            int pair[2];
            static char block[4096];
            CHECK(!pipe(pair) && dup2(pair[0], 20) == 20 && dup2(pair[1], 21) == 21);
            for (int i = 0; i < 50; i++) {
                restarts = handled = 0;
                start(enough, 0);
                CHECK(read(20, block, 1) == -1 && errno == EINTR);
                handled = 0;
                restarts = 1;
                start(enough, SA_RESTART);
                CHECK(read(20, block, 1) == 1 && *block == 'x');
                stop();
                CHECK(handled >= 3);
                for (int j = 0; j < 16; j++) CHECK(write(21, block, 4096) == 4096);
                restarts = handled = 0;
                start(enough, 0);
                CHECK(write(21, block, 4096) == -1 && errno == EINTR);
                stop();
                for (int j = 0; j < 16; j++) CHECK(read(20, block, 4096) == 4096);
            }
            for (int i = 0; i < 1000; i++) make("after/", i);
            return 0;
        }"#,
    );
    let run = run_in_process(&built);
    counts_up(&run, "after/", 1000);
    is_in_use(&run, 2000);
}

#[test]
fn a_broken_pipe_is_reported_once() {
    let built = program(
        r#"
        static volatile int handled;
        static void handler(int signal) { handled++; }
        int main(int argc, char **argv) {
            begin(argv[1]);
            warm();
            int pair[2];
            CHECK(!pipe(pair) && !close(pair[0]) && dup2(pair[1], 21) == 21);
            signal(SIGPIPE, handler);
            for (int i = 1; i < 100; i++)
                CHECK(write(21, "x", 1) == -1 && errno == EPIPE && handled == i);
            signal(SIGPIPE, SIG_IGN);
            for (int i = 1; i < 100; i++) CHECK(write(21, "x", 1) == -1 && errno == EPIPE);
            return 0;
        }"#,
        &[],
    );
    let run = run_in_process(&built);
    is_in_use(&run, 100);
}
