//! An untrusted stored tree or outcome.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = process_cache::store::check_entry(bytes);
});
