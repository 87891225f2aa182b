//! Real programs under a minimal tracer of their own: at every syscall of one
//! task, all its writable memory is compared before and after.
//!
//! This finds what the cases cannot: calls with the arguments that programs
//! really use. Only programs of one task are watched; their children run
//! untraced. The tracer is the raw interface on purpose, so that a defect of
//! the library cannot hide one of the table.
#![expect(unsafe_code, reason = "it traces a child")]

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use ptrace_async::memory::Memory;
use ptrace_async::syscall::effects::{Before, Range, writes_since};
use ptrace_async::syscall::{Decoded, Invocation};

/// The observations of one program.
#[derive(Default)]
pub(crate) struct Seen {
    /// How many calls were compared.
    pub(crate) calls: usize,
    /// How many of each syscall.
    pub(crate) syscalls: BTreeMap<&'static str, usize>,
    /// Bytes that changed.
    pub(crate) changed: usize,
    /// Calls that changed undeclared memory, as text.
    pub(crate) undeclared: Vec<String>,
    /// Calls whose effects are not modelled, as text.
    pub(crate) unmodelled: Vec<String>,
}

/// The memory of the tracee.
struct Remote(File);

impl Memory for Remote {
    fn read(&self, address: u64, buffer: &mut [u8]) -> usize {
        let mut done = 0;
        // By pages: the file ends a read that runs into a hole with an error.
        while done < buffer.len() {
            let at = address.wrapping_add(done as u64);
            let len = (4096 - (at % 4096) as usize).min(buffer.len() - done);
            match self.0.read_at(&mut buffer[done..done + len], at) {
                Ok(got) if got > 0 => done += got,
                _ => break,
            }
        }
        done
    }
}

/// Writable private mappings with their content.
type Snapshot = Vec<(Range, Vec<u8>)>;

fn snapshot(pid: i32, memory: &Remote) -> Snapshot {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let mut mappings = Vec::new();
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        let (Some(range), Some(flags)) = (words.next(), words.next()) else {
            continue;
        };
        let Some((start, end)) = range.split_once('-') else {
            continue;
        };
        let (Ok(start), Ok(end)) = (u64::from_str_radix(start, 16), u64::from_str_radix(end, 16))
        else {
            continue;
        };
        if flags.starts_with("rw") && flags.ends_with('p') {
            let mut bytes = vec![0; (end - start) as usize];
            let got = memory.read(start, &mut bytes);
            bytes.truncate(got);
            mappings.push((
                Range {
                    start,
                    len: got as u64,
                },
                bytes,
            ));
        }
    }
    mappings
}

/// Addresses of bytes that are mapped in both snapshots, and differ.
fn differences(old: &Snapshot, new: &Snapshot) -> Vec<u64> {
    let mut changed = Vec::new();
    for (range, bytes) in old {
        for (other, now) in new {
            let from = range.start.max(other.start);
            let to = range.end().min(other.end());
            if from >= to {
                continue;
            }
            let cut = |bytes: &[u8], start: u64| {
                bytes[(from - start) as usize..(to - start) as usize].to_vec()
            };
            let (was, is) = (cut(bytes, range.start), cut(now, other.start));
            if was != is {
                let differ = was
                    .iter()
                    .zip(&is)
                    .enumerate()
                    .filter(|(_, (was, is))| was != is);
                changed.extend(differ.map(|(at, _)| from + at as u64));
            }
        }
    }
    changed
}

struct Tracer {
    pid: i32,
}

impl Tracer {
    fn request(&self, request: libc::c_uint, data: u64) -> bool {
        // SAFETY: the requests used here read no memory of this process.
        unsafe { libc::ptrace(request, self.pid, 0, data) != -1 }
    }

    /// Waits for the next stop; `None` when the task has ended.
    fn wait(&self) -> Option<i32> {
        let mut status = 0;
        // SAFETY: `status` outlives the call.
        let got = unsafe { libc::waitpid(self.pid, &raw mut status, libc::__WALL) };
        (got == self.pid && libc::WIFSTOPPED(status)).then(|| libc::WSTOPSIG(status))
    }

