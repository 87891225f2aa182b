//! Lookups that tracees perform by themselves: nothing changes for the
//! program, and no call is lost or told twice.
//!
//! A program runs untraced, with stops only, and with the mechanism. What it
//! writes must be the same, and so must the calls that were seen.

mod common;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::process::Command;
use std::rc::Rc;

use common::{Built, Seen, c};
use ptrace_async::event::Tid;
use ptrace_async::filter::watching;
use ptrace_async::invocation::Invocation;
use ptrace_async::memory::Memory;
use ptrace_async::runtime::{
    Calls, Emulation, Handle, Interception, Options, Prehook, Program, Running, Runtime, Started,
    Stop, Tracee,
};

const LOOKUPS: [i64; 11] = [
    libc::SYS_open,
    libc::SYS_openat,
    libc::SYS_close,
    libc::SYS_readlink,
    libc::SYS_readlinkat,
    libc::SYS_access,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_newfstatat,
];

const OPENS: [i64; 2] = [libc::SYS_open, libc::SYS_openat];

/// A lookup, without what differs from run to run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Lookup {
    nr: i64,
    /// The directory's descriptor, or the one that is closed.
    fd: i32,
    path: Option<String>,
    flags: i32,
}

impl Lookup {
    fn of(call: Invocation, memory: &dyn Memory) -> Self {
        let nr = call.nr.cast_signed();
        let closes = nr == libc::SYS_close;
        let at = nr >= libc::SYS_openat;
        let path = memory.read_c_string(call.args[usize::from(at)], 8192);
        let path = path.ok().filter(|_| !closes);
        let number = |index: usize| call.args[index] as i32;
        Self {
            nr,
            fd: if at || closes { number(0) } else { 0 },
            path: path.map(|path| String::from_utf8_lossy(&path).into_owned()),
            flags: match nr {
                libc::SYS_open | libc::SYS_access => number(1),
                libc::SYS_openat | libc::SYS_faccessat | libc::SYS_readlink => number(2),
                libc::SYS_newfstatat | libc::SYS_faccessat2 | libc::SYS_readlinkat => number(3),
                _ => 0,
            },
        }
    }
}

/// What was seen of a run.
#[derive(Debug, Default)]
struct Run {
    /// Lookups with their tasks, in the order in which they were told.
    lookups: Vec<(Tid, Lookup)>,
    /// How many of them came without a stop.
    logged: usize,
    /// Logs that were overwritten.
    lost: usize,
    stops: u64,
    /// Descriptors that were opened, and not closed since.
    open: BTreeSet<i64>,
    /// Those that were opened again before their close was told.
    clashes: usize,
    ends: Vec<(Tid, Seen)>,
    first: Tid,
    output: String,
}

impl Run {
    fn opened(&mut self, value: i64) {
        if value >= 0 && !self.open.insert(value) {
            self.clashes += 1;
        }
    }

    fn note(&mut self, tid: Tid, lookup: Lookup) {
        if lookup.nr == libc::SYS_close {
            self.open.remove(&i64::from(lookup.fd));
        }
        self.lookups.push((tid, lookup));
    }

    fn end(&self) -> Seen {
        let end = self.ends.iter().find(|(tid, _)| *tid == self.first);
        end.expect("it ended").1
    }

    /// The lookups of the test itself: of paths that say so, and what belongs
    /// to them.
    fn marked(&self, mark: &str) -> Vec<Lookup> {
        let marked = |lookup: &Lookup| {
            let path = lookup.path.as_deref();
            path.is_some_and(|path| path.contains(mark))
        };
        let lookups = self.lookups.iter().map(|(_, lookup)| lookup);
        lookups.filter(|lookup| marked(lookup)).cloned().collect()
    }

    fn all(&self) -> Vec<&Lookup> {
        self.lookups.iter().map(|(_, lookup)| lookup).collect()
    }

