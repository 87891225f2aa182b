//! `rdrand` and `rdseed` in the code of files, replaced by an instruction that traps.
//!
//! The processor cannot trap these two. Nothing marks where instructions begin, so bytes that
//! decode as one of them count if most ways of decoding the code before them arrive there.

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;

use iced_x86::{Decoder, DecoderOptions};
use object::Endianness;
use object::elf::{FileHeader64, PF_X, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::trace::event::{FileNumber, InstructionKind};

/// The opcode of both instructions, without prefixes and register.
const OPCODE: [u8; 2] = [0x0f, 0xc7];
/// How far before an instruction reading begins, at most.
const BEFORE: usize = 64;
/// Bytes that are searched at once; pieces overlap by [`AROUND`].
const PIECE: usize = 1 << 18;
const AROUND: usize = BEFORE + 16;

/// An instruction: where it begins in its file, and where its opcode is from there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::record) struct RandomInstruction {
    pub(in crate::record) offset: u64,
    pub(in crate::record) opcode: u64,
}

/// The instructions that were found in the files of a recording.
#[derive(Debug, Default)]
pub(in crate::record) struct RandomInstructions(
    RefCell<FxHashMap<FileNumber, Rc<[RandomInstruction]>>>,
);

impl RandomInstructions {
    /// Looks through the code of a file that is open at `open`; whether it has any.
    pub(in crate::record) fn look_through(&self, file: FileNumber, open: &Path) -> bool {
        // What cannot be read cannot be replayed, either, and is refused for that.
        let found = File::open(open).ok().and_then(|file| find(&file));
        if let Some(found) = &found {
            self.add(file, found);
        }
        found.is_some()
    }

    /// Adds the instructions of a file.
    pub(in crate::record) fn add(&self, file: FileNumber, found: &[RandomInstruction]) {
        if !found.is_empty() {
            self.0.borrow_mut().insert(file, found.into());
        }
    }

    /// The instructions of a file.
    pub(in crate::record) fn of(&self, file: FileNumber) -> Vec<RandomInstruction> {
        let found = self.0.borrow().get(&file).cloned();
        found.map_or_else(Vec::new, |found| found.to_vec())
    }

    /// Whether a file has any.
    pub(in crate::record) fn has(&self, file: FileNumber) -> bool {
        self.0.borrow().contains_key(&file)
    }

    /// The instructions in the code from `offset` on that is mapped at `start`, up to `end`:
    /// the address of each, and of its opcode.
    pub(in crate::record) fn within(
        &self,
        file: FileNumber,
        offset: u64,
        start: u64,
        end: u64,
    ) -> Vec<(u64, u64)> {
        let found = self.0.borrow().get(&file).cloned();
        found
            .iter()
            .flat_map(|found| found.iter())
            .filter_map(|found| {
                let address = start + found.offset.checked_sub(offset)?;
                let opcode = address + found.opcode;
                (opcode + OPCODE.len() as u64 <= end).then_some((address, opcode))
            })
            .collect()
    }
}

/// The replacement of an opcode: `ud2`.
pub(in crate::record) const INSTEAD: [u8; 2] = [0x0f, 0x0b];

fn find(file: &File) -> Option<Vec<RandomInstruction>> {
    let mut head = [0; 4096];
    let got = file.read_at(&mut head, 0).ok()?;
    let head = &head[..got];
    let header = FileHeader64::<Endianness>::parse(head).ok()?;
    let endian = header.endian().ok()?;
    let mut all = Vec::new();
    for segment in header.program_headers(endian, head).ok()? {
        if segment.p_type(endian) == PT_LOAD && segment.p_flags(endian) & PF_X != 0 {
            let start = segment.p_offset(endian);
            let end = start.saturating_add(segment.p_filesz(endian));
            find_in(file, start, end, &mut all).ok()?;
        }
    }
    Some(all)
}

