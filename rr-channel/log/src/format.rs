//! The layout of a log file: see the documentation of the crate.

/// The version of the file format that this crate writes and reads.
pub const FORMAT_VERSION: u8 = 3;
/// The oldest version that it reads. Version 2 knew neither bytes nor jobs, and is
/// otherwise the same.
pub const OLDEST_VERSION: u8 = 2;

pub(crate) const MAGIC: [u8; 7] = *b"RRCHLOG";
pub(crate) const HEADER_LEN: usize = 64;
pub(crate) const STATE_AT: usize = 16;
pub(crate) const CHECKSUM_AT: usize = 24;
pub(crate) const FLAGS_AT: usize = 32;
pub(crate) const LASTED_AT: usize = 40;
pub(crate) const SEALED: u32 = 1;
pub(crate) const INCOMPLETE: u32 = 2;

/// The version of the files with reads of clocks.
pub const CLOCKS_VERSION: u8 = 1;
pub(crate) const CLOCKS_MAGIC: [u8; 7] = *b"RRCHCLK";

/// The longest run that the state word can hold.
pub(crate) const MAX_RUN: u64 = (1 << 24) - 1;
/// The longest body that the state word can hold.
pub(crate) const MAX_BODY: u64 = (1 << 40) - 1;

/// FNV-1a, 64 bits: guards against bit rot and truncation, not against malice.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