    fn of(&self, tid: Tid) -> Vec<&Lookup> {
        let of = self.lookups.iter().filter(|(task, _)| *task == tid);
        of.map(|(_, lookup)| lookup).collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Stops,
    InProcess,
}

type Shared = Rc<RefCell<Run>>;

fn take(run: &Shared, tid: Tid, calls: Calls) {
    let mut run = run.borrow_mut();
    match calls {
        Calls::Made(calls) => {
            run.logged += calls.len();
            for call in calls {
                let lookup = Lookup::of(call.invocation(), &call);
                if OPENS.contains(&lookup.nr) {
                    run.opened(call.value());
                }
                run.note(tid, lookup);
            }
        }
        Calls::Lost => run.lost += 1,
    }
}

async fn prehook(
    mut tracee: Tracee<Prehook>,
    how: How,
    run: &Shared,
) -> Result<Result<Tracee<Prehook>, Tracee<Running>>, Stop> {
    // An error means that it is gone.
    let _ = tracee.keep_in_sight();
    let tracee = match tracee.emulate_ptrace().await {
        Emulation::Answered(running) => return Ok(Err(running)),
        Emulation::NotOurs(tracee) => tracee,
    };
    let call = tracee.invocation();
    let nr = call.nr.cast_signed();
    if LOOKUPS.contains(&nr) {
        let lookup = Lookup::of(call, &tracee);
        run.borrow_mut().note(tracee.tid(), lookup);
        return match how {
            How::InProcess => tracee.perform_in_process().await.map(Ok),
            How::Stops => Ok(Ok(tracee)),
        };
    }
    // What changes names is preceded by a look into all logs.
    if matches!(
        nr,
        libc::SYS_rename | libc::SYS_unlink | libc::SYS_mkdir | libc::SYS_symlink
    ) {
        everywhere(&tracee.handle(), run);
    }
    Ok(Ok(tracee))
}

fn everywhere(handle: &Handle, run: &Shared) {
    for (tid, calls) in handle.logged_everywhere(1) {
        take(run, tid, calls);
    }
}

async fn follow(tracee: Tracee<Started>, how: How, run: Shared) {
    let (handle, mut tid) = (tracee.handle(), tracee.tid());
    let is_first = tracee.parent().is_none();
    let mut running = tracee.resume();
    loop {
        let mut stop = running.stop().await;
        // The id of a thread that executes a program changes, and what its
        // former program did is told first.
        let now = match &stop {
            Stop::Exec(tracee) => tracee.tid(),
            _ => tid,
        };
        take(&run, tid, handle.logged(now));
        tid = now;
        run.borrow_mut().stops = handle.stops();
        if is_first && matches!(stop, Stop::Exec(_)) {
            // Whatever made lookups on the way to the program.
            run.borrow_mut().logged = 0;
        }
        if let Stop::Prehook(tracee) = stop {
            stop = match prehook(tracee, how, &run).await {
                Ok(Ok(tracee)) => Stop::Prehook(tracee),
                Ok(Err(next)) => {
                    running = next;
                    continue;
                }
                Err(instead) => {
                    take(&run, tid, handle.logged(tid));
                    instead
                }
            };
        }
        if let Stop::Posthook(tracee) = &stop {
            run.borrow_mut().opened(tracee.value());
        }
        if let Stop::Prehook(tracee) = stop {
            let opens = OPENS.contains(&tracee.invocation().nr.cast_signed());
            running = match opens {
                true => tracee.resume_to_exit(),
                false => tracee.resume(),
            };
            continue;
        }
        let seen = Seen::of(&stop);
        match stop.go_on() {
            Some(next) => running = next,
            None => {
                run.borrow_mut().ends.push((tid, seen));
                return;
            }
        }
    }
}

/// Runs a program; its first argument is a new directory to work in, where it
/// may write to `output`.
fn traced(argv: &[&str], how: How) -> Run {
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().to_str().expect("UTF-8");
    // What cargo says about libraries makes lookups before the program does.
    let mut words = vec!["/usr/bin/env", "-u", "LD_LIBRARY_PATH", argv[0], path];
    words.extend(&argv[1..]);
    let runtime = Runtime::new(Options {
        interception: Interception::Seccomp(watching()),
        exit_kill: true,
    });
    let first = runtime
        .spawn(&Program::new(&words).expect("no NUL"))
        .expect("ptrace is allowed");
    let run = Shared::default();
    let shared = run.clone();
    runtime
        .run(move |tracee| follow(tracee, how, shared.clone()))
        .expect("waiting works");
    let mut run = run.take();
    run.first = first;
    run.output = output(dir.path());
    run
}

fn untraced(argv: &[&str]) -> (i32, String) {
    let dir = tempfile::tempdir().expect("directory");
    let status = Command::new(argv[0])
        .arg(dir.path())
        .args(&argv[1..])
        .status()
        .expect("it can be executed");
    let status = status.code().expect("an exit status");
    (status, output(dir.path()))
}

fn output(dir: &std::path::Path) -> String {
    std::fs::read_to_string(dir.join("output")).unwrap_or_default()
}

/// Compares the three ways to run a program that ends with 0, and always does
/// the same; what was seen with the mechanism.
#[track_caller]
fn compare(argv: &[&str], at_least: usize) -> Run {
    let (status, output) = untraced(argv);
    assert_eq!(status, 0, "untraced: {output}");
    let stops = traced(argv, How::Stops);
    assert_eq!(stops.end(), Seen::Exited(0), "with stops: {}", stops.output);
    assert_eq!(stops.output, output, "with stops");
    assert_eq!(stops.logged, 0);
    let run = traced(argv, How::InProcess);
    assert_eq!(run.end(), Seen::Exited(0), "in process: {}", run.output);
    assert_eq!(run.output, output, "in process");
    assert_eq!(run.lost, 0);
    let (expected, found) = (stops.all(), run.all());
    if let Some(at) =
        (0..expected.len().max(found.len())).find(|at| expected.get(*at) != found.get(*at))
    {
        panic!(
            "lookup {at} of {}: expected {:?}, found {:?}",
            expected.len(),
            expected.get(at),
            found.get(at)
        );
    }
    is_in_use(&run, at_least);
    assert!(
        run.stops + (at_least as u64) <= stops.stops,
        "{} stops instead of {}",
        run.stops,
        stops.stops
    );
    run
}

#[track_caller]
fn is_in_use(run: &Run, at_least: usize) {
    assert!(
        run.logged >= at_least,
        "only {} of {} lookups were made without a stop",
        run.logged,
        run.lookups.len()
    );
}

/// What the programs below begin with.
const PRELUDE: &str = r#"
#include <sys/time.h>
#include <setjmp.h>
#include <sys/resource.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>
/* A call, with the bytes around it that libc has. */
__attribute__((noinline, unused)) static long
raw(long nr, long a, long b, long c, long d) {
    register long r10 asm("r10") = d;
    long result;
    asm volatile("syscall\n\tcmp $-4095, %%rax"
        : "=a"(result) : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10)
        : "rcx", "r11", "memory", "cc");
    return result;
}
static int out = -1;
static void begin(const char *directory) {
    if (chdir(directory)) exit(99);
    out = fcntl(open("output", O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0666), F_DUPFD_CLOEXEC, 100);
    close(3);
}
__attribute__((unused)) static void warm(void) {
    for (int i = 0; i < 200; i++) {
        char buffer[8];
        access("warm/missing", 0);
        readlink("warm/missing", buffer, 8);
        close(open("/dev/null", O_RDONLY));
    }
}
#define CHECK(x) do { if (!(x)) { dprintf(out, "line %d: %s (%d)\n", __LINE__, #x, errno); _exit(1); } } while (0)
"#;

