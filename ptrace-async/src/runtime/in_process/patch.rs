//! Patching the texts of the loader and of the C library, so that their calls are performed
//! by the code in the tracee.
//!
//! A C library makes most calls as `mov $nr, %eax; syscall; cmp ...`, with a few more
//! instructions in `open`. In a copy the `mov` becomes a jump of the same five bytes to a
//! trampoline, in the free rest of the text's last page. The trampoline jumps to the code
//! (see `code`). The code returns behind the syscall instruction, or to it if it does not
//! handle the call. The instruction stays in place, and so does every other instruction
//! that code might jump to.
//!
//! In syscall(2), which makes any call, the last instruction before the syscall becomes the jump.
//!
//! The number of `read` is 0, and `xor %eax, %eax` has only two bytes. There the syscall
//! instruction and the comparison move to the trampoline, if nothing in the text that could
//! be a jump leads to them.
//!
//! A loader also executes `cpuid` some forty times per program. In a virtual machine each
//! is an exit to the hypervisor (2 to 70 µs), so that together they take longer than all
//! lookups. Most are written `mov $leaf, %eax; cpuid`. In the copy they become jumps, too,
//! to instructions that load the answers that the tracer got.

use object::LittleEndian;
use object::elf::{DT_SONAME, ET_DYN, FileHeader64, NT_GNU_BUILD_ID, PF_W, PF_X, PT_LOAD, PT_NOTE};
use object::read::elf::{FileHeader, ProgramHeader};

use rustc_hash::FxHashMap;

use super::code;
use super::jumps::jumped_into;
use super::layout::{BASE, PAGE};
use super::site::{BETWEEN, MOVE, SYSCALL, may_begin};
use crate::unstopped as calls;

/// The executable part of a patched file, and its identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PatchedText {
    /// Its offset in the file and its address in memory relative to the load address; whole
    /// pages.
    pub(crate) offset: u64,
    pub(crate) address: u64,
    pub(crate) len: u64,
    /// The entry point relative to the load address.
    pub(crate) entry: u64,
    /// The build id, and its address relative to the load address.
    pub(crate) build_id: Vec<u8>,
    pub(crate) build_id_at: u64,
    /// The number of patched sites.
    pub(crate) sites: usize,
}

/// `cmp $..., %eax` or `%rax`, in `ioctl` with `mov %eax, %edx` before.
const COMPARES: [&[u8]; 3] = [&[0x48, 0x3d], &[0x3d], &[0x89, 0xc2, 0x3d]];
/// `mov $95, %eax; syscall; ret`: umask(2) does not fail.
const UMASK: [u8; 8] = [0xb8, libc::SYS_umask as u8, 0, 0, 0, 0x0f, 0x05, 0xc3];

/// `mov 8(%rsp), %r9`: the sixth argument of a call that syscall(2) makes.
const SIXTH: [u8; 5] = [0x4c, 0x8b, 0x4c, 0x24, 0x08];

/// `xor %eax, %eax; syscall; cmp $imm32, %rax`, without the number.
const READS: [u8; 6] = [0x31, 0xc0, 0x0f, 0x05, 0x48, 0x3d];
/// How long that is.
const READS_LEN: usize = READS.len() + 4;

/// The greatest length in bytes of a site before its syscall instruction.
pub(crate) const BEFORE: usize = 13;

/// Whether the bytes before a syscall instruction look like a patched site.
pub(crate) fn may_be_patched(before: &[u8; BEFORE]) -> bool {
    let mut jumps = BETWEEN.iter().filter_map(|between| {
        let (_, jump) = before.strip_suffix(*between)?.split_last_chunk::<5>()?;
        Some(jump[0] == 0xe9)
    });
    jumps.any(|jumps| jumps)
}

/// The calls of a loader that concern libraries.
const LOADS: [i64; 4] = [
    libc::SYS_open,
    libc::SYS_openat,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
];

