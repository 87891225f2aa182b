//! Syscall sites: their code, and the jump that replaces it.

use std::ops::Range;

use super::{BASE, performs};
use crate::code;

/// How much of a site is looked at: before the end of its call, and behind it.
pub(crate) const BEFORE: usize = 9;
pub(crate) const BEHIND: usize = 6;
/// The length of a trampoline, at most.
pub(crate) const TRAMPOLINE: u64 = 64;
/// How far a jump reaches, without asking for the last byte.
const REACH: u64 = 1 << 30;
const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// `cmp $-4096, %rax`: whether the call has failed; and how Go asks.
const FAILED: [[u8; BEHIND]; 2] = [
    [0x48, 0x3d, 0x00, 0xf0, 0xff, 0xff],
    [0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff],
];

/// A place where a program makes a call, that can be patched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Site {
    /// `mov $number, %eax; syscall`: the jump takes the place of the `mov`, and calls that
    /// stop are made by the `syscall` that is there.
    Numbered {
        /// Where the `mov` is, and its length.
        at: u64,
        length: u64,
        number: u32,
    },
    /// `syscall; cmp $-4096, %rax`: the jump takes the place of both, and the trampoline has
    /// a copy of them.
    Compared {
        /// Where the `syscall` is, and the `cmp`.
        at: u64,
        failed: [u8; BEHIND],
    },
}

impl Site {
    /// The site of a call that ends at `end`, with what stands around that; `number` says
    /// which call is being made there.
    pub(crate) fn of(code: &[u8; BEFORE + BEHIND], number: Option<u64>, end: u64) -> Option<Self> {
        let (before, failed) = code.split_at(BEFORE);
        let before = before.strip_suffix(&SYSCALL)?;
        if let Some((found, length)) = number_of(before)
            && number.is_none_or(|number| number == u64::from(found))
        {
            return Some(Self::Numbered {
                at: end - SYSCALL.len() as u64 - length,
                length,
                number: found,
            });
        }
        let failed = failed.try_into().ok()?;
        FAILED.contains(&failed).then(|| Self::Compared {
            at: end - SYSCALL.len() as u64,
            failed,
        })
    }

    /// Addresses where no task may be, or jump to, when the site is patched.
    pub(crate) fn inside(self) -> Range<u64> {
        match self {
            // No task returns into the middle of an instruction.
            Self::Numbered { at, .. } => at + 1..at + 1,
            Self::Compared { at, .. } => at + 1..at + (SYSCALL.len() + BEHIND) as u64,
        }
    }

    /// Where its code is changed.
    pub(crate) fn at(self) -> u64 {
        match self {
            Self::Numbered { at, .. } | Self::Compared { at, .. } => at,
        }
    }

    /// Whether its calls end there, before it is patched.
    pub(crate) fn ends_at(self, end: u64) -> bool {
        let length = match self {
            Self::Numbered { length, .. } => length,
            Self::Compared { .. } => 0,
        };
        self.at() + length + SYSCALL.len() as u64 == end
    }

    /// Where a call ends that is being made at the site while it is patched.
    pub(crate) fn end(self, trampoline: u64) -> u64 {
        match self {
            Self::Numbered { at, length, .. } => at + length + SYSCALL.len() as u64,
            Self::Compared { .. } => trampoline + COPY + SYSCALL.len() as u64,
        }
    }

    /// The code for the trampoline, and the jump for the site.
    pub(crate) fn patch(self, trampoline: u64) -> (Vec<u8>, Vec<u8>) {
        let mut code = Vec::new();
        if let Self::Numbered { number, .. } = self {
            code.push(0xb8);
            code.extend_from_slice(&number.to_le_bytes());
        }
        // mov $return, %rcx
        code.extend_from_slice(&[0x48, 0xb9]);
        code.extend_from_slice(&self.end(trampoline).to_le_bytes());
        // jmp *0(%rip), and the address
        code.extend_from_slice(&[0xff, 0x25, 0, 0, 0, 0]);
        code.extend_from_slice(&BASE.to_le_bytes());
        if let Self::Compared { at, failed } = self {
            code.resize(COPY as usize, 0xcc);
            code.extend_from_slice(&SYSCALL);
            code.extend_from_slice(&failed);
            let on = at + (SYSCALL.len() + BEHIND) as u64;
            let here = trampoline + code.len() as u64;
            code.extend_from_slice(&jump(here, on));
        }
        (code, jump(self.at(), trampoline))
    }
}