fn program(source: &str, flags: &[&str]) -> Built {
    c(&format!("{PRELUDE}{source}"), flags)
}

const EVERY_FORM: &str = r#"
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

/// The numbers of the paths that begin with `mark`.
fn numbers(run: &Run, mark: &str) -> Vec<u32> {
    let paths = run.marked(mark).into_iter().filter_map(|found| found.path);
    let number = |path: String| path.strip_prefix(mark)?.parse().ok();
    paths.filter_map(number).collect()
}

/// All of 0..count in order, each once.
#[track_caller]
fn counts_up(run: &Run, mark: &str, count: u32) {
    let found = numbers(run, mark);
    let wrong = (0..count).find(|at| found.get(*at as usize) != Some(at));
    assert_eq!(wrong, None, "{mark}: {} of {count} lookups", found.len());
    assert_eq!(found.len(), count as usize, "{mark}");
}

const STORM: &str = r#"
    static volatile int handled;
    static sigjmp_buf back;
    static void make(const char *name, int number) {
        char path[40];
        sprintf(path, "%s%d", name, number);
        CHECK(access(path, 0) == -1 && errno == ENOENT);
    }
    static volatile int depth;
    static void handler(int signal) {
        /* A slow machine gets further signals before this one is dealt with. */
        if (depth == 3) return;
        int saved = errno;
        depth++;
        make("handler/", __atomic_fetch_add(&handled, 1, __ATOMIC_SEQ_CST));
        depth--;
        errno = saved;
    }
    static void start(void (*handler)(int), int flags) {
        struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
        struct itimerval every = {{0, 200}, {0, 200}};
        sigaction(SIGALRM, &action, 0);
        setitimer(ITIMER_REAL, &every, 0);
    }
    static void stop(void) {
        struct itimerval never = {0};
        setitimer(ITIMER_REAL, &never, 0);
    }
