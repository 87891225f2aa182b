//! Checks in the replayed program that stop it at an [`ExecutionPoint`].
//!
//! The instruction at the point becomes a jump to code that compares registers and words of
//! memory with those of the point. The code preserves all of them, and traps only where all
//! are equal; the tracer then compares the rest of the state. A visit costs nanoseconds, which
//! matters for a loop with a hundred million rounds.
//!
//! A jump replaces several instructions, and the program may enter their middle by ways that
//! nobody sees: a jump table, the return from a signal handler. So each byte of the jump after
//! the first one traps when it is executed (the distance is chosen that way), and a program
//! that traps there goes on at the moved instructions.
//!
//! Without room for a jump the point becomes a trap, and a loop around it continues in a copy
//! that carries the check. Where that is impossible, each visit costs two stops.

use iced_x86::code_asm::{
    CodeAssembler, CodeLabel, al, ax, ecx, qword_ptr, rax, rcx, registers::gpr64,
};
use iced_x86::{Decoder, DecoderOptions, IcedError, Instruction};
use ptrace_async::memory::Memory;
use ptrace_async::runtime::{Parked, Tracee};

use super::relocated::{Around, relocate};
use crate::code::registers::Registers;
use crate::code::{GENERAL, JUMP, LONGEST};
use crate::memory::maps::Area;
use crate::replay::remote_calls::RemoteCalls;
use crate::trace::event::ExecutionPoint;

const PAGE: u64 = 4096;
/// The code begins anywhere on the first page.
const ROOM: u64 = 4 * PAGE;
/// Behind it there is room for a loop.
const LOOP_ROOM: u64 = 4 * PAGE;
/// Instructions of one byte that programs may not execute, or that are none: the debugger's
/// trap, the input and output of strings, stopping the processor and its interrupts; what
/// 64-bit mode has removed.
const TRAPS: [u8; 26] = [
    0xcc, 0x06, 0x07, 0x0e, 0x16, 0x17, 0x1e, 0x1f, 0x27, 0x2f, 0x37, 0x3f, 0x60, 0x61, 0x6c, 0x6d,
    0x6e, 0x6f, 0x9a, 0xce, 0xd4, 0xea, 0xec, 0xee, 0xf4, 0xfa,
];
/// Where the instruction pointer is in [`Registers`], and the flags.
const IP: usize = 16;
const FLAGS: usize = 18;
/// How many of a point's words the code compares; the others are compared from here.
const COMPARED: usize = 64;
/// How many words are learnt, and how many at a time.
const WORDS: usize = 24;
const AT_A_TIME: usize = 4;

/// A check in the code of a task.
pub(in crate::replay) struct Check {
    ip: u64,
    original: Vec<u8>,
    /// Where the code begins, if there is any.
    code: Option<u64>,
    /// Whether the point is a trap, and not a jump to the code.
    is_trap: bool,
    /// The bytes that a copied loop was made from.
    around: Around,
    /// The addresses behind traps: in the code, and at the point.
    hit: u64,
    trapped: u64,
    /// Where RCX and RAX are saved.
    saved: [u64; 2],
    /// Old and new address of each displaced instruction, from the point on.
    displaced: Vec<(u64, u64)>,
    /// Words that tell the point from visits that were taken for it, and what they are.
    learnt: Vec<(u64, u64)>,
    /// Whether words may be compared before registers: not where one is not in memory yet.
    words_first: bool,
}

/// The code of a check.
struct Assembled {
    code: Vec<u8>,
    hit: u64,
    saved: [u64; 2],
    displaced: Vec<(u64, u64)>,
}

/// Goes to `miss` unless RCX is zero, without touching the flags.
fn miss_unless_zero(a: &mut CodeAssembler, miss: CodeLabel) -> Result<(), IcedError> {
    let mut next = a.create_label();
    a.jrcxz(next)?;
    a.jmp(miss)?;
    a.set_label(&mut next)
}

/// Goes to `miss` unless all words of memory have their values. RAX and RCX are free.
fn compare_words(
    a: &mut CodeAssembler,
    words: &[(u64, u64)],
    miss: CodeLabel,
) -> Result<(), IcedError> {
    for &(address, value) in words {
        a.mov(rax, address)?;
        a.mov(rax, qword_ptr(rax))?;
        a.mov(rcx, value.wrapping_neg())?;
        a.lea(rcx, qword_ptr(rax + rcx))?;
        miss_unless_zero(a, miss)?;
    }
    Ok(())
}

