//! Programs of the tests' own.

use std::path::Path;
use std::process::Command;

/// Copies a program that is going to be executed. Not in this process: a child that another
/// test starts meanwhile would have it open for writing for a moment, and it could not be
/// executed (`ETXTBSY`).
pub(crate) fn install(from: &Path, to: &Path) {
    let mut install = Command::new("install");
    let status = install.args(["-m", "755"]).args([from, to]).status();
    assert!(status.unwrap().success(), "{}", to.display());
}
