//! `/proc/PID/maps`: the mappings of a process (proc(5)).

use std::io;

use ptrace_async::event::Tid;
use ptrace_async::process::read_proc;

/// A mapping.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Area {
    /// The first address.
    pub start: u64,
    /// The first address behind it.
    pub end: u64,
    /// `PROT_*`.
    pub prot: u8,
    /// Whether writes are seen by others.
    pub shared: bool,
    /// Its offset in the file, in bytes.
    pub offset: u64,
    /// The file's inode; 0 without a file.
    pub inode: u64,
    /// The file, or a name in brackets, or nothing.
    pub name: Vec<u8>,
}

impl Area {
    /// Whether it is the kernel's, and the same in every process, or not memory.
    pub fn is_kernels(&self) -> bool {
        self.name.starts_with(b"[v")
    }
}

fn parse(line: &[u8]) -> Option<Area> {
    let mut rest = line;
    let mut field = || {
        let end = rest.iter().position(|&b| b == b' ').unwrap_or(rest.len());
        let (field, after) = rest.split_at(end);
        rest = after.get(1..).unwrap_or_default();
        field
    };
    let (range, rights, offset, _device, inode) = (field(), field(), field(), field(), field());
    let hex = |text: &[u8]| u64::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok();
    let dash = range.iter().position(|&b| b == b'-')?;
    let name = rest.trim_ascii_start().to_vec();
    let right = |at: usize, letter: u8, bit: i32| {
        if rights.get(at) == Some(&letter) {
            bit as u8
        } else {
            0
        }
    };
    Some(Area {
        start: hex(&range[..dash])?,
        end: hex(&range[dash + 1..])?,
        prot: right(0, b'r', libc::PROT_READ)
            | right(1, b'w', libc::PROT_WRITE)
            | right(2, b'x', libc::PROT_EXEC),
        shared: rights.get(3) == Some(&b's'),
        offset: hex(offset)?,
        inode: std::str::from_utf8(inode).ok()?.parse().ok()?,
        name,
    })
}

/// The mappings of a process, from the bottom.
///
/// # Errors
/// When it is gone, or `/proc` is not there.
pub(crate) fn read(pid: Tid) -> io::Result<Vec<Area>> {
    let text = read_proc(format!("/proc/{pid}/maps"))?;
    text.split(|&b| b == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| parse(line).ok_or_else(|| io::ErrorKind::InvalidData.into()))
        .collect()
}

/// A gap of so many bytes as near to `ip` as can be.
pub(crate) fn gap(areas: &[Area], ip: u64, length: u64) -> Option<u64> {
    let is_free = |page: u64| {
        !areas
            .iter()
            .any(|area| area.start < page + length && page < area.end)
    };
    let above = areas.iter().map(|area| area.end);
    let below = areas.iter().map(|area| area.start.saturating_sub(length));
    above
        .chain(below)
        .filter(|&page| (1 << 16..0x7fff_0000_0000).contains(&page) && is_free(page))
        .min_by_key(|page| page.abs_diff(ip))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_whole() {
        let area =
            parse(b"7f00-8f00 r-xs 00001000 fe:01 42         /a dir/file (deleted)").unwrap();
        assert_eq!(
            (area.start, area.end, area.offset),
            (0x7f00, 0x8f00, 0x1000)
        );
        assert_eq!(i32::from(area.prot), libc::PROT_READ | libc::PROT_EXEC);
        assert!(area.shared);
        assert_eq!(area.inode, 42);
        assert_eq!(area.name, b"/a dir/file (deleted)");
    }

    #[test]
    fn mappings_of_this_process_are_read() {
        let areas = read(std::process::id() as Tid).unwrap();
        assert!(areas.iter().any(|area| area.name == b"[stack]"));
    }
}