/// Patches a shared object. `None` if the file is none (programs have no `DT_SONAME`,
/// unlike libraries and loaders), or if its text leaves no room.
pub(super) fn patch(file: &mut [u8], is_loader: bool) -> Option<PatchedText> {
    let header = FileHeader64::<LittleEndian>::parse(&*file).ok()?;
    let little = header.endian().ok()?;
    if header.e_type(little) != ET_DYN {
        return None;
    }
    let entry = header.e_entry(little);
    let segments = header.program_headers(little, &*file).ok()?;
    let is_named = |segment: &object::elf::ProgramHeader64<LittleEndian>| {
        let entries = segment.dynamic(little, &*file).ok().flatten();
        let mut entries = entries.unwrap_or_default().iter();
        entries.any(|entry| entry.d_tag.get(little) == DT_SONAME)
    };
    if !segments.iter().any(is_named) {
        return None;
    }
    let load = |segment: &&_| ProgramHeader::p_type(*segment, little) == PT_LOAD;
    let mut texts = segments
        .iter()
        .filter(load)
        .filter(|segment| segment.p_flags(little) & PF_X != 0);
    let text = texts.next()?;
    if texts.next().is_some() || text.p_flags(little) & PF_W != 0 {
        return None;
    }
    let (offset, address, len) = (
        text.p_offset(little),
        text.p_vaddr(little),
        text.p_filesz(little),
    );
    let whole = len.checked_next_multiple_of(PAGE)?;
    let end = offset.checked_add(whole)?;
    let aligned = offset.is_multiple_of(PAGE) && address.is_multiple_of(PAGE);
    if !aligned || len != text.p_memsz(little) || end > file.len() as u64 {
        return None;
    }
    let alone = segments.iter().filter(load).all(|other| {
        let (from, len) = (other.p_offset(little), other.p_filesz(little));
        from == offset || from >= end || from.saturating_add(len) <= offset
    });
    let (build_id, build_id_at) = segments.iter().find_map(|segment| {
        if segment.p_type(little) != PT_NOTE {
            return None;
        }
        let mut notes = segment.notes(little, &*file).ok()??;
        while let Ok(Some(note)) = notes.next() {
            if note.name() == b"GNU" && note.n_type(little) == NT_GNU_BUILD_ID {
                let found = note.desc();
                let within = memchr::memmem::find(segment.data(little, &*file).ok()?, found)?;
                return Some((
                    found.to_vec(),
                    segment.p_vaddr(little).wrapping_add(within as u64),
                ));
            }
        }
        None
    })?;
    let used = (offset + len) as usize;
    if !alone || file[used..end as usize].iter().any(|byte| *byte != 0) {
        return None;
    }
    let sites = patch_text(
        &mut file[offset as usize..end as usize],
        len as usize,
        is_loader,
    );
    Some(PatchedText {
        offset,
        address,
        len: whole,
        entry,
        build_id,
        build_id_at,
        sites,
    })
}

