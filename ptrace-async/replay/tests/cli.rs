//! The command, as a user meets it.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Output, Stdio};

#[path = "common/command.rs"]
mod command;
use command::reprise;

fn record(home: &Path, command: &[&str]) -> Output {
    let mut all = vec!["record", "--quiet", "--digests", "--"];
    all.extend_from_slice(command);
    reprise(home).args(all).output().unwrap()
}

fn replay(home: &Path) -> Output {
    reprise(home).args(["replay", "--quiet"]).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn check_same(recorded: &Output, replayed: &Output) {
    assert_eq!(text(&replayed.stderr), text(&recorded.stderr));
    assert_eq!(text(&replayed.stdout), text(&recorded.stdout));
    assert_eq!(replayed.status, recorded.status);
}

#[test]
fn a_replay_prints_and_ends_as_the_recording_did() {
    let home = tempfile::tempdir().unwrap();
    let script = "echo $$; od -An -N8 -tx1 /dev/urandom; (echo out | cat; echo err >&2); exit 3";
    let recorded = record(home.path(), &["sh", "-c", script]);
    assert_eq!(recorded.status.code(), Some(3), "{recorded:?}");
    check_same(&recorded, &replay(home.path()));
    check_same(&recorded, &replay(home.path()));
}

#[test]
fn a_signal_ends_recording_and_replay() {
    let home = tempfile::tempdir().unwrap();
    let recorded = record(home.path(), &["sh", "-c", "kill -TERM $$"]);
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(recorded.status.signal(), Some(libc::SIGTERM));
    check_same(&recorded, &replay(home.path()));
}

#[test]
fn a_replay_has_no_effect_outside() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("made");
    let script = format!("echo x >> {}", file.display());
    record(home.path(), &["sh", "-c", &script]);
    let replayed = replay(home.path());
    assert!(replayed.status.success(), "{replayed:?}");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "x\n");
}

#[test]
fn unstopped_calls_are_replayed() {
    let home = tempfile::tempdir().unwrap();
    let copy = [
        "dd",
        "if=/dev/urandom",
        "of=/dev/null",
        "bs=1",
        "count=5000",
    ];
    let recorded = record(home.path(), &copy);
    assert!(recorded.status.success(), "{recorded:?}");
    check_same(&recorded, &replay(home.path()));
    let stats = reprise(home.path())
        .args(["stats", "--json"])
        .output()
        .unwrap();
    let stats: serde_json::Value = serde_json::from_slice(&stats.stdout).unwrap();
    assert!(stats["without_stops"].as_u64() > Some(9000), "{stats}");
}

#[test]
fn hints_save_stops_and_damaged_hints_are_ignored() {
    let home = tempfile::tempdir().unwrap();
    let cache = home.path().join("cache");
    let script = "for i in 1 2 3; do ls -l /proc/self/fd | wc -l; done";
    let run = || {
        let recorded = reprise(home.path())
            .args(["record", "--quiet", "--digests", "--", "sh", "-c", script])
            .env("XDG_CACHE_HOME", &cache)
            .output()
            .unwrap();
        assert!(recorded.status.success(), "{recorded:?}");
        check_same(&recorded, &replay(home.path()));
        let stats = reprise(home.path()).args(["stats", "--json"]).output();
        let stats: serde_json::Value = serde_json::from_slice(&stats.unwrap().stdout).unwrap();
        stats["without_stops"].as_u64().unwrap()
    };
    let first = run();
    let second = run();
    assert!(second > first, "{first}, {second}");
    for entry in std::fs::read_dir(cache.join("reprise")).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 0x55;
        std::fs::write(&path, bytes).unwrap();
    }
    let damaged = run();
    assert!(damaged < second, "{damaged}, {second}");
}

