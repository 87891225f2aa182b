//! A whole file of records with arbitrary bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| reprise::trace::probe::blocks(bytes));