"#;

#[test]
fn a_storm_of_signals_whose_handlers_make_lookups_too() {
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
        let built = program(&format!("{STORM}{main}"), &[]);
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
    let built = program(
        &format!(
            "{STORM}{}",
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
        }"#
        ),
        &[],
    );
    let run = traced(&[built.path()], How::InProcess);
    assert_eq!(run.end(), Seen::Exited(0), "{}", run.output);
    assert_ne!(run.output, "0", "no signal came");
    let told = numbers(&run, "jump/");
    assert!(told.is_sorted_by(|one, other| one < other), "told twice");
    let handled: usize = run.output.parse().expect("a number");
    assert!(told.len() + handled >= 30_000, "{} of 30000", told.len());
    counts_up(&run, "after/", 1000);
    // Nobody was left with the lock.
    is_in_use(&run, 30_000);
}

#[test]
fn an_interrupted_open_comes_again_or_fails_as_the_program_wants() {
    let built = program(
        &format!(
            "{STORM}{}",
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
        }"#
        ),
        &[],
    );
    let run = traced(&[built.path()], How::InProcess);
    assert_eq!(run.end(), Seen::Exited(0), "{}", run.output);
    counts_up(&run, "after/", 1000);
    is_in_use(&run, 1000);
}

#[test]
fn a_forked_child_and_its_parent_have_logs_of_their_own() {
    let built = program(
        &format!(
            "{STORM}{}",
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
        }"#
        ),
        &[],
    );
    let run = traced(&[built.path()], How::InProcess);
    assert_eq!(run.end(), Seen::Exited(0), "{}", run.output);
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
fn children_beyond_the_last_log_go_on_with_stops() {
    let built = program(
        &format!(
            "{STORM}{}",
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
        }"#
        ),
        &[],
    );
    let run = traced(&[built.path()], How::InProcess);
    assert_eq!(run.end(), Seen::Exited(0), "{}", run.output);
    let mut numbers = numbers(&run, "child/");
    numbers.sort_unstable();
    assert_eq!(numbers, (0..1000).collect::<Vec<u32>>());
    counts_up(&run, "later/", 300);
    // Of about 190 children, and of the last.
    is_in_use(&run, 1000 + 700 + 300);
    let stopped = run.lookups.len() - run.logged;
    assert!(stopped >= 200, "{stopped}");
}

#[test]
fn a_program_never_sees_its_affinity_narrowed() {
    let built = program(
        &format!(
            "{STORM}{}",
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
        }"#
        ),
        &[],
    );
    let run = traced(&[built.path()], How::InProcess);
    assert_eq!(run.end(), Seen::Exited(0), "{}", run.output);
    is_in_use(&run, 800);
}