/// The code of a check that stands at `start`, and goes on with what was displaced and at
/// `next`.
fn assemble(
    point: &ExecutionPoint,
    (learnt, words_first): (&[(u64, u64)], bool),
    displaced: &[Instruction],
    next: u64,
    start: u64,
) -> Result<Assembled, IcedError> {
    let ip = point.registers.0[IP];
    let mut a = CodeAssembler::new(64)?;
    // On a page of their own: a processor starts over when it writes next to what it
    // executes (70 ns a visit instead of 3).
    let mut rcx_at = a.create_label();
    let mut rax_at = a.create_label();
    let (saved_rcx, saved_rax) = (qword_ptr(rcx_at), qword_ptr(rax_at));
    let mut miss = a.create_label();
    let mut hit = a.create_label();
    a.mov(saved_rcx, rcx)?;
    a.mov(saved_rax, rax)?;
    let compared = &point.words[..point.words.len().min(COMPARED)];
    // Registers that distinguish visits come first.
    let mut order = GENERAL;
    let tells = |index: usize| point.telling.contains(&(index as u8));
    order.sort_by_key(|(_, index)| !tells(*index));
    let by_words = words_first && !tells(order[0].1);
    if by_words {
        compare_words(&mut a, compared, miss)?;
        a.mov(rax, saved_rax)?;
    }
    for (register, index) in order {
        let Some(register) = gpr64::get_gpr64(register) else {
            continue;
        };
        a.mov(rcx, point.registers.0[index].wrapping_neg())?;
        if register == rcx {
            a.mov(rax, saved_rcx)?;
            a.lea(rcx, qword_ptr(rax + rcx))?;
            a.mov(rax, saved_rax)?;
        } else {
            a.lea(rcx, qword_ptr(register + rcx))?;
        }
        miss_unless_zero(&mut a, miss)?;
    }
    // The flags, in AX.
    a.lahf()?;
    a.seto(al)?;
    a.movzx(ecx, ax)?;
    a.mov(
        rax,
        u64::from(in_ax(point.registers.0[FLAGS])).wrapping_neg(),
    )?;
    a.lea(rcx, qword_ptr(rax + rcx))?;
    miss_unless_zero(&mut a, miss)?;
    if !by_words {
        compare_words(&mut a, compared, miss)?;
    }
    // The stack pointer is the point's by now.
    compare_words(&mut a, learnt, miss)?;
    a.mov(rcx, saved_rcx)?;
    a.mov(rax, saved_rax)?;
    a.int3()?;
    a.set_label(&mut hit)?;
    a.nop()?;
    a.set_label(&mut miss)?;
    a.mov(rcx, saved_rcx)?;
    a.mov(rax, saved_rax)?;
    // A trapped task has its registers; the saved ones may be overwritten by now.
    let mut labels = Vec::new();
    for instruction in displaced {
        let mut label = a.create_label();
        a.set_label(&mut label)?;
        labels.push((instruction.ip() - ip, label));
        a.add_instruction(*instruction)?;
    }
    a.jmp(next)?;
    a.dq(&[0; PAGE as usize / 8])?;
    a.set_label(&mut rcx_at)?;
    a.dq(&[0])?;
    a.set_label(&mut rax_at)?;
    a.dq(&[0])?;
    let options = iced_x86::BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
    let done = a.assemble_options(start, options)?;
    let displaced = labels
        .iter()
        .map(|(offset, label)| Ok((*offset, done.label_ip(label)?)))
        .collect::<Result<_, IcedError>>()?;
    Ok(Assembled {
        hit: done.label_ip(&hit)?,
        saved: [done.label_ip(&rcx_at)?, done.label_ip(&rax_at)?],
        displaced,
        code: done.inner.code_buffer,
    })
}

/// Where code may begin that takes so much room, and that a jump at `ip` leads to whose bytes
/// all trap but the first.
fn reachable(areas: &[Area], ip: u64, room: u64) -> Option<u64> {
    let is_free = |page: u64| {
        (1 << 16..0x7fff_0000_0000).contains(&page)
            && !areas
                .iter()
                .any(|area| area.start < page + room && page < area.end)
    };
    let target = |high: u8, middle: u8, low: u8| {
        let distance = i32::from_le_bytes([TRAPS[0], low, middle, high]);
        (ip + JUMP as u64).checked_add_signed(distance.into())
    };
    TRAPS
        .iter()
        .flat_map(|high| TRAPS.iter().map(move |middle| (high, middle)))
        .flat_map(|(high, middle)| TRAPS.iter().map(move |low| (high, middle, low)))
        .filter_map(|(high, middle, low)| target(*high, *middle, *low))
        .find(|start| is_free(start & !(PAGE - 1)))
}

/// The flags in the form of `lahf; seto %al`.
fn in_ax(flags: u64) -> u16 {
    /// Carry, parity, adjust, zero, sign; bit 1 is always set.
    const LOW: u64 = 0xd5;
    let low = (flags & LOW | 2) as u16;
    low << 8 | (flags >> 11 & 1) as u16
}

