//! The machine and the commit that numbers were made on.

use std::fs;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// Where and on what numbers were made.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) processors: usize,
    pub(crate) kernel: String,
    pub(crate) commit: String,
}

impl Machine {
    /// This machine and the checked-out commit.
    pub(crate) fn here() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let processor = cpuinfo
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
            .map_or_else(String::new, |(_, name)| name.to_owned());
        Self {
            processor,
            processors: std::thread::available_parallelism().map_or(0, usize::from),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .unwrap_or_default()
                .trim()
                .to_owned(),
            commit: output_of("git", &["describe", "--always", "--dirty"]),
        }
    }
}

/// The day, as `2026-01-31` (UTC).
pub(crate) fn today() -> String {
    output_of("date", &["-u", "+%F"])
}

/// The output of a program; empty if it cannot be started.
fn output_of(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    output.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}
