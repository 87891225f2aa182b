//! A file of records as a stranger might hand it to us.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| reprise::trace::probe::blocks(bytes));
