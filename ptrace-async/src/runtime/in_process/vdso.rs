//! Counting the clock reads that a program makes through the vdso.
//!
//! A C library reads clocks by functions of the vdso (vdso(7)), which take some twenty
//! nanoseconds and make no system call. So that a tool sees them nevertheless, the symbols
//! of a fresh program's vdso are changed. They lead to stubs in the free end of the vdso's
//! last page. A stub counts the read in the log of its address space, and continues in the
//! real function. [`Mapped::take`](super::Mapped) reports each counted read as a call.
//!
//! The kernel gives each program a private copy of the vdso when it is written to, as for
//! a debugger's breakpoints. The functions themselves stay as they are. Symbols that no stub
//! serves (random bytes, the CPU) are removed, so that libraries make system calls instead.
//! So do the stubs where nothing is logged, and for clocks that the vdso may not serve.
//!
//! A count ends at [`MOST`], because tools distinguish a few reads from many. A stub then
//! costs a nanosecond or two.
//!
//! Where the kernel's clock source cannot be read by the vdso, its functions make system
//! calls, and each read would be reported twice. Then no stubs are used ([`Vdso::find`]
//! returns `None`).

use std::{fs, io};

use object::LittleEndian;
use object::elf::{FileHeader64, STT_FUNC, Sym64};
use object::read::elf::{FileHeader, SectionHeader, Sym};

use super::code;
use super::layout::{CLOCKS, Header, LOG, LOGS, PAGE};
use crate::event::Tid;
use crate::sys;

/// The number of reads of one clock that are counted between two requests for the log.
pub(crate) const MOST: u32 = 8;
/// The index of the counter of `gettimeofday` and `time`. The others have their clock's
/// number.
pub(crate) const TIME_OF_DAY: usize = CLOCKS - 1;
/// The clocks that every vdso serves without a system call.
const SERVED: u32 = 1 << libc::CLOCK_REALTIME
    | 1 << libc::CLOCK_MONOTONIC
    | 1 << libc::CLOCK_MONOTONIC_RAW
    | 1 << libc::CLOCK_REALTIME_COARSE
    | 1 << libc::CLOCK_MONOTONIC_COARSE
    | 1 << libc::CLOCK_BOOTTIME
    | 1 << libc::CLOCK_TAI;
/// The clock sources that a vdso can read.
const SOURCES: [&str; 3] = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page"];
/// A longer vdso is not known.
const MAX_LEN: u64 = 16 * PAGE;
/// Alignment of the stubs in bytes.
const ALIGNMENT: usize = 16;

/// The key of an entry that means nothing (`AT_IGNORE`).
const IGNORE: u64 = 1;

/// The entry of a fresh program's auxiliary vector that names its vdso.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VdsoEntry {
    /// The address of the entry's key.
    pub(crate) key_at: u64,
    /// Where the vdso is mapped.
    pub(crate) address: u64,
}

impl VdsoEntry {
    /// Removes the entry from the auxiliary vector of a stopped task.
    pub(crate) fn hide(self, tid: Tid) {
        // An error means that the tracee has ended.
        let _ = sys::poke(tid, self.key_at, IGNORE);
    }
}

/// Bytes to write into the vdso of a fresh program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Vdso {
    /// The symbols, and their offset.
    pub(crate) symbols: (u64, Vec<u8>),
    /// The stubs and the entry of fresh programs, and their offset.
    pub(crate) stubs: (u64, Vec<u8>),
    /// The offset of the entry (see [`code::entry`]).
    pub(crate) entry: u64,
}

impl Vdso {
    /// The changes of this machine's vdso; `None` if there is none, or an unknown one.
    pub(crate) fn find() -> Option<Self> {
        let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        let source = fs::read_to_string(source).ok()?;
        if !SOURCES.contains(&source.trim()) {
            return None;
        }
        Self::of(&image()?)
    }

    /// Changes the vdso at `address` of a task that has not begun to run its program.
    pub(crate) fn write(&self, tid: Tid, address: u64) -> io::Result<()> {
        let changes = [&self.symbols, &self.stubs].into_iter();
        let writes = changes.map(|(offset, bytes)| (address + offset, &bytes[..]));
        sys::write_protected(tid, writes)
    }