/// The number of the call in `mov $number, %eax`, or in `mov $number, %rax`, if that is what
/// stands there at last; and how long it is.
fn number_of(code: &[u8]) -> Option<(u32, u64)> {
    match *code {
        [0x48, 0xc7, 0xc0, a, b, c, d @ 0..0x80] => Some((u32::from_le_bytes([a, b, c, d]), 7)),
        // With such a prefix it is another register, or shorter.
        [.., 0x40..=0x4f | 0x66, 0xb8, _, _, _, _] => None,
        [.., 0xb8, a, b, c, d] => Some((u32::from_le_bytes([a, b, c, d]), 5)),
        _ => None,
    }
}

/// Where calls end whose sites can be patched, in code from `start` on.
pub(crate) fn sites(code: &[u8], start: u64) -> Vec<u64> {
    let found = |at: usize| {
        let end = at + SYSCALL.len();
        let around = code.get(end.checked_sub(BEFORE)?..end + BEHIND)?;
        let end = start + end as u64;
        let site = Site::of(around.try_into().ok()?, None, end)?;
        let is_good = match site {
            Site::Numbered { number, .. } => performs(number.into()),
            Site::Compared { .. } => true,
        };
        is_good.then_some((site, end))
    };
    let mut sites: Vec<(Site, u64)> = memchr::memmem::find_iter(code, &SYSCALL)
        .filter_map(found)
        .collect();
    let span = match (sites.first(), sites.last()) {
        (Some((_, first)), Some((_, last))) => *first..*last + 1,
        _ => 0..0,
    };
    for target in code::targets(code, start).filter(|target| span.contains(target)) {
        if let Ok(at) = sites.binary_search_by_key(&target, |(_, end)| *end)
            && matches!(sites[at].0, Site::Compared { .. })
        {
            sites.remove(at);
        }
    }
    sites.into_iter().map(|(_, end)| end).collect()
}

/// Whether nobody jumps into what is going to be changed of the site of a call that ends at
/// `end`, as far as the code around it tells, from `start` on.
pub(crate) fn is_free(code: &[u8], start: u64, end: u64) -> bool {
    let Some(at) = end.checked_sub(start + BEFORE as u64) else {
        return false;
    };
    let around = code.get(at as usize..at as usize + BEFORE + BEHIND);
    match around.and_then(|around| Site::of(around.try_into().ok()?, None, end)) {
        // The only instruction inside begins where the call ends.
        Some(Site::Compared { .. }) => !code::targets(code, start).any(|target| target == end),
        Some(Site::Numbered { .. }) => true,
        None => false,
    }
}

/// Where in a trampoline the copy of a call is.
const COPY: u64 = 24;

/// A jump that stands at `from`.
fn jump(from: u64, to: u64) -> Vec<u8> {
    let distance = to.wrapping_sub(from + 5) as i64 as i32;
    let mut code = vec![0xe9];
    code.extend_from_slice(&distance.to_le_bytes());
    code
}

/// Whether a trampoline can serve a site.
pub(crate) fn reaches(trampoline: u64, site: u64) -> bool {
    trampoline.abs_diff(site) < REACH
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(code: [u8; BEFORE + BEHIND]) -> Option<Site> {
        Site::of(&code, None, 1000)
    }

    #[test]
    fn sites_are_recognized_by_the_code_around_them() {
        let numbered = |length| Site::Numbered {
            at: 998 - length,
            length,
            number: 0xe4,
        };
        let code = [1, 2, 0xb8, 0xe4, 0, 0, 0, 0x0f, 5, 1, 2, 3, 4, 5, 6];
        assert_eq!(site(code), Some(numbered(5)));
        let code = [0x48, 0xc7, 0xc0, 0xe4, 0, 0, 0, 0x0f, 5, 1, 2, 3, 4, 5, 6];
        assert_eq!(site(code), Some(numbered(7)));
        let code = [
            1, 2, 3, 4, 5, 6, 7, 0x0f, 5, 0x48, 0x3d, 1, 0xf0, 0xff, 0xff,
        ];
        let failed = [0x48, 0x3d, 1, 0xf0, 0xff, 0xff];
        assert_eq!(site(code), Some(Site::Compared { at: 998, failed }));
    }

    #[test]
    fn a_mov_to_another_register_is_no_call_number() {
        let code = [1, 0x41, 0xb8, 0, 0, 0, 0, 0x0f, 5, 1, 2, 3, 4, 5, 6];
        assert_eq!(site(code), None);
        let code = [0x48, 0xc7, 0xc0, 0, 0, 0, 0x80, 0x0f, 5, 1, 2, 3, 4, 5, 6];
        assert_eq!(site(code), None);
    }
}
