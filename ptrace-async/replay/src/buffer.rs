//! Syscalls that do not stop: performed and logged by code in the recorded process, and
//! answered from the log by code at the same place in the replayed one.
//!
//! Where a program has come by a few times, `mov $number, %eax; syscall` becomes a jump in
//! place of the `mov`. It leads over a *trampoline* near by (a jump reaches 2 GiB) to the
//! *stub*, which lies at a fixed address in every process. Recording, the stub performs the
//! call and appends an *entry* to the process's log: the result, and the memory that it
//! changed. What it does not want to decide it leaves to the `syscall` that still stands
//! there, and says so by an entry: whether a call stops is a matter of the log. Replaying,
//! another stub takes entry after entry.
//!
//! Nothing of the program's is used: no stack, and of the registers those that a syscall
//! destroys. Flags, RCX and R11 are left the same by both stubs. All tasks that share
//! memory share the log, since one of them runs at a time; the recorder takes what is in
//! it at every stop, so that it is always the stopping task's. While several share it,
//! calls that may wait stop as ever: who waits must not keep the turn.
//!
//! **Invariant:** the log is not touched from outside while a task is in the stub.

use iced_x86::IcedError;
use iced_x86::code_asm::{
    AsmMemoryOperand, CodeAssembler, CodeLabel, dword_ptr, eax, ecx, edi, esi, qword_ptr, r10, r11,
    r11d, rax, rcx, rdi, rdx, rsi,
};

/// The stub's code, then its data, then the log. See `memory` for the range.
pub(crate) const BASE: u64 = 0x7ea9_0000_0000;
const PAGE: u64 = 4096;
/// The data: the first word is where the next entry goes.
pub(crate) const DATA: u64 = BASE + PAGE;
/// The log.
pub(crate) const LOG: u64 = DATA + PAGE;
const LOG_LENGTH: u64 = 128 << 10;
/// All of it.
pub(crate) const LENGTH: u64 = 2 * PAGE + LOG_LENGTH;
/// All of it in a replay, which may have to take several logs at once.
pub(crate) const REPLAYED_LENGTH: u64 = 2 * PAGE + 8 * LOG_LENGTH;
/// Entries begin before this address; behind it is room for one that says "stopped".
const LIMIT: u64 = LOG + LOG_LENGTH - 64;
/// What one call may write, in bytes.
const LARGEST: u32 = 32 << 10;
/// The length of an entry without data.
pub(crate) const ENTRY: usize = 32;

/// Words of the data.
#[derive(Clone, Copy)]
enum Word {
    /// Where the next entry goes, or comes from.
    Cursor = 0,
    /// What is not performed at the moment: [`WAITS`], [`WRITES`].
    Closed = 1,
    /// Descriptors below 64 whose writes stop.
    Shown = 2,
    /// Where the call returns to.
    Return = 3,
    /// The call's number and result.
    Number = 4,
    Result = 5,
    /// Where the call writes, and how much ([`BY_RESULT`], or if it succeeds).
    Target = 6,
    Size = 7,
    /// What is in RSI and RDI.
    Rsi = 8,
    Rdi = 9,
}

/// Calls that may wait stop.
pub(crate) const WAITS: u64 = 1;
/// Calls that write to files stop.
pub(crate) const WRITES: u64 = 2;
const BY_RESULT: i32 = -1;

/// An entry's kind: a call that was performed, with its number above; or one that stopped.
const PERFORMED: i32 = 1;
const STOPPED: i32 = 2;

/// The address of a word of the data.
pub(crate) fn cursor() -> u64 {
    DATA
}

/// The address of the word that says what is not performed.
pub(crate) fn closed() -> u64 {
    DATA + 8
}

/// The address of the word that says whose writes stop.
pub(crate) fn shown() -> u64 {
    DATA + 16
}

/// The address of the word that says where the stub returns to.
pub(crate) fn returns_to() -> u64 {
    DATA + 8 * Word::Return as u64
}

/// What a call needs to be performed by the stub.
enum Shape {
    /// It writes no memory.
    Nothing,
    /// It writes as many bytes as it returns to where the first register points, at most
    /// what the second says.
    Counted(Register, Register),
    /// It writes so many bytes if it returns 0.
    Fixed(Register, i32),
}

