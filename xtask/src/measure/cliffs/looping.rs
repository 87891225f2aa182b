//! A program that makes the calls of one loop, and prints what a round took.
//!
//! Everything that a call needs is made before the loop. The loop lasts some milliseconds, so
//! calls that stop are made less often than those that do not. A second thread that waits
//! makes the process one with threads.
#![expect(unsafe_code, reason = "calls with arguments that are data")]

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use ptrace_async::syscall::table;
use serde::{Deserialize, Serialize};

use super::bodies;
use super::catalog::{self, AREA, Arg, Body, SHARED, Step, Thing};
use super::functions::{Function, function};
use crate::support::median::median;

/// Options of the hidden `cargo xtask make-calls`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The name of the loop.
    name: String,
    /// Have a second thread, which waits.
    #[arg(long)]
    threads: bool,
    /// How long the loop lasts, about.
    #[arg(long, value_name = "MS", default_value_t = 30)]
    milliseconds: u64,
    /// The most rounds.
    #[arg(long, value_name = "N", default_value_t = 60_000)]
    most: u64,
}

/// The output of the program: the last line of its standard error.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Made {
    /// Nanoseconds that a round took: the median of some batches, which tells little of what
    /// else the machine did meanwhile.
    pub(super) nanoseconds: f64,
    /// How many rounds there were.
    pub(super) rounds: u64,
    /// Of the first round the errno of each step, or 0.
    pub(super) errors: Vec<i32>,
}

/// How long a batch of rounds takes, about: longer than it takes to fill a log.
const BATCH: Duration = Duration::from_millis(2);
/// The most batches.
const BATCHES: u64 = 15;
/// Rounds before the clock starts: sites that are patched where they stop are patched then.
const BEFORE: u64 = 64;
/// Descriptors lie above those that pass the filter because programs mostly have these.
const HIGH: i32 = 20;
/// The most steps of a loop.
const STEPS: usize = 8;

/// Makes the loop, and prints what it took.
///
/// # Errors
///
/// When there is no such loop, or what it needs cannot be made.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let found = catalog::loops().find(|one| one.name == args.name);
    let one = found.with_context(|| format!("no loop `{}`", args.name))?;
    let (stop, waits) = mpsc::channel::<()>();
    let second = args.threads.then(|| {
        std::thread::spawn(move || {
            let _ = waits.recv();
        })
    });
    let mut place = Place::default();
    let mut errors = Vec::new();
    let mut rounds: Box<dyn FnMut(u64)> = match one.body {
        Body::Program(name) => bodies::prepare(name)?,
        Body::Steps(steps) => {
            let setup = place.ready(one.setup)?;
            let steps = place.ready(steps)?;
            round(&setup, |_, _| {});
            round(&steps, |_, result| errors.push(error(result)));
            Box::new(move |count| {
                for _ in 0..count {
                    round(&steps, |_, _| {});
                }
            })
        }
    };
    // A body of a millisecond has no use for many rounds before.
    let mut batch = if errors.is_empty() { 1 } else { BEFORE };
    rounds(batch);
    let start = Instant::now();
    rounds(batch);
    let took = start.elapsed().max(Duration::from_nanos(1));
    let limit = Duration::from_millis(args.milliseconds);
    batch = batch.saturating_mul(BATCH.as_nanos() as u64 / took.as_nanos() as u64);
    batch = batch.clamp(1, args.most / BATCHES);
    let (mut times, start) = (Vec::new(), Instant::now());
    while times.len() < 3 || (start.elapsed() < limit && times.len() < BATCHES as usize) {
        let start = Instant::now();
        rounds(batch);
        times.push(start.elapsed().as_secs_f64() * 1e9 / batch as f64);
    }
    drop(rounds);
    drop(stop);
    if let Some(second) = second {
        // It does nothing that could panic.
        let _ = second.join();
    }
    let made = Made {
        rounds: batch * times.len() as u64,
        nanoseconds: median(times),
        errors,
    };
    eprintln!("{}", serde_json::to_string(&made)?);
    Ok(ExitCode::SUCCESS)
}

/// A step whose arguments are known, but for results of others.
struct Ready {
    number: i64,
    function: Option<Function>,
    args: [Value; 6],
}

/// An argument.
#[derive(Clone, Copy)]
enum Value {
    Word(u64),
    Got(usize),
    IntAt(*const i32),
    WordAt(*const u64),
    Zeroed(*mut u64),
}

