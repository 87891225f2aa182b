//! The lines of source that read clocks.
//!
//! A recording knows the code that read a clock by its distance from the beginning of the
//! program's code. The program's debug information has the line.

use std::path::Path;

use addr2line::Loader;

/// The code of a program, and its lines of source.
pub(super) struct Sites {
    loader: Loader,
    /// The address in the file at which the code begins.
    start: u64,
}

impl std::fmt::Debug for Sites {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sites").finish_non_exhaustive()
    }
}

impl Sites {
    /// Those of the program in a file; `None` if it cannot be read, or is no ELF file of this
    /// machine's kind.
    pub(super) fn of(program: &Path) -> Option<Sites> {
        let start = start_of_code(&std::fs::read(program).ok()?)?;
        let loader = Loader::new(program).ok()?;
        Some(Sites { loader, start })
    }

    /// The file and line of a site; `None` if it is unknown, or in a library of the compiler's.
    pub(super) fn line(&self, site: u64) -> Option<String> {
        // A site is the address to which a call returns: the call is before it.
        let address = self.start.checked_add(site.checked_sub(1)?)?;
        let location = self.loader.find_location(address).ok()??;
        let (file, line) = (location.file?, location.line?);
        if file.starts_with("/rustc/") {
            return None;
        }
        let own = std::env::current_dir().ok();
        let file = Path::new(file);
        let short = own.and_then(|own| file.strip_prefix(own).ok());
        Some(format!("{}:{line}", short.unwrap_or(file).display()))
    }
}

/// The least address of a segment with code, of a 64-bit ELF file with the least byte first: see
/// elf(5).
fn start_of_code(elf: &[u8]) -> Option<u64> {
    const LOAD: u32 = 1;
    const EXECUTE: u32 = 1;
    let number = |at: usize, size: usize| -> Option<u64> {
        let bytes = elf.get(at..at.checked_add(size)?)?;
        let bytes = bytes.iter().rev();
        Some(bytes.fold(0, |number, byte| number << 8 | u64::from(*byte)))
    };
    if !elf.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (first, size) = (number(32, 8)?, number(54, 2)?);
    let headers = 0..number(56, 2)?;
    let header = |n: u64| {
        let at = usize::try_from(first.checked_add(n * size)?).ok()?;
        let is_code =
            number(at, 4)? == u64::from(LOAD) && number(at + 4, 4)? & u64::from(EXECUTE) != 0;
        is_code.then(|| number(at + 16, 8))?
    };
    headers.filter_map(header).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_call_is_found_in_the_program() {
        let program = std::env::current_exe().unwrap();
        let sites = Sites::of(&program).unwrap();
        // The code lies where the system has put it, at the same distance within a page.
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let own = |line: &&str| line.contains(" r-xp ") && line.contains(program.to_str().unwrap());
        let code = maps.lines().find(own).unwrap().split('-').next().unwrap();
        let code = u64::from_str_radix(code, 16).unwrap() + sites.start % 4096;
        let here = what_is_no_program_has_no_sites as fn() as usize as u64;
        let line = sites.line(here - code + 1).unwrap();
        assert!(line.contains("minimize/sites.rs:"), "{line}");
    }

    #[test]
    fn what_is_no_program_has_no_sites() {
        assert_eq!(start_of_code(b""), None);
        assert_eq!(start_of_code(b"\x7fELF\x02\x01"), None);
        let mut endless = b"\x7fELF\x02\x01".to_vec();
        endless.resize(64, 0xff);
        assert_eq!(start_of_code(&endless), None);
    }
}
