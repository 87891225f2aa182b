//! The cost of a system call, by its observer: nobody, our code in the process, our
//! stops, strace, a preloaded library.
//!
//! ```text
//! cargo run --release -p benches --bin calls [CALLS] [ROUNDS]
//! ```
//!
//! Prints a table: for each way and call the median over all rounds of the time
//! that a loop of that call takes, less what the same program takes without any, in
//! microseconds a call; and what it takes to start a program that does nothing.
//! The ways take turns. Needs `strace` and `cc`; what is missing is left out.
#![expect(unsafe_code, reason = "calls of the C library, as programs make them")]

use std::ffi::{CStr, OsString};
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use ptrace_async::process::watching;
use ptrace_async::runtime::{
    Interception, Options, Program, Runtime, Started, Stop, Tracee, UnstoppedCalls,
};

const LOOP: &str = "--loop";
const CALLS: [&str; 5] = ["readlink", "access", "stat", "read", "write"];

/// Notes each call in memory, as the least that a tool would do.
const PRELOADED: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
static struct { long nr, result; char path[48]; } noted[1024];
static unsigned count;
static long note(long nr, long result, const char *path) {
    unsigned at = __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED) % 1024;
    noted[at].nr = nr;
    noted[at].result = result;
    if (path) strncpy(noted[at].path, path, 47);
    return result;
}
#define REAL(name) static typeof(name) *real; if (!real) real = dlsym(RTLD_NEXT, #name)
ssize_t readlink(const char *p, char *b, size_t n) { REAL(readlink); return note(89, real(p, b, n), p); }
int access(const char *p, int m) { REAL(access); return note(21, real(p, m), p); }
int stat(const char *p, struct stat *s) { REAL(stat); return note(4, real(p, s), p); }
ssize_t read(int fd, void *b, size_t n) { REAL(read); return note(0, real(fd, b, n), 0); }
ssize_t write(int fd, const void *b, size_t n) { REAL(write); return note(1, real(fd, b, n), 0); }
"#;

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Native,
    InProcess,
    Stops,
    Strace,
    Preload,
}

