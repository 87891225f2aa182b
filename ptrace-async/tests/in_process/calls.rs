//! Calls of every form, and what they leave alone.

use crate::common::Seen;
use crate::support::{How, compare, counts_up, program, traced};

pub(crate) const EVERY_FORM: &str = r#"
static char longest[4096], too_long[8192];
static long last[200];
static int current, round_;
static void note(long value, const char *what) {
    int at = current++;
    if (round_ == 0) {
        last[at] = value + 1000000;
    }
    if (last[at] != value) {
        last[at] = value;
        dprintf(out, "%d %s: %ld\n", round_, what, value);
    }
}
#ifdef RAW
#define CALL(nr, a, b, c, d) raw(nr, (long)(a), (long)(b), (long)(c), (long)(d))
#else
#define CALL(nr, a, b, c, d) ({ long r = syscall(nr, a, b, c, d); r == -1 ? -errno : r; })
#endif
#define NOTE(nr, a, b, c, d) note(CALL(nr, a, b, c, d), #nr " " #a " " #b " " #c " " #d)
#define OPENED(nr, a, b, c, d) do { \
        long fd = CALL(nr, a, b, c, d); \
        note(fd, #nr " " #a " " #b " " #c " " #d); \
        if (fd >= 0) note(CALL(SYS_close, fd, 0, 0, 0), "close"); \
    } while (0)
