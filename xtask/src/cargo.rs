//! Calling cargo.

use std::process::Command;

/// The cargo that started us, so that a chosen toolchain stays chosen.
pub(crate) fn command() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}