#[derive(Clone, Copy)]
enum Register {
    Rdi,
    Rsi,
    Rdx,
    R10,
}

/// Conditions on top of that.
#[derive(Clone, Copy, PartialEq, Eq)]
enum If {
    Always,
    /// Waiting is allowed.
    Waits,
    /// So is writing, and the descriptor's writes are not shown.
    WaitsAndWrites,
    /// The command reads flags, or sets that of the descriptor (fcntl(2)).
    Flags,
    /// Waking (futex(2)).
    Wakes,
    /// There is no time zone to be told, and a time is wanted (gettimeofday(2)).
    NoZone,
}

const STAT: i32 = 144;
const TIME: i32 = 16;

/// A call that writes no memory.
const fn plain(number: i64) -> (i64, Shape, If) {
    (number, Shape::Nothing, If::Always)
}

/// The calls that the stub performs.
const CALLS: &[(i64, Shape, If)] = {
    use Register::{R10, Rdi, Rdx, Rsi};
    &[
        (libc::SYS_read, Shape::Counted(Rsi, Rdx), If::Waits),
        (libc::SYS_write, Shape::Nothing, If::WaitsAndWrites),
        (libc::SYS_clock_gettime, Shape::Fixed(Rsi, TIME), If::Always),
        (libc::SYS_newfstatat, Shape::Fixed(Rdx, STAT), If::Always),
        (libc::SYS_openat, Shape::Nothing, If::Waits),
        plain(libc::SYS_close),
        plain(libc::SYS_lseek),
        (libc::SYS_fstat, Shape::Fixed(Rsi, STAT), If::Always),
        (libc::SYS_stat, Shape::Fixed(Rsi, STAT), If::Always),
        (libc::SYS_lstat, Shape::Fixed(Rsi, STAT), If::Always),
        plain(libc::SYS_access),
        plain(libc::SYS_faccessat),
        plain(libc::SYS_faccessat2),
        (libc::SYS_readlink, Shape::Counted(Rsi, Rdx), If::Always),
        (libc::SYS_readlinkat, Shape::Counted(Rdx, R10), If::Always),
        (libc::SYS_pread64, Shape::Counted(Rsi, Rdx), If::Waits),
        (libc::SYS_pwrite64, Shape::Nothing, If::WaitsAndWrites),
        (libc::SYS_getdents64, Shape::Counted(Rsi, Rdx), If::Always),
        (libc::SYS_gettimeofday, Shape::Fixed(Rdi, TIME), If::NoZone),
        (libc::SYS_futex, Shape::Nothing, If::Wakes),
        (libc::SYS_fcntl, Shape::Nothing, If::Flags),
        plain(libc::SYS_getpid),
        plain(libc::SYS_gettid),
        plain(libc::SYS_getppid),
        plain(libc::SYS_getuid),
        plain(libc::SYS_geteuid),
        plain(libc::SYS_getgid),
        plain(libc::SYS_getegid),
    ]
};

/// Whether the stub performs calls of this number.
pub(crate) fn performs(number: u64) -> bool {
    CALLS
        .iter()
        .any(|(known, ..)| known.cast_unsigned() == number)
}

/// The words of the data, for code that lies a page before them.
#[derive(Clone, Copy)]
struct Words([CodeLabel; WORDS]);

const WORDS: usize = 10;

impl Words {
    fn new(a: &mut CodeAssembler) -> Self {
        Self(std::array::from_fn(|_| a.create_label()))
    }

    fn at(&self, word: Word) -> AsmMemoryOperand {
        qword_ptr(self.0[word as usize])
    }

    fn low(&self, word: Word) -> AsmMemoryOperand {
        dword_ptr(self.0[word as usize])
    }
}

/// A stub, and its addresses that matter.
pub(crate) struct Stub {
    pub(crate) code: Vec<u8>,
    /// Behind its `syscall`.
    pub(crate) after: u64,
    /// From where a call that has begun is left to the program.
    pub(crate) leave: u64,
}

