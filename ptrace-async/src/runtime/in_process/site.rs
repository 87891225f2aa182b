//! Single call sites, which are patched where a task has stopped, or when a program starts.
//!
//! A patch is a jump of five bytes to a trampoline of the site's own. The trampoline passes
//! an address to the code where the call continues, or is made if the code does not handle
//! it. There are two kinds:
//!
//! - `syscall` and the instructions after it. They move to the trampoline, because the jump
//!   needs their room.
//! - `mov $nr, %eax` and the `syscall` after it. The `mov` moves; the `syscall` and all
//!   after it stay in place, so that whatever looks at the instruction pointer sees no
//!   difference.

use super::layout::BASE;
use crate::unstopped::handles;

/// A syscall instruction in a tracee, and the bytes that a patch moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Site {
    /// Where the patch begins.
    pub(crate) address: u64,
    /// The instructions that move to the trampoline.
    bytes: [u8; MOVED_MAX],
    len: usize,
    /// Whether the syscall instruction follows them, and is not among them.
    keeps_call: bool,
}

/// The greatest number of bytes that move.
const MOVED_MAX: usize = 16;
/// The number of bytes that identify a site where a task has stopped.
pub(crate) const SITE_MAX: usize = 8;
/// Bytes that a patch replaces.
pub(crate) const PATCH_LEN: usize = 5;
/// Room for one trampoline.
pub(crate) const TRAMPOLINE_LEN: u64 = 48;
/// The offset of the syscall instruction in a trampoline that has one.
pub(crate) const TAIL: u64 = 20;

/// `syscall`.
pub(super) const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// `mov $imm32, %eax`.
pub(super) const MOVE: u8 = 0xb8;
/// The instructions between a number and its `syscall`: none, or
/// `mov %rdi, %rsi; mov $AT_FDCWD, %edi`.
pub(super) const BETWEEN: [&[u8]; 2] = [&[], &[0x48, 0x89, 0xfe, 0xbf, 0x9c, 0xff, 0xff, 0xff]];

impl Site {
    /// Recognises `syscall; cmp $imm32, %rax` or `... %eax`, with which C libraries make
    /// calls and check for errors. The comparison moves to the trampoline, because the jump
    /// needs its room. Nothing must jump to the comparison from elsewhere.
    pub(crate) fn recognise(address: u64, bytes: [u8; SITE_MAX]) -> Option<Self> {
        let len = match bytes {
            [0x0f, 0x05, 0x48, 0x3d, ..] => 8,
            [0x0f, 0x05, 0x3d, ..] => 7,
            _ => return None,
        };
        Self::moving(address, &bytes[..len], false)
    }

    /// Recognises a syscall instruction at `call` of a text that has a handled number
    /// before it. `text` lies at `address`.
    pub(super) fn numbered(address: u64, text: &[u8], call: usize) -> Option<Self> {
        let from = number_before(text, call)?;
        let number = text.get(from + 1..from + 5)?.try_into().ok()?;
        if !handles(u32::from_le_bytes(number).into()) || !may_begin(&text[..from]) {
            return None;
        }
        Self::moving(address + from as u64, &text[from..call], true)
    }

    /// Recognises a syscall instruction at `call` of a text whose number is not known, and
    /// which is followed by enough instructions that may move. `text` lies at `address`.
    pub(super) fn followed(address: u64, text: &[u8], call: usize) -> Option<Self> {
        let after = &text[call + SYSCALL.len()..];
        let mut len = 0;
        while len < PATCH_LEN - SYSCALL.len() {
            len += movable(after.get(len..)?)?;
        }
        let bytes = &text[call..call + SYSCALL.len() + len];
        Self::moving(address + call as u64, bytes, false)
    }

    fn moving(address: u64, moved: &[u8], keeps_call: bool) -> Option<Self> {
        let mut bytes = [0; MOVED_MAX];
        bytes.get_mut(..moved.len())?.copy_from_slice(moved);
        Some(Self {
            address,
            bytes,
            len: moved.len(),
            keeps_call,
        })
    }

    /// The same site of a program that is loaded elsewhere.
    pub(super) fn moved_by(self, bias: u64) -> Self {
        let address = self.address.wrapping_add(bias);
        Self { address, ..self }
    }

    /// The address after what moves.
    pub(crate) fn end(&self) -> u64 {
        self.address + self.len as u64
    }

    /// The address of the syscall instruction.
    pub(crate) fn call(&self) -> u64 {
        if self.keeps_call {
            self.end()
        } else {
            self.address
        }
    }

    /// The number of the call, if the site has one.
    pub(super) fn number(&self) -> Option<u64> {
        let number = self.bytes[1..5].try_into().ok()?;
        self.keeps_call
            .then(|| u64::from(u32::from_le_bytes(number)))
    }

    /// The original bytes under the patch.
    pub(crate) fn original(&self) -> [u8; PATCH_LEN] {
        let mut original = [0; PATCH_LEN];
        original.copy_from_slice(&self.bytes[..PATCH_LEN]);
        original
    }

