//! Runs programs untraced, with stops and with the mechanism, and notes what was
//! seen of them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::rc::Rc;

use crate::common::{Built, Seen, c};
use ptrace_async::event::Tid;
use ptrace_async::invocation::Invocation;
use ptrace_async::memory::Memory;
use ptrace_async::process::watching;
use ptrace_async::runtime::{
    Emulation, Handle, Interception, Options, Prehook, Program, Running, Runtime, Started, Stop,
    Tracee, UnstoppedCalls,
};

pub(crate) const LOOKUPS: [i64; 35] = [
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_getdents64,
    libc::SYS_getxattr,
    libc::SYS_lgetxattr,
    libc::SYS_statx,
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_lseek,
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
    libc::SYS_fstat,
    libc::SYS_statfs,
    libc::SYS_dup,
    libc::SYS_dup2,
    libc::SYS_dup3,
    libc::SYS_fcntl,
    libc::SYS_ioctl,
    libc::SYS_pipe,
    libc::SYS_pipe2,
    libc::SYS_umask,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_time,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
];

const WITH_PATH: [i64; 8] = [
    libc::SYS_getxattr,
    libc::SYS_lgetxattr,
    libc::SYS_open,
    libc::SYS_readlink,
    libc::SYS_access,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_statfs,
];

const WITH_PATH_AFTER_DIRECTORY: [i64; 6] = [
    libc::SYS_statx,
    libc::SYS_openat,
    libc::SYS_readlinkat,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_newfstatat,
];

const OF_DESCRIPTOR: [i64; 13] = [
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_getdents64,
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_dup,
    libc::SYS_dup2,
    libc::SYS_dup3,
    libc::SYS_fcntl,
    libc::SYS_ioctl,
];

/// Calls that make a descriptor.
pub(crate) const OPENS: [i64; 3] = [libc::SYS_open, libc::SYS_openat, libc::SYS_dup];

/// A lookup, without what differs from run to run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Lookup {
    pub(crate) nr: i64,
    /// The directory's descriptor, or the one that is closed.
    pub(crate) fd: i32,
    /// Or what is written.
    pub(crate) path: Option<String>,
    pub(crate) flags: i32,
}

/// The bytes that a call will write, or has written.
fn written(call: &Invocation, memory: &dyn Memory) -> Vec<u8> {
    let mut bytes = vec![0; call.args[2].min(1 << 20) as usize];
    let got = memory.read(call.args[1], &mut bytes);
    bytes.truncate(got);
    bytes
}

impl Lookup {
    pub(crate) fn of(call: Invocation, memory: &dyn Memory) -> Self {
        let nr = call.nr.cast_signed();
        let at = WITH_PATH_AFTER_DIRECTORY.contains(&nr);
        let has_path = at || WITH_PATH.contains(&nr);
        let path = memory.read_c_string(call.args[usize::from(at)], 8192);
        let path = match nr {
            libc::SYS_write => Some(written(&call, memory)),
            libc::SYS_getxattr | libc::SYS_lgetxattr => path.ok().map(|mut path| {
                path.push(0);
                path.extend(memory.read_c_string(call.args[1], 256).unwrap_or_default());
                path
            }),
            _ => path.ok().filter(|_| has_path),
        };
        let number = |index: usize| call.args[index] as i32;
        Self {
            nr,
            fd: if at || OF_DESCRIPTOR.contains(&nr) {
                number(0)
            } else {
                0
            },
            path: path.map(|path| String::from_utf8_lossy(&path).into_owned()),
            flags: match nr {
                libc::SYS_open | libc::SYS_access | libc::SYS_fcntl | libc::SYS_dup2 => number(1),
                libc::SYS_openat | libc::SYS_faccessat | libc::SYS_readlink | libc::SYS_statx => {
                    number(2)
                }
                libc::SYS_newfstatat | libc::SYS_faccessat2 | libc::SYS_readlinkat => number(3),
                _ => 0,
            },
        }
    }
}

/// How a clock was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    Logged(i32),
    Stopped(i32),
}

