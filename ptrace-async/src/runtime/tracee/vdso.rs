//! Hiding the vdso in the auxiliary vector of a program that is about to start.

use super::states::{Exec, Tracee};
use crate::memory::Memory;
use crate::sys;

impl Tracee<Exec> {
    /// Removes the vdso from the auxiliary vector of a fresh program, so that its clock
    /// reads become system calls (getauxval(3), `AT_SYSINFO_EHDR`).
    pub fn hide_vdso(&self) {
        const AT_NULL: u64 = 0;
        const AT_IGNORE: u64 = 1;
        const AT_SYSINFO_EHDR: u64 = 33;
        /// The code segment of 64-bit programs. The stack of other programs has another
        /// layout.
        const CODE: u64 = 0x33;
        let Ok(regs) = self.registers() else { return };
        if regs.cs != CODE {
            return;
        }
        let mut words = [0_u8; 2048];
        let mut at = regs.rsp;
        let mut got = self.read(at, &mut words) / 8 * 8;
        // Skips the count and the arguments with their end.
        let argc = words
            .first_chunk()
            .map_or(0, |argc| u64::from_le_bytes(*argc));
        let Some(mut skipped) = argc.checked_add(2) else {
            return;
        };
        let mut in_environment = true;
        let mut is_key = true;
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
                if is_key {
                    match word {
                        AT_NULL => return,
                        AT_SYSINFO_EHDR => {
                            // An error means that the tracee has ended.
                            let _ = sys::poke(self.tid(), at + 8 * index as u64, AT_IGNORE);
                            return;
                        }
                        _ => {}
                    }
                }
                is_key = !is_key;
            }
            at += got as u64;
            got = self.read(at, &mut words) / 8 * 8;
        }
    }
}
