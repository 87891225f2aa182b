//! Entry points for fuzz targets, which read arbitrary bytes.
//!
//! None of them may panic, or use more than a few times the memory that its input and the
//! declared lengths need.

use std::io::Cursor;
use std::path::Path;

use super::{Changing, Header, Packed, Reader, block, fsck, line};

/// The largest unpacked length that is accepted here, in bytes.
const LARGEST: u32 = 8 << 20;

/// Reads all that `bytes`, as a file of records, has.
pub fn blocks(bytes: &[u8]) {
    read(bytes.to_vec());
}

/// Reads `bytes` as what is packed in a block whose head is right: its first two bytes say
/// how many records there are, the next four how long that is.
pub fn packed(bytes: &[u8]) {
    let Some(((records, unpacked), packed)) = split(bytes) else {
        return;
    };
    read(block::wrap(0, records, unpacked, packed));
}

/// Reads `bytes` as records, packed as they should be: the first two say how many.
pub fn records(bytes: &[u8]) {
    let Some(((records, _), rest)) = split(bytes) else {
        return;
    };
    if let Ok(block) = block::pack(0, records, rest) {
        read(block);
    }
}

/// Reads `bytes` as the files beside the records.
pub fn notes(bytes: &[u8]) {
    let header: Result<Header, _> = serde_json::from_slice(bytes);
    if let Ok(header) = header {
        let _ = crate::platform::machine::Machine::here().objection(&header.machine);
    }
    let _ = Packed::parse(bytes);
    let _ = Changing::parse(bytes);
}

fn split(bytes: &[u8]) -> Option<((u32, u32), &[u8])> {
    let (head, rest) = bytes.split_at_checked(6)?;
    let records = u32::from(u16::from_le_bytes([head[0], head[1]]));
    let unpacked = u32::from_le_bytes([head[2], head[3], head[4], head[5]]);
    Some(((records, unpacked % LARGEST), rest))
}

fn read(bytes: Vec<u8>) {
    let path = Path::new("events");
    let records = Reader::of(Cursor::new(bytes.clone()), path);
    for record in records.map_while(Result::ok) {
        let _ = line::of(&record);
    }
    let (report, files) = fsck::records(Reader::of(Cursor::new(bytes), path));
    assert!(
        files.known.len() as u64 <= report.records,
        "each file has a record"
    );
}
