//! Reaching a [`Point`]: the program is let run, through a check that it carries itself.
//!
//! The instruction at the point becomes a jump to a piece of code that compares registers
//! and words of memory with the point's, leaves all of them as they are, and goes on; only
//! where all are equal it traps, and the rest of the state is compared from here. A visit
//! costs nanoseconds, which matters where a loop comes by a hundred million times.
//!
//! Where there is no room for a jump, the point is a trap, and each visit costs two stops.

use iced_x86::code_asm::{
    CodeAssembler, CodeLabel, al, ax, ecx, qword_ptr, rax, rcx, registers::gpr64,
};
use iced_x86::{Decoder, DecoderOptions, IcedError};
use ptrace_async::memory::Memory;
use ptrace_async::runtime::{Parked, Tracee};

use super::agent::Batch;
use crate::code::{GENERAL, JUMP, LONGEST};
use crate::maps::{self, Area};
use crate::trace::event::{Point, Registers};

const PAGE: u64 = 4096;
const ROOM: u64 = 2 * PAGE;
/// A jump reaches 2 GiB; what lies there is not asked for to the last byte.
const REACH: u64 = 1 << 30;
/// Where the instruction pointer is in [`Registers`], and the flags.
const IP: usize = 16;
const FLAGS: usize = 18;
/// How many words are learnt, and how many at a time.
const WORDS: usize = 24;
const AT_A_TIME: usize = 4;

/// A check in the code of a task.
pub(super) struct Check {
    ip: u64,
    original: Vec<u8>,
    /// Where the code is; nothing for a trap.
    page: Option<u64>,
    /// The addresses of the trap's end, and of what was displaced.
    hit: u64,
    on: u64,
    /// Words that tell the point from visits that were taken for it, and what they are.
    learnt: Vec<(u64, u64)>,
}

