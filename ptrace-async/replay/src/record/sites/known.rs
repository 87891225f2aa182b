//! Syscall sites by file: a site that was worth patching in one process is patched in the next
//! one with the first call from the same piece of code.

use std::cell::RefCell;
use std::collections::BTreeMap;

use ptrace_async::memory::Memory;
use rustc_hash::FxHashMap;

use crate::buffer;
use crate::trace::event::FileNumber;

/// A larger piece of code is not looked through: loaders are smaller.
const LARGEST: u64 = 1 << 18;

/// A site is known when programs have come by so often, whichever processes that were.
const OFTEN: u32 = 2;
/// Visit count of a site that cannot be patched.
const NEVER: u32 = u32::MAX;

/// A file, and an offset there.
pub(in crate::record) type SiteOffset = (FileNumber, u64);

/// For each file, the offsets behind the calls of its sites, and how often programs have
/// come by.
#[derive(Debug, Default)]
pub(in crate::record) struct KnownSites(RefCell<FxHashMap<FileNumber, BTreeMap<u64, u32>>>);

impl KnownSites {
    /// Counts a visit of a site. When that makes it known, `is_good` says whether it can be
    /// patched at all.
    pub(in crate::record) fn visit(
        &self,
        (file, offset): SiteOffset,
        is_good: impl FnOnce() -> bool,
    ) {
        let mut known = self.0.borrow_mut();
        let visits = known.entry(file).or_default().entry(offset).or_default();
        *visits = visits.saturating_add(1);
        if *visits == OFTEN && !is_good() {
            *visits = NEVER;
        }
    }

    /// Whether a site is worth patching.
    pub(in crate::record) fn has(&self, (file, offset): SiteOffset) -> bool {
        let known = self.0.borrow();
        let visits = known.get(&file).and_then(|known| known.get(&offset));
        visits.is_some_and(|visits| (OFTEN..NEVER).contains(visits))
    }

    /// Adds sites of a file that are worth patching.
    pub(in crate::record) fn add(&self, file: FileNumber, sites: &[u64]) {
        if !sites.is_empty() {
            let mut known = self.0.borrow_mut();
            let known = known.entry(file).or_default();
            known.extend(sites.iter().map(|&offset| (offset, OFTEN)));
        }
    }

    /// The sites of a file that are worth patching.
    pub(in crate::record) fn of(&self, file: FileNumber) -> Vec<u64> {
        let known = self.0.borrow();
        let known = known.get(&file).into_iter().flatten();
        known
            .filter(|(_, visits)| (OFTEN..NEVER).contains(*visits))
            .map(|(&offset, _)| offset)
            .collect()
    }

    /// Looks through the code of a loader, whose calls every program makes.
    pub(in crate::record) fn look_through(&self, code: &MappedCode, memory: &dyn Memory) {
        let length = code.end - code.start;
        if length > LARGEST || self.0.borrow().contains_key(&code.file) {
            return;
        }
        let mut bytes = vec![0; length as usize];
        let got = memory.read(code.start, &mut bytes);
        let mut known = self.0.borrow_mut();
        let known = known.entry(code.file).or_default();
        let ends = buffer::sites(&bytes[..got], code.start);
        known.extend(
            ends.iter()
                .map(|end| (code.offset + (end - code.start), OFTEN)),
        );
    }

    /// The addresses behind the calls of known sites in this piece of code.
    fn within(&self, code: &MappedCode) -> Vec<u64> {
        let known = self.0.borrow();
        let offsets = code.offset..code.offset + (code.end - code.start);
        known
            .get(&code.file)
            .into_iter()
            .flat_map(|known| known.range(offsets.clone()))
            .filter(|(_, visits)| (OFTEN..NEVER).contains(*visits))
            .map(|(offset, _)| code.start + (offset - code.offset))
            .collect()
    }
}

/// Code of a file in the memory of a process.
#[derive(Debug, Clone, Copy)]
pub(in crate::record) struct MappedCode {
    pub(in crate::record) start: u64,
    pub(in crate::record) end: u64,
    /// Where it begins in its file.
    pub(in crate::record) offset: u64,
    pub(in crate::record) file: FileNumber,
}

/// The code of files in one address space.
#[derive(Debug, Default, Clone)]
pub(in crate::record) struct MappedCodes {
    /// Each, and whether its known sites have been asked for.
    all: RefCell<Vec<(MappedCode, bool)>>,
}

impl MappedCodes {
    pub(in crate::record) fn add(&self, code: MappedCode) {
        self.all.borrow_mut().push((code, false));
    }

    /// Removes the code in a range.
    pub(in crate::record) fn forget(&self, start: u64, end: u64) {
        let mut all = self.all.borrow_mut();
        all.retain(|(code, _)| code.end <= start || end <= code.start);
    }

    /// The known sites of the code that a call came from, at its first call. Code that was
    /// never executed may be data for an emulator, and stays unpatched.
    pub(in crate::record) fn new_sites(&self, known: &KnownSites, ip: u64) -> Vec<u64> {
        let mut all = self.all.borrow_mut();
        let code = all
            .iter_mut()
            .find(|(code, is_asked)| !is_asked && (code.start..code.end).contains(&ip));
        code.map_or_else(Vec::new, |(code, is_asked)| {
            *is_asked = true;
            known.within(code)
        })
    }

    /// The file and the offset of an address.
    pub(in crate::record) fn locate(&self, address: u64) -> Option<SiteOffset> {
        let all = self.all.borrow();
        let (code, _) = all
            .iter()
            .find(|(code, _)| (code.start..code.end).contains(&address))?;
        Some((code.file, code.offset + (address - code.start)))
    }
}
