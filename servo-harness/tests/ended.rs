//! `servo-harness tame` that is ended at any moment, or whose disk is full, and goes on.
//!
//! What it tames are the ignored tests at the end of this file. They take turns at passing
//! and failing, by a directory that is there or not: `order` lets it decide which message is
//! first, which a replay cures; `directory` looks at it.
//!
//! When it is ended is a matter of chance (a part of the time that it takes), and so is what
//! it was doing. What must hold afterwards is the same whatever that was.

mod common;

use std::fs::{self, File};
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use servo_harness::store::artefact::Artefact;

const HARNESS: &str = env!("CARGO_BIN_EXE_servo-harness");
/// The runs of each test, and its replays. They are more than the parts that any taming here
/// comes in, so that two follow each other, of which one fails.
const RUNS: usize = 6;
const TURNS: &str = "ENDED_TURNS";

/// A suite, what is known of it, and its recordings.
struct Site {
    dir: tempfile::TempDir,
}

impl Site {
    fn new() -> Site {
        let site = Site {
            dir: tempfile::tempdir().unwrap(),
        };
        fs::create_dir(site.path("turns")).unwrap();
        fs::write(site.path("names"), "order\ndirectory\nstable").unwrap();
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The options of taming; `place` holds what is known and the recordings.
    fn args(&self, place: &Path, isolation: &str) -> Vec<String> {
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        let own = std::env::current_exe().unwrap();
        let mut args: Vec<String> = vec!["tame".into(), "--json".into(), format!("-n{RUNS}")];
        let options = [
            "-j2",
            "--precision",
            "0",
            "--timeout",
            "600",
            "--engine",
            "rr-channel",
            "--isolation",
            isolation,
        ];
        args.extend(options.map(str::to_owned));
        args.extend(["--state".into(), text(place.join("state"))]);
        args.extend(["--recordings".into(), text(place.join("recordings"))]);
        args.extend(["--tests".into(), text(self.path("names"))]);
        let job = ["--", &text(own), "--exact", "--ignored", "{}"];
        args.extend(job.map(str::to_owned));
        args
    }

    fn tame(&self, isolation: &str) -> Command {
        let mut command = Command::new(HARNESS);
        command
            .args(self.args(self.dir.path(), isolation))
            .env(TURNS, self.path("turns"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Tames to the end; what it says, and how long it took.
    fn to_the_end(&self, isolation: &str) -> (Value, Duration) {
        let start = Instant::now();
        let output = self.tame(isolation).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        (
            serde_json::from_slice(&output.stdout).unwrap(),
            start.elapsed(),
        )
    }

    /// Processes that have to do with these tests: the variable says so.
    fn left(&self) -> Vec<String> {
        let own = format!("{TURNS}={}", self.path("turns").display());
        let entries = fs::read_dir("/proc").unwrap();
        let lines = entries.filter_map(|entry| {
            let dir = entry.ok()?.path();
            let environment = fs::read(dir.join("environ")).ok()?;
            let is_ours = environment
                .split(|byte| *byte == 0)
                .any(|variable| variable == own.as_bytes());
            let line = fs::read(dir.join("cmdline")).ok()?;
            is_ours.then(|| String::from_utf8_lossy(&line).replace('\0', " "))
        });
        lines.collect()
    }
}

/// The lines of a journal that are whole.
fn whole_lines(place: &Path) -> String {
    let text = fs::read_to_string(place.join("state/journal")).unwrap_or_default();
    let end = text.rfind('\n').map_or(0, |end| end + 1);
    text[..end].to_owned()
}

/// Each recording can be unpacked, and is the one that its description names.
fn recordings_are_whole(place: &Path) -> usize {
    let all = Artefact::all(&place.join("recordings")).unwrap();
    for (path, artefact) in &all {
        let into = tempfile::tempdir().unwrap();
        artefact.unpack(path, into.path()).unwrap();
        assert!(into.path().join("log/session").is_file(), "{path:?}");
    }
    all.len()
}

/// The expected results, however often it was ended.
fn is_as_ever(summary: &Value, place: &Path) {
    let row = |test: &str| {
        let tests = summary["tests"].as_array().unwrap();
        tests.iter().find(|row| row["test"] == test).unwrap()
    };
    for test in ["order", "directory", "stable"] {
        assert_eq!(row(test)["plain"]["runs"], RUNS, "{summary:#}");
    }
    let order = &row("order");
    assert_eq!(order["replay"]["expected"], RUNS, "{order:#}");
    assert_eq!(order["replay"]["runs"], RUNS, "{order:#}");
    assert_eq!(order["replay"]["unfaithful"], 0, "{order:#}");
    assert!(row("directory")["tamed"]["problem"].is_string());
    assert_eq!(recordings_are_whole(place), 1);
    let names = fs::read_dir(place.join("recordings")).unwrap();
    assert_eq!(names.count(), 2, "a description and a pack");
}

/// Numbers that look like chance, the same ones each time.
struct Dice(u64);

impl Dice {
    fn part(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn isolations() -> Vec<&'static str> {
    let site = Site::new();
    let tried = site.tame("namespace").output().unwrap();
    match tried.status.code() {
        Some(1) => vec!["namespace", "group"],
        _ => vec!["group"],
    }
}

/// Waits until the harness has ended or the time is up; whether it had ended.
fn ends_within(harness: &mut Child, time: Duration) -> Option<ExitStatus> {
    let start = Instant::now();
    loop {
        let ended = harness.try_wait().unwrap();
        if ended.is_some() || start.elapsed() >= time {
            return ended;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Ends it so often at some moment, and lets it come to its end from there.
fn ended_at_any_moment(signal: Signal, times: u32) {
    for isolation in isolations() {
        let mut dice = Dice(u64::from(times));
        let (_, whole) = Site::new().to_the_end(isolation);
        let mut ended = 0;
        while ended < times {
            let site = Site::new();
            // Some come far, and some are ended again and again.
            let ends = 1 + (dice.part() * 4.0) as u32;
            for _ in 0..ends {
                let before = whole_lines(site.dir.path());
                let mut harness = site.tame(isolation).spawn().unwrap();
                if ends_within(&mut harness, whole.mul_f64(dice.part())).is_some() {
                    continue;
                }
                kill_process(Pid::from_child(&harness), signal).unwrap();
                let output = harness.wait_with_output().unwrap();
                ended += 1;
                if signal == Signal::KILL {
                    while !site.left().is_empty() {
                        thread::sleep(Duration::from_millis(2));
                    }
                } else {
                    let said = String::from_utf8_lossy(&output.stderr);
                    // It may just have come to its end, or not have begun to wait for signals.
                    let status = output.status.code();
                    assert!(
                        status.is_none() || matches!(status, Some(1 | 130)),
                        "{status:?} {said}"
                    );
                    assert_eq!(site.left(), Vec::<String>::new(), "{said}");
                }
                let after = whole_lines(site.dir.path());
                assert!(after.starts_with(&before), "a finished result was lost");
                recordings_are_whole(site.dir.path());
            }
            let before = whole_lines(site.dir.path());
            let (summary, _) = site.to_the_end(isolation);
            is_as_ever(&summary, site.dir.path());
            assert!(whole_lines(site.dir.path()).starts_with(&before));
            assert_eq!(site.left(), Vec::<String>::new());
        }
    }
}

#[test]
fn whenever_it_is_killed_it_goes_on_and_nothing_is_lost_or_left() {
    ended_at_any_moment(Signal::KILL, 3);
}

#[test]
fn whenever_it_is_interrupted_it_goes_on_and_nothing_is_lost_or_left() {
    ended_at_any_moment(Signal::INT, 3);
}

/// Ends runs so early that their programs are just being started, by closing the sockets of the
/// processes around them, as the end of the harness does; how many of them left processes.
fn left_by_early_ends(isolation: &str, times: usize) -> usize {
    let mut left = 0;
    for number in 0..times {
        let site = Site::new();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut sandbox = Command::new(HARNESS)
            .args(["__sandbox", isolation, "0", "sleep", "60"])
            // With more arguments it takes longer until the program is started.
            .args(vec!["0"; number % 20 * 200])
            .env(TURNS, site.path("turns"))
            .stdin(OwnedFd::from(theirs))
            .spawn()
            .unwrap();
        drop(ours);
        sandbox.wait().unwrap();
        // It ends after all that it started, so this is no matter of time.
        left += usize::from(!site.left().is_empty());
    }
    left
}

#[test]
fn runs_that_are_ended_while_they_start_leave_nothing() {
    for isolation in isolations() {
        let left = left_by_early_ends(isolation, 100);
        assert_eq!(
            left, 0,
            "of 100 runs in a {isolation} so many left processes"
        );
    }
}

/// A cargo that says that it builds, and has somebody compile for long.
const CARGO: &str = r#"#!/bin/sh
if [ "$1" = -vV ]; then
    echo 'host: x86_64-unknown-linux-gnu'
    exit
fi
exec 9> "$PIPE"
echo building >&9
(sleep 600; true) &
wait
"#;

/// Whether everybody has closed a pipe who could write to it, soon.
fn is_closed(pipe: &mut File) -> bool {
    let mut fds = [PollFd::new(pipe, PollFlags::IN)];
    let limit = Timespec {
        tv_sec: 60,
        tv_nsec: 0,
    };
    let ready = poll(&mut fds, Some(&limit)).unwrap();
    ready == 1 && pipe.read(&mut [0]).unwrap() == 0
}

/// How the harness ends when it gets the signal while cargo builds for it; the processes
/// that do so have ended too.
fn ended_while_it_builds(signal: Signal) -> ExitStatus {
    let site = Site::new();
    let cargo = site.path("cargo");
    common::write_program(&cargo, CARGO);
    let pipe = site.path("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let mut harness = Command::new(HARNESS)
        .args(["survey", "--state"])
        .arg(site.path("state"))
        .args(["--", "cargo", "test"])
        .env("CARGO", &cargo)
        .env("PIPE", &pipe)
        .env(TURNS, site.path("turns"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Opened when it is opened for writing.
    let mut pipe = File::open(&pipe).unwrap();
    let mut said = [0; 9];
    pipe.read_exact(&mut said).unwrap();
    assert_eq!(&said, b"building\n");
    kill_process(Pid::from_child(&harness), signal).unwrap();
    let status = harness.wait().unwrap();
    let is_closed = is_closed(&mut pipe);
    assert!(is_closed, "still there: {:?}", site.left());
    status
}

#[test]
fn builds_end_with_the_harness() {
    let status = ended_while_it_builds(Signal::KILL);
    assert_eq!(status.signal(), Some(9));
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let status = ended_while_it_builds(signal);
        assert_eq!(status.code(), Some(code), "{status}");
    }
}

/// The same, for long.
#[test]
#[ignore = "it takes some minutes"]
fn often_killed_and_interrupted() {
    ended_at_any_moment(Signal::KILL, 150);
    ended_at_any_moment(Signal::INT, 150);
    for isolation in isolations() {
        let left = left_by_early_ends(isolation, 2000);
        assert_eq!(
            left, 0,
            "of 2000 runs in a {isolation} so many left processes"
        );
    }
}

/// Where no file may become larger than so many blocks of 512 bytes: as if the disk were full.
#[test]
fn where_files_cannot_grow_it_stops_and_goes_on_when_they_can() {
    let mut stopped = 0;
    for blocks in [1, 4, 9, 1000] {
        let site = Site::new();
        let output = Command::new("sh")
            .arg("-c")
            .arg(format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\""))
            .args(["sh", HARNESS])
            .args(site.args(site.dir.path(), "auto"))
            .env(TURNS, site.path("turns"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let status = output.status.code();
        assert!(
            matches!(status, Some(1 | 3)),
            "{blocks} blocks: {status:?} {said}"
        );
        if status == Some(3) {
            stopped += 1;
            assert!(said.contains("finished results are kept"), "{said}");
        }
        assert_eq!(site.left(), Vec::<String>::new());
        recordings_are_whole(site.dir.path());
        let before = whole_lines(site.dir.path());
        let (summary, _) = site.to_the_end("auto");
        is_as_ever(&summary, site.dir.path());
        assert!(whole_lines(site.dir.path()).starts_with(&before));
    }
    assert!((1..4).contains(&stopped), "{stopped} of 4 were stopped");
}

/// On a file system of its own, which is small first and large later.
#[test]
fn on_a_full_disk_it_stops_and_goes_on_when_there_is_room() {
    /// `$0` is where, `$1` the first size; the rest is the command.
    const SCRIPT: &str = r#"
        where=$0; size=$1; shift
        mkdir -p "$where/disk" "$where/first" "$where/second"
        mount -t tmpfs -o size="$size" none "$where/disk" 2> /dev/null || exit 77
        "$@" > "$where/first/json" 2> "$where/first/said"
        echo $? > "$where/first/status"
        cp -r "$where/disk/." "$where/first"
        # With what is mounted, so that no options are added that /proc/mounts shows: it may show
        # an owner who has no name in here.
        mount -t tmpfs -o remount,size=64m none "$where/disk" || exit 78
        "$@" > "$where/second/json" 2> "$where/second/said"
        echo $? > "$where/second/status"
        cp -r "$where/disk/." "$where/second"
    "#;
    let mut stopped = 0;
    let sizes = [24, 64, 10_000];
    for size in sizes {
        let site = Site::new();
        let disk = site.path("disk");
        let status = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", SCRIPT])
            .arg(site.dir.path())
            .arg(format!("{size}k"))
            .arg(HARNESS)
            .args(site.args(&disk, "auto"))
            .env(TURNS, site.path("turns"))
            .stderr(Stdio::null())
            .status();
        match status.map(|status| status.code()) {
            Ok(Some(0)) => {}
            // No program of that name, no namespaces, no file systems in them.
            Err(_) | Ok(Some(1 | 77)) => {
                eprintln!("skipped: no file system can be mounted here");
                return;
            }
            Ok(other) => panic!("{size} KiB: {other:?}"),
        }
        let read = |name: &str| fs::read_to_string(site.path(name)).unwrap();
        let said = read("first/said");
        match read("first/status").trim() {
            "1" => {}
            "3" => {
                stopped += 1;
                assert!(said.contains("finished results are kept"), "{said}");
            }
            status => panic!("{size} KiB: {status} {said}"),
        }
        recordings_are_whole(&site.path("first"));
        let (first, second) = (site.path("first"), site.path("second"));
        assert_eq!(read("second/status").trim(), "1", "{}", read("second/said"));
        let summary = serde_json::from_str(&read("second/json")).unwrap();
        is_as_ever(&summary, &second);
        assert!(whole_lines(&second).starts_with(&whole_lines(&first)));
        assert_eq!(site.left(), Vec::<String>::new());
    }
    assert!((1..3).contains(&stopped), "{stopped} of 3 were stopped");
}

/// The tests that are tamed here.
mod subject {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use rr_channel::crossbeam_channel::unbounded;

    /// Another answer each time. Who takes his turn at the same time is a run of another test.
    pub(super) fn turn(name: &str) -> bool {
        let path = std::path::Path::new(&std::env::var_os(super::TURNS).unwrap()).join(name);
        std::fs::create_dir(&path).is_ok() || {
            // Somebody else's turn may have been at the same time.
            let _ = std::fs::remove_dir(&path);
            false
        }
    }

    pub(super) fn order() {
        static SENT: AtomicBool = AtomicBool::new(false);
        let first = u32::from(!turn("order"));
        let (s, r) = unbounded();
        let senders = [0, 1].map(|who| {
            let s = s.clone();
            let send = move || {
                while who != first && !SENT.load(Ordering::SeqCst) {
                    thread::yield_now();
                }
                s.send(who).unwrap();
                SENT.store(true, Ordering::SeqCst);
            };
            rr_channel::thread::spawn(send)
        });
        let got: Vec<u32> = r.iter().take(2).collect();
        for sender in senders {
            sender.join().unwrap();
        }
        assert_eq!(got, [0, 1]);
    }

    pub(super) fn directory() {
        let (s, r) = unbounded();
        s.send(1).unwrap();
        r.recv().unwrap();
        assert!(turn("directory"));
    }
}

#[test]
#[ignore = "it is tamed by the others"]
fn order() {
    subject::order();
}

#[test]
#[ignore = "it is tamed by the others"]
fn directory() {
    subject::directory();
}

#[test]
#[ignore = "it is tamed by the others"]
fn stable() {}