#[test]
fn a_child_of_a_parent_that_is_gone_is_seen() {
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
        let built = program(&format!("{STORM}{}", main.replace("END", end)), &[]);
        let run = traced(&[built.path()], How::InProcess);
        assert_eq!(run.end(), Seen::Exited(0), "{}", run.output);
        counts_up(&run, "child/", 240);
        is_in_use(&run, 5_000);
    }
}

#[test]
fn who_shares_the_memory_only_is_told_from_its_parent() {
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
        let built = program(&format!("{STORM}{}", main.replace("SPAWNED", spawned)), &[]);
        let run = traced(&[built.path()], How::InProcess);
        assert_eq!(run.end(), Seen::Exited(0), "{}", run.output);
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
    let built = program(
        &format!(
            "{STORM}{}",
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
        }"#
        ),
        &[],
    );
    let run = traced(&[built.path()], How::InProcess);
    assert_eq!(run.end(), Seen::Exited(0), "{}", run.output);
    counts_up(&run, "parent/", 60);
    counts_up(&run, "later/", 500);
    let own = run.of(run.first);
    assert_eq!(own.iter().filter(|lookup| lookup.fd == 100).count(), 0);
    is_in_use(&run, 500);
}

#[test]
fn threads_lose_no_lookup_of_each_other() {
    let built = program(
        &format!(
            "{STORM}{}",
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
        }"#
        ),
        &[],
    );
    let run = traced(&[built.path()], How::InProcess);
    assert_eq!(run.end(), Seen::Exited(0), "{}", run.output);
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
fn the_descriptors_of_threads_are_given_back_in_order() {
    // What one thread closes, another gets. Those that close are often kept
    // from running in the middle.
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
    let run = traced(&[built.path()], How::InProcess);
    assert_eq!(run.end(), Seen::Exited(0), "{}", run.output);
    // The close of a thread is told before the call that gets its descriptor.
    assert_eq!(run.clashes, 0);
    // Those of the first loop; how far the others come is a matter of time.
    is_in_use(&run, 300);
}

#[test]
fn a_thread_may_execute_another_program() {
    let built = program(
        &format!(
            "{STORM}{}",
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
        }"#
        ),
        &[],
    );
    let run = traced(&[built.path()], How::InProcess);
    let end = run.ends.last().expect("an end").1;
    assert_eq!(end, Seen::Exited(0), "{}", run.output);
    counts_up(&run, "first/", 300);
    counts_up(&run, "thread/", 200);
    counts_up(&run, "second/", 300);
    let beside = numbers(&run, "beside/").len();
    counts_up(&run, "beside/", beside as u32);
    // What the first program did was told before the second began.
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
fn what_a_killed_process_did_is_told() {
    let built = program(
        &format!(
            "{STORM}{}",
            r#"
        int main(int argc, char **argv) {
            begin(argv[1]);
            warm();
            for (int i = 0; i < 100; i++) make("killed/", i);
            syscall(SYS_tgkill, getpid(), gettid(), SIGKILL);
        }"#
        ),
        &[],
    );
    let run = traced(&[built.path()], How::InProcess);
    assert_eq!(run.end(), Seen::Killed(libc::SIGKILL), "{}", run.output);
    counts_up(&run, "killed/", 100);
    // By another process, at any moment.
    let built = program(
        &format!(
            "{STORM}{}",
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
        }"#
        ),
        &[],
    );
    let run = traced(&[built.path()], How::InProcess);
    assert_eq!(run.end(), Seen::Exited(0), "{}", run.output);
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
fn what_takes_the_place_of_a_patched_library_is_left_alone() {
    let library = c(
        r#"long look(const char *path) {
            long result;
            asm volatile("syscall\n\tcmp $-4095, %%rax" : "=a"(result)
                : "a"(SYS_access), "D"(path), "S"(0) : "rcx", "r11", "memory", "cc");
            return result;
        }"#,
        &["-shared", "-fPIC"],
    );
    let built = program(
        &format!(
            "{STORM}{}",
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
        }"#
        ),
        &["-ldl"],
    );
    let run = compare(&[built.path(), library.path()], 600);
    counts_up(&run, "library/", 600);
    counts_up(&run, "child/", 3);
}

