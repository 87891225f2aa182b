//! `servo-harness survey --isolation network`: runs at the same time have the same port.

use std::fs;
use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// The directory in which the runs meet.
const MEETING: &str = "MEETING_OF_RUNS";

/// Uses a port until the other run does, too.
fn use_port(own: &str, other: &str) {
    let Some(dir) = std::env::var_os(MEETING).map(PathBuf::from) else {
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:47114").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    drop(listener.accept().unwrap());
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    fs::write(dir.join(own), "").unwrap();
    while !dir.join(other).exists() {
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
#[ignore = "is run by the harness"]
fn one() {
    use_port("one", "other");
}

#[test]
#[ignore = "is run by the harness"]
fn other() {
    use_port("other", "one");
}

#[test]
fn runs_at_the_same_time_do_not_collide_at_a_port() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("names"), "one\nother").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_servo-harness"))
        .args(["survey", "-n1", "-j2", "--isolation", "network", "--state"])
        .arg(dir.path().join("state"))
        .arg("--tests")
        .arg(dir.path().join("names"))
        .arg("--")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "{}"])
        .env(MEETING, dir.path())
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    if said.contains("does not allow namespaces of the network") {
        eprintln!("skipped: {said}");
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{said}");
}
