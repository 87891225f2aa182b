//! Trapped instructions, faults, and the digest of the registers that a call preserves.

use ptrace_async::memory::Memory;
use ptrace_async::runtime::{Stopped, Tracee};
use xxhash_rust::xxh3::xxh3_64;

use crate::trace::event::{Instruction, InstructionKind};

/// The registers that a call preserves, in one number.
pub(crate) fn check(regs: &libc::user_regs_struct) -> u32 {
    let kept = [
        regs.rbx,
        regs.rbp,
        regs.r12,
        regs.r13,
        regs.r14,
        regs.r15,
        regs.rsp,
        regs.fs_base,
        regs.gs_base,
    ];
    let mut bytes = [0; 72];
    for (word, to) in kept.iter().zip(bytes.chunks_exact_mut(8)) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    xxh3_64(&bytes) as u32
}

/// Puts the answer where the program expects it.
pub(crate) fn apply(instruction: &Instruction, regs: &mut libc::user_regs_struct) {
    if let InstructionKind::Random { register, size, .. } = instruction.kind {
        /// The flags that the instruction sets: carry says that there is a number.
        const FLAGS: u64 = 0x8d5;
        const CARRY: u64 = 1;
        regs.eflags = regs.eflags & !FLAGS | CARRY;
        let register = general(regs, register);
        *register = match size {
            2 => *register & !0xffff | instruction.value & 0xffff,
            4 => instruction.value & 0xffff_ffff,
            _ => instruction.value,
        };
    } else {
        regs.rax = instruction.value & 0xffff_ffff;
        regs.rdx = instruction.value >> 32;
    }
    if instruction.kind == InstructionKind::Rdtscp {
        regs.rcx = u64::from(instruction.aux);
    }
    regs.rip += instruction.kind.length();
}

/// A general register, by its number in instructions.
fn general(regs: &mut libc::user_regs_struct, number: u8) -> &mut u64 {
    match number & 15 {
        0 => &mut regs.rax,
        1 => &mut regs.rcx,
        2 => &mut regs.rdx,
        3 => &mut regs.rbx,
        4 => &mut regs.rsp,
        5 => &mut regs.rbp,
        6 => &mut regs.rsi,
        7 => &mut regs.rdi,
        8 => &mut regs.r8,
        9 => &mut regs.r9,
        10 => &mut regs.r10,
        11 => &mut regs.r11,
        12 => &mut regs.r12,
        13 => &mut regs.r13,
        14 => &mut regs.r14,
        _ => &mut regs.r15,
    }
}

/// The trapped instruction at an address.
pub(crate) fn instruction<S: Stopped>(tracee: &Tracee<S>, ip: u64) -> Option<InstructionKind> {
    let mut bytes = [0; 5];
    let got = tracee.read(ip, &mut bytes);
    InstructionKind::of(&bytes[..got])
}

/// Whether a signal is how such an instruction is trapped.
pub(crate) fn is_trap_of(kind: InstructionKind, signal: i32) -> bool {
    match kind {
        InstructionKind::Rdtsc | InstructionKind::Rdtscp => signal == libc::SIGSEGV,
        InstructionKind::Random { .. } => signal == libc::SIGILL,
    }
}

/// Whether a signal comes from what the program itself does.
pub(crate) fn is_fault(info: &libc::siginfo_t) -> bool {
    let faults = [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGILL,
        libc::SIGTRAP,
    ];
    info.si_code > 0 && faults.contains(&info.si_signo)
}
