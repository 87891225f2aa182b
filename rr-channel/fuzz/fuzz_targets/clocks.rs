//! A thread's reads of clocks.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rr_channel_log::ClockLog;

fuzz_target!(|bytes: &[u8]| {
    let Ok(log) = ClockLog::from_bytes(bytes) else {
        return;
    };
    // A read takes two bytes at least.
    assert!(log.reads().count() <= bytes.len());
});