    /// The changes of this image.
    fn of(image: &[u8]) -> Option<Self> {
        let header = FileHeader64::<LittleEndian>::parse(image).ok()?;
        let little = header.endian().ok()?;
        let sections = header.sections(little, image).ok()?;
        let dynamic = sections
            .iter()
            .find(|section| section.sh_type(little) == object::elf::SHT_DYNSYM)?;
        let table = sections
            .symbols(little, image, object::elf::SHT_DYNSYM)
            .ok()?;
        let used = image.iter().rposition(|byte| *byte != 0)? + 1;
        let at = used.next_multiple_of(ALIGNMENT);
        let mut code = Vec::new();
        let mut symbols = Vec::new();
        let mut counts_clocks = false;
        for symbol in table.symbols() {
            let name = table.symbol_name(little, symbol).ok()?;
            let name = name.strip_prefix(b"__vdso_").unwrap_or(name);
            let value = symbol.st_value(little);
            let is_function = symbol.st_type() == STT_FUNC && symbol.st_shndx(little) != 0;
            let mut changed = *symbol;
            match name {
                _ if !is_function => {}
                // The resolution of a clock is known.
                b"clock_getres" => {}
                b"clock_gettime" | b"gettimeofday" | b"time" => {
                    let stub = at + code.len();
                    let real = usize::try_from(value).ok().filter(|real| *real < used)?;
                    code.extend(stub_of(name, stub, real));
                    code.resize(code.len().next_multiple_of(ALIGNMENT), 0xcc);
                    changed.st_value.set(little, stub as u64);
                    counts_clocks |= name == b"clock_gettime";
                }
                _ => {
                    changed.st_info = 0;
                    changed.st_shndx.set(little, 0);
                    changed.st_value.set(little, 0);
                }
            }
            symbols.extend_from_slice(object::pod::bytes_of(&changed));
        }
        let entry = (at + code.len()) as u64;
        code.extend(code::entry());
        let fits = at + code.len() <= image.len();
        let offset = dynamic.sh_offset(little);
        let whole = symbols.len() as u64 == dynamic.sh_size(little)
            && dynamic.sh_addr(little) == offset
            && size_of::<Sym64<LittleEndian>>() as u64 == dynamic.sh_entsize(little);
        (fits && whole && counts_clocks).then_some(Self {
            symbols: (offset, symbols),
            stubs: (at as u64, code),
            entry,
        })
    }
}

/// The vdso of this process. All 64-bit programs of a kernel have the same.
fn image() -> Option<Vec<u8>> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]"))?;
    let (from, to) = line.split(' ').next()?.split_once('-')?;
    let from = u64::from_str_radix(from, 16).ok()?;
    let len = u64::from_str_radix(to, 16).ok()?.checked_sub(from)?;
    if len > MAX_LEN {
        return None;
    }
    let mut image = vec![0; len as usize];
    let read = sys::read_memory(sys::own_tid(), from, &mut image);
    (read == image.len()).then_some(image)
}

