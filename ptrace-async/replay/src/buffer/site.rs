//! Places where a program makes a call, and what is put there.

use std::ops::Range;

use super::{BASE, performs};
use crate::code;

/// How much of a site is looked at: before the end of its call, and behind it.
pub(crate) const BEFORE: usize = 7;
pub(crate) const BEHIND: usize = 6;
/// The length of a trampoline, at most.
pub(crate) const TRAMPOLINE: u64 = 64;
/// How far a jump reaches, without asking for the last byte.
const REACH: u64 = 1 << 30;
const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// `cmp $-4096, %rax`: whether the call has failed.
const FAILED: [u8; BEHIND] = [0x48, 0x3d, 0x00, 0xf0, 0xff, 0xff];

/// A place where a program makes a call, that can be patched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Site {
    /// `mov $number, %eax; syscall`: the jump takes the place of the `mov`, and calls that
    /// stop are made by the `syscall` that is there.
    Numbered {
        /// Where the `mov` is.
        at: u64,
        number: u32,
    },
    /// `syscall; cmp $-4096, %rax`: the jump takes the place of both, and the trampoline has
    /// a copy of them.
    Compared {
        /// Where the `syscall` is.
        at: u64,
    },
}

impl Site {
    /// The site of a call that ends at `end`, with what stands around that; `number` says
    /// which call is being made there.
    pub(crate) fn of(code: &[u8; BEFORE + BEHIND], number: Option<u64>, end: u64) -> Option<Self> {
        if let Some(found) = numbered_call(&code[..BEFORE])
            && number.is_none_or(|number| number == u64::from(found))
        {
            return Some(Self::Numbered {
                at: end - BEFORE as u64,
                number: found,
            });
        }
        (code[BEFORE - 2..BEFORE] == SYSCALL && code[BEFORE..] == FAILED)
            .then(|| Self::Compared { at: end - 2 })
    }

    /// Where nobody may be, or jump to, when it is patched.
    pub(crate) fn inside(self) -> Range<u64> {
        match self {
            // In the middle of an instruction, where nobody does.
            Self::Numbered { at, .. } => at + 1..at + 1,
            Self::Compared { at } => at + 1..at + (SYSCALL.len() + FAILED.len()) as u64,
        }
    }

    /// Where its code is changed.
    pub(crate) fn at(self) -> u64 {
        match self {
            Self::Numbered { at, .. } | Self::Compared { at } => at,
        }
    }

    /// Whether its calls end there, before it is patched.
    pub(crate) fn ends_at(self, end: u64) -> bool {
        match self {
            Self::Numbered { at, .. } => at + BEFORE as u64 == end,
            Self::Compared { at } => at + SYSCALL.len() as u64 == end,
        }
    }

    /// Where a call ends that is being made at the site while it is patched.
    pub(crate) fn end(self, trampoline: u64) -> u64 {
        match self {
            Self::Numbered { at, .. } => at + BEFORE as u64,
            Self::Compared { .. } => trampoline + COPY + SYSCALL.len() as u64,
        }
    }

    /// What is written to the trampoline and to the site.
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
        if let Self::Compared { at } = self {
            code.resize(COPY as usize, 0xcc);
            code.extend_from_slice(&SYSCALL);
            code.extend_from_slice(&FAILED);
            let on = at + (SYSCALL.len() + FAILED.len()) as u64;
            let here = trampoline + code.len() as u64;
            code.extend_from_slice(&jump(here, on));
        }
        (code, jump(self.at(), trampoline))
    }
}

/// The number in `mov $number, %eax; syscall`, if that is what stands there.
fn numbered_call(code: &[u8]) -> Option<u32> {
    match *code {
        [0xb8, a, b, c, d, 0x0f, 0x05] => Some(u32::from_le_bytes([a, b, c, d])),
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
