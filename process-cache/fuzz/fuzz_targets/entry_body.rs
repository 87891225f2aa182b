//! The body of a tree or outcome, without its checksum: decoded, walked, reduced, encoded again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| process_cache::store::check_entry_body(bytes));
