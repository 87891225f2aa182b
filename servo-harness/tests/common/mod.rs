//! Programs that tests need: some that they write, and `reprise`.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

#[allow(dead_code, reason = "not every file of tests writes programs")]
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

#[allow(dead_code, reason = "not every file of tests records processes")]
/// Builds `reprise` beside the harness, if it is not there; whether it can record here.
pub(crate) fn can_record() -> bool {
    let harness = Path::new(env!("CARGO_BIN_EXE_servo-harness"));
    let program = harness.with_file_name("reprise");
    if !program.is_file() {
        let target = harness.ancestors().nth(2).unwrap();
        let built = Command::new(env!("CARGO"))
            .args(["build", "--package", "reprise", "--bin", "reprise"])
            .arg("--target-dir")
            .arg(target)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .unwrap();
        assert!(built.success());
    }
    assert!(program.is_file(), "{} is not there", program.display());
    let doctor = Command::new(program).arg("doctor").output().unwrap();
    if !doctor.status.success() {
        let said = String::from_utf8_lossy(&doctor.stdout);
        eprintln!("skipped: this machine allows no recordings:\n{said}");
    }
    doctor.status.success()
}