/// The code of a check that stands at `page`, with the addresses of its trap's end and of
/// what was displaced.
fn assemble(
    point: &Point,
    learnt: &[(u64, u64)],
    displaced: &[u8],
    page: u64,
) -> Result<(Vec<u8>, u64, u64), IcedError> {
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
    let equal = |a: &mut CodeAssembler, miss: CodeLabel| -> Result<(), IcedError> {
        // Without touching the flags.
        let mut next = a.create_label();
        a.jrcxz(next)?;
        a.jmp(miss)?;
        a.set_label(&mut next)
    };
    let words = |a: &mut CodeAssembler, words: &[(u64, u64)]| -> Result<(), IcedError> {
        for &(address, value) in words {
            a.mov(rax, address)?;
            a.mov(rax, qword_ptr(rax))?;
            a.mov(rcx, value.wrapping_neg())?;
            a.lea(rcx, qword_ptr(rax + rcx))?;
            equal(a, miss)?;
        }
        Ok(())
    };
    // What tells visits apart comes first.
    let mut order = GENERAL;
    let tells = |index: usize| point.telling.contains(&(index as u8));
    order.sort_by_key(|(_, index)| !tells(*index));
    let by_words = !tells(order[0].1);
    if by_words {
        words(&mut a, &point.words)?;
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
        equal(&mut a, miss)?;
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
    equal(&mut a, miss)?;
    if !by_words {
        words(&mut a, &point.words)?;
    }
    // The stack pointer is the point's by now.
    words(&mut a, learnt)?;
    a.mov(rcx, saved_rcx)?;
    a.mov(rax, saved_rax)?;
    a.int3()?;
    a.set_label(&mut hit)?;
    a.nop()?;
    a.set_label(&mut miss)?;
    a.mov(rcx, saved_rcx)?;
    a.mov(rax, saved_rax)?;
    // Who has trapped has its registers, and what was saved may be elsewhere by now.
    let mut on = a.create_label();
    a.set_label(&mut on)?;
    for instruction in &mut Decoder::with_ip(64, displaced, ip, DecoderOptions::NONE) {
        a.add_instruction(instruction)?;
    }
    a.jmp(ip + displaced.len() as u64)?;
    a.dq(&[0; PAGE as usize / 8])?;
    a.set_label(&mut rcx_at)?;
    a.dq(&[0])?;
    a.set_label(&mut rax_at)?;
    a.dq(&[0])?;
    let options = iced_x86::BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
    let done = a.assemble_options(page, options)?;
    let (hit, on) = (done.label_ip(&hit)?, done.label_ip(&on)?);
    Ok((done.inner.code_buffer, hit, on))
}

/// What `lahf; seto %al` makes of the flags.
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

impl Check {
    /// Prepares a check; the calls that make room for it are to be made before
    /// [`Check::insert`].
    pub(super) fn prepare(
        tracee: &Tracee<Parked>,
        point: &Point,
        areas: &[Area],
        batch: &mut Batch,
    ) -> Option<Self> {
        let ip = point.registers.0[IP];
        let room = usize::from(point.room);
        let mut original = vec![0; room.clamp(1, 2 * LONGEST)];
        tracee.read_exact(ip, &mut original).ok()?;
        let mut check = Self {
            ip,
            original,
            page: None,
            hit: ip + 1,
            on: ip,
            learnt: Vec::new(),
        };
        if room < JUMP {
            return Some(check);
        }
        let page = maps::gap(areas, ip, ROOM).filter(|page| page.abs_diff(ip) < REACH)?;
        let prot = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let nothing = u64::MAX;
        batch.call(
            libc::SYS_mmap,
            [page, ROOM, prot as u64, flags as u64, nothing, 0],
        );
        check.page = Some(page);
        Some(check)
    }

    /// Puts it in place.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub(super) fn insert(&mut self, tracee: &Tracee<Parked>, point: &Point) -> Result<(), String> {
        let Some(page) = self.page else {
            return put(tracee, self.ip, &[0xcc]);
        };
        let (code, hit, on) = assemble(point, &self.learnt, &self.original, page)
            .map_err(|error| error.to_string())?;
        (self.hit, self.on) = (hit, on);
        put(tracee, page, &code)?;
        let distance = page.wrapping_sub(self.ip + JUMP as u64) as i64 as i32;
        let mut jump = vec![0xe9];
        jump.extend_from_slice(&distance.to_le_bytes());
        // What is left of the instructions is never reached.
        jump.resize(self.original.len(), 0xcc);
        put(tracee, self.ip, &jump)
    }

    /// Makes the check tell the point from where the task is, if it can be told by words of
    /// the stack.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub(super) fn learn(&mut self, tracee: &Tracee<Parked>, point: &Point) -> Result<(), String> {
        if self.is_trap() || self.learnt.len() >= WORDS {
            return Ok(());
        }
        let words = point.telling_words(tracee, AT_A_TIME);
        if words.is_empty() {
            return Ok(());
        }
        self.learnt.extend(words);
        self.insert(tracee, point)
    }

    /// Takes it out of the code; the calls give its room back.
    pub(super) fn remove(&self, tracee: &Tracee<Parked>, batch: &mut Batch) {
        self.restore(tracee);
        if let Some(page) = self.page {
            batch.call(libc::SYS_munmap, [page, ROOM, 0, 0, 0, 0]);
        }
    }

    /// Writes back what was there.
    pub(super) fn restore(&self, tracee: &Tracee<Parked>) {
        // An error means that the task is gone.
        let _ = tracee.write(self.ip, &self.original);
    }

    /// Whether an instruction is moved that is not the first of those that are.
    pub(super) fn displaces(&self, ip: u64) -> bool {
        ip > self.ip && ip < self.ip + self.original.len() as u64
    }

    /// Whether it is a trap on which each visit stops.
    pub(super) fn is_trap(&self) -> bool {
        self.page.is_none()
    }

    /// Whether a task has just trapped in it.
    pub(super) fn has_hit(&self, ip: u64) -> bool {
        ip == self.hit
    }

    /// From where a task goes on that is not at the point.
    pub(super) fn on(&self) -> u64 {
        self.on
    }

    /// Registers as they are at the point, for a task in the check.
    pub(super) fn outside(&self, registers: &Registers) -> Registers {
        let mut outside = *registers;
        outside.0[IP] = self.ip;
        outside
    }
}
