//! Call sites of programs that make system calls by instructions of their own.
//!
//! Static programs do, and Go programs. Such a program has threads before it makes many
//! calls, and then no site can be patched where it stops. So the sites are looked for in
//! the program's file, once for each file, and patched before the program begins. Their
//! trampolines are a part of the file that tracees map. The program maps them with the code
//! (see `code::start`).
//!
//! **Why it is safe.** A site is patched at the start only if its bytes are certainly
//! instructions: they lie in a section of code, and are a number with its `syscall`, or, in
//! a Go program, a `syscall` whose result is tested for an error. Any other `syscall` may be
//! data. It is patched from the first time on that a task has stopped there. If
//! instructions after the `syscall` move, nothing in the text that could be a jump may lead
//! to them. The bytes of all sites are compared with the task's memory.

use std::cell::Cell;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use object::LittleEndian;
use object::elf::{
    EM_X86_64, ET_DYN, ET_EXEC, FileHeader64, PF_W, PF_X, PT_LOAD, PT_NOTE, ProgramHeader64,
    SHF_EXECINSTR, SHT_PROGBITS, SectionHeader64,
};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};

use super::jumps::jumped_into;
use super::layout::PAGE;
use super::site::{PATCH_LEN, SYSCALL, Site, TRAMPOLINE_LEN, number_before, tests_for_error};
use crate::event::Tid;
use crate::sys;

/// The distance in bytes from a program to its trampolines: near enough for a jump, and far
/// from where the kernel puts the next mappings.
pub(crate) const DISTANCE: u64 = 1 << 28;
/// The address for trampolines of programs that lie below that distance.
pub(crate) const LOWEST: u64 = 1 << 20;
/// The number of sites of a program at most.
const MAX_SITES: usize = 256;
/// The number of trampolines for sites that are found where they stop.
const SPARE: usize = 16;
/// Room for the headers of a file.
const HEADERS_LEN: usize = 4096;
/// The longest text in bytes that is searched.
const MAX_TEXT: u64 = 256 << 20;
/// The number of section headers at most.
const MAX_SECTIONS: u64 = 4096;
/// The note that Go's linker writes.
const GO_NOTE: &[u8] = b"Go";

/// A program's sites, by their addresses in its file.
#[derive(Debug)]
pub(crate) struct Program {
    sites: Vec<ProgramSite>,
    /// The ranges of its text.
    texts: Vec<Range<u64>>,
    /// Where the trampolines are mapped, relative to the program.
    trampolines: u64,
    /// Their length in whole pages, and their offset in the file that tracees map.
    len: u64,
    at: u64,
    /// Its entry point.
    entry: u64,
    /// A start failed.
    unusable: Cell<bool>,
}

#[derive(Debug)]
struct ProgramSite {
    site: Site,
    /// Whether its bytes are known to be instructions.
    is_certain: Cell<bool>,
}

impl Program {
    /// Finds the sites of a program. `append` appends bytes to the file that tracees map,
    /// and returns their offset. `None` if the sites are not patched this way.
    pub(super) fn find(
        file: &File,
        is_static: bool,
        append: impl FnOnce(&[u8]) -> Option<u64>,
    ) -> Option<Self> {
        let mut headers = vec![0; HEADERS_LEN];
        let read = file.read_at(&mut headers, 0).ok()?;
        headers.truncate(read);
        let header = FileHeader64::<LittleEndian>::parse(&headers[..]).ok()?;
        let little = header.endian().ok()?;
        let kind = header.e_type(little);
        if header.e_machine(little) != EM_X86_64 || ![ET_EXEC, ET_DYN].contains(&kind) {
            return None;
        }
        let segments = header.program_headers(little, &headers[..]).ok()?;
        let is_go = segments.iter().any(|segment| is_go_note(segment, &headers));
        if !is_static && !is_go {
            return None;
        }
        let loaded = segments
            .iter()
            .filter(|segment| segment.p_type(little) == PT_LOAD);
        let lowest = loaded
            .clone()
            .map(|segment| segment.p_vaddr(little))
            .min()?;
        let codes = code_sections(file, header);
        let (mut sites, mut texts) = (Vec::new(), Vec::new());
        for segment in loaded {
            let flags = segment.p_flags(little);
            let (from, len) = (segment.p_vaddr(little), segment.p_filesz(little));
            if flags & PF_X == 0 || flags & PF_W != 0 || len > MAX_TEXT {
                continue;
            }
            texts.push(from..from.checked_add(len)?);
            let mut text = vec![0; len as usize];
            file.read_exact_at(&mut text, segment.p_offset(little))
                .ok()?;
            sites.extend(find_sites(&text, from, &codes, is_go));
        }
        sites.truncate(MAX_SITES);
        let len = ((sites.len() + SPARE) as u64 * TRAMPOLINE_LEN).next_multiple_of(PAGE);
        let lowest = lowest & !(PAGE - 1);
        let trampolines = if kind == ET_DYN || lowest >= DISTANCE + LOWEST {
            lowest.wrapping_sub(DISTANCE)
        } else if lowest >= LOWEST + len {
            LOWEST
        } else {
            return None;
        };
        let mut code = vec![0; len as usize];
        for (index, found) in sites.iter().enumerate() {
            let offset = index as u64 * TRAMPOLINE_LEN;
            let one = found.site.trampoline(trampolines.wrapping_add(offset))?;
            code[offset as usize..][..one.len()].copy_from_slice(&one);
        }
        Some(Self {
            sites,
            texts,
            trampolines,
            len,
            at: append(&code)?,
            entry: header.e_entry(little),
            unusable: Cell::new(false),
        })
    }
}