/// Ends a stub: the call's result is in RAX, or its number, and it goes on at RCX.
fn leave(a: &mut CodeAssembler) -> Result<(), IcedError> {
    // The flags become the same, whatever was compared.
    a.xor(r11d, r11d)?;
    a.jmp(rcx)
}

/// The sum by which a replay tells that the arguments are the same.
fn arguments(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.lea(rcx, qword_ptr(rdi + rsi * 2))?;
    a.lea(rcx, qword_ptr(rcx + rdx * 4))
}

/// The stub of a recording.
///
/// # Errors
/// None that depends on anything: a defect of the assembler's input.
pub(crate) fn recording() -> Result<Stub, IcedError> {
    placed(recording_code)
}

/// Writes code, and gives the labels of [`Stub::after`] and [`Stub::leave`].
type Code = fn(&mut CodeAssembler, &Words) -> Result<(CodeLabel, CodeLabel), IcedError>;

/// Code whose data begins a page behind it.
fn placed(code: Code) -> Result<Stub, IcedError> {
    let mut padding = 1;
    loop {
        let mut a = CodeAssembler::new(64)?;
        let mut words = Words::new(&mut a);
        let (after, leave) = code(&mut a, &words)?;
        let mut end = a.create_label();
        a.set_label(&mut end)?;
        a.db(&vec![0xcc; padding])?;
        for label in &mut words.0 {
            a.set_label(label)?;
            a.dq(&[0])?;
        }
        let options = iced_x86::BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
        let done = a.assemble_options(BASE, options)?;
        let length = (done.label_ip(&end)? - BASE) as usize;
        if length + padding == PAGE as usize {
            let mut bytes = done.inner.code_buffer.clone();
            bytes.truncate(length);
            return Ok(Stub {
                code: bytes,
                after: done.label_ip(&after)?,
                leave: done.label_ip(&leave)?,
            });
        }
        // How long the code is does not depend on where its data is.
        padding = (PAGE as usize).saturating_sub(length).max(1);
    }
}

fn recording_code(
    a: &mut CodeAssembler,
    words: &Words,
) -> Result<(CodeLabel, CodeLabel), IcedError> {
    let mut stop = a.create_label();
    let mut perform = a.create_label();
    a.mov(words.at(Word::Return), rcx)?;
    let calls = CALLS;
    let mut labels: Vec<CodeLabel> = calls.iter().map(|_| a.create_label()).collect();
    for ((number, ..), label) in calls.iter().zip(&labels) {
        a.cmp(eax, *number as i32)?;
        a.je(*label)?;
    }
    a.jmp(stop)?;
    for ((_, shape, condition), label) in calls.iter().zip(&mut labels) {
        a.set_label(label)?;
        guard(a, words, *condition, stop)?;
        room(a, words, shape, stop)?;
        a.jmp(perform)?;
    }
    a.set_label(&mut perform)?;
    a.mov(words.at(Word::Number), rax)?;
    a.syscall()?;
    let mut after = a.create_label();
    a.set_label(&mut after)?;
    a.mov(words.at(Word::Result), rax)?;
    a.mov(r11, words.at(Word::Cursor))?;
    a.mov(qword_ptr(r11 + 8), rax)?;
    a.mov(ecx, words.low(Word::Number))?;
    a.shl(ecx, 8)?;
    a.or(ecx, PERFORMED)?;
    a.mov(dword_ptr(r11 + 4), ecx)?;
    arguments(a)?;
    a.mov(dword_ptr(r11 + 20), ecx)?;
    // How much it wrote.
    let mut fixed = a.create_label();
    let mut none = a.create_label();
    let mut known = a.create_label();
    a.mov(rcx, words.at(Word::Size))?;
    a.cmp(rcx, BY_RESULT)?;
    a.jne(fixed)?;
    a.mov(rcx, rax)?;
    a.test(rax, rax)?;
    a.js(none)?;
    a.jmp(known)?;
    a.set_label(&mut fixed)?;
    a.test(rax, rax)?;
    a.je(known)?;
    a.set_label(&mut none)?;
    a.xor(ecx, ecx)?;
    a.set_label(&mut known)?;
    a.mov(dword_ptr(r11 + 16), ecx)?;
    a.mov(words.at(Word::Rsi), rsi)?;
    a.mov(words.at(Word::Rdi), rdi)?;
    a.mov(rsi, words.at(Word::Target))?;
    a.mov(qword_ptr(r11 + 24), rsi)?;
    a.lea(rdi, qword_ptr(r11 + ENTRY as i32))?;
    a.rep().movsb()?;
    a.mov(rsi, words.at(Word::Rsi))?;
    a.mov(rdi, words.at(Word::Rdi))?;
    a.mov(ecx, dword_ptr(r11 + 16))?;
    a.add(ecx, ENTRY as i32 + 7)?;
    a.and(ecx, -8)?;
    a.mov(dword_ptr(r11), ecx)?;
    a.add(words.at(Word::Cursor), rcx)?;
    a.mov(rax, words.at(Word::Result))?;
    a.mov(rcx, words.at(Word::Return))?;
    leave(a)?;
    a.set_label(&mut stop)?;
    a.mov(r11, words.at(Word::Cursor))?;
    a.mov(dword_ptr(r11), ENTRY as i32)?;
    a.mov(dword_ptr(r11 + 4), STOPPED)?;
    a.add(words.at(Word::Cursor), ENTRY as i32)?;
    a.mov(rcx, words.at(Word::Return))?;
    a.lea(rcx, qword_ptr(rcx - 2))?;
    leave(a)?;
    Ok((after, stop))
}

