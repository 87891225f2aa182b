//! A stored tree or outcome as a stranger might hand it to us.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = process_cache::store::check_entry(bytes);
});
