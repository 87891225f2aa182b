//! Remote calls: syscalls that a helper program makes inside a replayed process.
//!
//! The helper is the only program that replayed processes execute. It makes the calls of a
//! list, and traps. It lies at a fixed address next to the memory of the recorded program, and
//! needs no stack. Its calls pass the filter; all others stop.
//!
//! **Invariant:** a replayed process has no open descriptor except while the helper runs, so
//! that whatever the helper opens is descriptor 0.
#![expect(unsafe_code, reason = "reading our own text, where the code lies")]

use std::io::Write as _;
use std::os::fd::AsRawFd;

use ptrace_async::event::Tid;
use ptrace_async::runtime::{Parked, Stop, Stopped, Tracee};

use crate::platform::os;

/// Address of the helper: its code, then its data. See `memory::digest` for the range.
pub(super) const CODE: u64 = 0x7ea8_0000_0000;
const PAGE: u64 = 4096;
const DATA: u64 = CODE + PAGE;
const DATA_LENGTH: u64 = 64 << 10;
/// The range that must stay mapped.
pub(super) const RANGE: std::ops::Range<u64> = CODE..DATA + DATA_LENGTH;
/// Strings lie in the second half of the data.
const STRINGS: u64 = DATA + DATA_LENGTH / 2;
/// The path of the helper lies behind the list.
const PATH: u64 = STRINGS - PATH_LENGTH as u64;
const PATH_LENGTH: usize = 128;
const CALLS: usize = (DATA_LENGTH / 2 - PATH_LENGTH as u64) as usize / 64 - 1;

const HEADER: usize = 64 + 3 * 56;

// rbx: the list, 64 bytes for each call: its number (or -1, the end), six arguments,
// room for the result.
std::arch::global_asm!(
    ".pushsection .text.reprise_agent,\"ax\",@progbits",
    ".globl reprise_helper_start",
    ".globl reprise_helper_alone",
    ".globl reprise_helper_end",
    ".balign 16",
    "reprise_helper_start:",
    "2:",
    "mov rax, [rbx]",
    "cmp rax, -1",
    "je 3f",
    "mov rdi, [rbx + 8]",
    "mov rsi, [rbx + 16]",
    "mov rdx, [rbx + 24]",
    "mov r10, [rbx + 32]",
    "mov r8, [rbx + 40]",
    "mov r9, [rbx + 48]",
    "syscall",
    "mov [rbx + 56], rax",
    "add rbx, 64",
    "jmp 2b",
    "3:",
    "int3",
    // A call by registers alone, where the list may not be used.
    "reprise_helper_alone:",
    "syscall",
    "int3",
    "reprise_helper_end:",
    ".popsection",
);

unsafe extern "C" {
    fn reprise_helper_start();
    fn reprise_helper_alone();
    fn reprise_helper_end();
}

/// The helper as a file.
pub(super) struct HelperProgram {
    file: std::fs::File,
}

impl HelperProgram {
    pub(super) fn new() -> std::io::Result<Self> {
        let mut file = os::executable_memory(c"reprise")?;
        file.write_all(&image())?;
        Ok(Self { file })
    }

    /// A path that every process of this user can execute.
    pub(super) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }
}

fn code() -> &'static [u8] {
    let start = reprise_helper_start as *const () as usize;
    let end = reprise_helper_end as *const () as usize;
    // SAFETY: both labels are in one section of our own text, in this order, and text
    // does not change.
    unsafe { std::slice::from_raw_parts(start as *const u8, end - start) }
}

fn image() -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    let half = |out: &mut Vec<u8>, value: u16| out.extend_from_slice(&value.to_le_bytes());
    let word = |out: &mut Vec<u8>, value: u32| out.extend_from_slice(&value.to_le_bytes());
    let long = |out: &mut Vec<u8>, value: u64| out.extend_from_slice(&value.to_le_bytes());
    half(&mut out, 2); // ET_EXEC
    half(&mut out, 62); // EM_X86_64
    word(&mut out, 1);
    long(&mut out, CODE + HEADER as u64);
    long(&mut out, 64);
    long(&mut out, 0);
    word(&mut out, 0);
    for value in [64, 56, 3, 64, 0, 0] {
        half(&mut out, value);
    }
    let mut segment = |kind: u32, flags: u32, address: u64, in_file: u64, in_memory: u64| {
        word(&mut out, kind);
        word(&mut out, flags);
        long(&mut out, 0);
        long(&mut out, address);
        long(&mut out, address);
        long(&mut out, in_file);
        long(&mut out, in_memory);
        long(&mut out, PAGE);
    };
    let length = (HEADER + code().len()) as u64;
    segment(1, 5, CODE, length, length); // PT_LOAD, read and execute
    segment(1, 6, DATA, 0, DATA_LENGTH); // PT_LOAD, read and write
    segment(0x6474_e551, 6, 0, 0, 0); // PT_GNU_STACK, not executable
    out.extend_from_slice(code());
    out
}

/// Calls to be made one after the other.
#[derive(Debug, Default)]
pub(super) struct RemoteCalls {
    calls: Vec<[u64; 7]>,
    strings: Vec<u8>,
}

impl RemoteCalls {
    pub(super) fn call(&mut self, number: i64, args: [u64; 6]) {
        let [a, b, c, d, e, f] = args;
        self.calls.push([number.cast_unsigned(), a, b, c, d, e, f]);
    }

