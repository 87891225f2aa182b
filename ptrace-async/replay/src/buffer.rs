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
//! calls that may wait stop as ever, since who waits must not keep the turn; but not those
//! on descriptors that are known to be *quick* (files, and whatever does not block), and to
//! wait for events is tried without waiting first.
//!
//! Calls that shape memory are performed as well, and logged with their arguments. A replay
//! makes them again: its stub does, by entries that say how; those of files stop for it.
//!
//! **Invariant:** the log is not touched from outside while a task is in the stub.

use std::ops::Range;

use iced_x86::IcedError;
use iced_x86::code_asm::{
    AsmMemoryOperand, CodeAssembler, CodeLabel, byte_ptr, cl, dword_ptr, eax, ecx, edi, edx, esi,
    qword_ptr, r8, r9, r10, r10d, r11, r11d, rax, rcx, rdi, rdx, rsi,
};

use crate::code;

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
    /// How many bytes of arguments are logged.
    Arguments = 10,
    /// The library that was mapped last: from where, up to where, by which descriptor.
    LibraryStart = 11,
    LibraryEnd = 12,
    LibraryFd = 13,
    /// What is in other registers.
    Rdx = 14,
    R10 = 15,
    R8 = 16,
    R9 = 17,
}

/// Calls that may wait stop.
pub(crate) const WAITS: u64 = 1;
/// Calls that write to files stop.
pub(crate) const WRITES: u64 = 2;
const BY_RESULT: i32 = -1;
/// So many events as it returns.
const BY_EVENTS: i32 = -2;

/// An entry's kind: a call that was performed, with its number above; one that stopped.
const PERFORMED: i32 = 1;
const STOPPED: i32 = 2;
/// Only in a replay: another call is made in its place.
const MADE: i32 = 3;

/// The address of a word of the data.
pub(crate) fn cursor() -> u64 {
    DATA
}

/// The address of the word that says what is not performed.
pub(crate) fn closed() -> u64 {
    DATA + 8
}

/// The length of the arguments in an entry.
const ARGUMENTS: i32 = 48;

/// What is known of descriptors: a byte for each, from here on in the data.
const TABLE: u64 = 1024;
/// How many descriptors the table has.
pub(crate) const DESCRIPTORS: u64 = 1024;
/// What is written there is nobody's output.
pub(crate) const HIDDEN: u8 = 1;
/// Calls on it do not wait, or not for long.
pub(crate) const QUICK: u8 = 2;

/// The address of what is known of descriptor 0.
pub(crate) fn descriptors() -> u64 {
    DATA + TABLE
}

/// The address of the three words that say what library is being mapped.
pub(crate) fn library() -> u64 {
    DATA + 8 * Word::LibraryStart as u64
}

/// The address of the word that says where the stub returns to.
pub(crate) fn returns_to() -> u64 {
    DATA + 8 * Word::Return as u64
}

/// What a call needs to be performed by the stub.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// It writes no memory.
    Nothing,
    /// It writes as many bytes as it returns to where the first register points, at most
    /// what the second says.
    Counted(Register, Register),
    /// It writes as many events as it returns (epoll_wait(2)), at most what the second says.
    Events(Register, Register),
    /// It writes so many bytes if it returns 0.
    Fixed(Register, i32),
    /// The same, unless it is told to write nowhere.
    Optional(Register, i32),
    /// It writes nothing, and changes what memory there is.
    Memory,
}

#[derive(Clone, Copy, PartialEq, Eq)]
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
    /// Waiting is allowed, or the descriptor is quick.
    Quick,
    /// So is writing, and the descriptor is hidden.
    Writes,
    /// As [`If::Quick`], without an address.
    Receives,
    /// As [`If::Writes`], without an address.
    Sends,
    /// Waiting is allowed, or there is something without.
    Polls,
    /// The command reads flags, or sets that of the descriptor (fcntl(2)).
    Flags,
    /// Waking (futex(2)).
    Wakes,
    /// There is no time zone to be told, and a time is wanted (gettimeofday(2)).
    NoZone,
    /// Nothing is set (prlimit(2)).
    Asks,
    /// It is asked whether it is a terminal (`TCGETS`).
    Terminal,
    /// The memory is nobody else's, and without a file; or it is a part of the library that
    /// was mapped before, as loaders do (`MAP_DENYWRITE`).
    Private,
    /// Always; a descriptor of the library is one no more.
    Closes,
}

