//! A thread's log.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rr_channel_log::ThreadLog;

fuzz_target!(|bytes: &[u8]| {
    let Ok(log) = ThreadLog::from_bytes(bytes) else {
        return;
    };
    assert!(log.body_len() <= bytes.len());
    // A byte may stand for many events.
    for event in log.events().take(100_000) {
        if event.is_err() {
            break;
        }
    }
});