#define LIBC(call) note(({ errno = 0; long r = call; r == -1 ? -errno : r; }), #call)
int main(int argc, char **argv) {
    char buffer[5000];
    struct stat st;
#ifdef RAW
    /* The first to be patched, so that this is near. */
    for (int i = 0; i < 60; i++) raw(SYS_access, (long)"missing", 0, 0, 0);
#endif
    begin(argv[1]);
    mkdir("dir", 0777);
    chmod(".", 0755);
    close(open("file", O_CREAT | O_WRONLY, 0644));
    close(open("forbidden", O_CREAT | O_WRONLY, 0));
    close(open("dir/inner", O_CREAT | O_WRONLY, 0644));
    mkdir("closed", 0); 
    symlink("file", "link");
    symlink("nowhere", "dangling");
    symlink("loop", "loop");
    memset(longest, '/', 4095);
    memcpy(longest + 4095 - 4, "file", 4);
    memcpy(longest, "./", 2);
    memset(too_long, 'x', 8191);
    for (int i = 0; i < 8191; i += 200) too_long[i] = '/';
    too_long[0] = '.';
    char *edge = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(edge + 4096, 4096);
    edge += 4096 - 8;
    strcpy(edge, "no-file");
    char *beyond = edge + 8 - 4;
    int dir = open("dir", O_RDONLY | O_DIRECTORY);
    int path = open("link", O_PATH | O_NOFOLLOW);
    void *wild = (void *)0x10, *kernel = (void *)0xffff800000000000;
    const char *paths[] = {"file", "missing", "file/below", "missing/below", "dir", "dir/inner",
        "link", "dangling", "loop", "forbidden", "closed/x", "", 0, wild, kernel, longest,
        too_long, edge, beyond, "/dev/null", "/proc/self/fd", "./dir/../file"};
    for (round_ = 0; round_ < 320; round_++) {
        current = 0;
        if (round_ == 250 && geteuid() == 0) setfsuid(65534);
#ifdef LIBC_SITES
        LIBC(access("file", 0)); LIBC(access("missing", R_OK)); LIBC(access("file", X_OK));
        LIBC(access("file", 100)); LIBC(access("missing", 100));
        LIBC(faccessat(dir, "inner", R_OK, 0)); LIBC(faccessat(dir, "missing", R_OK, AT_EACCESS));
        LIBC(stat("file", &st)); LIBC(stat("missing", &st)); LIBC(lstat("dangling", &st));
        LIBC(stat("loop", &st)); LIBC(fstat(dir, &st)); LIBC(fstat(999, &st));
        LIBC(fstatat(dir, "inner", &st, AT_SYMLINK_NOFOLLOW)); LIBC(fstatat(dir, "x", &st, 0));
        LIBC(close(open("dir", O_RDONLY | O_DIRECTORY))); LIBC(open("file", O_DIRECTORY));
        LIBC(open("file/below", O_DIRECTORY)); LIBC(open("missing", O_DIRECTORY));
        LIBC(openat(dir, "inner", O_DIRECTORY)); LIBC(close(open("link", O_NOFOLLOW | O_PATH)));
        LIBC(close(openat(dir, "inner", O_NOFOLLOW | O_NOCTTY))); LIBC(open("dangling", O_NOFOLLOW));
        struct statx sx;
        LIBC(statx(AT_FDCWD, "file", 0, STATX_BASIC_STATS, &sx)); note(sx.stx_mode, "its mode");
        LIBC(statx(AT_FDCWD, "link", AT_SYMLINK_NOFOLLOW, STATX_TYPE, &sx)); note(sx.stx_mode, "its mode");
        LIBC(statx(dir, "inner", 0, 0, &sx)); LIBC(statx(dir, "missing", 0, 0xfff, &sx));
        LIBC(statx(dir, "", AT_EMPTY_PATH, 0xfff, &sx)); LIBC(statx(path, "", AT_EMPTY_PATH, 0xfff, &sx));
        LIBC(statx(999, "", AT_EMPTY_PATH, 0xfff, &sx)); LIBC(statx(dir, 0, AT_EMPTY_PATH, 0xfff, &sx));
        LIBC(statx(AT_FDCWD, "file", 0, 0xfff, wild)); LIBC(statx(AT_FDCWD, wild, 0, 0xfff, &sx));
        LIBC(statx(AT_FDCWD, "file/below", 0, 0xfff, &sx)); LIBC(statx(AT_FDCWD, "file", 0x7777, 0xfff, &sx));
        LIBC(statx(AT_FDCWD, "closed/x", 0, 0xfff, &sx)); LIBC(statx(AT_FDCWD, "", 0, 0xfff, &sx));
        LIBC(readlink("link", buffer, 100)); LIBC(readlink("file", buffer, 100));
        LIBC(readlink("link", buffer, 2)); LIBC(readlink("file", buffer, 0)); LIBC(readlink("missing", buffer, 9));
        LIBC(readlinkat(dir, "inner", buffer, 100)); LIBC(readlinkat(dir, "inner", buffer, 0));
        LIBC(close(open("file", O_RDONLY))); LIBC(close(open("dir", O_RDONLY)));
        LIBC(open("missing", O_RDONLY)); LIBC(open("link", O_RDONLY | O_NOFOLLOW));
        LIBC(close(openat(dir, "inner", O_RDONLY | O_CLOEXEC))); LIBC(openat(dir, "no", O_RDONLY));
        LIBC(openat(999, "no", O_RDONLY)); LIBC(openat(path, "no", O_RDONLY));
        LIBC(close(-1)); LIBC(close(999)); 
        LIBC(open("forbidden", 0)); LIBC(access("closed/x", 0));
        FILE *stream = fopen("file", "r"); CHECK(stream); fclose(stream);
#else
        for (int i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
            const char *p = paths[i];
            OPENED(SYS_open, p, O_RDONLY, 0, 0);
            NOTE(SYS_stat, p, &st, 0, 0);
            NOTE(SYS_lstat, p, &st, 0, 0);
            NOTE(SYS_access, p, F_OK, 0, 0);
            memset(buffer, 7, 10);
            NOTE(SYS_readlink, p, buffer, 5000, 0);
            note(buffer[0] + 256 * buffer[5], "what it holds");
            if (i > 18) continue;
            OPENED(SYS_openat, dir, p, O_RDONLY | O_CLOEXEC, 0);
            NOTE(SYS_newfstatat, dir, p, &st, 0);
            NOTE(SYS_newfstatat, AT_FDCWD, p, &st, AT_EMPTY_PATH);
            NOTE(SYS_newfstatat, dir, p, &st, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW);
            NOTE(SYS_faccessat, dir, p, R_OK, 0);
            NOTE(SYS_readlinkat, AT_FDCWD, p, buffer, 1);
        }
        OPENED(SYS_openat, AT_FDCWD, "link", O_NOFOLLOW, 0);
        OPENED(SYS_openat, AT_FDCWD, "link", O_NOFOLLOW | O_PATH, 0);
        OPENED(SYS_openat, AT_FDCWD, "dir", O_DIRECTORY, 0);
        OPENED(SYS_openat, AT_FDCWD, "file", O_DIRECTORY, 0);
        OPENED(SYS_openat, AT_FDCWD, "created", O_CREAT | O_RDWR, 0600);
        OPENED(SYS_openat, 999, "file", O_RDONLY, 0);
        OPENED(SYS_openat, path, "file", O_RDONLY, 0);
        OPENED(SYS_open, "file", O_RDONLY | O_TRUNC, 0, 0);
        OPENED(SYS_open, "file", 3, 0, 0);
        NOTE(SYS_close, 999, 0, 0, 0);
        NOTE(SYS_close, -1, 0, 0, 0);
        NOTE(SYS_stat, "file", wild, 0, 0);
        NOTE(SYS_stat, "missing", wild, 0, 0);
        NOTE(SYS_access, "file", X_OK, 0, 0);
        NOTE(SYS_access, "file", 100, 0, 0);
        NOTE(SYS_access, 0, 100, 0, 0);
        NOTE(SYS_access, wild, -1, 0, 0);
        NOTE(SYS_faccessat2, dir, "inner", R_OK, AT_EACCESS);
        NOTE(SYS_faccessat2, dir, "missing", R_OK, AT_SYMLINK_NOFOLLOW);
        NOTE(SYS_faccessat2, dir, wild, R_OK, 0x7777);
        NOTE(SYS_faccessat2, dir, "", R_OK, AT_EMPTY_PATH);
        NOTE(SYS_readlink, 0, buffer, 0, 0);
        NOTE(SYS_readlink, wild, buffer, -1, 0);
        NOTE(SYS_readlink, "link", 0, 100, 0);
        NOTE(SYS_readlink, "file", 0, 100, 0);
        NOTE(SYS_readlinkat, dir, 0, buffer, 0);
        NOTE(SYS_readlinkat, path, "", buffer, 100);
        NOTE(SYS_readlinkat, dir, "", buffer, 100);
        NOTE(SYS_newfstatat, path, 0, &st, AT_EMPTY_PATH);
        NOTE(SYS_newfstatat, dir, "", wild, AT_EMPTY_PATH);
        NOTE(SYS_newfstatat, 999, "", &st, AT_EMPTY_PATH);
        NOTE(SYS_newfstatat, dir, "inner", &st, 0x4000000);
        NOTE(SYS_fstat, dir, &st, 0, 0);
        NOTE(SYS_fstat, 999, &st, 0, 0);
        NOTE(SYS_fstat, dir, wild, 0, 0);
        NOTE(SYS_statfs, "file", buffer, 0, 0);
        NOTE(SYS_statfs, "missing", buffer, 0, 0);
        NOTE(SYS_statfs, "file", wild, 0, 0);
        NOTE(SYS_dup2, dir, 50, 0, 0);
        NOTE(SYS_fcntl, 50, F_GETFD, 0, 0);
        NOTE(SYS_fcntl, 50, F_SETFD, FD_CLOEXEC, 0);
        NOTE(SYS_fcntl, 50, F_GETFD, 0, 0);
        NOTE(SYS_dup3, dir, 51, O_CLOEXEC, 0);
        NOTE(SYS_dup3, dir, dir, 0, 0);
        NOTE(SYS_dup2, 999, 52, 0, 0);
        OPENED(SYS_dup, dir, 0, 0, 0);
        OPENED(SYS_fcntl, dir, F_DUPFD, 60, 0);
        OPENED(SYS_fcntl, dir, F_DUPFD_CLOEXEC, 60, 0);
        NOTE(SYS_fcntl, dir, F_DUPFD, -1, 0);
        NOTE(SYS_fcntl, dir, F_GETFL, 0, 0);
        NOTE(SYS_fcntl, dir, 4711, 0, 0);
        NOTE(SYS_ioctl, 50, 0x5401, buffer, 0);
        NOTE(SYS_ioctl, 999, 0x5401, buffer, 0);
        NOTE(SYS_close, 50, 0, 0, 0);
        NOTE(SYS_close, 51, 0, 0, 0);
        int pair[2] = {-1, -1};
        NOTE(SYS_pipe2, pair, O_CLOEXEC, 0, 0);
        note(pair[0], "its first"); note(pair[1], "its second");
        CHECK(write(pair[1], "x", 1) == 1 && read(pair[0], buffer, 1) == 1);
        NOTE(SYS_close, pair[0], 0, 0, 0);
        NOTE(SYS_close, pair[1], 0, 0, 0);
        NOTE(SYS_pipe2, pair, 4711, 0, 0);
        NOTE(SYS_pipe, wild, 0, 0, 0);
        NOTE(SYS_umask, 022, 0, 0, 0);
        NOTE(SYS_uname, buffer, 0, 0, 0);
        NOTE(SYS_uname, wild, 0, 0, 0);
        NOTE(SYS_sysinfo, buffer, 0, 0, 0);
        NOTE(SYS_gettimeofday, buffer, 0, 0, 0);
        NOTE(SYS_getrandom, buffer, 16, 0, 0);
        NOTE(SYS_getrandom, wild, 16, 0, 0);
        /* What the same site makes, too. */
        NOTE(SYS_getppid, 0, 0, 0, 0) , current--;
        NOTE(SYS_dup, 100, 0, 0, 0);
        NOTE(SYS_close, last[current - 1] >= 0 ? last[current - 1] % 1000000 : -1, 0, 0, 0);
        NOTE(SYS_lseek, 100, 0, 77, 0);
        NOTE(SYS_mkdir, "dir", 0777, 0, 0);
        NOTE(-1L, 0, 0, 0, 0);
        NOTE(1L << 32 | SYS_access, "missing", 0, 0, 0);
#endif
    }
    dprintf(out, "size %zu\n", sizeof st);
    return 0;
}
"#;

