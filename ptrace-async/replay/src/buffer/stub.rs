//! The machine code of both stubs, for recording and for replay.

use iced_x86::IcedError;
use iced_x86::code_asm::{
    AsmMemoryOperand, AsmRegister32, CodeAssembler, CodeLabel, byte_ptr, cl, dword_ptr, eax, ecx,
    edi, edx, esi, qword_ptr, r8, r9, r10, r10d, r11, r11d, rax, rcx, rdi, rdx, rsi,
};

use super::calls::{CALLS, EVENT, If, OF_LIBRARY, PLAIN, Register, Shape};
use super::entry::{ARGUMENTS, ENTRY, MADE, PERFORMED, STOPPED};
use super::{BASE, DESCRIPTORS, HIDDEN, LIMIT, PAGE, QUICK, TABLE, TRUNCATES, WAITS, WAKES, Word};

/// Most bytes that one call may write.
const LARGEST: u32 = 32 << 10;
/// So many events are taken at once; of more that are ready, the next call tells.
const EVENTS: i32 = LARGEST as i32 / EVENT;
/// A larger array of events is left to a stop.
const MOST_EVENTS: i32 = 1 << 20;
/// A call writes as many bytes as it returns.
const BY_RESULT: i32 = -1;
/// So many events as it returns.
const BY_EVENTS: i32 = -2;

/// Flags of a file that is made where there was none.
const NEW: i32 = libc::O_CREAT | libc::O_EXCL;

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
const RECORDING: usize = 4025;
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
    // It may become less for the call.
    a.mov(words.at(Word::Rdx), rdx)?;
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
        if matches!(condition, If::Polls | If::PollsUnmasked) {
            poll(a, words, (perform, after, stop))?;
        } else {
            a.jmp(perform)?;
        }
    }
    a.set_label(&mut perform)?;
    a.mov(words.at(Word::Number), rax)?;
    a.syscall()?;
    a.set_label(&mut after)?;
    a.mov(rdx, words.at(Word::Rdx))?;
    a.mov(words.at(Word::Result), rax)?;
    append_entry(a, words)?;
    a.set_label(&mut stop)?;
    a.mov(rdx, words.at(Word::Rdx))?;
    a.mov(r11, words.at(Word::Cursor))?;
    a.mov(dword_ptr(r11), ENTRY as i32)?;
    a.mov(dword_ptr(r11 + 4), STOPPED)?;
    a.add(words.at(Word::Cursor), ENTRY as i32)?;
    a.mov(rcx, words.at(Word::Return))?;
    a.lea(rcx, qword_ptr(rcx - 2))?;
    leave(a)?;
    Ok((after, stop))
}

/// Tries a wait for events without waiting first, where calls that may wait are disabled. Goes
/// to `perform` where they are not, to `after` with a result, and to `stop` without events.
fn poll(
    a: &mut CodeAssembler,
    words: &Words,
    (perform, after, stop): (CodeLabel, CodeLabel, CodeLabel),
) -> Result<(), IcedError> {
    let mut few = a.create_label();
    a.cmp(edx, EVENTS)?;
    a.jbe(few)?;
    a.mov(edx, EVENTS)?;
    a.set_label(&mut few)?;
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
    a.jmp(stop)
}

/// Appends the entry of a call that was performed, and leaves the stub. The result is in RAX.
fn append_entry(a: &mut CodeAssembler, words: &Words) -> Result<(), IcedError> {
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
    leave(a)
}

