//! Entries of the log of unstopped calls.

use std::ops::Range;

use super::calls::shapes_memory;

/// The length of an entry without data.
pub(super) const ENTRY: usize = 32;
/// The length of the arguments in an entry.
pub(super) const ARGUMENTS: i32 = 48;

/// An entry's kind: a call that was performed, with its number above; one that stopped.
pub(super) const PERFORMED: i32 = 1;
pub(super) const STOPPED: i32 = 2;
/// Only in a replay: another call is made in its place.
pub(super) const MADE: i32 = 3;

/// An entry of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The call's number; nothing where it stopped.
    pub number: Option<u64>,
    /// Its result.
    pub result: i64,
    /// The memory that it wrote.
    pub data: &'a [u8],
    /// Its arguments, if a replay has to make it again.
    pub args: Option<[u64; 6]>,
    /// Where it is in its log.
    pub range: Range<usize>,
}

/// The entries of a log, as far as they make sense.
pub fn entries(log: &[u8]) -> impl Iterator<Item = Entry<'_>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let log = log.get(start..)?;
        let head = log.get(..ENTRY)?;
        let word = |at: usize| {
            let mut word = [0; 4];
            word.copy_from_slice(&head[at..at + 4]);
            u32::from_le_bytes(word)
        };
        let length = word(0) as usize;
        if length < ENTRY || length > log.len() {
            return None;
        }
        let data = log.get(ENTRY..ENTRY + word(16) as usize)?;
        let kind = word(4);
        let number = (kind != STOPPED as u32).then_some(u64::from(kind >> 8));
        let mut args = None;
        if number.is_some_and(shapes_memory) {
            let words = log.get(ENTRY..ENTRY + ARGUMENTS as usize)?.as_chunks().0;
            args = Some(std::array::from_fn(|at| u64::from_le_bytes(words[at])));
        }
        let range = start..start + length;
        start = range.end;
        Some(Entry {
            number,
            result: (u64::from(word(8)) | u64::from(word(12)) << 32).cast_signed(),
            data,
            args,
            range,
        })
    })
}

/// An entry of a replay, made from one of a recording: in place of its call another one is
/// made, of this number and with these arguments, that is to have this result.
pub(crate) fn made(entry: &[u8], number: i64, args: [u64; 6], result: u64) -> Vec<u8> {
    let mut made = entry.get(..ENTRY).unwrap_or_default().to_vec();
    for word in args.into_iter().chain([number.cast_unsigned(), result]) {
        made.extend_from_slice(&word.to_le_bytes());
    }
    let length = made.len() as u32;
    made[..4].copy_from_slice(&length.to_le_bytes());
    // In front of the number.
    made[4] = MADE as u8;
    made
}

/// An entry that has a replayed task stop.
pub(crate) fn stopped() -> [u8; ENTRY] {
    let mut entry = [0; ENTRY];
    entry[..4].copy_from_slice(&(ENTRY as u32).to_le_bytes());
    entry[4..8].copy_from_slice(&(STOPPED as u32).to_le_bytes());
    entry
}