    /// The address of a string, which ends with a NUL there.
    pub(super) fn string(&mut self, text: &[u8]) -> u64 {
        let at = STRINGS + self.strings.len() as u64;
        self.strings.extend_from_slice(text);
        self.strings.push(0);
        at
    }

    /// The only call, if there is one.
    pub(super) fn single(&self) -> Option<(i64, [u64; 6])> {
        match self.calls[..] {
            [[number, a, b, c, d, e, f]] => Some((number.cast_signed(), [a, b, c, d, e, f])),
            _ => None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Whether it should be made before more is added.
    pub(super) fn is_full(&self) -> bool {
        self.calls.len() + 8 > CALLS || self.strings.len() + 2 * 4096 > (DATA_LENGTH / 2) as usize
    }

    fn list(&self) -> Vec<u8> {
        let mut list = Vec::with_capacity(64 * (self.calls.len() + 1));
        for call in &self.calls {
            for word in call {
                list.extend_from_slice(&word.to_le_bytes());
            }
            list.extend_from_slice(&[0; 8]);
        }
        list.extend_from_slice(&u64::MAX.to_le_bytes());
        list
    }

    /// Has the task make the calls, and gives their results. Its registers are to be set
    /// afterwards.
    ///
    /// # Errors
    /// The stop that came instead.
    pub(super) async fn make(
        self,
        tracee: Tracee<Parked>,
    ) -> Result<(Tracee<Parked>, Vec<i64>), Stop> {
        self.make_tasks(tracee, |_| ()).await
    }

    /// The same with calls that make tasks, of which `born` is told before they start: each
    /// where the helper is, with the registers of who made it.
    pub(super) async fn make_tasks(
        self,
        tracee: Tracee<Parked>,
        mut born: impl FnMut(Tid),
    ) -> Result<(Tracee<Parked>, Vec<i64>), Stop> {
        let count = self.calls.len();
        begin(&tracee, &self);
        let mut stop = tracee.resume().stop().await;
        loop {
            stop = match stop {
                Stop::Signal(tracee) if tracee.signal() == libc::SIGTRAP => {
                    let mut list = vec![0; 64 * count];
                    let got = ptrace_async::memory::Memory::read(&tracee, DATA, &mut list);
                    let results = list[..got]
                        .chunks_exact(64)
                        .map(|call| {
                            let mut word = [0; 8];
                            word.copy_from_slice(&call[56..]);
                            i64::from_le_bytes(word)
                        })
                        .collect();
                    return Ok((tracee.park(), results));
                }
                // A signal from outside, which a replay ignores.
                Stop::Signal(tracee) => tracee.resume().stop().await,
                Stop::GroupStop(tracee) => tracee.resume().stop().await,
                Stop::Interrupted(tracee) => tracee.resume().stop().await,
                Stop::Spawned(tracee) => {
                    born(tracee.child());
                    tracee.resume().stop().await
                }
                other => return Err(other),
            };
        }
    }

    /// Has the task begin, when it is resumed.
    pub(super) fn begin(self, tracee: &Tracee<Parked>) {
        begin(tracee, &self);
    }
}

/// Executes the helper, and comes to its first stop.
///
/// Who shares its memory with others gives up the turn for that, so nothing of the list is
/// used, which may be in use by then; the path is the same for all.
///
/// # Errors
/// The stop that came instead: the helper's trap, when it cannot be executed.
pub(super) async fn execute(tracee: Tracee<Parked>, path: &str) -> Result<Tracee<Parked>, Stop> {
    let mut bytes = path.as_bytes().to_vec();
    bytes.push(0);
    // Errors mean that the task is gone; its next stop says so.
    let _ = tracee.write(PATH, &bytes);
    if let Ok(mut regs) = tracee.registers() {
        let offset = reprise_helper_alone as *const () as usize - code().as_ptr().addr();
        regs.rip = CODE + (HEADER + offset) as u64;
        regs.rax = libc::SYS_execve as u64;
        (regs.rdi, regs.rsi, regs.rdx) = (PATH, 0, 0);
        regs.orig_rax = u64::MAX;
        let _ = tracee.set_registers(&regs);
    }
    let mut stop = tracee.resume().stop().await;
    loop {
        stop = match stop {
            Stop::Exec(tracee) => return Ok(tracee.park()),
            // A signal from outside, which a replay ignores.
            Stop::Signal(tracee) if tracee.signal() != libc::SIGTRAP => {
                tracee.resume().stop().await
            }
            Stop::GroupStop(tracee) => tracee.resume().stop().await,
            Stop::Interrupted(tracee) => tracee.resume().stop().await,
            other => return Err(other),
        };
    }
}

fn begin<S: Stopped>(tracee: &Tracee<S>, batch: &RemoteCalls) {
    // Errors mean that the task is gone; its next stop says so.
    let _ = tracee.write(DATA, &batch.list());
    if !batch.strings.is_empty() {
        let _ = tracee.write(STRINGS, &batch.strings);
    }
    if let Ok(mut regs) = tracee.registers() {
        regs.rip = CODE + HEADER as u64;
        regs.rbx = DATA;
        regs.orig_rax = u64::MAX;
        let _ = tracee.set_registers(&regs);
    }
}