#[test]
fn every_form_of_call_does_what_it_does_without_a_tracer() {
    let built = program(EVERY_FORM, &["-DRAW"]);
    compare(&[built.path()], 30_000);
}

#[test]
fn the_general_call_of_libc_may_make_any_call() {
    let built = program(EVERY_FORM, &[]);
    compare(&[built.path()], 30_000);
}

#[test]
fn the_functions_of_libc_do_what_they_do_without_a_tracer() {
    let built = program(EVERY_FORM, &["-DLIBC_SITES"]);
    compare(&[built.path()], 5_000);
}

#[test]
fn a_call_leaves_all_other_registers_and_the_red_zone_alone() {
    let built = program(
        r#"
        struct registers { unsigned long rax, rbx, rdx, rsi, rdi, rbp, r8, r9, r10, r12, r13, r14, r15;
            unsigned long zone[16], vectors[32] __attribute__((aligned(16))); } in, after;
        void probe(void);
        asm(R"(
        .globl probe
        probe:
            push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15
            .set i, 0
            .rept 16
            mov in+104+8*i(%rip), %rax
            mov %rax, -8-8*i(%rsp)
            .set i, i+1
            .endr
            mov in(%rip), %rax; mov in+8(%rip), %rbx; mov in+16(%rip), %rdx; mov in+24(%rip), %rsi
            mov in+32(%rip), %rdi; mov in+40(%rip), %rbp; mov in+48(%rip), %r8; mov in+56(%rip), %r9
            mov in+64(%rip), %r10; mov in+72(%rip), %r12; mov in+80(%rip), %r13; mov in+88(%rip), %r14
            mov in+96(%rip), %r15
            movdqu in+240(%rip), %xmm0; movdqu in+256(%rip), %xmm1; movdqu in+272(%rip), %xmm2
            movdqu in+288(%rip), %xmm3; movdqu in+480(%rip), %xmm15
            syscall
            cmp $-4095, %rax
            mov %rax, after(%rip); mov %rbx, after+8(%rip); mov %rdx, after+16(%rip); mov %rsi, after+24(%rip)
            mov %rdi, after+32(%rip); mov %rbp, after+40(%rip); mov %r8, after+48(%rip); mov %r9, after+56(%rip)
            mov %r10, after+64(%rip); mov %r12, after+72(%rip); mov %r13, after+80(%rip); mov %r14, after+88(%rip)
            mov %r15, after+96(%rip)
            movdqu %xmm0, after+240(%rip); movdqu %xmm1, after+256(%rip); movdqu %xmm2, after+272(%rip)
            movdqu %xmm3, after+288(%rip); movdqu %xmm15, after+480(%rip)
            .set i, 0
            .rept 16
            mov -8-8*i(%rsp), %rax
            mov %rax, after+104+8*i(%rip)
            .set i, i+1
            .endr
            pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx
            ret
        )");
        _Static_assert(offsetof(struct registers, zone) == 104 && offsetof(struct registers, vectors) == 240, "");
        int main(int argc, char **argv) {
            char buffer[100];
            struct stat st;
            begin(argv[1]);
            long calls[][5] = {
                {SYS_access, (long)"missing", 0, 3, 4}, {SYS_access, (long)".", 0, 3, 4},
                {SYS_readlink, (long)"/proc/self/cwd", (long)buffer, 100, 9},
                {SYS_open, (long)"/dev/null", O_RDONLY, 5, 6}, {SYS_close, -1, 2, 3, 4},
                {SYS_openat, AT_FDCWD, (long)"missing", O_RDONLY, 8},
                {SYS_stat, (long)"missing", (long)&st, 7, 8}, {SYS_stat, (long)".", (long)&st, 7, 8},
                {SYS_newfstatat, 100, (long)"", (long)&st, AT_EMPTY_PATH},
                {SYS_openat, AT_FDCWD, (long)"output", O_RDWR, 8}, {SYS_getppid, 1, 2, 3, 4},
            };
            for (int i = 0; i < 600; i++) {
                for (int j = 0; j < sizeof calls / sizeof *calls; j++) {
                    unsigned long *words = (void *)&in;
                    for (int k = 0; k < sizeof in / 8; k++)
                        words[k] = 0x9e3779b97f4a7c15ul * (i * 100 + k + 1);
                    in.rax = calls[j][0]; in.rdi = calls[j][1]; in.rsi = calls[j][2];
                    in.rdx = calls[j][3]; in.r10 = calls[j][4];
                    probe();
                    long result = after.rax;
                    CHECK(!memcmp(&in.rbx, &after.rbx, 13 * 8 + 128 - 8));
                    for (int k = 0; k < 32; k++)
                        CHECK(k > 7 && k < 30 || in.vectors[k] == after.vectors[k]);
                    if ((j == 3 || j == 9) && result >= 0) close(result);
                }
            }
            return 0;
        }"#,
        &[],
    );
    compare(&[built.path()], 4000);
}