fn put(tracee: &Tracee<Parked>, address: u64, code: &[u8]) -> Result<(), String> {
    tracee
        .write(address, code)
        .map_err(|error| error.to_string())
}

/// How much memory of a task a check takes.
fn size(is_trap: bool) -> u64 {
    ROOM + if is_trap { LOOP_ROOM } else { 0 }
}

impl Check {
    /// Prepares a check; the calls that make room for it are to be made before
    /// [`Check::insert`].
    pub(in crate::replay) fn prepare(
        tracee: &Tracee<Parked>,
        point: &ExecutionPoint,
        areas: &[Area],
        batch: &mut RemoteCalls,
    ) -> Option<Self> {
        let ip = point.registers.0[IP];
        let room = usize::from(point.room);
        let is_trap = room < JUMP;
        let mut original = vec![0; if is_trap { 1 } else { room.min(2 * LONGEST) }];
        tracee.read_exact(ip, &mut original).ok()?;
        let code = reachable(areas, ip, size(is_trap));
        if code.is_none() && !is_trap {
            return None;
        }
        if let Some(start) = code {
            let prot = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
            let nothing = u64::MAX;
            let page = start & !(PAGE - 1);
            let arguments = [page, size(is_trap), prot as u64, flags as u64, nothing, 0];
            batch.call(libc::SYS_mmap, arguments);
        }
        Some(Self {
            ip,
            original,
            code,
            is_trap,
            around: Around::default(),
            hit: 0,
            trapped: 0,
            saved: [0; 2],
            displaced: Vec::new(),
            learnt: Vec::new(),
            words_first: true,
        })
    }

    /// Puts it in place.
    ///
    /// # Errors
    /// A description of the problem.
    pub(in crate::replay) fn insert(
        &mut self,
        tracee: &Tracee<Parked>,
        point: &ExecutionPoint,
    ) -> Result<(), String> {
        if self.is_trap {
            self.trapped = self.ip + 1;
            return put(tracee, self.ip, &[0xcc]);
        }
        let start = self.code.ok_or("there is no room for a check")?;
        let decoder = Decoder::with_ip(64, &self.original, self.ip, DecoderOptions::NONE);
        let displaced: Vec<Instruction> = decoder.into_iter().collect();
        let next = self.ip + self.original.len() as u64;
        self.write(tracee, point, &displaced, next)?;
        let distance = start.wrapping_sub(self.ip + JUMP as u64) as i64 as i32;
        let mut jump = vec![0xe9];
        jump.extend_from_slice(&distance.to_le_bytes());
        // What is left of the instructions is never reached.
        jump.resize(self.original.len(), 0xcc);
        put(tracee, self.ip, &jump)
    }

    /// Writes the code of the check.
    fn write(
        &mut self,
        tracee: &Tracee<Parked>,
        point: &ExecutionPoint,
        displaced: &[Instruction],
        next: u64,
    ) -> Result<(), String> {
        let start = self.code.ok_or("there is no room for a check")?;
        let assembled = assemble(
            point,
            (&self.learnt, self.words_first),
            displaced,
            next,
            start,
        )
        .map_err(|error| error.to_string())?;
        if start % PAGE + assembled.code.len() as u64 > ROOM {
            return Err("the check is too large".to_owned());
        }
        put(tracee, start, &assembled.code)?;
        (self.hit, self.saved) = (assembled.hit, assembled.saved);
        self.displaced = assembled.displaced;
        Ok(())
    }

    /// From where a task goes on that has come to the point's place and is not at the point;
    /// nothing if it has to make one step without the trap.
    ///
    /// # Errors
    /// A description of the problem.
    pub(in crate::replay) fn pass(
        &mut self,
        tracee: &Tracee<Parked>,
        point: &ExecutionPoint,
        ip: u64,
    ) -> Result<Option<u64>, String> {
        let learns = ip != self.trapped && self.learn(tracee, point);
        self.renew(tracee, point, learns)?;
        Ok(self.displaced.first().map(|(_, is)| *is))
    }

    /// Writes what has to be written anew before a task goes on in the check's code.
    fn renew(
        &mut self,
        tracee: &Tracee<Parked>,
        point: &ExecutionPoint,
        has_changed: bool,
    ) -> Result<(), String> {
        if !self.is_trap {
            return if has_changed {
                self.insert(tracee, point)
            } else {
                Ok(())
            };
        }
        let Some(start) = self.code else {
            return Ok(());
        };
        // Code outside of the loop may have changed it.
        let around = Around::read(tracee, self.ip, self.original[0]);
        if has_changed || around != self.around {
            self.displaced.clear();
            let copy = (start & !(PAGE - 1)) + ROOM;
            if let Some(relocated) = relocate(&around, self.ip, start, copy) {
                put(tracee, copy, &relocated.code)?;
                self.write(tracee, point, &[relocated.first], relocated.next)?;
            }
            self.around = around;
        }
        Ok(())
    }

