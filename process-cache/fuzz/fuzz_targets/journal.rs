//! The journal: frames among other bytes, and runs without their checksums.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| process_cache::journal::check_journal(bytes));