#[test]
fn a_log_that_fills_up_is_emptied() {
    let built = program(
        r#"int main(int argc, char **argv) {
            char path[4096];
            begin(argv[1]);
            for (int i = 0; i < 10000; i++) {
                sprintf(path, "full/%d", i);
                CHECK(access(path, 0) == -1 && errno == ENOENT);
            }
            for (int i = 0; i < 300; i++) {
                memset(path, '/', 4095);
                sprintf(path + 4085, "long%d", i);
                CHECK(access(path, 0) == -1 && errno == ENOENT);
            }
            return 0;
        }"#,
        &[],
    );
    let run = compare(&[built.path()], 10_000);
    assert_eq!(run.marked("full/").len(), 10_000);
    assert_eq!(run.marked("//long").len(), 300);
    assert!(run.stops < 400, "{}", run.stops);
}

#[test]
fn a_tree_is_walked_with_a_stop_for_each_list_of_names() {
    let built = program(
        r#"int main(int argc, char **argv) {
            begin(argv[1]);
            mkdir("walked", 0777);
            close(open("walked/file", O_CREAT | O_WRONLY, 0644));
            char names[500];
            for (int i = 0; i < 1000; i++) {
                int dir = open("walked", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                CHECK(dir >= 0 && syscall(SYS_getdents64, dir, names, 500) > 0);
                int file = openat(dir, "file", O_RDONLY | O_NOFOLLOW);
                CHECK(file >= 0 && !close(file) && !close(dir));
                CHECK(open("walked/file", O_RDONLY | O_DIRECTORY) == -1 && errno == ENOTDIR);
            }
            return 0;
        }"#,
        &[],
    );
    let run = compare(&[built.path()], 3500);
    // One for the names, and two for the file that is no directory.
    assert!(run.stops < 3400, "{}", run.stops);
}

