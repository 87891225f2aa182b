//! The command, for tests that are not to know what others have recorded.

use std::path::Path;
use std::process::{Command, Stdio};

/// The command whose traces are kept in `home`. What recordings learn is kept nowhere.
pub(crate) fn reprise(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_reprise"));
    with(&mut command, home);
    command
}

/// Says so to a command that leads to it.
pub(crate) fn with<'a>(command: &'a mut Command, home: &Path) -> &'a mut Command {
    command
        .env("REPRISE_DIR", home)
        .env("XDG_CACHE_HOME", "/dev/null")
        .stdin(Stdio::null())
}