/// The clock that a call reads; -1 for the time of day.
fn clock_of(call: &Invocation) -> Option<i32> {
    match call.nr.cast_signed() {
        libc::SYS_clock_gettime => Some(call.args[0] as i32),
        libc::SYS_gettimeofday | libc::SYS_time => Some(-1),
        _ => None,
    }
}

/// The observations of one run.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// Lookups with their tasks, in the order in which they were reported.
    pub(crate) lookups: Vec<(Tid, Lookup)>,
    /// How many of them came without a stop.
    pub(crate) logged: usize,
    /// Logs that were overwritten.
    pub(crate) lost: usize,
    pub(crate) stops: u64,
    /// Descriptors that were opened, and not closed since.
    pub(crate) open: BTreeSet<i64>,
    /// Descriptors of files that a process opened for reading only: nothing about them needs to be
    /// reported.
    pub(crate) own: BTreeSet<(Tid, i32)>,
    /// The process of each task.
    pub(crate) processes: BTreeMap<Tid, Tid>,
    /// The change times of directories that were listed without a stop.
    pub(crate) listed: Vec<i64>,
    /// Descriptors that were opened again before their close was reported.
    pub(crate) clashes: usize,
    /// Clock reads through the vdso, and by system calls.
    pub(crate) clocks: Vec<(Tid, Clock)>,
    pub(crate) ends: Vec<(Tid, Seen)>,
    pub(crate) first: Tid,
    pub(crate) output: String,
}

impl Run {
    fn process(&self, tid: Tid) -> Tid {
        self.processes.get(&tid).copied().unwrap_or(tid)
    }

    /// An open has returned this value. Its lookup was the last of its task. Returns whether it
    /// has made a file.
    pub(crate) fn opened(&mut self, tid: Tid, value: i64) -> bool {
        if value < 0 {
            return false;
        }
        if !self.open.insert(value) {
            self.clashes += 1;
        }
        let mut lookups = self.lookups.iter().rev();
        let last = lookups.find(|(task, _)| *task == tid);
        let changes = libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC | libc::O_PATH;
        let is_known = |last: &Lookup| self.own.contains(&(self.process(tid), last.fd));
        let flags = match last {
            Some((_, last)) if last.nr == libc::SYS_dup && !is_known(last) => changes,
            Some((_, last)) => last.flags,
            None => changes,
        };
        if flags & changes == 0 {
            self.own.insert((self.process(tid), value as i32));
        }
        last.is_some_and(|(_, last)| last.nr != libc::SYS_dup) && flags & libc::O_CREAT != 0
    }

    pub(crate) fn note(&mut self, tid: Tid, lookup: Lookup) {
        let is_own = self.own.contains(&(self.process(tid), lookup.fd));
        let says_nothing = match lookup.nr {
            libc::SYS_read | libc::SYS_fstat => true,
            libc::SYS_newfstatat | libc::SYS_statx => {
                lookup.flags & libc::AT_EMPTY_PATH != 0 && lookup.path.as_deref() == Some("")
            }
            _ => false,
        };
        match lookup.nr {
            libc::SYS_close => {
                self.open.remove(&i64::from(lookup.fd));
                self.own.remove(&(self.process(tid), lookup.fd));
            }
            libc::SYS_dup2 if is_own => {
                self.own.insert((self.process(tid), lookup.flags));
            }
            libc::SYS_dup2 => {
                self.own.remove(&(self.process(tid), lookup.flags));
            }
            _ => {}
        }
        if !(is_own && says_nothing) {
            self.lookups.push((tid, lookup));
        }
    }

    pub(crate) fn end(&self) -> Seen {
        let end = self.ends.iter().find(|(tid, _)| *tid == self.first);
        end.expect("it ended").1
    }

    /// The lookups of the test itself, which have marked paths, and their related calls.
    pub(crate) fn marked(&self, mark: &str) -> Vec<Lookup> {
        let marked = |lookup: &Lookup| {
            let path = lookup.path.as_deref();
            path.is_some_and(|path| path.contains(mark))
        };
        let lookups = self.lookups.iter().map(|(_, lookup)| lookup);
        lookups.filter(|lookup| marked(lookup)).cloned().collect()
    }