#[test]
fn statx_is_logged_with_its_path() {
    let built = program(
        r#"int main(int argc, char **argv) {
            char path[64];
            struct statx sx;
            begin(argv[1]);
            close(open("file", O_CREAT | O_WRONLY, 0644));
            int file = open("file", O_RDONLY);
            for (int i = 0; i < 3000; i++) {
                sprintf(path, "absent/%d", i);
                CHECK(statx(AT_FDCWD, path, 0, 0xfff, &sx) == -1 && errno == ENOENT);
                CHECK(!statx(AT_FDCWD, "file", 0, 0xfff, &sx) && S_ISREG(sx.stx_mode));
                CHECK(!statx(file, "", AT_EMPTY_PATH, 0xfff, &sx) && S_ISREG(sx.stx_mode));
            }
            return 0;
        }"#,
        &[],
    );
    let run = compare(&[built.path()], 6000);
    assert_eq!(run.marked("absent/").len(), 3000);
    assert!(run.stops < 400, "{}", run.stops);
}

#[test]
fn a_result_may_overwrite_its_own_path() {
    let built = program(
        r#"
        int main(int argc, char **argv) {
            char buffer[300];
            begin(argv[1]);
            warm();
            symlink("overlap/second", "overlap");
            symlink("a-target-that-is-longer-than-four", "f");
            char *page = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            munmap(page + 4096, 4096);
            for (int i = 0; i < 100; i++) {
                strcpy(buffer, "overlap");
                CHECK(readlink(buffer, buffer, sizeof buffer) == 14);
                CHECK(!memcmp(buffer, "overlap/second", 14));
                /* No end, and nothing behind it. */
                strcpy(page + 4096 - 4, "f");
                CHECK(readlink(page + 4096 - 4, page + 4096 - 4, 4) == 4);
                CHECK(!memcmp(page + 4096 - 4, "a-ta", 4));
                struct stat *st = (void *)buffer;
                strcpy(buffer + 40, ".");
                CHECK(!stat(buffer + 40, st));
                strcpy(buffer, "./");
                CHECK(!lstat(buffer, (void *)buffer));
                memset(buffer, '/', 200);
                strcpy(buffer + 200, "dev");
                CHECK(!stat(buffer + 100, (void *)buffer));
                strcpy(buffer, ".");
                CHECK(!fstatat(AT_FDCWD, buffer, (void *)buffer, 0));
                strcpy(buffer, ".");
                CHECK(!statx(AT_FDCWD, buffer, 0, 0xfff, (void *)buffer));
                CHECK(S_ISDIR(((struct statx *)buffer)->stx_mode));
                strcpy(buffer + 200, "./");
                CHECK(!statx(AT_FDCWD, buffer + 200, 0, 0xfff, (void *)buffer));
            }
            return 0;
        }"#,
        &[],
    );
    let run = compare(&[built.path()], 600);
    assert_eq!(run.marked("overlap").len(), 100);
    assert_eq!(run.marked("a-ta").len(), 0);
}

