//! Copies of small loops, which have room for a check.
//!
//! Code that a program generates may be entered at each of its instructions, and those of a
//! small loop are often shorter than a jump. So the loop stays as it is, except for a trap at
//! the point. A task that reaches the trap continues in a copy of the loop, which carries the
//! check and leads back where the loop is left. A loop with calls or syscalls is left at each
//! of them, so a copy helps only loops without.

use std::collections::{BTreeMap, BTreeSet};

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Decoder, DecoderOptions, FlowControl, Instruction,
    InstructionBlock, OpKind,
};
use ptrace_async::memory::Memory;
use ptrace_async::runtime::{Parked, Tracee};

use crate::code;

/// As far before and behind the point the loop is looked for.
const REACH: u64 = 4096;
/// A copy has no more instructions.
const INSTRUCTIONS: usize = 500;

/// The code around a point.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::replay) struct Around {
    start: u64,
    bytes: Vec<u8>,
}

impl Around {
    /// Reads it; at the point stands `original` but for the trap.
    pub(in crate::replay) fn read(tracee: &Tracee<Parked>, ip: u64, original: u8) -> Self {
        let mut start = ip.saturating_sub(REACH);
        let mut bytes = vec![0; 2 * REACH as usize];
        let mut got = tracee.read(start, &mut bytes);
        if start + got as u64 <= ip {
            // What lies before it is not mapped.
            start = ip & !(REACH - 1);
            got = tracee.read(start, &mut bytes);
        }
        bytes.truncate(got);
        if let Some(byte) = bytes.get_mut((ip - start) as usize) {
            *byte = original;
        }
        Self { start, bytes }
    }

    /// The instruction at an address, if it does the same elsewhere and leaves no trace of
    /// where it stands.
    fn instruction(&self, ip: u64) -> Option<Instruction> {
        let offset = usize::try_from(ip.checked_sub(self.start)?).ok()?;
        let code = self.bytes.get(offset..)?;
        let instruction = Decoder::with_ip(64, code, ip, DecoderOptions::NONE).decode();
        let is_plain = match instruction.flow_control() {
            FlowControl::Next => true,
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => {
                instruction.op0_kind() == OpKind::NearBranch64
            }
            _ => false,
        };
        (is_plain && !instruction.is_invalid() && !code::is_special(&instruction))
            .then_some(instruction)
    }
}

/// Where an instruction leads.
fn leads_to(instruction: &Instruction) -> impl Iterator<Item = u64> {
    let flow = instruction.flow_control();
    let jumps = (flow != FlowControl::Next).then(|| instruction.near_branch_target());
    let goes_on = (flow != FlowControl::UnconditionalBranch).then(|| instruction.next_ip());
    jumps.into_iter().chain(goes_on)
}

/// The instructions that lead from the point to the point again.
fn body(around: &Around, ip: u64) -> Option<BTreeMap<u64, Instruction>> {
    let mut reached = BTreeMap::new();
    let mut before: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut left = vec![ip];
    while let Some(next) = left.pop() {
        if reached.contains_key(&next) || reached.len() >= INSTRUCTIONS {
            continue;
        }
        let Some(instruction) = around.instruction(next) else {
            continue;
        };
        for target in leads_to(&instruction) {
            before.entry(target).or_default().push(next);
            left.push(target);
        }
        reached.insert(next, instruction);
    }
    let mut leading = BTreeSet::new();
    let mut left = before.get(&ip)?.clone();
    while let Some(next) = left.pop() {
        if leading.insert(next) {
            left.extend(before.get(&next).into_iter().flatten());
        }
    }
    reached.retain(|address, _| leading.contains(address));
    reached.contains_key(&ip).then_some(reached)
}

/// A copy of a loop but for the instruction at its point.
pub(in crate::replay) struct Relocated {
    pub(in crate::replay) code: Vec<u8>,
    /// The instruction at the point, leading to the copy.
    pub(in crate::replay) first: Instruction,
    /// Where what follows it is.
    pub(in crate::replay) next: u64,
}