/// Makes each step once, and tells of each result.
fn round(steps: &[Ready], mut tell: impl FnMut(usize, i64)) {
    let mut got = [0; STEPS];
    for (index, step) in steps.iter().enumerate() {
        let [a, b, c, d, e, f] = step.args.map(|value| value.now(&got));
        // SAFETY: addresses among the arguments are of memory that is never freed (`Place`)
        // and, as the catalog has it, as long as the call may use. A C function takes an
        // integer of any width from the low part of a register, and ignores registers that
        // it has no arguments for.
        let result = unsafe {
            match step.function {
                Some(function) => function(a, b, c, d, e, f),
                None => libc::syscall(step.number, a, b, c, d, e, f),
            }
        };
        if let Some(got) = got.get_mut(index) {
            *got = result.cast_unsigned();
        }
        tell(index, result);
    }
}

/// The errno of a call that returned this; 0 for success. Functions return an `int` or more.
fn error(result: i64) -> i32 {
    match result as i32 {
        -1 => std::io::Error::last_os_error().raw_os_error().unwrap_or(0),
        _ => 0,
    }
}

impl Value {
    fn now(self, got: &[u64; STEPS]) -> u64 {
        // SAFETY: the pointers lead to memory of `Place`, which is never freed and used by
        // the kernel only during calls.
        unsafe {
            match self {
                Self::Word(word) => word,
                Self::Got(step) => got[step],
                Self::IntAt(place) => place.read_volatile() as u64,
                Self::WordAt(place) => place.read_volatile(),
                Self::Zeroed(place) => {
                    place.write_volatile(0);
                    place as u64
                }
            }
        }
    }
}