/// `struct epoll_event`.
const EVENT: i32 = 12;
/// What may be asked of sockets: not to block, and to send no signal.
const PLAIN: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
const STAT: i32 = 144;
const TIME: i32 = 16;
/// `struct termios` as the kernel has it.
const TERMINAL: i32 = 36;
/// `struct sigaction` as the kernel has it.
const ACTION: i32 = 32;
/// What loaders map libraries with, once they have a place for them.
const OF_LIBRARY: i32 = libc::MAP_DENYWRITE | libc::MAP_FIXED;

/// A call that writes no memory.
const fn plain(number: i64) -> (i64, Shape, If) {
    (number, Shape::Nothing, If::Always)
}

/// The calls that the stub performs.
const CALLS: &[(i64, Shape, If)] = {
    use Register::{R10, Rdi, Rdx, Rsi};
    const UTSNAME: i32 = 390;
    &[
        (libc::SYS_read, Shape::Counted(Rsi, Rdx), If::Quick),
        (libc::SYS_write, Shape::Nothing, If::Writes),
        (libc::SYS_epoll_wait, Shape::Events(Rsi, Rdx), If::Polls),
        (libc::SYS_recvfrom, Shape::Counted(Rsi, Rdx), If::Receives),
        (libc::SYS_sendto, Shape::Nothing, If::Sends),
        (libc::SYS_clock_gettime, Shape::Fixed(Rsi, TIME), If::Always),
        (libc::SYS_newfstatat, Shape::Fixed(Rdx, STAT), If::Always),
        plain(libc::SYS_openat),
        (libc::SYS_close, Shape::Nothing, If::Closes),
        plain(libc::SYS_lseek),
        (libc::SYS_fstat, Shape::Fixed(Rsi, STAT), If::Always),
        (libc::SYS_stat, Shape::Fixed(Rsi, STAT), If::Always),
        (libc::SYS_lstat, Shape::Fixed(Rsi, STAT), If::Always),
        plain(libc::SYS_access),
        plain(libc::SYS_faccessat),
        plain(libc::SYS_faccessat2),
        (libc::SYS_readlink, Shape::Counted(Rsi, Rdx), If::Always),
        (libc::SYS_readlinkat, Shape::Counted(Rdx, R10), If::Always),
        (libc::SYS_pread64, Shape::Counted(Rsi, Rdx), If::Quick),
        (libc::SYS_pwrite64, Shape::Nothing, If::Writes),
        (libc::SYS_getdents64, Shape::Counted(Rsi, Rdx), If::Always),
        (libc::SYS_gettimeofday, Shape::Fixed(Rdi, TIME), If::NoZone),
        (libc::SYS_futex, Shape::Nothing, If::Wakes),
        (libc::SYS_fcntl, Shape::Nothing, If::Flags),
        plain(libc::SYS_epoll_ctl),
        plain(libc::SYS_getpid),
        plain(libc::SYS_gettid),
        plain(libc::SYS_getppid),
        plain(libc::SYS_getuid),
        plain(libc::SYS_geteuid),
        plain(libc::SYS_getgid),
        plain(libc::SYS_getegid),
        (libc::SYS_mmap, Shape::Memory, If::Private),
        (libc::SYS_munmap, Shape::Memory, If::Always),
        (libc::SYS_mprotect, Shape::Memory, If::Always),
        (libc::SYS_brk, Shape::Memory, If::Always),
        (
            libc::SYS_rt_sigaction,
            Shape::Optional(Rdx, ACTION),
            If::Always,
        ),
        (libc::SYS_ioctl, Shape::Fixed(Rdx, TERMINAL), If::Terminal),
        (libc::SYS_prlimit64, Shape::Optional(R10, TIME), If::Asks),
        (libc::SYS_getcwd, Shape::Counted(Rdi, Rsi), If::Always),
        (libc::SYS_getrandom, Shape::Counted(Rdi, Rsi), If::Always),
        (libc::SYS_pipe2, Shape::Fixed(Rdi, 8), If::Always),
        (libc::SYS_uname, Shape::Fixed(Rdi, UTSNAME), If::Always),
        (libc::SYS_getrusage, Shape::Fixed(Rsi, STAT), If::Always),
        plain(libc::SYS_set_robust_list),
        plain(libc::SYS_umask),
        plain(libc::SYS_getpgrp),
    ]
};

/// Whether an entry has the arguments of its call, which a replay has to make again.
fn shapes_memory(number: u64) -> bool {
    CALLS
        .iter()
        .any(|(known, shape, _)| known.cast_unsigned() == number && matches!(shape, Shape::Memory))
}