/// Goes to `stop` unless the condition holds. R11 and RCX are free.
fn guard(
    a: &mut CodeAssembler,
    words: &Words,
    condition: If,
    stop: CodeLabel,
) -> Result<(), IcedError> {
    let closed = |a: &mut CodeAssembler, what: u64| -> Result<(), IcedError> {
        a.mov(rcx, words.at(Word::Closed))?;
        a.test(ecx, what as i32)?;
        a.jne(stop)
    };
    let hidden = |a: &mut CodeAssembler| -> Result<(), IcedError> {
        a.cmp(edi, 63)?;
        a.ja(stop)?;
        a.mov(r11, words.at(Word::Shown))?;
        a.mov(ecx, edi)?;
        a.bt(r11, rcx)?;
        a.jb(stop)
    };
    match condition {
        If::Always => Ok(()),
        If::Waits => closed(a, WAITS),
        If::WaitsAndWrites => {
            closed(a, WAITS | WRITES)?;
            hidden(a)
        }
        If::Flags => {
            // F_GETFD, F_SETFD, F_GETFL.
            a.lea(ecx, dword_ptr(rsi - 1))?;
            a.cmp(ecx, 2)?;
            a.ja(stop)
        }
        If::Wakes => {
            a.mov(ecx, esi)?;
            a.and(ecx, 0x7f)?;
            a.cmp(ecx, libc::FUTEX_WAKE)?;
            a.jne(stop)
        }
        If::NoZone => {
            a.test(rsi, rsi)?;
            a.jne(stop)?;
            a.test(rdi, rdi)?;
            a.je(stop)
        }
    }
}

/// Notes what the call is going to write, and goes to `stop` if there is no room for it.
fn room(
    a: &mut CodeAssembler,
    words: &Words,
    shape: &Shape,
    stop: CodeLabel,
) -> Result<(), IcedError> {
    let full = |register: Register| match register {
        Register::Rdi => rdi,
        Register::Rsi => rsi,
        Register::Rdx => rdx,
        Register::R10 => r10,
    };
    match shape {
        Shape::Nothing => {
            a.xor(ecx, ecx)?;
            a.mov(words.at(Word::Size), rcx)?;
        }
        Shape::Counted(target, length) => {
            a.cmp(full(*length), LARGEST as i32)?;
            a.ja(stop)?;
            a.mov(words.at(Word::Target), full(*target))?;
            a.mov(rcx, i64::from(BY_RESULT))?;
            a.mov(words.at(Word::Size), rcx)?;
            a.mov(rcx, full(*length))?;
        }
        Shape::Fixed(target, size) => {
            a.mov(words.at(Word::Target), full(*target))?;
            a.mov(ecx, *size)?;
            a.mov(words.at(Word::Size), rcx)?;
        }
    }
    a.mov(r11, words.at(Word::Cursor))?;
    a.lea(r11, qword_ptr(r11 + rcx + (ENTRY as i32 + 8)))?;
    a.mov(rcx, LIMIT)?;
    a.cmp(r11, rcx)?;
    a.ja(stop)
}