/// A program in an address space.
#[derive(Debug, Clone)]
pub(crate) struct LoadedProgram {
    program: Rc<Program>,
    /// The difference between its addresses in memory and in its file.
    bias: u64,
}

impl LoadedProgram {
    /// A program whose entry point is at this address. `None` if its start failed before.
    pub(super) fn new(program: &Rc<Program>, entry: u64) -> Option<Self> {
        let bias = entry.wrapping_sub(program.entry);
        let usable = bias.is_multiple_of(PAGE) && !program.unusable.get();
        usable.then(|| Self {
            program: Rc::clone(program),
            bias,
        })
    }

    /// The range of its trampolines: address and length.
    pub(crate) fn trampolines(&self) -> (u64, u64) {
        let address = self.program.trampolines.wrapping_add(self.bias);
        (address, self.program.len)
    }

    /// The offset of its trampolines in the file that tracees map.
    pub(crate) fn offset(&self) -> u64 {
        self.program.at
    }

    /// The number of its sites. Their trampolines are the first ones.
    pub(crate) fn count(&self) -> usize {
        self.program.sites.len()
    }

    /// The site of a trampoline.
    pub(crate) fn site(&self, index: usize) -> Option<Site> {
        let found = self.program.sites.get(index)?;
        Some(found.site.moved_by(self.bias))
    }

    /// The sites with their trampolines.
    pub(crate) fn sites(&self) -> impl Iterator<Item = (Site, u64)> {
        let places = (0..).map(|index| self.trampolines().0 + index * TRAMPOLINE_LEN);
        let sites = self.program.sites.iter();
        sites
            .map(|found| found.site.moved_by(self.bias))
            .zip(places)
    }

    /// The site that a task has stopped at, if it is not patched yet, with its trampoline.
    /// From now on its bytes are known to be instructions.
    pub(crate) fn stopped_at(&self, call: u64) -> Option<(Site, u64)> {
        let (index, found) = self
            .sites()
            .enumerate()
            .find(|(_, (site, _))| site.call() == call)?;
        let was_certain = self.program.sites[index].is_certain.replace(true);
        // A site that keeps its call stops there although it is patched.
        let keeps_call = found.0.number().is_some();
        (!was_certain || !keeps_call).then_some(found)
    }

    /// Whether an address lies in its text, all sites of which are known.
    pub(crate) fn contains(&self, address: u64) -> bool {
        let address = address.wrapping_sub(self.bias);
        let mut texts = self.program.texts.iter();
        texts.any(|text| text.contains(&address))
    }

    /// Patches the sites in a task that has not begun to run the program. Returns whether
    /// its memory is as expected; otherwise nothing is patched.
    pub(crate) fn patch(&self, tid: Tid) -> bool {
        let certain = self
            .program
            .sites
            .iter()
            .map(|found| found.is_certain.get());
        let sites: Vec<(Site, u64)> = self
            .sites()
            .zip(certain)
            .filter_map(|(site, is_certain)| is_certain.then_some(site))
            .collect();
        let ranges: Vec<(u64, u64)> = sites
            .iter()
            .map(|(site, _)| (site.address, PATCH_LEN as u64))
            .collect();
        let mut found = vec![[0_u8; PATCH_LEN]; sites.len()];
        let all = found.as_flattened_mut();
        if sys::read_ranges(tid, &ranges, all) != all.len() {
            return false;
        }
        let as_expected = sites.iter().zip(&found);
        let mut as_expected = as_expected.map(|((site, _), found)| site.original() == *found);
        if !as_expected.all(|as_expected| as_expected) {
            return false;
        }
        let patches = sites
            .iter()
            .map(|(site, trampoline)| Some((site.address, site.patch(*trampoline)?)));
        let Some(patches) = patches.collect::<Option<Vec<_>>>() else {
            return false;
        };
        let writes = patches.iter().map(|(address, jump)| (*address, &jump[..]));
        if sys::write_protected(tid, writes).is_err() {
            // The task is gone, or its memory cannot be written.
            let originals = sites
                .iter()
                .map(|(site, _)| (site.address, site.original()));
            for (address, original) in originals {
                let _ = sys::write_memory(tid, address, &original);
            }
            return false;
        }
        true
    }