/// Patches the sites in the first `len` bytes. The trampolines go behind them.
fn patch_text(text: &mut [u8], len: usize, is_loader: bool) -> usize {
    let mut found = Vec::new();
    for call in memchr::memmem::find_iter(&text[..len], &SYSCALL) {
        let (before, after) = (&text[..call], &text[call + SYSCALL.len()..len]);
        let is_umask = || before.ends_with(&UMASK[..5]) && after.starts_with(&UMASK[7..]);
        if !COMPARES.iter().any(|compare| after.starts_with(compare)) && !is_umask() {
            continue;
        }
        found.extend(BETWEEN.iter().find_map(|between| {
            let (_, mov) = before.strip_suffix(*between)?.split_last_chunk::<5>()?;
            if *mov == SIXTH && between.is_empty() {
                return Some((call, *between, SIXTH));
            }
            let [MOVE, number @ ..] = *mov else {
                return None;
            };
            let number = u32::from_le_bytes(number);
            calls::handles(u64::from(number)).then_some((call, *between, *mov))
        }));
    }
    // A loader reads only files that it has opened itself, and those reads pass the filter.
    let reads = if is_loader {
        Vec::new()
    } else {
        find_reads(&text[..len])
    };
    let cpuid_sites = if is_loader {
        find_cpuid_sites(&text[..len])
    } else {
        Vec::new()
    };
    let mut next = len.next_multiple_of(16);
    let mut gateways = Vec::new();
    for target in [BASE, code::loader()] {
        // movabs $target, %r11; jmp *%r11
        let mut gateway = vec![0x49, 0xbb];
        gateway.extend(target.to_le_bytes());
        gateway.extend([0x41, 0xff, 0xe3]);
        if !put(text, next, &gateway) {
            return 0;
        }
        gateways.push(next);
        next += gateway.len();
    }
    let mut count = 0;
    for (call, between, first) in found {
        let loads = |number: i64| first[0] == MOVE && first[1..] == (number as u32).to_le_bytes();
        let gateway = gateways[usize::from(is_loader && LOADS.into_iter().any(loads))];
        let mut trampoline = first.to_vec();
        trampoline.extend(between);
        // lea call(%rip), %rcx; jmp way
        trampoline.extend([0x48, 0x8d, 0x0d]);
        trampoline.extend(distance(next + trampoline.len() + 4, call));
        trampoline.push(0xe9);
        trampoline.extend(distance(next + trampoline.len() + 4, gateway));
        if !put(text, next, &trampoline) {
            break;
        }
        divert(text, call - between.len() - 5, next);
        next += trampoline.len();
        count += 1;
    }
    for from in reads {
        let mut trampoline = text[from..from + 2].to_vec();
        // lea call(%rip), %rcx; jmp way; the rest of the site; jmp back
        trampoline.extend([0x48, 0x8d, 0x0d, 5, 0, 0, 0, 0xe9]);
        trampoline.extend(distance(next + trampoline.len() + 4, gateways[0]));
        trampoline.extend(&text[from + 2..from + READS_LEN]);
        trampoline.push(0xe9);
        trampoline.extend(distance(next + trampoline.len() + 4, from + READS_LEN));
        if !put(text, next, &trampoline) {
            break;
        }
        divert(text, from, next);
        next += trampoline.len();
        count += 1;
    }
    for (from, to, answer) in cpuid_sites {
        // mov to %eax, %ebx, %ecx, %edx
        let mut trampoline = Vec::new();
        for (mov, register) in [MOVE, 0xbb, 0xb9, 0xba].into_iter().zip(answer) {
            trampoline.push(mov);
            trampoline.extend(register.to_le_bytes());
        }
        trampoline.push(0xe9);
        trampoline.extend(distance(next + trampoline.len() + 4, to));
        if !put(text, next, &trampoline) {
            break;
        }
        divert(text, from, next);
        next += trampoline.len();
    }
    count
}

/// The sites of `read` that are only reached from the instruction before them.
fn find_reads(text: &[u8]) -> Vec<usize> {
    let mut found: Vec<usize> = memchr::memmem::find_iter(text, &READS)
        .filter(|from| from + READS_LEN <= text.len() && calls::handles(0))
        .filter(|from| may_begin(&text[..*from]))
        .collect();
    let ranges: Vec<_> = found.iter().map(|from| *from..from + READS_LEN).collect();
    let entered = jumped_into(text, &ranges);
    found.retain(|from| !entered.contains(from));
    found
}

/// `cpuid`, and `xor %ecx, %ecx` before it.
const CPUID: [u8; 2] = [0x0f, 0xa2];
const NO_SUBLEAF: [u8; 2] = [0x31, 0xc9];

/// The sites of `cpuid`: begin, end, and the answer. Only leaves are listed whose answer
/// stays the same while the machine runs, or depends on the core, which may change at any
/// time anyway.
fn find_cpuid_sites(text: &[u8]) -> Vec<(usize, usize, [u32; 4])> {
    let mut answers: FxHashMap<u32, [u32; 4]> = FxHashMap::default();
    let mut found = Vec::new();
    for at in memchr::memmem::find_iter(text, &CPUID) {
        let before = &text[..at];
        let (before, has_subleaf) = match before.strip_suffix(&NO_SUBLEAF) {
            Some(before) => (before, true),
            None => (before, false),
        };
        let Some((start, [MOVE, leaf @ ..])) = before.split_last_chunk::<5>() else {
            continue;
        };
        if !may_begin(start) {
            continue;
        }
        let leaf = u32::from_le_bytes(*leaf);
        let known = match leaf {
            0 | 1 | 0x8000_0000..=0x8000_0008 => true,
            4 | 7 | 0xd => has_subleaf,
            _ => false,
        };
        if known {
            let answer = *answers.entry(leaf).or_insert_with(|| cpuid(leaf));
            found.push((start.len(), at + CPUID.len(), answer));
        }
    }
    found
}