/// The stub at offset `stub` of the function at offset `real`. It changes only `rax`, which
/// becomes its result, and the upper half of `rdi`.
fn stub_of(name: &[u8], stub: usize, real: usize) -> Vec<u8> {
    let clocks = std::mem::offset_of!(Header, clocks) as u32;
    let number = match name {
        b"clock_gettime" => libc::SYS_clock_gettime,
        b"gettimeofday" => libc::SYS_gettimeofday,
        _ => libc::SYS_time,
    } as u32;
    let mut code = Vec::new();
    // The displacements of the jumps to the system call.
    let mut slow = Vec::new();
    if name == b"clock_gettime" {
        // cmp $31, %edi; ja slow; mov $SERVED, %eax; bt %edi, %eax; jnc slow; mov %edi, %edi
        code.extend([0x83, 0xff, 31, 0x77, 0]);
        slow.push(code.len());
        code.push(0xb8);
        code.extend(SERVED.to_le_bytes());
        code.extend([0x0f, 0xa3, 0xf8, 0x73, 0]);
        slow.push(code.len());
        code.extend([0x89, 0xff]);
    }
    // movabs $LOG, %rax; mov (%rax), %rax; cmp $LOGS, %eax; je slow
    code.extend([0x48, 0xb8]);
    code.extend(LOG.to_le_bytes());
    code.extend([0x48, 0x8b, 0x00, 0x3d]);
    code.extend((LOGS as u32).to_le_bytes());
    code.extend([0x74, 0]);
    slow.push(code.len());
    if name == b"clock_gettime" {
        // lea clocks(%rax, %rdi, 4), %rax
        code.extend([0x48, 0x8d, 0x84, 0xb8]);
        code.extend(clocks.to_le_bytes());
    } else {
        // add $clocks, %rax
        code.extend([0x48, 0x05]);
        code.extend((clocks + 4 * TIME_OF_DAY as u32).to_le_bytes());
    }
    // cmpl $MOST, (%rax); jae +3; lock incl (%rax); jmp real
    code.extend([0x83, 0x38, MOST as u8, 0x73, 3, 0xf0, 0xff, 0x00, 0xe9]);
    let next = stub + code.len() + 4;
    code.extend((real as i64 - next as i64).to_le_bytes()[..4].iter());
    for after in slow {
        code[after - 1] = (code.len() - after) as u8;
    }
    // slow: mov $number, %eax; syscall; ret
    code.push(0xb8);
    code.extend(number.to_le_bytes());
    code.extend([0x0f, 0x05, 0xc3]);
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names and addresses of the functions that a library can find.
    fn functions(image: &[u8]) -> Vec<(String, u64)> {
        let header = FileHeader64::<LittleEndian>::parse(image).expect("an ELF image");
        let little = header.endian().expect("little-endian");
        let sections = header.sections(little, image).expect("sections");
        let table = sections
            .symbols(little, image, object::elf::SHT_DYNSYM)
            .expect("symbols");
        let defined = table
            .symbols()
            .iter()
            .filter(|symbol| symbol.st_type() == STT_FUNC && symbol.st_shndx(little) != 0);
        let named = defined.map(|symbol| {
            let name = table.symbol_name(little, symbol).expect("a name");
            let name = String::from_utf8_lossy(name).into_owned();
            (name, symbol.st_value(little))
        });
        named.collect()
    }

    #[test]
    fn only_functions_that_are_counted_or_harmless_are_left() {
        let Some(image) = image() else { return };
        let vdso = Vdso::of(&image).expect("this machine's vdso");
        let mut changed = image.clone();
        for (at, bytes) in [&vdso.symbols, &vdso.stubs] {
            let at = *at as usize;
            changed[at..at + bytes.len()].copy_from_slice(bytes);
        }
        let stubs = vdso.stubs.0..vdso.entry;
        let found = functions(&changed);
        assert!(found.len() >= 4);
        for (name, address) in &found {
            match name.trim_start_matches("__vdso_") {
                "clock_getres" => assert!(!stubs.contains(address)),
                "clock_gettime" | "gettimeofday" | "time" => assert!(stubs.contains(address)),
                other => panic!("{other} is left"),
            }
        }
        let used = vdso.stubs.0 as usize;
        let text =
            |image: &[u8]| image[vdso.symbols.0 as usize + vdso.symbols.1.len()..used].to_vec();
        assert_eq!(text(&image), text(&changed));
    }

    #[test]
    fn a_stub_ends_in_its_function() {
        for name in [&b"clock_gettime"[..], b"time"] {
            let code = stub_of(name, 0x1a20, 0xaf0);
            let jump = code.len() - 8 - 5;
            assert_eq!(code[jump], 0xe9);
            let distance = i32::from_le_bytes(code[jump + 1..jump + 5].try_into().expect("4"));
            assert_eq!(0x1a20 + jump as i64 + 5 + i64::from(distance), 0xaf0);
            assert_eq!(code[jump + 5], 0xb8);
            // The first byte that a short jump to the system call leads to.
            let je = code
                .windows(2)
                .position(|bytes| bytes[0] == 0x74)
                .expect("one");
            assert_eq!(je + 2 + usize::from(code[je + 1]), jump + 5);
        }
    }

    #[test]
    fn images_without_room_or_symbols_are_refused() {
        let Some(mut image) = image() else { return };
        assert_eq!(Vdso::of(&[]), None);
        assert_eq!(Vdso::of(&image[..64]), None);
        let last = image.len() - 1;
        image[last] = 1;
        assert_eq!(Vdso::of(&image), None);
    }
}
