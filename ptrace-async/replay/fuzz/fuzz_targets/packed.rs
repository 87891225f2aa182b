//! The content of a block behind its checksum: unpacked, decoded, checked and shown.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| reprise::trace::probe::packed(bytes));