const WAYS: [(Way, &str); 5] = [
    (Way::Native, "nobody"),
    (Way::InProcess, "our code in the process"),
    (Way::Stops, "our stops"),
    (Way::Strace, "`strace -f --seccomp-bpf`"),
    (Way::Preload, "a preloaded library"),
];

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [looping, call, count] = &words[..]
        && looping == LOOP
    {
        make(call, count.parse().unwrap_or(0));
        return Ok(());
    }
    let number = |at: usize, usual: usize| {
        let word = words.get(at).and_then(|word| word.parse().ok());
        word.unwrap_or(usual)
    };
    let (calls, rounds) = (number(0, 20_000), number(1, 7));
    let dir = std::env::temp_dir().join(format!("reprise-calls-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let library = dir.join("preload.so");
    let ways: Vec<_> = WAYS
        .into_iter()
        .filter(|(way, _)| match way {
            Way::Strace => Command::new("strace")
                .arg("-V")
                .stdout(Stdio::null())
                .status()
                .is_ok(),
            Way::Preload => build(&dir, &library),
            _ => true,
        })
        .collect();
    // Of each way the times of each call, and of none.
    let mut times = vec![vec![Vec::new(); CALLS.len() + 1]; ways.len()];
    for _ in 0..rounds {
        for ((way, _), times) in ways.iter().zip(&mut times) {
            for (call, times) in CALLS.iter().chain([&"none"]).zip(times) {
                times.push(time(*way, call, calls, &library)?);
            }
        }
    }
    std::fs::remove_dir_all(&dir)?;
    println!("| who looks | {} | starting |", CALLS.join(" | "));
    println!("|---|{}", "---|".repeat(CALLS.len() + 1));
    for ((_, name), times) in ways.iter().zip(&mut times) {
        let mut row: Vec<f64> = times.iter_mut().map(|times| median(times)).collect();
        let start = row.pop().unwrap_or_default();
        let each = row.iter().map(|time| (time - start) * 1e6 / calls as f64);
        let cells: Vec<String> = each.map(|each| format!("{each:.2}")).collect();
        println!("| {name} | {} | {:.0} |", cells.join(" | "), start * 1e6);
    }
    Ok(())
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// The loop that is timed, through the C library.
fn make(call: &str, count: usize) {
    let open = |path: &CStr, how: i32| {
        // SAFETY: the path is a C string.
        unsafe { libc::open(path.as_ptr(), how) }
    };
    // Reads of the lowest descriptors are let through by all means.
    let zero = [(); 4].map(|()| open(c"/dev/zero", libc::O_RDONLY))[3];
    let null = open(c"/dev/null", libc::O_WRONLY);
    let (path, mut room) = (c"/no-such-name".as_ptr(), [0_u64; 32]);
    let to = room.as_mut_ptr();
    for _ in 0..count {
        // SAFETY: the path is a C string, and there is room for a `struct stat`.
        unsafe {
            match call {
                "readlink" => drop(libc::readlink(path, to.cast(), 8)),
                "access" => drop(libc::access(path, libc::F_OK)),
                "stat" => drop(libc::stat(path, to.cast())),
                "read" => drop(libc::read(zero, to.cast(), 1)),
                "write" => drop(libc::write(null, to.cast(), 1)),
                _ => {}
            }
        }
    }
}

fn build(dir: &Path, library: &Path) -> bool {
    let source = dir.join("preload.c");
    std::fs::write(&source, PRELOADED).is_ok()
        && Command::new("cc")
            .args(["-O2", "-shared", "-fPIC", "-o"])
            .args([library, &source])
            .status()
            .is_ok_and(|status| status.success())
}

/// Seconds that a loop takes.
fn time(way: Way, call: &str, calls: usize, library: &Path) -> io::Result<f64> {
    let argv: Vec<OsString> = vec![
        std::env::current_exe()?.into(),
        LOOP.into(),
        call.into(),
        calls.to_string().into(),
    ];
    let mut command = Command::new(&argv[0]);
    let start = Instant::now();
    match way {
        Way::InProcess | Way::Stops => trace(&argv, way == Way::InProcess)?,
        Way::Strace => {
            let mut command = Command::new("strace");
            let traced = "trace=readlink,access,faccessat,stat,newfstatat,statx,read,write";
            command.args(["-f", "--seccomp-bpf", "-o", "/dev/null", "-e", traced]);
            command.args(&argv).status()?;
        }
        Way::Preload => drop(
            command
                .args(&argv[1..])
                .env("LD_PRELOAD", library)
                .status()?,
        ),
        Way::Native => drop(command.args(&argv[1..]).status()?),
    }
    Ok(start.elapsed().as_secs_f64())
}

fn trace(argv: &[OsString], in_process: bool) -> io::Result<()> {
    let runtime = Runtime::new(Options {
        interception: Interception::Seccomp(watching()),
        exit_kill: true,
    });
    runtime.spawn(&Program::new(argv)?)?;
    runtime.run(move |tracee: Tracee<Started>| async move {
        let (handle, tid) = (tracee.handle(), tracee.tid());
        let mut running = tracee.resume();
        loop {
            let mut stop = running.stop().await;
            if let UnstoppedCalls::Lost = handle.unstopped_calls(tid) {
                eprintln!("lost");
            }
            if in_process {
                match stop {
                    Stop::Exec(ref tracee) => drop(tracee.perform_in_process()),
                    Stop::Prehook(tracee) => {
                        stop = match tracee.perform_in_process().await {
                            Ok(tracee) => Stop::Prehook(tracee),
                            Err(instead) => instead,
                        };
                    }
                    _ => {}
                }
            }
            match stop.resume() {
                Some(next) => running = next,
                None => return,
            }
        }
    })
}
