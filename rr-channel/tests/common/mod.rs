//! Helpers for tests that run programs in processes of their own.

use std::process::Command;

/// This executable again, asked for the one test that runs the program of this name, and
/// not told to record or replay.
pub(crate) fn program(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    // One test and one test thread: the harness runs it on the main thread.
    command
        .args([
            "--exact",
            "programs::run",
            "--nocapture",
            "--test-threads=1",
        ])
        .env("RR_CHANNEL_TEST_PROGRAM", name)
        .env_remove("RR_CHANNEL")
        .env_remove("RR_CHANNEL_LOG")
        .env_remove("RR_CHANNEL_CHAOS")
        .env_remove("RR_CHANNEL_NEW_LOG");
    command
}