/// Copies the loop that a point at `ip` is in to `start`; the point is at `check` there.
/// Nothing where there is no such loop, or where it cannot be moved so far.
pub(in crate::replay) fn relocate(
    around: &Around,
    ip: u64,
    check: u64,
    start: u64,
) -> Option<Relocated> {
    let mut body = body(around, ip)?;
    let mut first = body.remove(&ip)?;
    let mut moved: Vec<Instruction> = Vec::new();
    let mut places = Vec::new();
    let mut left = body.iter().peekable();
    while let Some((address, instruction)) = left.next() {
        let mut instruction = *instruction;
        let jumps = instruction.flow_control() != FlowControl::Next;
        if jumps && instruction.near_branch_target() == ip {
            instruction.set_near_branch64(check);
        }
        places.push((*address, moved.len()));
        moved.push(instruction);
        let next = instruction.next_ip();
        let is_next = left.peek().is_some_and(|(address, _)| **address == next);
        if instruction.flow_control() != FlowControl::UnconditionalBranch && !is_next {
            let target = if next == ip { check } else { next };
            moved.push(Instruction::with_branch(Code::Jmp_rel32_64, target).ok()?);
        }
    }
    let options = BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
    let block = InstructionBlock::new(&moved, start);
    let encoded = BlockEncoder::encode(64, block, options).ok()?;
    let moved_to = |address: u64| {
        if address == ip {
            return Some(check);
        }
        let Some((_, index)) = places.iter().find(|(was, _)| *was == address) else {
            return Some(address);
        };
        match encoded.new_instruction_offsets[*index] {
            u32::MAX => None,
            offset => Some(start + u64::from(offset)),
        }
    };
    if first.flow_control() != FlowControl::Next {
        first.set_near_branch64(moved_to(first.near_branch_target())?);
    }
    Some(Relocated {
        next: moved_to(first.next_ip())?,
        first,
        code: encoded.code_buffer,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 0x7000_0000;
    const CHECK: u64 = 0x10_0000;
    const COPY: u64 = 0x10_4000;

    fn around(code: &[u8]) -> Around {
        Around {
            start: START,
            bytes: code.to_vec(),
        }
    }

    /// The instructions of a copy: addresses and targets of its jumps, or lengths of others.
    fn listed(code: &[u8]) -> Vec<String> {
        let decoder = Decoder::with_ip(64, code, COPY, DecoderOptions::NONE);
        decoder
            .into_iter()
            .map(|instruction| match instruction.flow_control() {
                FlowControl::Next => format!("{:?}", instruction.mnemonic()),
                _ => format!(
                    "{:?} {:x}",
                    instruction.mnemonic(),
                    instruction.near_branch_target()
                ),
            })
            .collect()
    }

    #[test]
    fn a_loop_leads_to_the_check_and_out_of_itself() {
        // 0: inc eax; 2: test al, al; 4: js 9; 6: dec ecx; 8: (jne 0 is at 8) ; a: ret
        let code = [
            0xff, 0xc0, 0x84, 0xc0, 0x78, 0x04, 0xff, 0xc9, 0x75, 0xf6, 0xc3,
        ];
        let relocated = relocate(&around(&code), START, CHECK, COPY).unwrap();
        assert_eq!(relocated.next, COPY);
        assert_eq!(
            listed(&relocated.code),
            [
                "Test".to_owned(),
                format!("Js {:x}", START + 10),
                "Dec".to_owned(),
                format!("Jne {CHECK:x}"),
                format!("Jmp {:x}", START + 10),
            ]
        );
    }

    #[test]
    fn a_point_in_the_middle_is_reached_from_the_code_before_it() {
        // 0: inc eax; 2: dec ecx (the point); 4: jne 0; 6: ret
        let code = [0xff, 0xc0, 0xff, 0xc9, 0x75, 0xfa, 0xc3];
        let relocated = relocate(&around(&code), START + 2, CHECK, COPY).unwrap();
        let list = listed(&relocated.code);
        assert_eq!(list[..2], ["Inc".to_owned(), format!("Jmp {CHECK:x}")]);
        assert!(list[2].starts_with("Jne"), "{list:?}");
        assert_eq!(list[3], format!("Jmp {:x}", START + 6));
    }

    #[test]
    fn a_point_that_is_the_jump_leads_to_the_copy() {
        // 0: inc eax; 2: dec ecx; 4: jne 0 (the point); 6: ret
        let code = [0xff, 0xc0, 0xff, 0xc9, 0x75, 0xfa, 0xc3];
        let relocated = relocate(&around(&code), START + 4, CHECK, COPY).unwrap();
        assert_eq!(relocated.first.near_branch_target(), COPY);
        assert_eq!(relocated.next, START + 6);
    }

    #[test]
    fn code_without_a_loop_or_with_a_call_has_no_copy() {
        // inc eax; ret
        assert!(relocate(&around(&[0xff, 0xc0, 0xc3]), START, CHECK, COPY).is_none());
        // call +0; jmp back to it
        let code = [0xe8, 0, 0, 0, 0, 0xeb, 0xf9];
        assert!(relocate(&around(&code), START + 5, CHECK, COPY).is_none());
        // syscall; jmp back to it
        let code = [0x0f, 0x05, 0xeb, 0xfc];
        assert!(relocate(&around(&code), START + 2, CHECK, COPY).is_none());
    }

    #[test]
    fn a_loop_of_one_instruction_has_a_copy() {
        let relocated = relocate(&around(&[0xeb, 0xfe]), START, CHECK, COPY).unwrap();
        assert_eq!(relocated.first.near_branch_target(), CHECK);
        assert!(relocated.code.is_empty());
    }
}
