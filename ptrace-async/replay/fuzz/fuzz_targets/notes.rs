//! The files beside the records: the header, and the lists of packed and changing files.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| reprise::trace::probe::notes(bytes));