/// Nothing is known of a file or a socket that was opened; but a file that is new is nobody's
/// output. R11 and RCX are free.
fn show_opened(a: &mut CodeAssembler, words: &Words) -> Result<(), IcedError> {
    let mut done = a.create_label();
    let mut old = a.create_label();
    let mut file = a.create_label();
    let mut opened = a.create_label();
    a.mov(ecx, words.low(Word::Number))?;
    a.cmp(ecx, libc::SYS_openat as i32)?;
    a.je(file)?;
    a.cmp(ecx, libc::SYS_socket as i32)?;
    a.jne(done)?;
    // No flags of a new file.
    a.xor(ecx, ecx)?;
    a.jmp(opened)?;
    a.set_label(&mut file)?;
    a.mov(ecx, edx)?;
    a.set_label(&mut opened)?;
    a.cmp(rax, DESCRIPTORS as i32)?;
    a.jae(done)?;
    a.and(ecx, NEW)?;
    a.cmp(ecx, NEW)?;
    a.mov(ecx, 0)?;
    a.jne(old)?;
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
    let knows = |a: &mut CodeAssembler, fd: AsmRegister32, what: u8| -> Result<(), IcedError> {
        a.cmp(fd, DESCRIPTORS as i32)?;
        a.jae(stop)?;
        a.mov(ecx, fd)?;
        a.lea(r11, words.at(Word::Cursor))?;
        a.test(byte_ptr(r11 + rcx + TABLE as i32), i32::from(what))?;
        a.je(stop)
    };
    let is_known = |a: &mut CodeAssembler, what: u8| knows(a, edi, what);
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
        If::PollsUnmasked => {
            a.test(r8, r8)?;
            a.jne(stop)
        }
        If::Quick => quick(a),
        If::Writes => {
            is_known(a, HIDDEN)?;
            quick(a)
        }
        If::Resizes => is_known(a, HIDDEN),
        If::Keeps => guard_truncation(a, words, stop),
        If::Receives => {
            unaddressed(a)?;
            quick(a)
        }
        If::Sends => {
            unaddressed(a)?;
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
            a.jne(stop)?;
            a.mov(rcx, words.at(Word::Closed))?;
            a.test(ecx, WAKES as i32)?;
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
        If::TerminalOrCopy => {
            let mut good = a.create_label();
            a.cmp(esi, libc::TCGETS as i32)?;
            a.je(good)?;
            a.cmp(esi, libc::FICLONE as i32)?;
            a.jne(stop)?;
            is_known(a, HIDDEN)?;
            a.set_label(&mut good)?;
            a.nop()
        }
        If::Copies => {
            a.mov(rcx, rsi)?;
            a.or(rcx, r10)?;
            a.jne(stop)?;
            knows(a, edx, HIDDEN)
        }
        If::Private => guard_mapping(a, words, stop),
        If::Closes => forget_descriptor(a, words),
    }
}

/// Goes to `stop` where an open truncates a file, unless the file is new or that is allowed.
fn guard_truncation(
    a: &mut CodeAssembler,
    words: &Words,
    stop: CodeLabel,
) -> Result<(), IcedError> {
    let mut good = a.create_label();
    a.test(edx, libc::O_TRUNC)?;
    a.je(good)?;
    a.mov(ecx, edx)?;
    a.and(ecx, NEW)?;
    a.cmp(ecx, NEW)?;
    a.je(good)?;
    a.mov(rcx, words.at(Word::Closed))?;
    a.test(ecx, TRUNCATES as i32)?;
    a.jne(stop)?;
    a.set_label(&mut good)?;
    a.nop()
}

/// Goes to `stop` unless a mapping is private, and anonymous or a part of the last library.
fn guard_mapping(a: &mut CodeAssembler, words: &Words, stop: CodeLabel) -> Result<(), IcedError> {
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

/// Clears the marks of a descriptor that is closed, and the last library if it is of it.
fn forget_descriptor(a: &mut CodeAssembler, words: &Words) -> Result<(), IcedError> {
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
            a.cmp(full(count), MOST_EVENTS)?;
            a.ja(stop)?;
            a.mov(words.at(Word::Target), full(target))?;
            a.mov(rcx, i64::from(BY_EVENTS))?;
            a.mov(words.at(Word::Size), rcx)?;
            let mut few = a.create_label();
            a.mov(rcx, full(count))?;
            a.cmp(ecx, EVENTS)?;
            a.jbe(few)?;
            a.mov(ecx, EVENTS)?;
            a.set_label(&mut few)?;
            a.imul_3(ecx, ecx, EVENT)?;
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
        Shape::Terminal(target, size) => {
            let mut other = a.create_label();
            a.mov(words.at(Word::Target), full(target))?;
            a.cmp(esi, libc::TCGETS as i32)?;
            a.jne(other)?;
            a.mov(ecx, size)?;
            a.set_label(&mut other)?;
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

#[cfg(test)]
mod tests {
    use super::super::contains;
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
    fn the_syscall_of_the_stub_is_at_its_declared_address() {
        let stub = recording().unwrap();
        let at = (stub.after - BASE) as usize;
        assert_eq!(stub.code[at - 2..at], [0x0f, 0x05]);
    }
}