/// Whole pages of zeroes.
#[derive(Clone)]
#[repr(align(4096))]
struct Page(#[expect(dead_code, reason = "memory of calls")] [u8; 4096]);

/// The objects that arguments stand for. Memory is never freed.
#[derive(Default)]
struct Place {
    shared: Vec<u64>,
    things: BTreeMap<usize, i32>,
}

impl Place {
    fn ready(&mut self, steps: &[Step]) -> anyhow::Result<Vec<Ready>> {
        steps.iter().map(|step| self.step(step)).collect()
    }

    fn step(&mut self, step: &Step) -> anyhow::Result<Ready> {
        let spec = table::by_name(step.call).with_context(|| format!("no call {}", step.call))?;
        let called = |name| function(name).with_context(|| format!("no function {name}"));
        let mut args = [Value::Word(0); 6];
        for (value, arg) in args.iter_mut().zip(step.args) {
            *value = self.value(*arg)?;
        }
        Ok(Ready {
            number: spec.number.into(),
            function: step.function.map(called).transpose()?,
            args,
        })
    }

    fn value(&mut self, arg: Arg) -> anyhow::Result<Value> {
        Ok(Value::Word(match arg {
            Arg::N(number) => number.cast_unsigned(),
            Arg::Text(text) => CString::new(text)?.into_raw() as u64,
            Arg::Words(words) => memory(words.iter().map(|word| word.cast_unsigned()).collect()),
            Arg::Room(bytes) => room(bytes),
            Arg::Shared(index) => self.shared(index),
            Arg::Zeroed(index) => return Ok(Value::Zeroed(self.shared(index) as *mut u64)),
            Arg::IntIn(index, at) => {
                let place = self.shared(index) as *const i32;
                return Ok(Value::IntAt(place.wrapping_add(at)));
            }
            Arg::WordIn(index) => return Ok(Value::WordAt(self.shared(index) as *const u64)),
            Arg::Vector(bytes) => vector(bytes),
            // Of a `msghdr`: name, its length, vectors, their number; then zeroes.
            Arg::Message => memory(vec![0, 0, vector(1), 1, 0, 0, 0, 0]),
            Arg::Poll(thing) => {
                let fd = self.descriptor(thing)?;
                let events = u64::from(libc::POLLIN.cast_unsigned()) << 32;
                memory(vec![u64::from(fd.cast_unsigned()) | events])
            }
            Arg::Fd(thing) => self.descriptor(thing)? as u64,
            Arg::Area => {
                let pages = vec![Page([0; 4096]); AREA / 4096].into_boxed_slice();
                Box::leak(pages).as_mut_ptr() as u64
            }
            Arg::Handler => nothing as *const () as u64,
            Arg::Got(step) => return Ok(Value::Got(step)),
            Arg::Pid => std::process::id().into(),
            Arg::Uid => rustix::process::getuid().as_raw().into(),
            Arg::Gid => rustix::process::getgid().as_raw().into(),
        }))
    }

    fn shared(&mut self, index: usize) -> u64 {
        while self.shared.len() < SHARED {
            self.shared.push(room(4096));
        }
        self.shared[index]
    }

    /// The descriptor, which is made if it is not there yet.
    fn descriptor(&mut self, thing: Thing) -> anyhow::Result<i32> {
        if let Some(fd) = self.things.get(&(thing as usize)) {
            return Ok(*fd);
        }
        let fd = match thing {
            Thing::File => high(File::open("file")?)?,
            Thing::LowFile => File::open("file")?.into_raw_fd(),
            Thing::Out => high(OpenOptions::new().read(true).write(true).open("out")?)?,
            Thing::Dir => high(File::open("dir")?)?,
            Thing::Null => high(OpenOptions::new().write(true).open("/dev/null")?)?,
            Thing::Zero => high(File::open("/dev/zero")?)?,
            Thing::PipeOut | Thing::PipeIn => {
                let (out, into) = std::io::pipe()?;
                self.pair(
                    thing,
                    [Thing::PipeOut, Thing::PipeIn],
                    high(out)?,
                    high(into)?,
                )
            }
            Thing::Socket | Thing::Peer => {
                let (one, other) = UnixStream::pair()?;
                self.pair(
                    thing,
                    [Thing::Socket, Thing::Peer],
                    high(one)?,
                    high(other)?,
                )
            }
            Thing::Lone => self.made(&[libc::SYS_socket, 1, 1, 0])?,
            Thing::Epoll => self.made(&[libc::SYS_epoll_create1, 0, 0, 0])?,
            Thing::Event => self.made(&[libc::SYS_eventfd2, 0, 0, 0])?,
            Thing::Timer => self.made(&[libc::SYS_timerfd_create, 1, 0, 0])?,
            Thing::Inotify => self.made(&[libc::SYS_inotify_init1, 0, 0, 0])?,
            Thing::Pidfd => self.made(&[libc::SYS_pidfd_open, std::process::id().into(), 0, 0])?,
        };
        self.things.insert(thing as usize, fd);
        Ok(fd)
    }

    /// Keeps both descriptors of a pair, and answers with the one that is asked for.
    fn pair(&mut self, asked: Thing, things: [Thing; 2], one: i32, other: i32) -> i32 {
        self.things.insert(things[0] as usize, one);
        self.things.insert(things[1] as usize, other);
        if asked == things[0] { one } else { other }
    }

    fn made(&self, call: &[i64; 4]) -> anyhow::Result<i32> {
        // SAFETY: the calls above take numbers only.
        let fd = unsafe { libc::syscall(call[0], call[1], call[2], call[3]) };
        if fd < 0 {
            bail!(std::io::Error::last_os_error());
        }
        Ok(fd as i32)
    }
}

/// A copy of a descriptor with a high number; the original is closed.
fn high(from: impl AsRawFd) -> anyhow::Result<i32> {
    // SAFETY: a copy of an open descriptor.
    let fd = unsafe { libc::fcntl(from.as_raw_fd(), libc::F_DUPFD_CLOEXEC, HIGH) };
    if fd < 0 {
        bail!(std::io::Error::last_os_error());
    }
    Ok(fd)
}

extern "C" fn nothing(_: i32) {}

fn memory(words: Vec<u64>) -> u64 {
    words.leak().as_mut_ptr() as u64
}

fn room(bytes: usize) -> u64 {
    memory(vec![0; bytes.div_ceil(8)])
}

fn vector(bytes: usize) -> u64 {
    memory(vec![room(bytes), bytes as u64])
}

/// Makes what the loops work on, in the directory where they run.
///
/// # Errors
///
/// When something cannot be made.
pub(super) fn lay_out(dir: &std::path::Path) -> anyhow::Result<()> {
    fs::create_dir_all(dir.join("dir"))?;
    fs::write(dir.join("file"), vec![b'x'; 1 << 20])?;
    fs::write(dir.join("input"), vec![b'y'; 1 << 20])?;
    fs::write(dir.join("out"), "some bytes to be changed")?;
    fs::write(dir.join("moved"), "")?;
    std::os::unix::fs::symlink("file", dir.join("link"))?;
    for index in 0..16 {
        fs::write(dir.join(format!("dir/entry-{index}")), "")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_has_its_function() {
        for one in catalog::loops() {
            let steps = match one.body {
                Body::Steps(steps) => steps,
                Body::Program(_) => &[],
            };
            assert!(steps.len() <= STEPS, "{}", one.name);
            for step in steps.iter().chain(one.setup) {
                let known = step.function.is_none_or(|name| function(name).is_some());
                assert!(known, "{}: {:?}", one.name, step.function);
                assert!(table::by_name(step.call).is_some(), "{}", step.call);
            }
        }
    }
}