#[test]
fn a_path_whose_end_is_overwritten_is_not_taken_for_another() {
    let built = program(
        r#"
        int main(int argc, char **argv) {
            static char buffer[600];
            begin(argv[1]);
            warm();
            symlink("target", "overwritten");
            for (int i = 0; i < 20; i++) {
                strcpy(buffer, "./////////overwritten");
                CHECK(readlink(buffer, buffer + 12, 6) == 6);
            }
            return 0;
        }"#,
        &[],
    );
    let run = traced(&[built.path()], How::InProcess);
    assert_eq!(run.end(), Seen::Exited(0), "{}", run.output);
    assert_eq!(run.lost, 1);
    assert_eq!(run.marked("overtarget").len(), 0);
}

#[test]
fn extended_metadata_registrations_and_status_flags_are_as_without_a_tracer() {
    let built = program(
        r#"
        #include <sys/epoll.h>
        static int dir, file, polled;
        #define FAILS(call, error) CHECK((call) == -1 && errno == error)
        static void once(int number) {
            char path[40];
            struct statx it;
            struct { struct statx it; char path[20]; } near = {.path = "file"};
            struct { char path[20]; struct statx it; } before = {"file"};
            struct epoll_event event = {EPOLLIN};
            int ends[2];
            sprintf(path, "statx/%d", number);
            FAILS(statx(AT_FDCWD, path, 0, STATX_BASIC_STATS, &it), ENOENT);
            CHECK(!statx(AT_FDCWD, "file", 0, STATX_BASIC_STATS, &it));
            CHECK(S_ISREG(it.stx_mode) && it.stx_size == 5);
            CHECK(!statx(AT_FDCWD, "link", AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &it));
            CHECK(S_ISLNK(it.stx_mode));
            CHECK(!statx(file, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &it) && it.stx_size == 5);
            CHECK(!statx(dir, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &it) && S_ISDIR(it.stx_mode));
            FAILS(statx(dir, "", 0, STATX_BASIC_STATS, &it), ENOENT);
            FAILS(statx(999, "file", 0, STATX_BASIC_STATS, &it), EBADF);
            FAILS(statx(AT_FDCWD, (char *)16, 0, STATX_BASIC_STATS, &it), EFAULT);
            FAILS(statx(AT_FDCWD, "file", 0, STATX_BASIC_STATS, (void *)16), EFAULT);
            CHECK(!statx(AT_FDCWD, near.path, 0, STATX_BASIC_STATS, &near.it));
            CHECK(!statx(AT_FDCWD, before.path, 0, STATX_BASIC_STATS, &before.it));
            FAILS(epoll_ctl(polled, EPOLL_CTL_ADD, file, &event), EPERM);
            FAILS(epoll_ctl(polled, EPOLL_CTL_ADD, dir, &event), EPERM);
            FAILS(epoll_ctl(polled, EPOLL_CTL_ADD, 999, &event), EBADF);
            FAILS(epoll_ctl(999, EPOLL_CTL_ADD, file, &event), EBADF);
            CHECK(!pipe(ends));
            CHECK(!epoll_ctl(polled, EPOLL_CTL_ADD, ends[0], &event));
            FAILS(epoll_ctl(polled, EPOLL_CTL_ADD, ends[0], &event), EEXIST);
            CHECK(!epoll_ctl(polled, EPOLL_CTL_DEL, ends[0], &event));
            CHECK(!fcntl(ends[0], F_SETFL, O_NONBLOCK));
            CHECK(fcntl(ends[0], F_GETFL) & O_NONBLOCK);
            FAILS(read(ends[0], path, 1), EAGAIN);
            CHECK(!close(ends[0]) && !close(ends[1]));
        }
        static void *rest(void *unused) {
            for (int i = 100; i < 200; i++) once(i);
            return 0;
        }
        int main(int argc, char **argv) {
            pthread_t thread;
            begin(argv[1]);
            int made = open("file", O_CREAT | O_WRONLY, 0644);
            CHECK(write(made, "bytes", 5) == 5);
            close(made);
            CHECK(!symlink("file", "link") && !mkdir("dir", 0755));
            dir = open("dir", O_RDONLY), file = open("file", O_RDONLY);
            polled = epoll_create1(0);
            for (int i = 0; i < 100; i++) once(i);
            CHECK(!pthread_create(&thread, 0, rest, 0) && !pthread_join(thread, 0));
            return 0;
        }"#,
        &[],
    );
    let run = compare(&[built.path()], 1000);
    counts_up(&run, "statx/", 200);
}