/// The processor's answer for subleaf 0 of a leaf: eax, ebx, ecx, edx.
fn cpuid(leaf: u32) -> [u32; 4] {
    let found = std::arch::x86_64::__cpuid_count(leaf, 0);
    [found.eax, found.ebx, found.ecx, found.edx]
}

/// Makes the five bytes at `from` a jump.
fn divert(text: &mut [u8], from: usize, to: usize) {
    let [a, b, c, d] = distance(from + 5, to);
    text[from..from + 5].copy_from_slice(&[0xe9, a, b, c, d]);
}

fn put(text: &mut [u8], at: usize, bytes: &[u8]) -> bool {
    match text.get_mut(at..at + bytes.len()) {
        Some(room) => {
            room.copy_from_slice(bytes);
            true
        }
        None => false,
    }
}

/// The displacement from one offset of a text to another.
fn distance(from: usize, to: usize) -> [u8; 4] {
    // A text is far shorter than 2 GiB.
    (to as i64 - from as i64).to_le_bytes()[..4]
        .try_into()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPENS: [u8; 13] = [
        0xb8, 1, 1, 0, 0, 0x0f, 0x05, 0x48, 0x3d, 0, 0xf0, 0xff, 0xff,
    ];

    fn follow(text: &[u8], at: usize) -> usize {
        assert_eq!(text[at], 0xe9);
        let rel = i32::from_le_bytes(text[at + 1..at + 5].try_into().expect("4 bytes"));
        (at as i64 + 5 + i64::from(rel)) as usize
    }

    #[test]
    fn a_site_jumps_to_its_trampoline_and_keeps_its_call() {
        let mut text = vec![0x90; 100];
        text.extend(OPENS);
        let len = text.len();
        text.resize(512, 0);
        for (is_loader, target) in [(false, BASE), (true, code::loader())] {
            let mut text = text.clone();
            assert_eq!(patch_text(&mut text, len, is_loader), 1);
            let to = follow(&text, 100);
            assert_eq!(text[105..113], OPENS[5..]);
            assert_eq!(text[to..to + 5], OPENS[..5]);
            assert_eq!(text[to + 5..to + 8], [0x48, 0x8d, 0x0d]);
            let rel = i32::from_le_bytes(text[to + 8..to + 12].try_into().expect("4 bytes"));
            assert_eq!(to as i64 + 12 + i64::from(rel), 105);
            let gateway = follow(&text, to + 12);
            assert_eq!(text[gateway + 2..gateway + 10], target.to_le_bytes());
        }
    }

    #[test]
    fn the_general_call_of_libc_jumps_after_its_number_was_set() {
        // mov %r9, %r8; mov 8(%rsp), %r9; syscall; cmp
        let mut text = vec![0x4d, 0x89, 0xc8];
        text.extend(SIXTH);
        text.extend(&OPENS[5..]);
        let original = text.clone();
        text.resize(256, 0);
        assert_eq!(patch_text(&mut text, original.len(), true), 1);
        let to = follow(&text, 3);
        assert_eq!(text[..3], original[..3]);
        assert_eq!(text[8..original.len()], original[8..]);
        assert_eq!(text[to..to + 5], SIXTH);
        let gateway = follow(&text, to + 12);
        assert_eq!(text[gateway + 2..gateway + 10], BASE.to_le_bytes());
    }

    const READ: [u8; 11] = [
        0x31, 0xc0, 0x0f, 0x05, 0x48, 0x3d, 0, 0xf0, 0xff, 0xff, 0x77,
    ];

    #[test]
    fn a_read_moves_to_its_trampoline() {
        let mut text = vec![0x90; 100];
        text.extend(READ);
        let len = text.len();
        text.resize(512, 0);
        assert_eq!(patch_text(&mut text, len, false), 1);
        let to = follow(&text, 100);
        assert_eq!(text[to..to + 2], READ[..2]);
        assert_eq!(text[to + 2..to + 9], [0x48, 0x8d, 0x0d, 5, 0, 0, 0]);
        let gateway = follow(&text, to + 9);
        assert_eq!(text[gateway + 2..gateway + 10], BASE.to_le_bytes());
        assert_eq!(text[to + 14..to + 22], READ[2..10]);
        assert_eq!(follow(&text, to + 22), 110);
        let before = text[to + 1..to + 14].try_into().expect("13 bytes");
        assert!(may_be_patched(before));
    }

    #[test]
    fn a_read_that_something_may_jump_into_stays() {
        // jmp, call, jne and jne near, to the call, the comparison or its number.
        for (jump, at) in [
            (&[0xeb, 2][..], 98),
            (&[0xe8, 6, 0, 0, 0], 91),
            (&[0x0f, 0x85, 0x86, 0xff, 0xff, 0xff], 220),
            (&[0x75, 0x80], 230),
        ] {
            let mut text = vec![0x90; 300];
            text[100..111].copy_from_slice(&READ);
            text[at..at + jump.len()].copy_from_slice(jump);
            text.resize(512, 0);
            assert_eq!(patch_text(&mut text, 300, false), 0, "{jump:x?}");
        }
        // To its beginning anybody may.
        let mut text = vec![0x90; 300];
        text[100..111].copy_from_slice(&READ);
        text[98..100].copy_from_slice(&[0xeb, 0]);
        text.resize(512, 0);
        assert_eq!(patch_text(&mut text, 300, false), 1);
    }

    #[test]
    fn an_open_relative_to_the_working_directory_is_a_site() {
        let mut text = OPENS[..5].to_vec();
        text.extend(BETWEEN[1]);
        text.extend(&OPENS[5..]);
        let original = text.clone();
        text.resize(256, 0);
        assert_eq!(patch_text(&mut text, original.len(), false), 1);
        assert_eq!(text[5..original.len()], original[5..]);
        let to = follow(&text, 0);
        assert_eq!(text[to..to + 13], original[..13]);
        let rel = i32::from_le_bytes(text[to + 16..to + 20].try_into().expect("4 bytes"));
        assert_eq!(to as i64 + 20 + i64::from(rel), 13);
    }

    #[test]
    fn a_result_may_be_moved_before_it_is_compared() {
        // ioctl of glibc 2.36.
        let ioctl = [
            0xb8, 0x10, 0, 0, 0, 0x0f, 0x05, 0x89, 0xc2, 0x3d, 0, 0xf0, 0xff, 0xff,
        ];
        let mut text = ioctl.to_vec();
        text.resize(256, 0);
        assert_eq!(patch_text(&mut text, ioctl.len(), false), 1);
        let mut umask = UMASK.to_vec();
        umask.resize(256, 0);
        assert_eq!(patch_text(&mut umask, UMASK.len(), false), 1);
        assert_eq!(text[5..ioctl.len()], ioctl[5..]);
        let to = follow(&text, 0);
        assert_eq!(text[to..to + 5], ioctl[..5]);
    }

    #[test]
    fn other_code_is_not_patched() {
        let other_number = [
            0xb8, 0x3b, 0, 0, 0, 0x0f, 0x05, 0x48, 0x3d, 0, 0xf0, 0xff, 0xff,
        ];
        let no_compare = [
            0xb8, 1, 1, 0, 0, 0x0f, 0x05, 0xc3, 0x90, 0x90, 0x90, 0x90, 0x90,
        ];
        for site in [other_number, no_compare] {
            let mut text = site.to_vec();
            text.resize(256, 0);
            let mut patched = text.clone();
            assert_eq!(patch_text(&mut patched, 13, false), 0);
            assert_eq!(patched[..13], text[..13]);
        }
    }

    #[test]
    fn a_loader_gets_the_cpuid_answers_of_the_tracer() {
        let asks = |leaf: u32, subleaf: &[u8]| {
            let mut site = vec![MOVE];
            site.extend(leaf.to_le_bytes());
            site.extend(subleaf);
            site.extend(CPUID);
            site
        };
        for (site, is_known) in [
            (asks(0x8000_0006, &[]), true),
            (asks(1, &[]), true),
            (asks(0xd, &NO_SUBLEAF), true),
            // Which part of it is asked for is not known; nor is this one constant.
            (asks(0xd, &[]), false),
            (asks(0xd, &[0x89, 0xf1]), false),
            (asks(0xb, &NO_SUBLEAF), false),
        ] {
            let mut text = vec![0x90; 32];
            text.extend(&site);
            for before in [&[0x41][..], &[0xc7, 0x45], &[0xc7, 0x44, 0x24]] {
                // Another register, or a number that is stored.
                let mut text = text.clone();
                text[32 - before.len()..32].copy_from_slice(before);
                let len = text.len();
                text.resize(256, 0);
                let original = text.clone();
                patch_text(&mut text, len, true);
                assert_eq!(text[..len], original[..len]);
            }
            let len = text.len();
            text.resize(256, 0);
            let original = text.clone();
            patch_text(&mut text, len, false);
            assert_eq!(text[..len], original[..len], "in a library");
            patch_text(&mut text, len, true);
            if !is_known {
                assert_eq!(text[..len], original[..len]);
                continue;
            }
            assert_eq!(text[37..len], original[37..len]);
            let to = follow(&text, 32);
            let leaf = u32::from_le_bytes(site[1..5].try_into().expect("4 bytes"));
            let loaded = [0, 1, 2, 3].map(|register| {
                let at = to + 5 * register;
                u32::from_le_bytes(text[at + 1..at + 5].try_into().expect("4 bytes"))
            });
            let movs = [0, 5, 10, 15].map(|at| text[to + at]);
            assert_eq!(movs, [0xb8, 0xbb, 0xb9, 0xba]);
            // The number of the processor, which may be another one now.
            let stable = if leaf == 1 { 0x00ff_ffff } else { u32::MAX };
            let [eax, ebx, ecx, edx] = cpuid(leaf);
            assert_eq!(
                [loaded[0], loaded[1] & stable, loaded[2], loaded[3]],
                [eax, ebx & stable, ecx, edx],
            );
            assert_eq!(follow(&text, to + 20), len);
        }
    }

    #[test]
    fn without_room_nothing_is_patched() {
        let mut text = OPENS.to_vec();
        text.resize(40, 0);
        assert_eq!(patch_text(&mut text, 13, false), 0);
        assert_eq!(text[..13], OPENS);
    }

    #[track_caller]
    fn check(path: &str, is_loader: bool, sites: usize) {
        let Ok(original) = std::fs::read(path) else {
            return;
        };
        let mut file = original.clone();
        let text = patch(&mut file, is_loader).expect("it can be patched");
        assert!(text.sites >= sites, "{text:?}");
        assert!(!text.build_id.is_empty());
        let range = text.offset as usize..(text.offset + text.len) as usize;
        assert_ne!(original[range.clone()], file[range.clone()]);
        assert_eq!(original[..range.start], file[..range.start]);
        assert_eq!(original[range.end..], file[range.end..]);
    }

    #[test]
    fn loader_and_library_of_this_machine_are_patched() {
        check("/lib64/ld-linux-x86-64.so.2", true, 6);
        check("/lib/x86_64-linux-gnu/libc.so.6", false, 15);
    }

    #[test]
    fn invalid_files_are_refused() {
        for mut file in [Vec::new(), vec![0; 4096], b"\x7fELF\x02\x01\x01".to_vec()] {
            assert_eq!(patch(&mut file, false), None);
        }
    }

    proptest::proptest! {
        #[test]
        fn damaged_files_are_patched_or_refused(
            damage in proptest::collection::vec((0_usize..1024, proptest::num::u8::ANY), 1..16),
            len in 0_usize..300_000,
        ) {
            if let Ok(mut file) = std::fs::read("/lib64/ld-linux-x86-64.so.2") {
                file.truncate(len.max(1024));
                for (at, byte) in damage {
                    file[at] = byte;
                }
                let len = file.len() as u64;
                if let Some(text) = patch(&mut file, true) {
                    assert!(text.offset + text.len <= len);
                }
            }
        }
    }
}
