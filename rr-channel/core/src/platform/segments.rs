#![expect(unsafe_code, reason = "the C library passes structures by address")]
//! The parts of the program's file in memory.
//!
//! **Safety** rests on: dl_iterate_phdr(3) passes a structure that describes a loaded file, and
//! where its program headers are.

use std::ops::Range;

/// The addresses from the first to the last segment of the program that has these flags
/// (`PF_X`: code, `PF_W`: statics; see elf(5)). `None` if there is none, or it is not known.
#[cfg(target_os = "linux")]
pub fn of_program(flags: u32) -> Option<Range<usize>> {
    use std::ffi::c_void;

    struct Search {
        flags: u32,
        found: Option<Range<usize>>,
    }

    unsafe extern "C" fn first(
        info: *mut libc::dl_phdr_info,
        _: libc::size_t,
        search: *mut c_void,
    ) -> libc::c_int {
        // SAFETY: the C library passes a structure, and `of_program` its search.
        let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
        // SAFETY: the structure says where the headers are, and how many.
        let headers =
            unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        for header in headers {
            if header.p_type != libc::PT_LOAD || header.p_flags & search.flags == 0 {
                continue;
            }
            let start = (info.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
            let end = start.wrapping_add(header.p_memsz as usize);
            search.found = Some(match search.found.take() {
                Some(before) => before.start.min(start)..before.end.max(end),
                None => start..end,
            });
        }
        // The program comes first; no others are needed.
        1
    }
    let mut search = Search { flags, found: None };
    // SAFETY: the function takes what it is passed, and the search is there.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut search).cast()) };
    search.found
}

/// It is not known here.
#[cfg(not(target_os = "linux"))]
pub const fn of_program(_: u32) -> Option<Range<usize>> {
    None
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn statics_and_code_are_in_the_program() {
        static COUNT: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(1);
        let place = &raw const COUNT as usize;
        assert!(of_program(libc::PF_W).unwrap().contains(&place));
        let code = statics_and_code_are_in_the_program as fn() as usize;
        assert!(of_program(libc::PF_X).unwrap().contains(&code));
        let heap = Box::new(0_u8);
        let place = &raw const *heap as usize;
        assert!(!of_program(libc::PF_W).unwrap().contains(&place));
    }
}