/// The stub of a replay.
///
/// # Errors
/// As [`recording`].
pub(crate) fn replaying() -> Result<Stub, IcedError> {
    placed(replaying_code)
}

fn replaying_code(
    a: &mut CodeAssembler,
    words: &Words,
) -> Result<(CodeLabel, CodeLabel), IcedError> {
    let mut performed = a.create_label();
    let mut stop = a.create_label();
    a.mov(words.at(Word::Return), rcx)?;
    a.mov(r11, words.at(Word::Cursor))?;
    a.mov(ecx, eax)?;
    a.shl(ecx, 8)?;
    a.or(ecx, PERFORMED)?;
    a.cmp(dword_ptr(r11 + 4), ecx)?;
    a.je(performed)?;
    a.cmp(dword_ptr(r11 + 4), STOPPED)?;
    a.je(stop)?;
    // The recorded program did not come here.
    let mut trap = a.create_label();
    a.set_label(&mut trap)?;
    a.int3()?;
    a.set_label(&mut performed)?;
    arguments(a)?;
    a.cmp(dword_ptr(r11 + 20), ecx)?;
    a.jne(trap)?;
    a.mov(words.at(Word::Rsi), rsi)?;
    a.mov(words.at(Word::Rdi), rdi)?;
    a.mov(ecx, dword_ptr(r11 + 16))?;
    a.mov(rdi, qword_ptr(r11 + 24))?;
    a.lea(rsi, qword_ptr(r11 + ENTRY as i32))?;
    a.rep().movsb()?;
    a.mov(rsi, words.at(Word::Rsi))?;
    a.mov(rdi, words.at(Word::Rdi))?;
    a.mov(ecx, dword_ptr(r11))?;
    a.add(words.at(Word::Cursor), rcx)?;
    a.mov(rax, qword_ptr(r11 + 8))?;
    a.mov(rcx, words.at(Word::Return))?;
    leave(a)?;
    a.set_label(&mut stop)?;
    a.add(words.at(Word::Cursor), ENTRY as i32)?;
    a.mov(rcx, words.at(Word::Return))?;
    a.lea(rcx, qword_ptr(rcx - 2))?;
    leave(a)?;
    Ok((trap, stop))
}

/// How much of a site is looked at: before the end of its call, and behind it.
pub(crate) const BEFORE: usize = 7;
pub(crate) const BEHIND: usize = 6;
/// The length of a trampoline, at most.
pub(crate) const TRAMPOLINE: u64 = 64;
/// How far a jump reaches, without asking for the last byte.
const REACH: u64 = 1 << 30;
const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// `cmp $-4096, %rax`: whether the call has failed.
const FAILED: [u8; BEHIND] = [0x48, 0x3d, 0x00, 0xf0, 0xff, 0xff];

/// A place where a program makes a call, that can be patched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Site {
    /// `mov $number, %eax; syscall`: the jump takes the place of the `mov`, and calls that
    /// stop are made by the `syscall` that is there.
    Numbered {
        /// Where the `mov` is.
        at: u64,
        number: u32,
    },
    /// `syscall; cmp $-4096, %rax`: the jump takes the place of both, and the trampoline has
    /// a copy of them.
    Compared {
        /// Where the `syscall` is.
        at: u64,
    },
}

impl Site {
    /// The site of a call that ends at `end`, with what stands around that.
    pub(crate) fn of(code: &[u8; BEFORE + BEHIND], number: u64, end: u64) -> Option<Self> {
        let number = number as u32;
        let mut numbered = [0xb8, 0, 0, 0, 0, 0x0f, 0x05];
        numbered[1..5].copy_from_slice(&number.to_le_bytes());
        if code[..BEFORE] == numbered {
            return Some(Self::Numbered {
                at: end - BEFORE as u64,
                number,
            });
        }
        (code[BEFORE - 2..BEFORE] == SYSCALL && code[BEFORE..] == FAILED)
            .then(|| Self::Compared { at: end - 2 })
    }

