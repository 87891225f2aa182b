//! The auxiliary vector of a program that is about to start (getauxval(3)).

use super::states::{Exec, Tracee};
use crate::memory::Memory;
use crate::runtime::in_process::VdsoEntry;

const AT_NULL: u64 = 0;
const AT_BASE: u64 = 7;
const AT_ENTRY: u64 = 9;
const AT_SYSINFO_EHDR: u64 = 33;

/// The code segment of 64-bit programs. The stack of other programs has another layout.
pub(super) const CODE_SEGMENT: u64 = 0x33;

/// The known entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Auxiliary {
    pub(super) vdso: Option<VdsoEntry>,
    /// Where the loader is mapped; 0 for static programs.
    pub(super) loader: Option<u64>,
    /// The entry point of the program itself.
    pub(super) entry: Option<u64>,
}

impl Tracee<Exec> {
    /// Removes the vdso from the auxiliary vector of a fresh program, so that its clock
    /// reads become system calls (`AT_SYSINFO_EHDR`).
    pub fn hide_vdso(&self) {
        if let Some(vdso) = self.auxiliary().vdso {
            vdso.hide(self.tid());
        }
    }

    /// The auxiliary vector of a fresh 64-bit program; empty for others.
    pub(super) fn auxiliary(&self) -> Auxiliary {
        let mut found = Auxiliary::default();
        let Ok(regs) = self.registers() else {
            return found;
        };
        if regs.cs != CODE_SEGMENT {
            return found;
        }
        let mut words = [0_u8; 2048];
        let mut at = regs.rsp;
        let mut got = self.read(at, &mut words) / 8 * 8;
        // Skips the count and the arguments with their end.
        let argc = words
            .first_chunk()
            .map_or(0, |argc| u64::from_le_bytes(*argc));
        let Some(mut skipped) = argc.checked_add(2) else {
            return found;
        };
        let mut in_environment = true;
        let mut key = None;
        while got > 0 {
            for (index, word) in words[..got].chunks_exact(8).enumerate() {
                if skipped > 0 {
                    skipped -= 1;
                    continue;
                }
                let word = u64::from_le_bytes(word.try_into().unwrap_or_default());
                if in_environment {
                    in_environment = word != 0;
                    continue;
                }
                let place = at + 8 * index as u64;
                match key.take() {
                    None if word == AT_NULL => return found,
                    None => key = Some(word),
                    Some(AT_BASE) => found.loader = Some(word),
                    Some(AT_ENTRY) => found.entry = Some(word),
                    Some(AT_SYSINFO_EHDR) => {
                        found.vdso = Some(VdsoEntry {
                            key_at: place - 8,
                            address: word,
                        });
                    }
                    Some(_) => {}
                }
            }
            at += got as u64;
            got = self.read(at, &mut words) / 8 * 8;
        }
        found
    }
}
