//! A recording that says where in the source things happened.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use rr_channel::crossbeam_channel::{bounded, select, unbounded};
use rr_channel::ipc_channel::ipc;
use rr_channel::log::{Content, Event, Op, Outcome, Recording, Step};
use rr_channel::sync::{Mutex, mpsc};
use rr_channel::{parking_lot, thread};

/// This executable, asked for this one test, is the program.
#[test]
fn run() {
    if std::env::var_os("RR_CHANNEL_TEST_PROGRAM").is_none() {
        return;
    }
    let lock = Mutex::new(0); // of std
    let other = parking_lot::Mutex::new(0);
    let (s, r) = unbounded::<i32>();
    let (bounded_s, bounded_r) = bounded::<u16>(2);
    let (std_s, std_r) = mpsc::channel::<i64>();
    let (ipc_s, ipc_r) = ipc::channel::<(u8, String)>().unwrap();
    let (text_s, text_r) = unbounded::<String>();
    thread::scope(|scope| {
        thread::Builder::new()
            .name("the sender".to_owned())
            .spawn_scoped(scope, || {
                s.send(1).unwrap(); // unbounded
                bounded_s.send(2).unwrap(); // bounded
                std_s.send(3).unwrap(); // std
                ipc_s.send((4, "five".to_owned())).unwrap(); // ipc
                text_s.send("six".to_owned()).unwrap(); // text
                *lock.lock().unwrap() += 1; // lock
                *other.lock() += 1; // parking
            })
            .unwrap();
    });
    *lock.lock().unwrap() += 1; // again
    *other.lock() += 1; // again parking
    let first = select! { // select
        recv(r) -> n => n.unwrap(),
    };
    assert_eq!(first, 1);
    drop((bounded_s, s));
    for n in bounded_r {
        assert_eq!(n, 2);
    }
    assert_eq!(std_r.recv(), Ok(3)); // recv
    assert_eq!(ipc_r.recv().unwrap().0, 4); // ipc recv
    assert_eq!(text_r.recv().unwrap(), "six"); // text recv
    if let Some(report) = rr_channel::replay_report() {
        assert!(report.is_faithful(), "{report:?}");
    }
}

fn program(mode: &str, dir: &Path) -> Output {
    program_with(mode, dir, "")
}

fn program_with(mode: &str, dir: &Path, payload: &str) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "run", "--test-threads=1", "--nocapture"])
        .env("RR_CHANNEL_TEST_PROGRAM", "1")
        .env("RR_CHANNEL", mode)
        .env("RR_CHANNEL_LOG", dir)
        .env("RR_CHANNEL_PLACES", "1")
        .env("RR_CHANNEL_PAYLOAD", payload)
        .output()
        .unwrap()
}

/// The comment on the line of a place in this file.
fn comment(recording: &Recording, place: u32) -> String {
    let place = recording.place(place).unwrap();
    let Some((file, rest)) = place.split_once(".rs:") else {
        panic!("{place}");
    };
    assert!(file.ends_with("tests/places"), "{place}");
    let line: usize = rest.split(':').next().unwrap().parse().unwrap();
    let text = include_str!("places.rs").lines().nth(line - 1).unwrap();
    text.rsplit_once("// ")
        .map_or(text.trim(), |(_, comment)| comment)
        .to_owned()
}

#[test]
fn every_operation_has_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let output = program("record", dir.path());
    assert!(output.status.success(), "{output:?}");
    let output = program("replay", dir.path());
    assert!(output.status.success(), "{output:?}");

    let recording = Recording::open(dir.path()).unwrap();
    let carried: Vec<_> = recording.carried().map(|(_, of)| of).collect();
    let string = "alloc::string::String";
    let pair = format!("(u8, {string})");
    assert_eq!(carried, ["i32", "u16", "i64", &pair, string]);
    let mut seen = BTreeSet::new();
    for thread in recording.threads() {
        for step in recording.steps(thread).unwrap() {
            let (what, place) = match step {
                // System requests by other code than this program.
                Step::Event { event, .. } if event.op.is_apart() => continue,
                Step::Event { event, place } => (event.op, place.unwrap()),
                Step::Message { op, place, .. } => (op, place),
            };
            seen.insert((what.as_str(), comment(&recording, place)));
            if let Step::Event {
                event:
                    Event {
                        op: Op::Lock,
                        channel,
                        outcome,
                    },
                ..
            } = step
            {
                assert!(channel.is_some());
                assert!(matches!(outcome, Outcome::Turn { .. }), "{outcome:?}");
            }
        }
    }
    let expected = [
        ("lock", "again"),
        ("lock", "again parking"),
        ("lock", "lock"),
        ("lock", "parking"),
        ("recv", "for n in bounded_r {"),
        ("recv", "ipc recv"),
        ("recv", "recv"),
        ("recv", "text recv"),
        ("select", "select"),
        ("selected recv", "select"),
        ("send", "bounded"),
        ("send", "ipc"),
        ("send", "std"),
        ("send", "text"),
        ("send", "unbounded"),
    ];
    let expected = expected.map(|(op, at)| (op, at.to_owned()));
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), expected);
    let sender = &recording.threads()[1];
    assert_eq!(recording.name(sender.id), Some("the sender"));
}

#[test]
fn message_contents_are_recorded_on_request() {
    let held = |payload: &str| -> Vec<(u64, Content)> {
        let dir = tempfile::tempdir().unwrap();
        let output = program_with("record", dir.path(), payload);
        assert!(output.status.success(), "{output:?}");
        let complains = String::from_utf8_lossy(&output.stderr).contains("neither bytes nor hash");
        assert_eq!(complains, payload == "all", "{output:?}");
        let recording = Recording::open(dir.path()).unwrap();
        let payloads = recording.payloads().unwrap().into_values();
        payloads.map(|held| (held.size, held.content)).collect()
    };
    let bytes = |bytes: &[u8]| Content::Bytes(bytes.to_vec());
    assert_eq!(
        held("bytes"),
        [
            (4, bytes(&[1, 0, 0, 0])),
            (2, bytes(&[2, 0])),
            (8, bytes(&[3, 0, 0, 0, 0, 0, 0, 0])),
            (6, bytes(b"\x04\x04five")),
            (size_of::<String>() as u64, Content::Unknown),
        ]
    );
    let hashes = held("hash");
    let is_hash = |(_, content): &&(u64, Content)| matches!(content, Content::Hash(_));
    assert_eq!(hashes.iter().filter(is_hash).count(), 4);
    assert_eq!(hashes, held("hash"));
    assert!(held("").is_empty() && held("all").is_empty());
}