    /// Whether an address lies within what moves.
    pub(crate) fn contains(&self, address: u64) -> bool {
        (self.address..self.end()).contains(&address)
    }

    /// The jump to its trampoline; `None` if that is too far.
    pub(crate) fn patch(&self, trampoline: u64) -> Option<[u8; PATCH_LEN]> {
        jump(self.address, trampoline)
    }

    /// The address where the call continues during which the site was patched.
    pub(crate) fn after_call(&self, trampoline: u64) -> u64 {
        self.origin(trampoline) + SYSCALL.len() as u64
    }

    /// The address that its trampoline passes to the code: the call is made there if the
    /// code does not handle it.
    pub(super) fn origin(&self, trampoline: u64) -> u64 {
        if self.keeps_call {
            self.call()
        } else {
            trampoline.wrapping_add(TAIL)
        }
    }

    /// The code at `trampoline`; `None` if the way back is too far.
    pub(crate) fn trampoline(&self, trampoline: u64) -> Option<Vec<u8>> {
        let mut code = Vec::new();
        let moved = &self.bytes[..self.len];
        if self.keeps_call {
            code.extend(moved);
        }
        // lea origin(%rip), %rcx
        code.extend([0x48, 0x8d, 0x0d]);
        let next = trampoline.wrapping_add(code.len() as u64 + 4);
        let distance = self.origin(trampoline).wrapping_sub(next).cast_signed();
        code.extend(i32::try_from(distance).ok()?.to_le_bytes());
        // movabs $BASE, %r11; jmp *%r11
        code.extend([0x49, 0xbb]);
        code.extend(BASE.to_le_bytes());
        code.extend([0x41, 0xff, 0xe3]);
        if !self.keeps_call {
            debug_assert_eq!(code.len() as u64, TAIL);
            // The syscall and what follows it, then back.
            code.extend(moved);
            let back = trampoline.wrapping_add(code.len() as u64);
            code.extend(jump(back, self.end())?);
        }
        Some(code)
    }
}

/// Where the `mov` with the number of the call at `call` begins.
pub(super) fn number_before(text: &[u8], call: usize) -> Option<usize> {
    BETWEEN.iter().find_map(|between| {
        let before = text[..call].strip_suffix(*between)?;
        let (rest, mov) = before.split_last_chunk::<5>()?;
        // Numbers are small.
        matches!(mov, [MOVE, _, 0..=1, 0, 0]).then_some(rest.len())
    })
}

/// Whether a `mov` may begin behind these bytes. It may not if they are a prefix, which
/// would select another register. Nor may it if they begin an instruction with a
/// displacement and an immediate, of which the `mov` byte would be part.
pub(super) fn may_begin(before: &[u8]) -> bool {
    const TAKE_NUMBERS: [u8; 4] = [0x69, 0x81, 0xc7, 0xf7];
    let byte = |back: usize| before.len().checked_sub(back).map(|at| before[at]);
    let takes = |back| byte(back).is_some_and(|byte| TAKE_NUMBERS.contains(&byte));
    let has_prefix = matches!(byte(1), Some(0x40..=0x4f | 0x66 | 0x67));
    !has_prefix && !takes(2) && !takes(3)
}

/// The length of the instruction that these bytes begin with, if it is one that does the
/// same anywhere: it names only registers and numbers.
fn movable(bytes: &[u8]) -> Option<usize> {
    let (prefix, rest) = match bytes {
        [0x40..=0x4f, rest @ ..] => (1, rest),
        rest => (0, rest),
    };
    let len = match rest {
        // cmp $imm32, %eax or %rax.
        [0x3d, ..] => 5,
        // mov, movslq, test, add, sub, cmp, xor between registers.
        [
            0x01 | 0x29 | 0x31 | 0x39 | 0x63 | 0x85 | 0x89 | 0x8b,
            0xc0..=0xff,
            ..,
        ] => 2,
        // Arithmetic with a byte.
        [0x83, 0xc0..=0xff, ..] => 3,
        _ => return None,
    };
    (rest.len() >= len).then_some(prefix + len)
}

/// Whether code that continues with these bytes decides by a comparison with the greatest
/// error number, as programs do after a call: `cmp $-4095, ...` or `$-4096`, and a jump.
pub(super) fn tests_for_error(after: &[u8]) -> bool {
    let rest = match after {
        [0x48, 0x3d, 0..=1, 0xf0, 0xff, 0xff, rest @ ..] => rest,
        [0x3d, 0..=1, 0xf0, 0xff, 0xff, rest @ ..] => rest,
        _ => return false,
    };
    matches!(
        rest,
        [0x72 | 0x73 | 0x76 | 0x77, ..] | [0x0f, 0x82 | 0x83 | 0x86 | 0x87, ..]
    )
}