    /// The program is not started this way again.
    pub(crate) fn mark_unusable(&self) {
        self.program.unusable.set(true);
    }
}

/// The ranges of addresses of the sections that hold code, in ascending order.
fn code_sections(file: &File, header: &FileHeader64<LittleEndian>) -> Vec<Range<u64>> {
    let little = LittleEndian;
    let (at, count) = (header.e_shoff(little), u64::from(header.e_shnum(little)));
    let size = size_of::<SectionHeader64<LittleEndian>>() as u64;
    if u64::from(header.e_shentsize(little)) != size || count > MAX_SECTIONS {
        return Vec::new();
    }
    let mut bytes = vec![0; (count * size) as usize];
    if file.read_exact_at(&mut bytes, at).is_err() {
        return Vec::new();
    }
    let Ok((sections, _)) =
        object::pod::slice_from_bytes::<SectionHeader64<LittleEndian>>(&bytes, count as usize)
    else {
        return Vec::new();
    };
    let mut codes: Vec<_> = sections
        .iter()
        .filter(|section| section.sh_type(little) == SHT_PROGBITS)
        .filter(|section| section.sh_flags(little) & u64::from(SHF_EXECINSTR) != 0)
        .map(|section| {
            let from = section.sh_addr(little);
            from..from.saturating_add(section.sh_size(little))
        })
        .collect();
    codes.sort_unstable_by_key(|code| code.start);
    codes
}

fn is_go_note(segment: &ProgramHeader64<LittleEndian>, file: &[u8]) -> bool {
    let little = LittleEndian;
    if segment.p_type(little) != PT_NOTE {
        return false;
    }
    let Ok(Some(mut notes)) = segment.notes(little, file) else {
        return false;
    };
    while let Ok(Some(note)) = notes.next() {
        if note.name() == GO_NOTE {
            return true;
        }
    }
    false
}

/// The sites of a text at `address`. `codes` are the sections of code.
fn find_sites(text: &[u8], address: u64, codes: &[Range<u64>], is_go: bool) -> Vec<ProgramSite> {
    let mut found: Vec<ProgramSite> = Vec::new();
    let mut end = 0;
    for call in memchr::memmem::find_iter(text, &SYSCALL) {
        let is_code = codes
            .iter()
            .any(|code| code.contains(&(address + call as u64)));
        let numbered = Site::numbered(address, text, call);
        let is_certain = is_code
            && (numbered.is_some() || is_go && tests_for_error(&text[call + SYSCALL.len()..]));
        let site = match numbered {
            Some(site) => site,
            // The number of another call.
            None if number_before(text, call).is_some() => continue,
            None => match Site::followed(address, text, call) {
                Some(site) => site,
                None => continue,
            },
        };
        if site.address >= end {
            end = site.end();
            found.push(ProgramSite {
                site,
                is_certain: Cell::new(is_certain),
            });
        }
    }
    let entered = {
        let moved = found.iter().filter(|found| found.site.number().is_none());
        let moved = moved.map(|found| {
            let from = (found.site.address - address) as usize;
            from..(found.site.end() - address) as usize
        });
        jumped_into(text, &moved.collect::<Vec<_>>())
    };
    found.retain(|found| {
        let from = (found.site.address - address) as usize;
        found.site.number().is_some() || !entered.contains(&from)
    });
    found
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// The sites of a file with these bytes, as of a static program.
    fn sites(bytes: &[u8]) -> Option<Vec<Site>> {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(bytes).expect("room");
        let found = Program::find(&file, true, |_| Some(0))?;
        Some(found.sites.iter().map(|found| found.site).collect())
    }

    #[test]
    fn the_sites_of_a_library_are_found() {
        let bytes = std::fs::read("/lib64/ld-linux-x86-64.so.2").expect("the loader");
        let found = sites(&bytes).expect("it can be read");
        assert!(found.len() > 10, "{}", found.len());
    }

    proptest::proptest! {
        #[test]
        fn damaged_programs_are_read_or_refused(
            damage in proptest::collection::vec((0_usize..1024, proptest::num::u8::ANY), 1..16),
            sections in proptest::collection::vec((0_usize..2048, proptest::num::u8::ANY), 0..8),
            len in 0_usize..300_000,
        ) {
            if let Ok(mut file) = std::fs::read("/lib64/ld-linux-x86-64.so.2") {
                let end = file.len();
                for (back, byte) in sections {
                    // The headers of the sections are at the end.
                    file[end - 1 - back] = byte;
                }
                file.truncate(len.max(1024));
                for (at, byte) in damage {
                    file[at] = byte;
                }
                if let Some(found) = sites(&file) {
                    assert!(found.len() <= MAX_SITES);
                }
            }
        }
    }
}