fn find_in(
    file: &File,
    start: u64,
    end: u64,
    all: &mut Vec<RandomInstruction>,
) -> std::io::Result<()> {
    let mut bytes = vec![0; PIECE];
    let mut at = start;
    while at < end {
        let length = PIECE.min((end - at) as usize);
        let got = file.read_at(&mut bytes[..length], at)?;
        if got == 0 {
            break;
        }
        let piece = &bytes[..got];
        for opcode in memchr::memmem::find_iter(piece, &OPCODE) {
            if let Some(prefixes) = is_one(piece, opcode) {
                let found = RandomInstruction {
                    offset: at + (opcode - prefixes) as u64,
                    opcode: prefixes as u64,
                };
                if !all.contains(&found) {
                    all.push(found);
                }
            }
        }
        if at + got as u64 >= end {
            break;
        }
        // What is at the border is seen whole by the next.
        at += got.saturating_sub(AROUND).max(1) as u64;
    }
    Ok(())
}

/// Whether an instruction has its opcode there; the length of its prefixes.
fn is_one(code: &[u8], opcode: usize) -> Option<usize> {
    let prefixes = (0..=2.min(opcode)).rev().find(|&prefixes| {
        let start = opcode - prefixes;
        InstructionKind::random(&code[start..], OPCODE)
            .is_some_and(|(_, length)| length as usize == prefixes + 3)
    })?;
    let at = opcode - prefixes;
    let starts = at.saturating_sub(BEFORE)..at.saturating_sub(BEFORE / 4);
    let ways = starts.len();
    let come = starts.filter(|&start| comes_to(&code[start..], at - start));
    // At the beginning of a piece there is nothing to tell by.
    (come.count() * 2 >= ways).then_some(prefixes)
}

/// Whether reading from the beginning of `code` comes to `at`.
fn comes_to(code: &[u8], at: usize) -> bool {
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    while decoder.position() < at {
        if decoder.decode().is_invalid() {
            return false;
        }
    }
    decoder.position() == at
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Code as compilers make it, 6 bytes a round.
    const ORDINARY: [u8; 6] = [0x48, 0x89, 0xc2, 0x83, 0xc0, 0x01];

    fn code(middle: &[u8]) -> (Vec<u8>, usize) {
        let mut code = ORDINARY.repeat(20);
        let at = code.len();
        code.extend_from_slice(middle);
        code.extend(ORDINARY.repeat(20));
        (code, at)
    }

    #[test]
    fn instructions_are_found_with_their_prefixes() {
        for (middle, prefixes) in [
            (&[0x0f, 0xc7, 0xf0][..], 0),
            (&[0x48, 0x0f, 0xc7, 0xf9][..], 1),
            (&[0x66, 0x41, 0x0f, 0xc7, 0xf2][..], 2),
        ] {
            let (code, at) = code(middle);
            assert_eq!(is_one(&code, at + prefixes), Some(prefixes), "{middle:x?}");
        }
    }

    #[test]
    fn an_opcode_inside_another_instruction_is_ignored() {
        // mov $0xf0c70f00, %eax
        let (number, at) = code(&[0xb8, 0x00, 0x0f, 0xc7, 0xf0]);
        assert_eq!(is_one(&number, at + 2), None);
        // rdpid %rax, and cmpxchg8b (%rax)
        let (rdpid, at) = code(&[0xf3, 0x0f, 0xc7, 0xf8]);
        assert_eq!(is_one(&rdpid, at + 1), None);
        let (exchange, at) = code(&[0x0f, 0xc7, 0x08]);
        assert_eq!(is_one(&exchange, at), None);
    }

    #[test]
    fn a_file_is_looked_through_across_its_pieces() {
        let mut code = ORDINARY.repeat(PIECE / 2);
        let at = [1000, PIECE - 1, PIECE + 7, 2 * PIECE - AROUND];
        for &at in &at {
            let at = at / 6 * 6;
            code[at..at + 3].copy_from_slice(&[0x0f, 0xc7, 0xf0]);
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &code).unwrap();
        let mut all = Vec::new();
        let file = File::open(file.path()).unwrap();
        find_in(&file, 0, code.len() as u64, &mut all).unwrap();
        let offsets: Vec<u64> = all.iter().map(|found| found.offset).collect();
        assert_eq!(offsets, at.map(|at| (at / 6 * 6) as u64));
    }
}