/// Runs a program in which lookups must go on to stop.
#[track_caller]
fn goes_on_with_stops(main: &str) -> Run {
    let built = program(&format!("{STORM}{main}"), &[]);
    let (status, output) = untraced(&[built.path()]);
    assert_eq!(status, 0, "untraced: {output}");
    let run = traced(&[built.path()], How::InProcess);
    assert_eq!(run.end(), Seen::Exited(0), "{}", run.output);
    counts_up(&run, "look/", 300);
    run
}

#[test]
fn a_program_that_uses_the_place_itself_keeps_it() {
    for at in ["0x6fe000000000", "0x6fe000001000", "0x6fe000020000"] {
        let main = r#"int main(int argc, char **argv) {
            begin(argv[1]);
            char *own = mmap((void *)PLACE, 4096, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
            strcpy(own, "mine");
            for (int i = 0; i < 300; i++) make("look/", i);
            CHECK(!strcmp(own, "mine"));
            return 0;
        }"#;
        let run = goes_on_with_stops(&main.replace("PLACE", at));
        assert_eq!(run.logged, 0, "{at}");
    }
}

#[test]
fn a_program_without_room_or_descriptors_goes_on() {
    // Less than there is already, in bytes and in numbers.
    for limit in ["RLIMIT_AS", "RLIMIT_NOFILE"] {
        let main = r#"int main(int argc, char **argv) {
            begin(argv[1]);
            struct rlimit limit;
            getrlimit(LIMIT, &limit);
            limit.rlim_cur = 3;
            CHECK(!setrlimit(LIMIT, &limit));
            for (int i = 0; i < 300; i++) make("look/", i);
            return 0;
        }"#;
        let run = goes_on_with_stops(&main.replace("LIMIT", limit));
        assert_eq!(run.logged, 0, "{limit}");
    }
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
fn static_programs_are_no_exception() {
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
fn a_program_under_address_sanitizer_is_no_exception() {
    let built = program(EVERY_FORM, &["-DLIBC_SITES", "-fsanitize=address"]);
    // Its leaks are looked for by a tracer of its own.
    let (status, output) = untraced(&[built.path()]);
    assert_eq!(status, 0, "untraced: {output}");
    let run = traced(&[built.path()], How::InProcess);
    assert_eq!(run.end(), Seen::Exited(0), "{}", run.output);
    assert_eq!(run.output, output);
    is_in_use(&run, 1000);
}

#[test]
fn a_handler_may_fork() {
    let built = program(
        &format!(
            "{STORM}{}",
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
        }"#
        ),
        &[],
    );
    let run = traced(&[built.path()], How::InProcess);
    assert_eq!(run.end(), Seen::Exited(0), "{}", run.output);
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

#[test]
fn a_program_that_writes_into_the_log_is_found_out() {
    let built = program(
        &format!(
            "{STORM}{}",
            r#"
        int main(int argc, char **argv) {
            begin(argv[1]);
            warm();
            for (int i = 0; i < 10; i++) make("before/", i);
            /* Where the entries are. */
            memset(*(char **)0x6fe000000ff8 + 128, 0xff, 1000);
            for (int i = 0; i < 10; i++) make("meanwhile/", i);
            mkdir("directory", 0777);
            for (int i = 0; i < 100; i++) make("after/", i);
            return 0;
        }"#
        ),
        &[],
    );
    let run = traced(&[built.path()], How::InProcess);
    assert_eq!(run.end(), Seen::Exited(0), "{}", run.output);
    assert_eq!(run.lost, 1);
    counts_up(&run, "after/", 100);
}

#[test]
fn threads_beside_a_vfork_are_not_taken_for_the_child() {
    let built = program(
        &format!(
            "{STORM}{}",
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
        }"#
        ),
        &[],
    );
    let run = traced(&[built.path()], How::InProcess);
    assert_eq!(run.end(), Seen::Exited(0), "{}", run.output);
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
