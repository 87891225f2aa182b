//! `rr-channel` on recordings, good and bad.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rr_channel::crossbeam_channel::{bounded, select_biased, unbounded};
use rr_channel::sync::Mutex;
use rr_channel::thread;
use rr_channel_tools::log_tool::dump_by_name;

/// The program that is recorded: the same in every run, but for the choice that `CHOICE` makes.
#[test]
fn program() {
    if std::env::var_os("RR_CHANNEL_TEST_PROGRAM").is_none() {
        return;
    }
    let (s, r) = unbounded();
    let (answer, answers) = bounded(1);
    let lock = std::sync::Arc::new(Mutex::new(0));
    let child = thread::spawn({
        let lock = std::sync::Arc::clone(&lock);
        move || {
            for n in r.iter() {
                *lock.lock().unwrap() += n;
            }
            answer.send(*lock.lock().unwrap()).unwrap();
        }
    });
    for n in 0..5 {
        s.send(n).unwrap();
    }
    drop(s);
    child.join().unwrap();
    assert_eq!(*lock.lock().unwrap(), 10);
    assert!(answers.len() == 1);
    if std::env::var_os("CHOICE").is_some() {
        assert!(!answers.is_empty());
    }
    select_biased! {
        recv(answers) -> answer => assert_eq!(answer, Ok(10)),
        default => unreachable!(),
    }
    assert!(answers.try_recv().is_err());
}

/// Two threads that come to use channels in the order that `CHOICE` says, with a hash table
/// each; their messages are received in the same order anyway.
#[test]
fn program_of_two() {
    if std::env::var_os("RR_CHANNEL_TEST_PROGRAM").is_none() {
        return;
    }
    let (s, r): (Vec<_>, Vec<_>) = [(); 2].map(|()| unbounded()).into_iter().unzip();
    let (comes, came) = std::sync::mpsc::channel();
    let goers = s.into_iter().enumerate().map(|(number, s)| {
        let (go, gone) = std::sync::mpsc::channel();
        let comes = comes.clone();
        let thread = std::thread::spawn(move || {
            gone.recv().unwrap();
            s.send(HashMap::from([(number, ())]).len()).unwrap();
            comes.send(()).unwrap();
        });
        (go, thread)
    });
    let mut goers: Vec<_> = goers.collect();
    if std::env::var_os("CHOICE").is_some() {
        goers.reverse();
    }
    for (go, thread) in goers {
        go.send(()).unwrap();
        came.recv().unwrap();
        thread.join().unwrap();
    }
    for r in r {
        r.recv().unwrap();
    }
}

fn record(dir: &Path, choice: bool) {
    record_of("program", dir, choice);
}

