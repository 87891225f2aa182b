//! The anonymous pages that a process has written (`/proc/PID/pagemap`).
//!
//! Programs reserve gigabytes of memory and touch little of it. Reading the whole reservation
//! would create zero pages.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use ptrace_async::event::Tid;

use crate::platform::os::{self, PageRange};

const PAGE: u64 = 4096;

/// The pages of a process, as `/proc/PID/pagemap` tells them.
pub(crate) struct Pages(File);

impl Pages {
    /// # Errors
    /// When it is gone, or may not be looked at.
    pub(crate) fn of(process: Tid) -> io::Result<Self> {
        File::open(format!("/proc/{process}/pagemap")).map(Self)
    }

    /// The parts of a range that are there and of no file, in order. Of pages of zeros some may
    /// be among them.
    ///
    /// # Errors
    /// As read(2), and where there is more in the range than can be looked through.
    pub(crate) fn written(&self, range: Range<u64>) -> io::Result<Vec<Range<u64>>> {
        match self.scan(range.clone()) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::EINVAL)) => {
                self.read(range)
            }
            other => other,
        }
    }

    /// By PAGEMAP_SCAN (Linux 6.7; Documentation/admin-guide/mm/pagemap.rst).
    fn scan(&self, range: Range<u64>) -> io::Result<Vec<Range<u64>>> {
        let mut all = Vec::new();
        let mut start = range.start;
        let mut found = [PageRange::default(); 256];
        while start < range.end {
            let (count, end) = os::scan_pages(&self.0, start..range.end, &mut found)?;
            all.extend(found[..count].iter().map(|part| part.start..part.end));
            if end <= start {
                break;
            }
            start = end;
        }
        Ok(all)
    }

    /// By the words that the kernel has of each page, before that.
    fn read(&self, range: Range<u64>) -> io::Result<Vec<Range<u64>>> {
        /// So many words at a time, and at most: 16 GiB of memory.
        const WORDS: u64 = 1 << 14;
        const MOST: u64 = 1 << 22;
        /// Whether a page is in memory, or swapped, or of a file.
        const PRESENT: u64 = 1 << 63;
        const SWAPPED: u64 = 1 << 62;
        const FILE: u64 = 1 << 61;
        if (range.end - range.start) / PAGE > MOST {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut all: Vec<Range<u64>> = Vec::new();
        let mut bytes = vec![0; WORDS as usize * 8];
        let mut page = range.start / PAGE;
        let last = range.end / PAGE;
        while page < last {
            let count = WORDS.min(last - page);
            let bytes = &mut bytes[..count as usize * 8];
            self.0.read_exact_at(bytes, page * 8)?;
            for (at, word) in (page..).zip(bytes.as_chunks().0) {
                let word = u64::from_le_bytes(*word);
                if word & (PRESENT | SWAPPED) == 0 || word & FILE != 0 {
                    continue;
                }
                let start = at * PAGE;
                match all.last_mut() {
                    Some(before) if before.end == start => before.end += PAGE,
                    _ => all.push(start..start + PAGE),
                }
            }
            page += count;
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_were_written_are_found_and_no_others() {
        const PAGES: usize = 4096;
        // They would be written as a whole.
        rustix::thread::disable_transparent_huge_pages(true).unwrap();
        let mut memory = vec![0_u8; PAGES * PAGE as usize];
        // A part of it that begins with a page; more pieces than fit into one answer.
        let start = (memory.as_ptr() as u64).next_multiple_of(PAGE);
        let first = (start - memory.as_ptr() as u64) as usize;
        let count = PAGES - 1;
        for page in 0..count {
            let byte = &mut memory[first + page * PAGE as usize];
            match page % 5 {
                0 | 1 => *byte = 1,
                // The page of zeros.
                3 => assert_eq!(*std::hint::black_box(byte), 0),
                _ => {}
            }
        }
        let written: Vec<usize> = (0..count).filter(|page| page % 5 < 2).collect();
        let range = start..start + count as u64 * PAGE;
        let number = |address: u64| ((address - start) / PAGE) as usize;
        let flat = |parts: Vec<Range<u64>>| -> Vec<usize> {
            let pages = |part: Range<u64>| number(part.start)..number(part.end);
            parts.into_iter().flat_map(pages).collect()
        };
        let pages = Pages::of(std::process::id() as Tid).unwrap();
        let mut read = flat(pages.read(range.clone()).unwrap());
        read.retain(|page| page % 5 != 3);
        assert_eq!(read, written);
        match pages.scan(range.clone()) {
            Ok(scanned) => assert_eq!(flat(scanned), written),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOTTY)),
        }
        let mut asked = flat(pages.written(range).unwrap());
        asked.retain(|page| page % 5 != 3);
        assert_eq!(asked, written);
        drop(memory);
    }
}