    /// Makes the check tell the point from where the task is, if it can be told by words.
    fn learn(&mut self, tracee: &Tracee<Parked>, point: &ExecutionPoint) -> bool {
        if self.learnt.len() >= WORDS {
            return false;
        }
        let words = point.telling_words(tracee, AT_A_TIME);
        self.learnt.extend_from_slice(&words);
        !words.is_empty()
    }

    /// Takes it out of the code; the calls give its room back.
    pub(in crate::replay) fn remove(&self, tracee: &Tracee<Parked>, batch: &mut RemoteCalls) {
        self.restore(tracee);
        if let Some(start) = self.code {
            let page = start & !(PAGE - 1);
            batch.call(libc::SYS_munmap, [page, size(self.is_trap), 0, 0, 0, 0]);
        }
    }

    /// Writes back what was there.
    pub(in crate::replay) fn restore(&self, tracee: &Tracee<Parked>) {
        // An error means that the task is gone.
        let _ = tracee.write(self.ip, &self.original);
    }

    /// Whether an instruction is moved that is not the first of those that are.
    pub(in crate::replay) fn displaces(&self, ip: u64) -> bool {
        ip > self.ip && ip < self.ip + self.original.len() as u64
    }

    /// Whether a task has just trapped in it.
    pub(in crate::replay) fn has_hit(&self, ip: u64) -> bool {
        ip == self.hit || ip == self.trapped
    }

    /// Has a task go on that was stopped by a signal in the check, because a word that is
    /// compared is not in memory: it is not at the point. Whether that is what happened.
    ///
    /// # Errors
    /// A description of the problem.
    pub(in crate::replay) fn lacks(
        &mut self,
        tracee: &Tracee<Parked>,
        point: &ExecutionPoint,
        signal: i32,
    ) -> Result<bool, String> {
        let Ok(mut regs) = tracee.registers() else {
            return Ok(false);
        };
        let is_comparing = self
            .code
            .is_some_and(|start| (start..self.hit).contains(&regs.rip));
        if !is_comparing || !matches!(signal, libc::SIGSEGV | libc::SIGBUS) {
            return Ok(false);
        }
        let word = |address| tracee.read_u64(address).map_err(|fault| fault.to_string());
        (regs.rcx, regs.rax) = (word(self.saved[0])?, word(self.saved[1])?);
        // Each visit would stop.
        self.words_first = false;
        self.renew(tracee, point, true)?;
        regs.rip = self
            .displaced
            .first()
            .ok_or("the check has no code to continue at")?
            .1;
        regs.orig_rax = u64::MAX;
        tracee
            .set_registers(&regs)
            .map_err(|error| error.to_string())?;
        Ok(true)
    }

    /// From where a task goes on that has come to an instruction that is elsewhere, and was
    /// trapped at `ip`.
    pub(in crate::replay) fn elsewhere(&self, ip: u64, signal: i32) -> Option<u64> {
        let from = match signal {
            libc::SIGSEGV | libc::SIGILL => ip,
            libc::SIGTRAP => ip.checked_sub(1)?,
            _ => return None,
        };
        let offset = from.checked_sub(self.ip)?;
        let is_there = |was: u64| was == offset && was > 0;
        let displaced = self.displaced.iter().find(|(was, _)| is_there(*was));
        displaced.map(|(_, is)| *is)
    }

    /// Registers as they are at the point, for a task in the check.
    pub(in crate::replay) fn outside(&self, registers: &Registers) -> Registers {
        let mut outside = *registers;
        outside.0[IP] = self.ip;
        outside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entering_the_middle_of_a_jump_traps() {
        let ip = 0x5555_5555_4321;
        let taken = Area {
            start: 0x5555_5000_0000,
            end: 0x5555_7000_0000,
            ..Area::default()
        };
        let start = reachable(std::slice::from_ref(&taken), ip, ROOM).unwrap();
        assert!(!(taken.start..taken.end).contains(&start));
        let distance = (start as i64 - (ip + JUMP as u64) as i64) as i32;
        for byte in distance.to_le_bytes() {
            assert!(TRAPS.contains(&byte), "{distance:#x}");
        }
        for byte in TRAPS {
            let traps = [byte, 0x90];
            let instruction = Decoder::new(64, &traps, DecoderOptions::NONE).decode();
            let is_one_byte = instruction.is_invalid() || instruction.len() == 1;
            assert!(is_one_byte, "{byte:#x}: {instruction:?}");
        }
    }
}