    pub(crate) fn all(&self) -> Vec<&Lookup> {
        self.lookups.iter().map(|(_, lookup)| lookup).collect()
    }

    pub(crate) fn of(&self, tid: Tid) -> Vec<&Lookup> {
        let of = self.lookups.iter().filter(|(task, _)| *task == tid);
        of.map(|(_, lookup)| lookup).collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    Stops,
    InProcess,
    /// In process, without reads and written bytes that are not needed.
    Forgoes,
}

pub(crate) type Shared = Rc<RefCell<Run>>;

pub(crate) fn take(run: &Shared, tid: Tid, calls: UnstoppedCalls) {
    let mut run = run.borrow_mut();
    match calls {
        UnstoppedCalls::Made(calls) => {
            for call in calls {
                if let Some(clock) = clock_of(&call.invocation()) {
                    run.clocks.push((tid, Clock::Logged(clock)));
                    if clock >= 0 {
                        continue;
                    }
                }
                run.logged += 1;
                run.listed.extend(call.changed_at());
                let lookup = Lookup::of(call.invocation(), &call);
                let opens = OPENS.contains(&lookup.nr);
                run.note(tid, lookup);
                if opens {
                    run.opened(tid, call.value());
                }
            }
        }
        UnstoppedCalls::Lost => run.lost += 1,
    }
}

pub(crate) async fn prehook(
    mut tracee: Tracee<Prehook>,
    how: How,
    run: &Shared,
) -> Result<Result<Tracee<Prehook>, Tracee<Running>>, Stop> {
    // An error means that it is gone.
    let _ = tracee.keep_traced();
    let tracee = match tracee.emulate_ptrace().await {
        Emulation::Answered(running) => return Ok(Err(running)),
        Emulation::NotOurs(tracee) => tracee,
    };
    let call = tracee.invocation();
    let nr = call.nr.cast_signed();
    if let Some(clock) = clock_of(&call) {
        let mut run = run.borrow_mut();
        run.clocks.push((tracee.tid(), Clock::Stopped(clock)));
    }
    // The call by which the code in the tracee announces a file of /proc.
    let by_itself = nr == libc::SYS_dup2 && call.args[0] == call.args[1];
    if LOOKUPS.contains(&nr) && !by_itself {
        let lookup = Lookup::of(call, &tracee);
        run.borrow_mut().note(tracee.tid(), lookup);
        return match how {
            How::InProcess => tracee.perform_in_process().await.map(Ok),
            How::Forgoes => {
                let tracee = tracee.perform_in_process().await?;
                let fd = call.args[0] as i32;
                let is_open = std::fs::exists(format!("/proc/{}/fd/{fd}", tracee.tid()));
                if nr == libc::SYS_read && is_open.expect("/proc") {
                    tracee.handle().forgo_reads(tracee.tid(), fd);
                }
                Ok(Ok(tracee))
            }
            How::Stops => Ok(Ok(tracee)),
        };
    }
    if nr == libc::SYS_link {
        tracee.handle().report_all_transfers();
    }
    // All logs are read before a call that changes names.
    if matches!(
        nr,
        libc::SYS_rename | libc::SYS_unlink | libc::SYS_mkdir | libc::SYS_symlink
    ) {
        everywhere(&tracee.handle(), run);
    }
    Ok(Ok(tracee))
}

pub(crate) fn everywhere(handle: &Handle, run: &Shared) {
    for (tid, calls) in handle.all_unstopped_calls(1) {
        take(run, tid, calls);
    }
}

fn process_of(tid: Tid) -> Option<Tid> {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let mut lines = status.lines();
    lines.find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
}

pub(crate) async fn follow(tracee: Tracee<Started>, how: How, run: Shared) {
    let (handle, mut tid) = (tracee.handle(), tracee.tid());
    let is_first = tracee.parent().is_none();
    if let Some(process) = process_of(tid) {
        run.borrow_mut().processes.insert(tid, process);
    }
    let mut running = tracee.resume();
    loop {
        let mut stop = running.stop().await;
        // The id of a thread that executes a program changes. The calls of its former
        // program are reported first.
        let now = match &stop {
            Stop::Exec(tracee) => tracee.tid(),
            _ => tid,
        };
        take(&run, tid, handle.unstopped_calls(now));
        tid = now;
        run.borrow_mut().stops = handle.stops();
        if let Stop::Exec(tracee) = &stop {
            if is_first {
                // Other programs made lookups before this one was executed.
                run.borrow_mut().logged = 0;
            }
            let counts_clocks =
                crate::FROM_START && how != How::Stops && tracee.perform_in_process();
            if !counts_clocks {
                tracee.hide_vdso();
            }
        }
        if let Stop::Prehook(tracee) = stop {
            stop = match prehook(tracee, how, &run).await {
                Ok(Ok(tracee)) => Stop::Prehook(tracee),
                Ok(Err(next)) => {
                    running = next;
                    continue;
                }
                Err(instead) => {
                    take(&run, tid, handle.unstopped_calls(tid));
                    instead
                }
            };
        }
        if let Stop::Posthook(tracee) = &stop {
            let value = tracee.value();
            let made = run.borrow_mut().opened(tid, value);
            if made && how == How::Forgoes {
                handle.forgo_written_bytes(tid, value as i32);
            }
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
        match stop.resume() {
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
pub(crate) fn traced(argv: &[&str], how: How) -> Run {
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().to_str().expect("UTF-8");
    // Cargo's library path causes lookups before those of the program.
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

pub(crate) fn untraced(argv: &[&str]) -> (i32, String) {
    let dir = tempfile::tempdir().expect("directory");
    let status = Command::new(argv[0])
        .arg(dir.path())
        .args(&argv[1..])
        .status()
        .expect("it can be executed");
    let status = status.code().expect("an exit status");
    (status, output(dir.path()))
}

pub(crate) fn output(dir: &std::path::Path) -> String {
    std::fs::read_to_string(dir.join("output")).unwrap_or_default()
}

/// Compares the three ways to run a program that ends with 0, and always does
/// the same; what was seen with the mechanism.
#[track_caller]
pub(crate) fn compare(argv: &[&str], at_least: usize) -> Run {
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
pub(crate) fn is_in_use(run: &Run, at_least: usize) {
    assert!(
        run.logged >= at_least,
        "only {} of {} lookups were made without a stop",
        run.logged,
        run.lookups.len()
    );
}

/// The common beginning of the programs below.
pub(crate) const PRELUDE: &str = r#"
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

pub(crate) fn program(source: &str, flags: &[&str]) -> Built {
    c(
        &format!("{PRELUDE}{source}"),
        &[crate::LINK, flags].concat(),
    )
}

/// A program that begins with [`STORM`], whose functions make lookups under a storm of signals.
pub(crate) fn storm(main: &str) -> Built {
    storm_with(main, &[])
}

/// The same with flags for the compiler.
pub(crate) fn storm_with(main: &str, flags: &[&str]) -> Built {
    program(&format!("{STORM}{main}"), flags)
}

/// Runs a program whose lookups are performed in its process, and checks that it exits with 0.
#[track_caller]
pub(crate) fn run_in_process(built: &Built) -> Run {
    let run = traced(&[built.path()], How::InProcess);
    assert_eq!(run.end(), Seen::Exited(0), "{}", run.output);
    run
}

/// The numbers of the paths that begin with `mark`.
pub(crate) fn numbers(run: &Run, mark: &str) -> Vec<u32> {
    let paths = run.marked(mark).into_iter().filter_map(|found| found.path);
    let number = |path: String| path.strip_prefix(mark)?.parse().ok();
    paths.filter_map(number).collect()
}

/// All of 0..count in order, each once.
#[track_caller]
pub(crate) fn counts_up(run: &Run, mark: &str, count: u32) {
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

/// Runs a program in which lookups must go on to stop.
#[track_caller]
pub(crate) fn goes_on_with_stops(main: &str) -> Run {
    let built = storm(main);
    let (status, output) = untraced(&[built.path()]);
    assert_eq!(status, 0, "untraced: {output}");
    let run = traced(&[built.path()], How::InProcess);
    assert_eq!(run.end(), Seen::Exited(0), "{}", run.output);
    counts_up(&run, "look/", 300);
    run
}
