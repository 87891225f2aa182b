//! Untrusted path sets and results of a remote cache, compressed or not: decoded, checked, encoded
//! again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| process_cache::remote::check::check_remote(bytes));