    fn registers(&self) -> Option<libc::user_regs_struct> {
        let mut registers = std::mem::MaybeUninit::<libc::user_regs_struct>::zeroed();
        // SAFETY: the kernel writes one structure of exactly this type there.
        let got =
            unsafe { libc::ptrace(libc::PTRACE_GETREGS, self.pid, 0, registers.as_mut_ptr()) };
        // SAFETY: all-zero bytes are a valid value, and so is what the kernel wrote.
        (got != -1).then(|| unsafe { registers.assume_init() })
    }
}

/// Runs a program to its end.
pub(crate) fn watch(program: &str, arguments: &[&str]) -> Option<Seen> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // SAFETY: between fork and exec it makes two syscalls, and allocates nothing.
    unsafe {
        command.pre_exec(|| {
            libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
            Ok(())
        })
    };
    let child = command.spawn().ok()?;
    let tracer = Tracer {
        pid: child.id() as i32,
    };
    // The stop behind a successful exec.
    tracer.wait()?;
    let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL;
    tracer.request(libc::PTRACE_SETOPTIONS, options as u64);
    let memory = Remote(File::open(format!("/proc/{}/mem", tracer.pid)).ok()?);
    let mut seen = Seen::default();
    let mut entered: Option<(Invocation, Before, Snapshot)> = None;
    // The kernel writes there whenever the task was off its processor.
    let mut rseq = Range { start: 0, len: 0 };
    let mut signal = 0;
    loop {
        tracer.request(libc::PTRACE_SYSCALL, signal);
        let Some(stop) = tracer.wait() else {
            return Some(seen);
        };
        signal = 0;
        if stop != libc::SIGTRAP | 0x80 {
            if stop != libc::SIGTRAP {
                signal = stop as u64;
            }
            continue;
        }
        let Some(regs) = tracer.registers() else {
            return Some(seen);
        };
        match entered.take() {
            None => {
                let args = [regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9];
                let call = Invocation {
                    nr: regs.orig_rax,
                    args,
                };
                let before = Before::capture(&call, &memory);
                entered = Some((call, before, snapshot(tracer.pid, &memory)));
            }
            Some((call, before, old)) => {
                let result = regs.rax.cast_signed();
                if call.syscall().name() == "rseq" {
                    rseq = Range {
                        start: call.args[0],
                        len: call.args[1] & 0xffff_ffff,
                    };
                }
                seen.compare(tracer.pid, &memory, (call, result), &before, &old, rseq);
            }
        }
    }
}

impl Seen {
    fn compare(
        &mut self,
        pid: i32,
        memory: &Remote,
        (call, result): (Invocation, i64),
        before: &Before,
        old: &Snapshot,
        rseq: Range,
    ) {
        let name = call.syscall().name();
        self.calls += 1;
        *self.syscalls.entry(name).or_default() += 1;
        let text = || Decoded::at_exit(call, result, memory).to_string();
        // The child runs in the caller's memory.
        let shares = name == "vfork"
            || name == "clone" && call.args[0] & libc::CLONE_VM as u64 != 0
            || name == "clone3";
        if shares {
            return;
        }
        // These replace what addresses mean.
        if matches!(
            name,
            "execve" | "mmap" | "munmap" | "mremap" | "brk" | "rt_sigreturn"
        ) {
            return;
        }
        let ranges = match writes_since(before, &call, result, memory) {
            Ok(ranges) => ranges,
            Err(error) => {
                self.unmodelled.push(format!("{}: {error}", text()));
                return;
            }
        };
        let changed = differences(old, &snapshot(pid, memory));
        self.changed += changed.len();
        let declared = |at: u64| ranges.iter().any(|range| range.contains(at)) || rseq.contains(at);
        let stray: Vec<_> = changed
            .iter()
            .filter(|&&at| !declared(at))
            .take(4)
            .collect();
        if !stray.is_empty() {
            self.undeclared.push(format!("{}: {stray:x?}", text()));
        }
    }
}