#[test]
fn a_killed_recorder_leaves_its_written_records() {
    let home = tempfile::tempdir().unwrap();
    let script = "i=0; while :; do i=$((i+1)); echo $i; done";
    let mut recorder = reprise(home.path())
        .args(["record", "--quiet", "--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(recorder.stdout.take().unwrap()).lines();
    // The second block that comes after a line has that line in it.
    let events = home.path().join("sh-0/events");
    let mut sizes = Vec::new();
    let seen: Vec<String> = lines
        .map(Result::unwrap)
        .take_while(|_| {
            sizes.push(std::fs::metadata(&events).unwrap().len());
            sizes.dedup();
            sizes.len() < 3
        })
        .collect();
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    let replayed = replay(home.path());
    let message = text(&replayed.stderr);
    assert_eq!(replayed.status.code(), Some(123), "{message}");
    assert!(message.contains("the recording ends here"), "{message}");
    let output = text(&replayed.stdout);
    assert!(!output.is_empty(), "{message}");
    for (index, line) in output.lines().enumerate().take(seen.len()) {
        assert_eq!(line, (index + 1).to_string());
    }
}

#[test]
fn a_replay_that_cannot_print_reports_it() {
    let home = tempfile::tempdir().unwrap();
    assert!(record(home.path(), &["echo", "text"]).status.success());
    let full = std::fs::File::options().write(true).open("/dev/full");
    let replayed = reprise(home.path())
        .args(["replay", "--quiet"])
        .stdout(full.unwrap())
        .output()
        .unwrap();
    assert_eq!(replayed.status.code(), Some(125), "{replayed:?}");
    let message = text(&replayed.stderr);
    assert!(
        message.contains("cannot print the command's output"),
        "{message}"
    );
}

#[test]
fn missing_programs_and_traces_are_reported() {
    let home = tempfile::tempdir().unwrap();
    let output = record(home.path(), &["no-such-program-at-all"]);
    assert_eq!(output.status.code(), Some(127));
    assert!(text(&output.stderr).contains("not found"), "{output:?}");
    let output = replay(home.path());
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("no trace"), "{output:?}");
}

#[test]
fn a_damaged_trace_is_an_error() {
    let home = tempfile::tempdir().unwrap();
    record(home.path(), &["true"]);
    let events = home.path().join("true-0/events");
    let mut bytes = std::fs::read(&events).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&events, &bytes).unwrap();
    let output = replay(home.path());
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    assert!(text(&output.stderr).contains("damaged"), "{output:?}");
}

#[test]
fn a_trace_of_another_format_is_an_error() {
    let home = tempfile::tempdir().unwrap();
    record(home.path(), &["true"]);
    let header = home.path().join("true-0/trace.json");
    let json = std::fs::read_to_string(&header).unwrap();
    let format = format!("\"format\": {}", reprise::trace::FORMAT);
    assert!(json.contains(&format), "{json}");
    std::fs::write(&header, json.replace(&format, "\"format\": 99")).unwrap();
    let output = replay(home.path());
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    assert!(text(&output.stderr).contains("format 99"), "{output:?}");
}

#[test]
fn traces_are_listed_and_removed() {
    let home = tempfile::tempdir().unwrap();
    record(home.path(), &["true"]);
    let list = reprise(home.path()).arg("ls").output().unwrap();
    assert!(text(&list.stdout).contains("true-0"), "{list:?}");
    let removed = reprise(home.path())
        .args(["rm", "true-0"])
        .status()
        .unwrap();
    assert!(removed.success());
    let list = reprise(home.path()).arg("ls").output().unwrap();
    assert_eq!(text(&list.stdout), "");
}

#[test]
fn chaos_finds_orders_and_replays_them() {
    let home = tempfile::tempdir().unwrap();
    let script = "(echo first) & (echo second) & wait";
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..300 {
        let chaos = format!("--chaos={seed}");
        let recorded = reprise(home.path())
            .args(["record", "--quiet", &chaos, "--", "sh", "-c", script])
            .output()
            .unwrap();
        assert!(recorded.status.success(), "{recorded:?}");
        let order = text(&recorded.stdout);
        if seen.insert(order) {
            check_same(&recorded, &replay(home.path()));
        }
        if seen.len() == 2 {
            return;
        }
    }
    panic!("only {seen:?}");
}

/// A thread that sees each of the values which another one sets shortly one after the other has to
/// run whenever it is woken.
#[test]
#[ignore = "is recorded by another test"]
fn each_value_is_seen() {
    use std::sync::{Condvar, Mutex};

    let (value, changed) = (Mutex::new(0_u32), Condvar::new());
    let count = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let (mut last, mut count) = (0, 0);
            let mut now = value.lock().unwrap();
            while last < 3 {
                now = changed.wait_while(now, |now| *now == last).unwrap();
                last = *now;
                count += 1;
            }
            count
        });
        for next in 1..=3 {
            *value.lock().unwrap() = next;
            changed.notify_one();
        }
        watcher.join().unwrap()
    });
    println!("{count} values seen");
}

#[test]
fn in_chaos_a_thread_may_run_whenever_it_is_woken() {
    let home = tempfile::tempdir().unwrap();
    let own = std::env::current_exe().unwrap();
    for seed in 0..500 {
        let chaos = format!("--chaos={seed}");
        let recorded = reprise(home.path())
            .args(["record", "--quiet", &chaos, "--"])
            .arg(&own)
            .args(["--exact", "each_value_is_seen", "--ignored", "--nocapture"])
            .output()
            .unwrap();
        assert!(recorded.status.success(), "{recorded:?}");
        if text(&recorded.stdout).contains("3 values seen") {
            check_same(&recorded, &replay(home.path()));
            return;
        }
    }
    panic!("no run saw each value");
}