    /// Where its code is changed.
    pub(crate) fn at(self) -> u64 {
        match self {
            Self::Numbered { at, .. } | Self::Compared { at } => at,
        }
    }

    /// Where a call ends that is being made at the site while it is patched.
    pub(crate) fn end(self, trampoline: u64) -> u64 {
        match self {
            Self::Numbered { at, .. } => at + BEFORE as u64,
            Self::Compared { .. } => trampoline + COPY + SYSCALL.len() as u64,
        }
    }

    /// What is written to the trampoline and to the site.
    pub(crate) fn patch(self, trampoline: u64) -> (Vec<u8>, Vec<u8>) {
        let mut code = Vec::new();
        if let Self::Numbered { number, .. } = self {
            code.push(0xb8);
            code.extend_from_slice(&number.to_le_bytes());
        }
        // mov $return, %rcx
        code.extend_from_slice(&[0x48, 0xb9]);
        code.extend_from_slice(&self.end(trampoline).to_le_bytes());
        // jmp *0(%rip), and the address
        code.extend_from_slice(&[0xff, 0x25, 0, 0, 0, 0]);
        code.extend_from_slice(&BASE.to_le_bytes());
        if let Self::Compared { at } = self {
            code.resize(COPY as usize, 0xcc);
            code.extend_from_slice(&SYSCALL);
            code.extend_from_slice(&FAILED);
            let on = at + (SYSCALL.len() + FAILED.len()) as u64;
            let here = trampoline + code.len() as u64;
            code.extend_from_slice(&jump(here, on));
        }
        (code, jump(self.at(), trampoline))
    }
}

/// Where in a trampoline the copy of a call is.
const COPY: u64 = 24;

/// A jump that stands at `from`.
fn jump(from: u64, to: u64) -> Vec<u8> {
    let distance = to.wrapping_sub(from + 5) as i64 as i32;
    let mut code = vec![0xe9];
    code.extend_from_slice(&distance.to_le_bytes());
    code
}

/// Whether a trampoline can serve a site.
pub(crate) fn reaches(trampoline: u64, site: u64) -> bool {
    trampoline.abs_diff(site) < REACH
}

/// The length of the code's and the data's pages.
pub(crate) const CODE_LENGTH: u64 = PAGE;

/// Whether an address is in the stub.
pub(crate) fn contains(ip: u64) -> bool {
    (BASE..DATA).contains(&ip)
}

/// An entry of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The call's number; nothing where it stopped.
    pub number: Option<u64>,
    /// What it returned.
    pub result: i64,
    /// What it wrote.
    pub data: &'a [u8],
}

/// The entries of a log, as far as they make sense.
pub fn entries(mut log: &[u8]) -> impl Iterator<Item = Entry<'_>> {
    std::iter::from_fn(move || {
        let head = log.get(..ENTRY)?;
        let word = |at: usize| {
            let mut word = [0; 4];
            word.copy_from_slice(&head[at..at + 4]);
            u32::from_le_bytes(word)
        };
        let length = word(0) as usize;
        if length < ENTRY || length > log.len() {
            return None;
        }
        let data = log.get(ENTRY..ENTRY + word(16) as usize)?;
        let kind = word(4);
        let entry = Entry {
            number: (kind != STOPPED as u32).then_some(u64::from(kind >> 8)),
            result: (u64::from(word(8)) | u64::from(word(12)) << 32).cast_signed(),
            data,
        };
        log = &log[length..];
        Some(entry)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stubs_fit_their_page() {
        for stub in [recording().unwrap(), replaying().unwrap()] {
            assert!(stub.code.len() <= PAGE as usize, "{}", stub.code.len());
            assert!(contains(stub.after) && contains(stub.leave));
        }
        assert_eq!(recording().unwrap().code[..2], [0x48, 0x89]);
    }

    #[test]
    fn the_syscall_of_the_stub_is_where_it_is_said_to_be() {
        let stub = recording().unwrap();
        let at = (stub.after - BASE) as usize;
        assert_eq!(stub.code[at - 2..at], [0x0f, 0x05]);
    }
}