/// `jmp rel32` at `from`.
fn jump(from: u64, to: u64) -> Option<[u8; PATCH_LEN]> {
    let distance = to
        .wrapping_sub(from.wrapping_add(PATCH_LEN as u64))
        .cast_signed();
    let distance = i32::try_from(distance).ok()?.to_le_bytes();
    Some([0xe9, distance[0], distance[1], distance[2], distance[3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIBC: [u8; SITE_MAX] = [0x0f, 0x05, 0x48, 0x3d, 1, 0xf0, 0xff, 0xff];

    #[test]
    fn sites_are_recognised_by_the_comparison() {
        let site = Site::recognise(0x1000, LIBC).expect("a site");
        assert!(site.contains(0x1007) && !site.contains(0x1008));
        let short = [0x0f, 0x05, 0x3d, 0, 0xf0, 0xff, 0xff, 0x90];
        let site = Site::recognise(0x1000, short).expect("a site");
        assert!(site.contains(0x1006) && !site.contains(0x1007));
        assert_eq!(Site::recognise(0, [0x0f, 0x05, 0xc3, 0, 0, 0, 0, 0]), None);
    }

    #[test]
    fn trampolines_return_to_their_site() {
        let site = Site::recognise(0x7000_0000, LIBC).expect("a site");
        let code = site.trampoline(0x6000_0000).expect("near");
        assert!(code.len() as u64 <= TRAMPOLINE_LEN);
        let back = code.len() - PATCH_LEN;
        assert_eq!(code[TAIL as usize..back], LIBC);
        let rel = i32::from_le_bytes(code[back + 1..].try_into().expect("4 bytes"));
        let to = 0x6000_0000 + code.len() as i64 + i64::from(rel);
        assert_eq!(to, 0x7000_0008);
        assert_eq!(site.trampoline(0x7fff_0000_0000), None);
        assert_eq!(site.patch(0x7fff_0000_0000), None);
    }

    #[test]
    fn a_site_with_a_number_keeps_its_call() {
        for between in BETWEEN {
            let mut text = vec![0x90, MOVE, 1, 1, 0, 0];
            text.extend(between);
            let call = text.len();
            text.extend(SYSCALL);
            let site = Site::numbered(0x7000_0000, &text, call).expect("a site");
            assert_eq!(site.address, 0x7000_0001);
            assert_eq!(site.number(), Some(257));
            assert_eq!(site.call(), 0x7000_0000 + call as u64);
            let code = site.trampoline(0x6000_0000).expect("near");
            assert!(code.len() as u64 <= TRAMPOLINE_LEN);
            let lea = call - 1;
            assert_eq!(code[..lea], text[1..call]);
            let rel = code[lea + 3..lea + 7].try_into().expect("4 bytes");
            let origin = 0x6000_0000 + lea as i64 + 7 + i64::from(i32::from_le_bytes(rel));
            assert_eq!(origin.cast_unsigned(), site.call());
        }
    }

    #[test]
    fn calls_without_a_handled_number_have_no_site_of_that_kind() {
        let text = |number: u8| [0x90, MOVE, number, 0, 0, 0, 0x0f, 0x05];
        assert!(Site::numbered(0, &text(libc::SYS_stat as u8), 6).is_some());
        assert_eq!(Site::numbered(0, &text(libc::SYS_futex as u8), 6), None);
        // An immediate of another instruction.
        let text = [0xc7, 0x07, MOVE, 4, 0, 0, 0, 0x0f, 0x05];
        assert_eq!(Site::numbered(0, &text, 7), None);
    }

    #[test]
    fn only_instructions_that_do_the_same_anywhere_move() {
        let check = |after: &[u8], len: Option<usize>| {
            let mut text = SYSCALL.to_vec();
            text.extend(after);
            let site = Site::followed(0x1000, &text, 0);
            assert_eq!(site.map(|site| site.len), len, "{after:x?}");
        };
        check(&LIBC[2..], Some(8));
        // mov %rax, %rdi; call
        check(&[0x48, 0x89, 0xc7, 0xe8, 0, 0, 0, 0], Some(5));
        // mov %eax, %edx; cmp
        check(&[0x89, 0xc2, 0x3d, 0, 0xf0, 0xff, 0xff], Some(9));
        // test %eax, %eax; js
        check(&[0x85, 0xc0, 0x78, 5], None);
        // ret
        check(&[0xc3, 0x90, 0x90], None);
        // mov %eax, 0x20(%rsp)
        check(&[0x89, 0x44, 0x24, 0x20], None);
        check(&[0x48, 0x89], None);
    }

    #[test]
    fn a_test_for_errors_ends_in_a_jump() {
        assert!(tests_for_error(&[0x48, 0x3d, 1, 0xf0, 0xff, 0xff, 0x76]));
        assert!(tests_for_error(&[0x3d, 0, 0xf0, 0xff, 0xff, 0x0f, 0x87]));
        assert!(!tests_for_error(&[0x48, 0x3d, 1, 0xf0, 0xff, 0xff, 0x90]));
        assert!(!tests_for_error(&[0x48, 0x3d, 1, 0, 0, 0, 0x76]));
    }
}