fn record_of(program: &str, dir: &Path, choice: bool) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", program, "--test-threads=1"])
        .env("RR_CHANNEL_TEST_PROGRAM", "1")
        .env("RR_CHANNEL", "record")
        .env("RR_CHANNEL_LOG", dir)
        .env_remove("RR_CHANNEL_PROCESS");
    if choice {
        command.env("CHOICE", "1");
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

fn tool(args: &[&str], paths: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rr-channel"))
        .args(args)
        .args(paths)
        .output()
        .unwrap()
}

#[track_caller]
fn shown(args: &[&str], paths: &[&Path], code: i32) -> String {
    let output = tool(args, paths);
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

struct Recorded {
    dir: tempfile::TempDir,
}

impl Recorded {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        record(&dir.path().join("first"), false);
        Recorded { dir }
    }

    fn first(&self) -> PathBuf {
        self.dir.path().join("first")
    }

    /// A copy of the recording.
    fn copy(&self, name: &str) -> PathBuf {
        let to = self.dir.path().join(name);
        fs::create_dir(&to).unwrap();
        for entry in fs::read_dir(self.first()).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
        to
    }
}

#[test]
fn a_dump_shows_every_event() {
    let recorded = Recorded::new();
    let text = shown(&["dump"], &[&recorded.first()], 0);
    insta::assert_snapshot!(text, @r"
    t0  program
             0  lock on t0.l1: after 6 others
             1  len on t0.c2: 1
             2  try_select: arm 0
             3  selected recv on t0.c2: message 0 of t1
             4  try_recv on t0.c2: disconnected
             5  the thread ended

    t1  program/1
             0  recv on t0.c1: message 0 of t0
             1  lock: first
             2  recv on t0.c1: message 1 of t0
             3  lock: again
             4  recv on t0.c1: message 2 of t0
             5  lock: again
             6  recv on t0.c1: message 3 of t0
             7  lock: again
             8  recv on t0.c1: message 4 of t0
             9  lock: again
            10  recv on t0.c1: disconnected
            11  lock: again
            12  send on t0.c2: sent as 0
            13  the thread ended
    ");
    let json = shown(&["dump", "--json"], &[&recorded.first()], 0);
    let lines: Vec<serde_json::Value> = json
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let events = lines.iter().filter(|line| line.get("op").is_some());
    let ends = lines.iter().filter_map(|line| line["events"].as_u64());
    assert_eq!(events.count() as u64, ends.sum::<u64>());
}

#[test]
fn stats_count_events() {
    let recorded = Recorded::new();
    let text = shown(&["stats"], &[&recorded.first()], 0);
    insta::assert_snapshot!(text, @r"
    program  log_tool
    threads  2
    events   18
    bytes    61 (3.389 per event)

      events  operation
           1  len: value
           5  lock: again
           1  lock: first
           1  lock: turn
           1  recv: disconnected
           5  recv: message
           1  selected recv: message
           1  send: sent
           1  try_recv: disconnected
           1  try_select: arm

      events  channel (c) or lock (l)
           6  t0.c1
           4  t0.c2
           1  t0.l1

      events     bytes  end         thread
          13        32  ended       t1 program/1
           5        29  ended       t0 program
    ");
    let json = shown(&["stats", "--json"], &[&recorded.first()], 0);
    let stats: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(stats["operations"]["recv"]["message"], 5);
}

#[test]
fn a_topology_shows_who_sends_to_whom() {
    let recorded = Recorded::new();
    let text = shown(&["topology"], &[&recorded.first()], 0);
    insta::assert_snapshot!(text, @r"
      t0  program
      t1  program/1

    channel t0.c1: 5 messages
            t0 -> t1          5

    channel t0.c2: 1 message
            t1 -> t0          1

    lock t0.l1: handed over 1 time
            to t0          1

    threads that send to each other: t0, t1
    ");
    let json = shown(&["topology", "--json"], &[&recorded.first()], 0);
    let topology: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(topology["channels"][0]["edges"][0]["messages"], 5);
}

#[test]
fn a_timeline_is_a_page_that_needs_nothing_else() {
    let recorded = Recorded::new();
    let page = shown(&["timeline"], &[&recorded.first()], 0);
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    for outside in ["http:", "https:", "src=", "href=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    let json = shown(&["timeline", "--json"], &[&recorded.first()], 0);
    let model: serde_json::Value = serde_json::from_str(&json).unwrap();
    let (_, rest) = page.split_once("id=\"recording\">").unwrap();
    let embedded: serde_json::Value =
        serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap();
    assert_eq!(model, embedded);

    let file = recorded.dir.path().join("page.html");
    let option = format!("--output={}", file.display());
    let nothing = shown(&["timeline", &option], &[&recorded.first()], 0);
    assert_eq!(
        (nothing.as_str(), fs::read_to_string(file).unwrap()),
        ("", page)
    );
}

#[test]
fn a_timeline_says_where_messages_and_locks_came_from() {
    let recorded = Recorded::new();
    let json = shown(&["timeline", "--json"], &[&recorded.first()], 0);
    let model: serde_json::Value = serde_json::from_str(&json).unwrap();
    let mut arrows = String::new();
    for thread in model["threads"].as_array().unwrap() {
        for mark in thread["marks"].as_array().unwrap() {
            if let Some(from) = mark.get("from") {
                let place = from.get("event").map_or("?".to_owned(), |e| e.to_string());
                let later = from.get("or_later").map_or("", |_| " or later");
                arrows += &format!(
                    "t{} {} <- t{} {place}{later}\n",
                    thread["thread"], mark["event"], from["thread"]
                );
            }
        }
    }
    insta::assert_snapshot!(arrows, @r"
    t0 0 <- t1 11 or later
    t0 3 <- t1 12
    t1 0 <- t0 ?
    t1 2 <- t0 ?
    t1 4 <- t0 ?
    t1 6 <- t0 ?
    t1 8 <- t0 ?
    ");
    let cut = shown(
        &["timeline", "--json", "--limit", "4"],
        &[&recorded.first()],
        0,
    );
    let cut: serde_json::Value = serde_json::from_str(&cut).unwrap();
    assert_eq!(cut["left_out"], 10);
}

#[test]
fn a_diff_shows_where_runs_part() {
    let recorded = Recorded::new();
    let second = recorded.dir.path().join("second");
    record(&second, true);
    let text = shown(&["diff"], &[&recorded.first(), &second], 1);
    insta::assert_snapshot!(text, @r"
    2 threads in both recordings, 1 of them the same

    t0: 2 events the same, then
      < try_select: arm 0
      > is_empty on t0.c2: 0

      t0  program
    ");
    let same = shown(&["diff"], &[&recorded.first(), &recorded.copy("copy")], 0);
    insta::assert_snapshot!(same, @"2 threads in both recordings, 2 of them the same");
}

#[test]
fn payloads_and_processes_are_shown() {
    let recorded = Recorded::new();
    let copy = |name: &str, payloads: &str| {
        let dir = recorded.copy(name);
        fs::write(
            dir.join("payloads"),
            format!("rr-channel payloads 1\n{payloads}"),
        )
        .unwrap();
        dir
    };
    let one = copy("one", "0 2 4 02000000\n0 3 300 68690a\n1 0 24\n");
    let other = copy(
        "other",
        "0 2 4 03000000\n0 3 300 68690a\n1 0 24 #00000000000000ff\n",
    );
    let mut session = fs::read_to_string(one.join("session")).unwrap();
    session += "process 1 0 1\nprocess 2 1 1\n";
    fs::write(one.join("session"), session).unwrap();
    fs::create_dir(one.join("process-2")).unwrap();
    fs::copy(one.join("session"), one.join("process-2/session")).unwrap();

    let text = shown(&["dump"], &[&one], 0).replace(&one.display().to_string(), "DIR");
    let at = text.find("messages\n").unwrap();
    let text = &text[at..];
    insta::assert_snapshot!(text, @r#"
    messages
             2  of t0: 4 bytes 02000000 "...."
             3  of t0: 300 bytes 68690a.. "hi."
             0  of t1: 24 bytes

    processes
      process 1  number 1 of those that t0 started: recorded nothing
      process 2  number 1 of those that t1 started: DIR/process-2
    "#);
    let json = shown(&["dump", "--json"], &[&one], 0);
    for line in [
        r#"{"sender":0,"message":2,"size":4,"bytes":"02000000"}"#,
        r#"{"process":1,"thread":0,"count":1,"log":null}"#,
    ] {
        assert!(json.lines().any(|l| l == line), "{line}: {json}");
    }
    let text = shown(&["stats"], &[&one], 0).replace(&one.display().to_string(), "DIR");
    assert!(text.contains("process 2  number 1 of those that t1 started: DIR/process-2\n"));
    let text = shown(&["diff"], &[&one, &other], 1);
    insta::assert_snapshot!(text, @r#"
    2 threads in both recordings, 2 of them the same

    message 2 of t0 holds
      < 4 bytes 02000000 "...."
      > 4 bytes 03000000 "...."

    message 0 of t1 holds
      < 24 bytes
      > 24 bytes with the hash 00000000000000ff

      t0  program
      t1  program/1
    "#);

    // What is no such file is said, and the rest is shown.
    fs::write(one.join("payloads"), "shopping list").unwrap();
    let output = tool(&["stats"], &[&one]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("not a payloads file"), "{said}");
}

#[test]
fn threads_of_other_numbers_and_random_bytes_hide_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let [first, second] = [false, true].map(|choice| {
        let dir = dir.path().join(choice.to_string());
        record_of("program_of_two", &dir, choice);
        dir
    });
    assert_ne!(
        shown(&["dump"], &[&first], 0),
        shown(&["dump"], &[&second], 0)
    );
    let text = shown(&["diff"], &[&first, &second], 1);
    insta::assert_snapshot!(text, @r"
    3 threads in both recordings, 3 of them the same

    other random bytes: t1, t2

      t1  program_of_two/~1
      t2  program_of_two/~2
    ");
    let by_name = |recording: &Path| {
        let mut text = Vec::new();
        dump_by_name(recording, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    };
    insta::assert_snapshot!(by_name(&first), @r"
    program_of_two
             0  recv on program_of_two.c1: message 0 of program_of_two/~1
             1  recv on program_of_two.c2: message 0 of program_of_two/~2
             2  the thread ended

    program_of_two/~1
             0  the thread ended

    program_of_two/~2
             0  the thread ended
    ");
    assert_eq!(by_name(&first), by_name(&second));
}

#[test]
fn one_log_can_be_shown_alone() {
    let recorded = Recorded::new();
    let text = shown(&["dump"], &[&recorded.first().join("thread-0.rrlog")], 0);
    assert!(text.starts_with("t0  "), "{text}");
}

#[test]
fn a_path_without_recording_is_an_error() {
    let recorded = Recorded::new();
    let dir = recorded.dir.path();
    fs::write(dir.join("foreign"), "shopping list").unwrap();
    fs::create_dir(dir.join("empty")).unwrap();
    let old = recorded.copy("old");
    fs::write(old.join("session"), "rr-channel 1\nprogram x\n").unwrap();
    let check = |name: &str, expected: &str| {
        let output = tool(&["stats"], &[&dir.join(name)]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(expected), "{said}");
    };
    check("foreign", "foreign: not an rr-channel log");
    check("empty", "contains no recording");
    check("none", "cannot read");
    check(
        "old",
        "the recording has version 1, this build reads 3 to 6: record again",
    );
    check("", "has recordings of several processes, name one");
}

#[test]
fn a_truncated_log_is_shown_as_far_as_it_goes() {
    let recorded = Recorded::new();
    let cut = recorded.copy("cut");
    let log = cut.join("thread-1.rrlog");
    let bytes = fs::read(&log).unwrap();
    fs::write(&log, &bytes[..70]).unwrap();
    let output = tool(&["dump"], &[&cut]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("thread-1.rrlog: log "), "{said}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("the log is damaged here"), "{text}");
    // The other thread's is whole.
    assert!(text.contains("the thread ended"), "{text}");
}

/// Whatever is in the files: an answer or an error, in every command.
#[test]
fn damage_makes_no_panic() {
    let recorded = Recorded::new();
    let damaged = recorded.copy("damaged");
    let names = ["session", "thread-0.rrlog", "thread-1.rrlog"];
    // The last thread first: it has no log if it logged nothing.
    for name in names {
        let path = damaged.join(name);
        let good = fs::read(&path).unwrap();
        let len = good.len().min(160);
        for at in (0..len).step_by(7) {
            let mut bytes = good.clone();
            bytes[at] ^= 1 << (at % 8);
            fs::write(&path, bytes).unwrap();
            let command = ["dump", "stats", "topology", "timeline"][at % 4];
            let output = tool(&[command], &[&damaged]);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(
                matches!(output.status.code(), Some(0..=2)) && !said.contains("panicked"),
                "{command}, byte {at} of {name}: {output:?}"
            );
        }
        fs::write(&path, good).unwrap();
    }
}
