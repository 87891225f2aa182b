//! The records behind the compression: decoded, checked and shown.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| reprise::trace::probe::records(bytes));
