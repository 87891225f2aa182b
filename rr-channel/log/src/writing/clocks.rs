//! Appends what one thread reads from clocks to a file beside its log.

use std::io;
use std::path::Path;

use super::mapping::Mapping;
use crate::clock::{Clock, ClockRead};
use crate::format::{
    CHECKSUM_AT, CLOCKS_MAGIC, CLOCKS_VERSION, FLAGS_AT, HEADER_LEN, INCOMPLETE, SEALED, STATE_AT,
    checksum,
};
use crate::identity::ThreadId;
use crate::prediction::zigzag;

const FIRST_LEN: usize = 4096;
const MAX_GROWTH: usize = 1 << 20;
/// The longest body, in bytes: a thread that does nothing but read clocks would fill the disk.
const LONGEST_BODY: usize = 64 << 20;
/// The longest read: three LEB128 numbers.
const LONGEST: usize = 30;

/// The writing end of one thread's reads of clocks.
#[derive(Debug)]
pub struct ClockWriter {
    map: Mapping,
    /// Committed bytes of body.
    len: usize,
    position: u64,
    site: u64,
    last: [i64; Clock::COUNT],
}

impl ClockWriter {
    /// Creates the file, which must not exist, with no reads.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(path: &Path, thread: ThreadId) -> io::Result<Self> {
        let mut bytes = vec![0; FIRST_LEN];
        bytes[..7].copy_from_slice(&CLOCKS_MAGIC);
        bytes[7] = CLOCKS_VERSION;
        bytes[8..12].copy_from_slice(&thread.0.to_le_bytes());
        Ok(ClockWriter {
            map: Mapping::create(path, &bytes)?,
            len: 0,
            position: 0,
            site: 0,
            last: [0; Clock::COUNT],
        })
    }

    /// Writes a read, whose position is not before that of the last one.
    ///
    /// # Errors
    /// If the file cannot grow; it is marked incomplete, and nothing more may be written to it.
    #[inline]
    pub fn push(&mut self, read: &ClockRead) -> io::Result<()> {
        let number = read.clock.number();
        let gap = read.position.saturating_sub(self.position);
        let mut bytes = [0; LONGEST];
        let is_elsewhere = read.site != self.site;
        let token = gap << 5 | u64::from(is_elsewhere) << 4 | number as u64;
        let mut len = put(&mut bytes, 0, token);
        if is_elsewhere {
            len = put(&mut bytes, len, read.site);
        }
        let step = read.nanoseconds.wrapping_sub(self.last[number]);
        len = put(&mut bytes, len, zigzag(step));
        self.position = read.position;
        self.site = read.site;
        self.last[number] = read.nanoseconds;
        let at = HEADER_LEN + self.len;
        // All of the array, whose length the compiler knows; the next read overwrites its end.
        let end = at + LONGEST;
        if end > self.map.len() {
            self.grow(end)?;
        }
        self.map.write(at, &bytes);
        self.len += len;
        self.map.store(STATE_AT, (self.len as u64) << 24);
        Ok(())
    }

    #[cold]
    fn grow(&mut self, end: usize) -> io::Result<()> {
        let len = self.map.len() + self.map.len().min(MAX_GROWTH);
        let grown = if end > HEADER_LEN + LONGEST_BODY {
            Err(io::ErrorKind::FileTooLarge.into())
        } else {
            self.map.grow(len.max(end.next_multiple_of(FIRST_LEN)))
        };
        if grown.is_err() {
            self.map.write(FLAGS_AT, &INCOMPLETE.to_le_bytes());
        }
        grown
    }

    /// Closes the file of a thread that ended.
    ///
    /// # Errors
    /// If it cannot be cut to its length.
    pub fn seal(mut self) -> io::Result<()> {
        let sum = checksum(&self.map.read(HEADER_LEN, self.len));
        self.map.store(CHECKSUM_AT, sum);
        self.map.write(FLAGS_AT, &SEALED.to_le_bytes());
        match self.map.len() {
            ..=FIRST_LEN => Ok(()),
            _ => self.map.close(HEADER_LEN + self.len),
        }
    }
}

/// Writes `value` as LEB128 at `at`; the position after it.
#[inline]
fn put(bytes: &mut [u8; LONGEST], mut at: usize, mut value: u64) -> usize {
    while value >= 0x80 {
        bytes[at] = value as u8 | 0x80;
        value >>= 7;
        at += 1;
    }
    bytes[at] = value as u8;
    at + 1
}
