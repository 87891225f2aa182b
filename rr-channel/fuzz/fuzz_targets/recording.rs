//! A recording as a whole: the files of its directory, each behind its length (2 bytes).
#![no_main]

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use rr_channel_log::Recording;
use tempfile::TempDir;

/// The files that a recording with one thread has.
const FILES: [&str; 4] = [
    "session",
    "thread-0.rrlog",
    "thread-0.places",
    "payloads",
];

static DIR: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    for name in FILES {
        let content = match rest.split_first_chunk::<2>() {
            Some((length, behind)) => {
                let length = usize::from(u16::from_le_bytes(*length)).min(behind.len());
                let (content, behind) = behind.split_at(length);
                rest = behind;
                content
            }
            None => &[],
        };
        fs::write(DIR.path().join(name), content).unwrap();
    }
    read(DIR.path());
});

fn read(dir: &Path) {
    let Ok(recording) = Recording::open(dir) else {
        return;
    };
    for thread in recording.threads() {
        if let Ok(log) = recording.log(thread) {
            let _ = log.events().take(10_000).take_while(Result::is_ok).count();
        }
        // As many steps as events, of which a byte may stand for many.
        let few = recording
            .log(thread)
            .is_ok_and(|log| log.events().nth(10_000).is_none());
        if few {
            let _ = recording.steps(thread);
        }
    }
    let _ = recording.payloads();
    let _ = recording.carried().count();
    for process in recording.processes() {
        let _ = recording.dir_of(*process);
    }
}
