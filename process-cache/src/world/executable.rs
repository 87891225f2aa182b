//! Formats of executables.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::model::path::FilePath;

/// The executable format of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Format {
    /// A 64-bit x86 ELF file, with its interpreter if it is dynamic.
    Elf(Option<FilePath>),
    /// A script with its interpreter.
    Script(FilePath),
    /// An ELF file for another machine or word size.
    Foreign,
    /// Anything else.
    Other,
}

/// Returns the executable format of a file.
pub fn format(path: &std::path::Path) -> std::io::Result<Format> {
    use std::io::Read;
    let mut head = Vec::with_capacity(4096);
    std::fs::File::open(path)?
        .take(4096)
        .read_to_end(&mut head)?;
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|&b| b == b'\n').next().unwrap_or_default();
        let line = line.trim_ascii();
        let end = line
            .iter()
            .position(u8::is_ascii_whitespace)
            .unwrap_or(line.len());
        if end == 0 {
            return Ok(Format::Other);
        }
        return Ok(Format::Script(FilePath::from(std::path::Path::new(
            OsStr::from_bytes(&line[..end]),
        ))));
    }
    if !head.starts_with(b"\x7fELF") || head.len() < 64 {
        return Ok(Format::Other);
    }
    // Class 64 bits, machine 62 (EM_X86_64).
    if head[4] != 2 || head[18..20] != [62, 0] {
        return Ok(Format::Foreign);
    }
    let word = |at: usize, length: usize| {
        let mut bytes = [0; 8];
        let found = head.get(at..at + length)?;
        bytes[..length].copy_from_slice(found);
        Some(u64::from_le_bytes(bytes) as usize)
    };
    let interpreter = || {
        let (table, size, count) = (word(32, 8)?, word(54, 2)?, word(56, 2)?);
        for index in 0..count {
            let at = table.checked_add(index.checked_mul(size)?)?;
            if word(at, 4)? == 3 {
                let (offset, length) = (word(at + 8, 8)?, word(at + 32, 8)?);
                let name = head.get(offset..offset.checked_add(length)?)?;
                let name = name.split(|&b| b == 0).next()?;
                return Some(FilePath::from(std::path::Path::new(OsStr::from_bytes(
                    name,
                ))));
            }
        }
        None
    };
    Ok(Format::Elf(interpreter()))
}