/// Whether the stub performs calls of this number.
pub(crate) fn performs(number: u64) -> bool {
    CALLS
        .iter()
        .any(|(known, ..)| known.cast_unsigned() == number)
}

/// The words of the data, for code that lies a page before them.
#[derive(Clone, Copy)]
struct Words([CodeLabel; WORDS]);

const WORDS: usize = 18;

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
    placed(recording_code, RECORDING)
}

/// Writes code, and gives the labels of [`Stub::after`] and [`Stub::leave`].
type Code = fn(&mut CodeAssembler, &Words) -> Result<(CodeLabel, CodeLabel), IcedError>;

/// How long the stubs are: to know it saves half of the time that it takes to make them.
const RECORDING: usize = 3008;
const REPLAYING: usize = 326;

/// Code whose data begins a page behind it; it is probably of this length.
fn placed(code: Code, likely: usize) -> Result<Stub, IcedError> {
    let mut padding = PAGE as usize - likely;
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
    let mut after = a.create_label();
    a.mov(words.at(Word::Return), rcx)?;
    // Calls of one kind share what is done about them.
    let mut kinds: Vec<(Shape, If, CodeLabel)> = Vec::new();
    for &(number, shape, condition) in CALLS {
        let known = kinds
            .iter()
            .find(|kind| (kind.0, kind.1) == (shape, condition));
        let label = match known {
            Some(&(.., label)) => label,
            None => {
                let label = a.create_label();
                kinds.push((shape, condition, label));
                label
            }
        };
        a.cmp(eax, number as i32)?;
        a.je(label)?;
    }
    a.jmp(stop)?;
    for (shape, condition, label) in &mut kinds {
        a.set_label(label)?;
        guard(a, words, *condition, stop)?;
        room(a, words, *shape, stop)?;
        if *condition == If::Polls {
            a.mov(rcx, words.at(Word::Closed))?;
            a.test(ecx, WAITS as i32)?;
            a.je(perform)?;
            a.mov(words.at(Word::Number), rax)?;
            a.mov(words.at(Word::R10), r10)?;
            a.xor(r10d, r10d)?;
            a.syscall()?;
            a.mov(r10, words.at(Word::R10))?;
            a.test(rax, rax)?;
            a.jne(after)?;
            a.test(r10d, r10d)?;
            a.je(after)?;
            a.mov(rax, words.at(Word::Number))?;
            a.jmp(stop)?;
        } else {
            a.jmp(perform)?;
        }
    }
    a.set_label(&mut perform)?;
    a.mov(words.at(Word::Number), rax)?;
    a.syscall()?;
    a.set_label(&mut after)?;
    a.mov(words.at(Word::Result), rax)?;
    show_opened(a, words)?;
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
    a.test(rcx, rcx)?;
    a.jns(fixed)?;
    a.test(rax, rax)?;
    a.js(none)?;
    let mut events = a.create_label();
    a.cmp(rcx, BY_EVENTS)?;
    a.mov(rcx, rax)?;
    a.je(events)?;
    a.jmp(known)?;
    a.set_label(&mut events)?;
    a.imul_3(ecx, ecx, EVENT)?;
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
    let mut logged = a.create_label();
    a.mov(ecx, words.low(Word::Arguments))?;
    a.test(ecx, ecx)?;
    a.je(logged)?;
    for (at, register) in [rdi, rsi, rdx, r10, r8, r9].into_iter().enumerate() {
        a.mov(qword_ptr(r11 + ENTRY as i32 + 8 * at as i32), register)?;
    }
    a.set_label(&mut logged)?;
    a.add(ecx, dword_ptr(r11 + 16))?;
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

/// Nothing is known of a file that was opened; but one that is new is nobody's output. R11
/// and RCX are free.
fn show_opened(a: &mut CodeAssembler, words: &Words) -> Result<(), IcedError> {
    let mut done = a.create_label();
    let mut old = a.create_label();
    a.mov(ecx, words.low(Word::Number))?;
    a.cmp(ecx, libc::SYS_openat as i32)?;
    a.jne(done)?;
    a.cmp(rax, DESCRIPTORS as i32)?;
    a.jae(done)?;
    a.xor(ecx, ecx)?;
    a.test(edx, libc::O_EXCL)?;
    a.je(old)?;
    a.mov(ecx, i32::from(HIDDEN))?;
    a.set_label(&mut old)?;
    a.lea(r11, words.at(Word::Cursor))?;
    a.mov(byte_ptr(r11 + rax + TABLE as i32), cl)?;
    a.set_label(&mut done)?;
    a.nop()
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
    let is_known = |a: &mut CodeAssembler, what: u8| -> Result<(), IcedError> {
        a.cmp(edi, DESCRIPTORS as i32)?;
        a.jae(stop)?;
        a.mov(ecx, edi)?;
        a.lea(r11, words.at(Word::Cursor))?;
        a.test(byte_ptr(r11 + rcx + TABLE as i32), i32::from(what))?;
        a.je(stop)
    };
    let quick = |a: &mut CodeAssembler| -> Result<(), IcedError> {
        let mut good = a.create_label();
        a.mov(rcx, words.at(Word::Closed))?;
        a.test(ecx, WAITS as i32)?;
        a.je(good)?;
        is_known(a, QUICK)?;
        a.set_label(&mut good)?;
        a.nop()
    };
    let unaddressed = |a: &mut CodeAssembler| -> Result<(), IcedError> {
        a.test(r8, r8)?;
        a.jne(stop)?;
        a.test(r10d, !PLAIN)?;
        a.jne(stop)
    };
    match condition {
        If::Always | If::Polls => Ok(()),
        If::Quick => quick(a),
        If::Writes => {
            closed(a, WRITES)?;
            is_known(a, HIDDEN)?;
            quick(a)
        }
        If::Receives => {
            unaddressed(a)?;
            quick(a)
        }
        If::Sends => {
            unaddressed(a)?;
            closed(a, WRITES)?;
            is_known(a, HIDDEN)?;
            quick(a)
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
        If::Asks => {
            a.test(rdx, rdx)?;
            a.jne(stop)
        }
        If::Terminal => {
            a.cmp(esi, libc::TCGETS as i32)?;
            a.jne(stop)
        }
        If::Private => {
            let mut good = a.create_label();
            a.mov(ecx, r10d)?;
            a.test(ecx, libc::MAP_SHARED)?;
            a.jne(stop)?;
            a.test(ecx, libc::MAP_ANONYMOUS)?;
            a.jne(good)?;
            a.and(ecx, OF_LIBRARY)?;
            a.cmp(ecx, OF_LIBRARY)?;
            a.jne(stop)?;
            a.cmp(r8, words.at(Word::LibraryFd))?;
            a.jne(stop)?;
            a.cmp(rdi, words.at(Word::LibraryStart))?;
            a.jb(stop)?;
            a.lea(rcx, qword_ptr(rdi + rsi))?;
            a.cmp(rcx, words.at(Word::LibraryEnd))?;
            a.ja(stop)?;
            a.set_label(&mut good)?;
            a.nop()
        }
        If::Closes => {
            let mut another = a.create_label();
            let mut beyond = a.create_label();
            a.mov(ecx, edi)?;
            a.cmp(ecx, DESCRIPTORS as i32)?;
            a.jae(beyond)?;
            a.lea(r11, words.at(Word::Cursor))?;
            a.mov(byte_ptr(r11 + rcx + TABLE as i32), 0)?;
            a.set_label(&mut beyond)?;
            a.cmp(rcx, words.at(Word::LibraryFd))?;
            a.jne(another)?;
            a.mov(rcx, -1_i64)?;
            a.mov(words.at(Word::LibraryFd), rcx)?;
            a.set_label(&mut another)?;
            a.nop()
        }
    }
}

/// Notes what the call is going to write, and goes to `stop` if there is no room for it.
fn room(
    a: &mut CodeAssembler,
    words: &Words,
    shape: Shape,
    stop: CodeLabel,
) -> Result<(), IcedError> {
    let full = |register: Register| match register {
        Register::Rdi => rdi,
        Register::Rsi => rsi,
        Register::Rdx => rdx,
        Register::R10 => r10,
    };
    a.xor(ecx, ecx)?;
    a.mov(words.at(Word::Arguments), rcx)?;
    match shape {
        Shape::Nothing => a.mov(words.at(Word::Size), rcx)?,
        Shape::Counted(target, length) => {
            a.cmp(full(length), LARGEST as i32)?;
            a.ja(stop)?;
            a.mov(words.at(Word::Target), full(target))?;
            a.mov(rcx, i64::from(BY_RESULT))?;
            a.mov(words.at(Word::Size), rcx)?;
            a.mov(rcx, full(length))?;
        }
        Shape::Events(target, count) => {
            a.cmp(full(count), LARGEST as i32 / EVENT)?;
            a.ja(stop)?;
            a.mov(words.at(Word::Target), full(target))?;
            a.mov(rcx, i64::from(BY_EVENTS))?;
            a.mov(words.at(Word::Size), rcx)?;
            a.imul_3(rcx, full(count), EVENT)?;
        }
        Shape::Fixed(target, size) => {
            a.mov(words.at(Word::Target), full(target))?;
            a.mov(ecx, size)?;
            a.mov(words.at(Word::Size), rcx)?;
        }
        Shape::Optional(target, size) => {
            let mut nowhere = a.create_label();
            a.mov(words.at(Word::Target), full(target))?;
            a.test(full(target), full(target))?;
            a.je(nowhere)?;
            a.mov(ecx, size)?;
            a.set_label(&mut nowhere)?;
            a.mov(words.at(Word::Size), rcx)?;
        }
        Shape::Memory => {
            a.mov(words.at(Word::Size), rcx)?;
            a.mov(ecx, ARGUMENTS)?;
            a.mov(words.at(Word::Arguments), rcx)?;
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
    placed(replaying_code, REPLAYING)
}

fn replaying_code(
    a: &mut CodeAssembler,
    words: &Words,
) -> Result<(CodeLabel, CodeLabel), IcedError> {
    let mut performed = a.create_label();
    let mut made = a.create_label();
    let mut stop = a.create_label();
    a.mov(words.at(Word::Return), rcx)?;
    a.mov(r11, words.at(Word::Cursor))?;
    a.mov(ecx, eax)?;
    a.shl(ecx, 8)?;
    a.or(ecx, PERFORMED)?;
    a.cmp(dword_ptr(r11 + 4), ecx)?;
    a.je(performed)?;
    a.xor(ecx, PERFORMED ^ MADE)?;
    a.cmp(dword_ptr(r11 + 4), ecx)?;
    a.je(made)?;
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
    a.set_label(&mut made)?;
    arguments(a)?;
    a.cmp(dword_ptr(r11 + 20), ecx)?;
    a.jne(trap)?;
    let arguments = [
        (rdi, Word::Rdi),
        (rsi, Word::Rsi),
        (rdx, Word::Rdx),
        (r10, Word::R10),
        (r8, Word::R8),
        (r9, Word::R9),
    ];
    for (at, (register, word)) in arguments.into_iter().enumerate() {
        a.mov(words.at(word), register)?;
        a.mov(register, qword_ptr(r11 + ENTRY as i32 + 8 * at as i32))?;
    }
    a.mov(rax, qword_ptr(r11 + ENTRY as i32 + ARGUMENTS))?;
    a.syscall()?;
    for (register, word) in arguments {
        a.mov(register, words.at(word))?;
    }
    a.mov(r11, words.at(Word::Cursor))?;
    a.cmp(rax, qword_ptr(r11 + ENTRY as i32 + ARGUMENTS + 8))?;
    a.jne(trap)?;
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
    /// The site of a call that ends at `end`, with what stands around that; `number` says
    /// which call is being made there.
    pub(crate) fn of(code: &[u8; BEFORE + BEHIND], number: Option<u64>, end: u64) -> Option<Self> {
        if let Some(found) = numbered_call(&code[..BEFORE])
            && number.is_none_or(|number| number == u64::from(found))
        {
            return Some(Self::Numbered {
                at: end - BEFORE as u64,
                number: found,
            });
        }
        (code[BEFORE - 2..BEFORE] == SYSCALL && code[BEFORE..] == FAILED)
            .then(|| Self::Compared { at: end - 2 })
    }

    /// Where nobody may be, or jump to, when it is patched.
    pub(crate) fn inside(self) -> Range<u64> {
        match self {
            // In the middle of an instruction, where nobody does.
            Self::Numbered { at, .. } => at + 1..at + 1,
            Self::Compared { at } => at + 1..at + (SYSCALL.len() + FAILED.len()) as u64,
        }
    }

    /// Where its code is changed.
    pub(crate) fn at(self) -> u64 {
        match self {
            Self::Numbered { at, .. } | Self::Compared { at } => at,
        }
    }

    /// Whether its calls end there, before it is patched.
    pub(crate) fn ends_at(self, end: u64) -> bool {
        match self {
            Self::Numbered { at, .. } => at + BEFORE as u64 == end,
            Self::Compared { at } => at + SYSCALL.len() as u64 == end,
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

/// The number in `mov $number, %eax; syscall`, if that is what stands there.
fn numbered_call(code: &[u8]) -> Option<u32> {
    match *code {
        [0xb8, a, b, c, d, 0x0f, 0x05] => Some(u32::from_le_bytes([a, b, c, d])),
        _ => None,
    }
}

/// Where calls end whose sites can be patched, in code from `start` on.
pub(crate) fn sites(code: &[u8], start: u64) -> Vec<u64> {
    let found = |at: usize| {
        let end = at + SYSCALL.len();
        let around = code.get(end.checked_sub(BEFORE)?..end + BEHIND)?;
        let end = start + end as u64;
        let site = Site::of(around.try_into().ok()?, None, end)?;
        let is_good = match site {
            Site::Numbered { number, .. } => performs(number.into()),
            Site::Compared { .. } => true,
        };
        is_good.then_some((site, end))
    };
    let mut sites: Vec<(Site, u64)> = memchr::memmem::find_iter(code, &SYSCALL)
        .filter_map(found)
        .collect();
    let span = match (sites.first(), sites.last()) {
        (Some((_, first)), Some((_, last))) => *first..*last + 1,
        _ => 0..0,
    };
    for target in code::targets(code, start).filter(|target| span.contains(target)) {
        if let Ok(at) = sites.binary_search_by_key(&target, |(_, end)| *end)
            && matches!(sites[at].0, Site::Compared { .. })
        {
            sites.remove(at);
        }
    }
    sites.into_iter().map(|(_, end)| end).collect()
}

/// Whether nobody jumps into what is going to be changed of the site of a call that ends at
/// `end`, as far as the code around it tells, from `start` on.
pub(crate) fn is_free(code: &[u8], start: u64, end: u64) -> bool {
    let Some(at) = end.checked_sub(start + BEFORE as u64) else {
        return false;
    };
    let around = code.get(at as usize..at as usize + BEFORE + BEHIND);
    match around.and_then(|around| Site::of(around.try_into().ok()?, None, end)) {
        // The only instruction inside begins where the call ends.
        Some(Site::Compared { .. }) => !code::targets(code, start).any(|target| target == end),
        Some(Site::Numbered { .. }) => true,
        None => false,
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
    /// Its arguments, if a replay has to make it again.
    pub args: Option<[u64; 6]>,
    /// Where it is in its log.
    pub range: Range<usize>,
}

/// The entries of a log, as far as they make sense.
pub fn entries(log: &[u8]) -> impl Iterator<Item = Entry<'_>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let log = log.get(start..)?;
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
        let number = (kind != STOPPED as u32).then_some(u64::from(kind >> 8));
        let mut args = None;
        if number.is_some_and(shapes_memory) {
            let words = log.get(ENTRY..ENTRY + ARGUMENTS as usize)?.as_chunks().0;
            args = Some(std::array::from_fn(|at| u64::from_le_bytes(words[at])));
        }
        let range = start..start + length;
        start = range.end;
        Some(Entry {
            number,
            result: (u64::from(word(8)) | u64::from(word(12)) << 32).cast_signed(),
            data,
            args,
            range,
        })
    })
}

/// An entry of a replay, made from one of a recording: in place of its call another one is
/// made, of this number and with these arguments, that is to have this result.
pub(crate) fn made(entry: &[u8], number: i64, args: [u64; 6], result: u64) -> Vec<u8> {
    let mut made = entry.get(..ENTRY).unwrap_or_default().to_vec();
    for word in args.into_iter().chain([number.cast_unsigned(), result]) {
        made.extend_from_slice(&word.to_le_bytes());
    }
    let length = made.len() as u32;
    made[..4].copy_from_slice(&length.to_le_bytes());
    // In front of the number.
    made[4] = MADE as u8;
    made
}

/// An entry that has a replayed task stop.
pub(crate) fn stopped() -> [u8; ENTRY] {
    let mut entry = [0; ENTRY];
    entry[..4].copy_from_slice(&(ENTRY as u32).to_le_bytes());
    entry[4..8].copy_from_slice(&(STOPPED as u32).to_le_bytes());
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stubs_fit_their_page() {
        for (stub, length) in [
            (recording().unwrap(), RECORDING),
            (replaying().unwrap(), REPLAYING),
        ] {
            assert!(stub.code.len() <= PAGE as usize);
            assert_eq!(stub.code.len(), length);
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
