//! Blocks of records: `head || packed`, the head being 32 bytes.
//!
//! | bytes | holds (little-endian) |
//! |---|---|
//! | 0 to 3 | `RPB1` |
//! | 4 to 7 | the length of what is packed |
//! | 8 to 11 | its length unpacked |
//! | 12 to 15 | the number of records |
//! | 16 to 23 | the number of blocks before it |
//! | 24 to 31 | XXH3 of the head's first 24 bytes and what is packed |
//!
//! Packed is one zstd frame of records in postcard, one after the other. A block without
//! records is the last one of a recording that was not cut short.

use std::cmp::Ordering;
use std::io::Read as _;

use xxhash_rust::xxh3::Xxh3;

/// The length of a block's head in bytes.
pub const HEAD: usize = 32;
/// Upper bound of a block's unpacked length, in bytes: the largest record is a read of 2 GiB
/// in one call.
pub const LARGEST: usize = u32::MAX as usize;
const MAGIC: &[u8; 4] = b"RPB1";
/// Fast enough to keep up with a program on the other processor.
const LEVEL: i32 = 1;

/// A block's head, as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The length of what follows it.
    pub packed: u32,
    /// The length of that unpacked.
    pub unpacked: u32,
    /// How many records.
    pub records: u32,
    /// Counts the blocks of a trace, from 0.
    pub number: u64,
    check: u64,
}

fn check(head: &[u8], packed: &[u8]) -> u64 {
    let mut hasher = Xxh3::new();
    hasher.update(head);
    hasher.update(packed);
    hasher.digest()
}

/// Makes a block.
///
/// # Errors
/// When zstd fails (it runs out of memory).
pub fn pack(number: u64, records: u32, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let packed = zstd::bulk::compress(bytes, LEVEL)?;
    Ok(wrap(number, records, bytes.len() as u32, &packed))
}

/// Puts a head before what is packed.
pub(super) fn wrap(number: u64, records: u32, unpacked: u32, packed: &[u8]) -> Vec<u8> {
    let mut block = Vec::with_capacity(HEAD + packed.len());
    block.extend_from_slice(MAGIC);
    block.extend_from_slice(&(packed.len() as u32).to_le_bytes());
    block.extend_from_slice(&unpacked.to_le_bytes());
    block.extend_from_slice(&records.to_le_bytes());
    block.extend_from_slice(&number.to_le_bytes());
    let sum = check(&block, packed);
    block.extend_from_slice(&sum.to_le_bytes());
    block.extend_from_slice(packed);
    block
}

impl Head {
    /// Reads a head; `None` when it is none.
    pub fn parse(bytes: &[u8; HEAD]) -> Option<Self> {
        let word = |at: usize| {
            let mut word = [0; 4];
            word.copy_from_slice(&bytes[at..at + 4]);
            u32::from_le_bytes(word)
        };
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        (bytes[..4] == *MAGIC).then(|| Self {
            packed: word(4),
            unpacked: word(8),
            records: word(12),
            number: long(16),
            check: long(24),
        })
    }

    /// Unpacks what belongs to it; the reason when it does not.
    ///
    /// # Errors
    /// A description of the damage.
    pub fn unpack(&self, head: &[u8; HEAD], packed: &[u8]) -> Result<Vec<u8>, String> {
        if check(&head[..24], packed) != self.check {
            return Err("its checksum does not match".to_owned());
        }
        let wanted = self.unpacked as usize;
        let decoder = zstd::Decoder::with_buffer(packed).map_err(|error| error.to_string())?;
        // Memory is allocated as data comes, not by the declared length.
        let mut bytes = Vec::new();
        decoder
            .take(wanted as u64 + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| error.to_string())?;
        match bytes.len().cmp(&wanted) {
            Ordering::Equal => Ok(bytes),
            Ordering::Less => Err("it is shorter than its header says".to_owned()),
            Ordering::Greater => Err("it is longer than its header says".to_owned()),
        }
    }
}
