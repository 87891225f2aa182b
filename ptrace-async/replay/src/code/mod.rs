//! Analysis of machine instructions: lengths, jump targets, memory accesses, and room for a
//! jump.

pub(crate) mod registers;

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic,
    OpAccess, Register,
};

use self::registers::Registers;

/// A jump over any distance below 2 GiB takes so many bytes.
pub(crate) const JUMP: usize = 5;
/// No instruction is longer.
pub(crate) const LONGEST: usize = 15;

/// How many bytes from `ip` on can be executed elsewhere, if there is room for a jump then:
/// whole instructions, of which none depends on where it stands, and into which nobody jumps
/// as far as `targets` say.
pub(crate) fn room(code: &[u8], ip: u64, targets: &dyn Fn(u64) -> bool) -> Option<usize> {
    let mut decoder = Decoder::with_ip(64, code, ip, DecoderOptions::NONE);
    let mut length = 0;
    while length < JUMP {
        if length > 0 && targets(ip + length as u64) {
            return None;
        }
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            return None;
        }
        length += instruction.len();
        let goes_on = match instruction.flow_control() {
            FlowControl::Next | FlowControl::ConditionalBranch => true,
            FlowControl::UnconditionalBranch
            | FlowControl::IndirectBranch
            | FlowControl::Return => false,
            // What a call leaves on the stack tells where it stood.
            _ => return None,
        };
        if is_special(&instruction) || (!goes_on && length < JUMP) {
            return None;
        }
    }
    Some(length)
}

/// Whether an instruction stops, or tells where it stands.
pub(crate) fn is_special(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Syscall
            | Mnemonic::Rdtsc
            | Mnemonic::Rdtscp
            | Mnemonic::Cpuid
            | Mnemonic::Hlt
            | Mnemonic::Int3
            | Mnemonic::Xbegin
    )
}

/// Where instructions among `code`, which stands at `start`, may jump to: whatever reads as
/// a jump at any byte, so that none is missed for not knowing where instructions begin.
pub(crate) fn targets(code: &[u8], start: u64) -> impl Iterator<Item = u64> {
    let near = move |at: usize| {
        let bytes = code.get(at..at + 4)?;
        let mut distance = [0; 4];
        distance.copy_from_slice(bytes);
        let end = start + at as u64 + 4;
        Some(end.wrapping_add_signed(i64::from(i32::from_le_bytes(distance))))
    };
    let short = move |at: usize| {
        let distance = i64::from(code.get(at)?.cast_signed());
        Some((start + at as u64 + 1).wrapping_add_signed(distance))
    };
    let target = move |at: usize| match code[at..] {
        // Conditions, loops, and the jump that is short.
        [0x70..=0x7f | 0xe0..=0xe3 | 0xeb, ..] => short(at + 1),
        [0xe8 | 0xe9, ..] => near(at + 1),
        [0x0f, 0x80..=0x8f, ..] => near(at + 2),
        _ => None,
    };
    (0..code.len()).filter_map(target)
}

/// The length of the first instruction, if it repeats itself: then it is one instruction
/// that has begun and not ended, which nothing else tells.
pub(crate) fn repeats(code: &[u8]) -> Option<usize> {
    let instruction = Decoder::new(64, code, DecoderOptions::NONE).decode();
    let repeats = instruction.is_string_instruction()
        && (instruction.has_rep_prefix() || instruction.has_repne_prefix());
    repeats.then(|| instruction.len())
}

/// Whether the instruction at `ip` is a syscall.
pub(crate) fn is_syscall(code: &[u8]) -> bool {
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    decoder.decode().code() == Code::Syscall
}

/// The length of the first instruction.
pub(crate) fn length(code: &[u8]) -> usize {
    Decoder::new(64, code, DecoderOptions::NONE).decode().len()
}

/// Memory that an instruction uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) address: u64,
    pub(crate) length: u64,
    /// Whether it may be written.
    pub(crate) writes: bool,
}

/// The memory that the instruction at `ip` uses.
pub(crate) fn accesses(code: &[u8], ip: u64, registers: &Registers) -> Vec<Access> {
    let mut decoder = Decoder::with_ip(64, code, ip, DecoderOptions::NONE);
    let instruction = decoder.decode();
    if instruction.is_invalid() {
        return Vec::new();
    }
    let mut factory = InstructionInfoFactory::new();
    factory
        .info(&instruction)
        .used_memory()
        .iter()
        .filter(|memory| memory.access() != OpAccess::NoMemAccess)
        .filter_map(|memory| {
            let address = memory.virtual_address(0, |register, _, _| value(registers, register))?;
            Some(Access {
                address,
                length: memory.memory_size().size() as u64,
                writes: !matches!(memory.access(), OpAccess::Read | OpAccess::CondRead),
            })
        })
        .collect()
}

fn value(registers: &Registers, register: Register) -> Option<u64> {
    let name = match register {
        Register::FS => "fs_base",
        Register::GS => "gs_base",
        Register::ES | Register::CS | Register::SS | Register::DS => return Some(0),
        _ => {
            let full = register.full_register();
            let index = GENERAL.iter().position(|(general, _)| *general == full)?;
            let value = registers.0[GENERAL[index].1];
            return Some(if register.size() == 4 {
                value & 0xffff_ffff
            } else {
                value
            });
        }
    };
    let index = Registers::NAMES.iter().position(|known| *known == name)?;
    Some(registers.0[index])
}

/// The general registers, and where they are in [`Registers`].
pub(crate) const GENERAL: [(Register, usize); 16] = [
    (Register::R15, 0),
    (Register::R14, 1),
    (Register::R13, 2),
    (Register::R12, 3),
    (Register::RBP, 4),
    (Register::RBX, 5),
    (Register::R11, 6),
    (Register::R10, 7),
    (Register::R9, 8),
    (Register::R8, 9),
    (Register::RAX, 10),
    (Register::RCX, 11),
    (Register::RDX, 12),
    (Register::RSI, 13),
    (Register::RDI, 14),
    (Register::RSP, 19),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_are_found_at_every_byte() {
        // A jump to 0x1009, a byte of no meaning, a condition back to 0x1000.
        let code = [0xeb, 0x07, 0x06, 0x0f, 0x84, 0xf7, 0xff, 0xff, 0xff];
        let found: Vec<u64> = targets(&code, 0x1000).collect();
        assert!(
            found.contains(&0x1009) && found.contains(&0x1000),
            "{found:x?}"
        );
    }

    #[test]
    fn a_jump_target_or_a_call_leaves_no_room() {
        // add $1, %rax; jmp; and a call.
        let code = [0x48, 0x83, 0xc0, 0x01, 0xeb, 0xf0];
        assert_eq!(room(&code, 0x1000, &|_| false), Some(6));
        assert_eq!(room(&code, 0x1000, &|address| address == 0x1004), None);
        assert_eq!(room(&[0xe8, 0, 0, 0, 0], 0x1000, &|_| false), None);
    }
}
