//! Programs that tests write and then have executed.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a program. Not in this process: a child that another test starts meanwhile would
/// have it open for writing for a moment, and it could not be executed (`ETXTBSY`).
pub(crate) fn write_program(path: &Path, text: &str) {
    let mut install = Command::new("install")
        .args(["-m", "755", "/dev/stdin"])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = install.stdin.take().unwrap();
    input.write_all(text.as_bytes()).unwrap();
    drop(input);
    assert!(install.wait().unwrap().success(), "{}", path.display());
}
