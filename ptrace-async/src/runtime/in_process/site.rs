//! Single call sites, which are patched where a task has stopped.

use super::layout::BASE;

/// A syscall instruction and the comparison after it, in a tracee.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Site {
    /// Where the syscall instruction is.
    pub(crate) address: u64,
    /// The instruction and the comparison.
    bytes: [u8; SITE_MAX],
    len: usize,
}

/// The number of bytes that identify a site.
pub(crate) const SITE_MAX: usize = 8;
/// Bytes that a patch replaces.
pub(crate) const PATCH_LEN: usize = 5;
/// Room for one trampoline.
pub(crate) const TRAMPOLINE_LEN: u64 = 48;
/// The offset of the syscall instruction in a trampoline.
pub(crate) const TAIL: u64 = 20;

impl Site {
    /// Recognises `syscall; cmp $imm32, %rax` or `... %eax`, with which C libraries make
    /// calls and check for errors. The comparison moves to the trampoline, because the jump
    /// needs its room. No code jumps to the comparison from elsewhere, since it makes sense
    /// only after the call.
    pub(crate) fn recognise(address: u64, bytes: [u8; SITE_MAX]) -> Option<Self> {
        let len = match bytes {
            [0x0f, 0x05, 0x48, 0x3d, ..] => 8,
            [0x0f, 0x05, 0x3d, ..] => 7,
            _ => return None,
        };
        Some(Self {
            address,
            bytes,
            len,
        })
    }

    /// The original bytes under the patch.
    pub(crate) fn original(&self) -> [u8; PATCH_LEN] {
        let mut original = [0; PATCH_LEN];
        original.copy_from_slice(&self.bytes[..PATCH_LEN]);
        original
    }

    /// Whether an address lies within.
    pub(crate) fn contains(&self, address: u64) -> bool {
        (self.address..self.address + self.len as u64).contains(&address)
    }

    /// The jump to its trampoline; `None` if that is too far.
    pub(crate) fn patch(&self, trampoline: u64) -> Option<[u8; PATCH_LEN]> {
        jump(self.address, trampoline)
    }

    /// The address where the call continues during which the site was patched.
    pub(crate) fn after_call(trampoline: u64) -> u64 {
        trampoline + TAIL + 2
    }

    /// The code at `trampoline`; `None` if the way back is too far.
    pub(crate) fn trampoline(&self, trampoline: u64) -> Option<Vec<u8>> {
        let mut code = vec![0x48, 0x8d, 0x0d];
        // lea tail(%rip), %rcx
        code.extend((TAIL as u32 - 7).to_le_bytes());
        // movabs $BASE, %r11; jmp *%r11
        code.extend([0x49, 0xbb]);
        code.extend(BASE.to_le_bytes());
        code.extend([0x41, 0xff, 0xe3]);
        debug_assert_eq!(code.len() as u64, TAIL);
        // syscall and the comparison, then back.
        code.extend(&self.bytes[..self.len]);
        let back = trampoline + code.len() as u64;
        code.extend(jump(back, self.address + self.len as u64)?);
        Some(code)
    }
}

/// `jmp rel32` at `from`.
fn jump(from: u64, to: u64) -> Option<[u8; PATCH_LEN]> {
    let distance = to.wrapping_sub(from + PATCH_LEN as u64).cast_signed();
    let distance = i32::try_from(distance).ok()?.to_le_bytes();
    Some([0xe9, distance[0], distance[1], distance[2], distance[3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_are_recognised_by_the_comparison() {
        let libc = [0x0f, 0x05, 0x48, 0x3d, 1, 0xf0, 0xff, 0xff];
        let site = Site::recognise(0x1000, libc).expect("a site");
        assert!(site.contains(0x1007) && !site.contains(0x1008));
        let short = [0x0f, 0x05, 0x3d, 0, 0xf0, 0xff, 0xff, 0x90];
        let site = Site::recognise(0x1000, short).expect("a site");
        assert!(site.contains(0x1006) && !site.contains(0x1007));
        assert_eq!(Site::recognise(0, [0x0f, 0x05, 0xc3, 0, 0, 0, 0, 0]), None);
    }

    #[test]
    fn trampolines_return_to_their_site() {
        let libc = [0x0f, 0x05, 0x48, 0x3d, 1, 0xf0, 0xff, 0xff];
        let site = Site::recognise(0x7000_0000, libc).expect("a site");
        let code = site.trampoline(0x6000_0000).expect("near");
        assert!(code.len() as u64 <= TRAMPOLINE_LEN);
        let back = code.len() - PATCH_LEN;
        assert_eq!(code[TAIL as usize..back], libc);
        let rel = i32::from_le_bytes(code[back + 1..].try_into().expect("4 bytes"));
        let to = 0x6000_0000 + code.len() as i64 + i64::from(rel);
        assert_eq!(to, 0x7000_0008);
        assert_eq!(site.trampoline(0x7fff_0000_0000), None);
        assert_eq!(site.patch(0x7fff_0000_0000), None);
    }
}
