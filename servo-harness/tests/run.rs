//! `servo-harness run`: one command, for tools that start tests by a runner or a wrapper.

use std::fs;
use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

const HARNESS: &str = env!("CARGO_BIN_EXE_servo-harness");

fn run(options: &[&str], script: &str) -> Command {
    let mut command = Command::new(HARNESS);
    command
        .arg("run")
        .args(options)
        .args(["--", "sh", "-c", script]);
    command
}

fn output(options: &[&str], script: &str) -> Output {
    run(options, script).output().unwrap()
}

fn isolations() -> Vec<&'static str> {
    let tried = output(&["--isolation", "namespace"], ":");
    match tried.status.success() {
        true => vec!["namespace", "group"],
        false => vec!["group"],
    }
}

#[test]
fn output_and_exit_status_are_the_commands() {
    for isolation in isolations() {
        let dir = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
        fs::write(dir.path().join("bytes"), &bytes).unwrap();
        let output = run(
            &["--isolation", isolation],
            "cat bytes; cat bytes >&2; exit 3",
        )
        .current_dir(dir.path())
        .output()
        .unwrap();
        assert_eq!(output.status.code(), Some(3));
        assert!(output.stdout == bytes, "standard output is changed");
        assert!(output.stderr == bytes, "standard error is changed");
    }
}

#[test]
fn an_end_by_a_signal_is_one_again() {
    for isolation in isolations() {
        let status = output(&["--isolation", isolation], "kill -ABRT $$").status;
        assert_eq!(status.signal(), Some(Signal::ABORT.as_raw()), "{isolation}");
    }
}

#[test]
fn leftover_processes_and_late_commands_are_killed() {
    for isolation in isolations() {
        let options = ["--isolation", isolation];
        // Who is left holds the pipe: it is at its end when nobody is.
        let left = output(&options, "setsid sleep 1000 & echo done");
        assert_eq!(left.stdout, b"done\n");
        let said = String::from_utf8_lossy(&left.stderr);
        assert!(
            said.contains("left 1 processes behind, which were killed"),
            "{said}"
        );
        let long = output(
            &[&options[..], &["--timeout", "0.2"]].concat(),
            "trap '' TERM; sleep 1000",
        );
        assert_eq!(long.status.code(), Some(124));
    }
}

#[test]
fn a_run_that_is_ended_leaves_nothing_and_no_directory() {
    for isolation in isolations() {
        for signal in [Signal::TERM, Signal::KILL] {
            let mut harness = run(&["--isolation", isolation], "echo $TMPDIR; exec sleep 1000")
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut pipe = harness.stdout.take().unwrap();
            let mut dir = String::new();
            // It has begun when it has said so.
            while !dir.ends_with('\n') {
                let mut byte = [0];
                pipe.read_exact(&mut byte).unwrap();
                dir.push(char::from(byte[0]));
            }
            kill_process(Pid::from_child(&harness), signal).unwrap();
            let status = harness.wait().unwrap();
            // The end of the pipe is that of all who could write.
            assert_eq!(pipe.read(&mut [0]).unwrap(), 0);
            let dir = Path::new(dir.trim_end());
            if signal == Signal::TERM {
                assert_eq!(status.code(), Some(128 + signal.as_raw()));
                assert!(!dir.exists());
            } else {
                fs::remove_dir_all(dir.parent().unwrap()).unwrap();
            }
        }
    }
}

#[test]
fn a_command_that_cannot_be_started_is_an_error() {
    let output = Command::new(HARNESS)
        .args(["run", "--", "/no/such/program"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(127));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("/no/such/program cannot be started"),
        "{said}"
    );
}
