//! The tools for traces: fsck, pack, ls, doctor, and divergence reports.

use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use reprise::trace::event::{FileChanged, FileNumber};
use reprise::trace::{Directory, Event, Record, fsck};

#[path = "common/command.rs"]
mod command;
mod common;
#[path = "common/install.rs"]
mod install;
use common::rewrite;

fn reprise(home: &Path, words: &[&str]) -> Output {
    command::reprise(home).args(words).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Records a program of the user's own and one of the system.
fn recorded(home: &Path) -> (Output, PathBuf) {
    let own = home.join("own");
    install::install(Path::new("/bin/sh"), &own);
    let script = "od -An -N8 -tx1 /dev/urandom; exit 4";
    let own = own.to_string_lossy().into_owned();
    let words = ["record", "--quiet", "--", &own, "-c", script];
    let output = reprise(home, &words);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    (output, home.join("own-0"))
}

#[track_caller]
fn check_replay(home: &Path, recorded: &Output) {
    let replayed = reprise(home, &["replay", "--quiet"]);
    assert_eq!(replayed.status, recorded.status, "{replayed:?}");
    assert_eq!(text(&replayed.stdout), text(&recorded.stdout));
}

#[track_caller]
fn check_unsound(home: &Path, complaint: &str) {
    let checked = reprise(home, &["fsck"]);
    assert_eq!(checked.status.code(), Some(1), "{checked:?}");
    assert!(text(&checked.stdout).contains(complaint), "{checked:?}");
    let checked = reprise(home, &["fsck", "--json"]);
    assert_eq!(checked.status.code(), Some(1), "{checked:?}");
    let json: serde_json::Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert!(!json["problems"].as_array().unwrap().is_empty(), "{json}");
}

/// The file that the trace has of the user's own program.
fn content(trace: &Path) -> PathBuf {
    let files = std::fs::read_dir(trace.join("files")).unwrap();
    let files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}

#[test]
fn fsck_reports_a_sound_trace() {
    let home = tempfile::tempdir().unwrap();
    recorded(home.path());
    let checked = reprise(home.path(), &["fsck", "--json"]);
    assert!(checked.status.success(), "{checked:?}");
    let json: serde_json::Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(json["whole"], true, "{json}");
    assert_eq!(json["stored"], 1, "{json}");
    assert_eq!(json["problems"].as_array().unwrap().len(), 0, "{json}");
    let checked = reprise(home.path(), &["fsck"]);
    assert!(text(&checked.stdout).contains("sound"), "{checked:?}");
}

#[test]
fn a_changed_byte_of_the_records_is_found() {
    let home = tempfile::tempdir().unwrap();
    let (_, trace) = recorded(home.path());
    let mut bytes = std::fs::read(trace.join("events")).unwrap();
    bytes[100] ^= 4;
    std::fs::write(trace.join("events"), bytes).unwrap();
    check_unsound(home.path(), "checksum");
}

#[test]
fn a_changed_content_is_found() {
    let home = tempfile::tempdir().unwrap();
    let (_, trace) = recorded(home.path());
    let content = content(&trace);
    let mut bytes = std::fs::read(&content).unwrap();
    bytes[1000] ^= 1;
    std::fs::write(&content, bytes).unwrap();
    check_unsound(home.path(), "is not the content of");
}

#[test]
fn a_missing_content_is_found() {
    let home = tempfile::tempdir().unwrap();
    let (_, trace) = recorded(home.path());
    std::fs::remove_file(content(&trace)).unwrap();
    check_unsound(home.path(), "No such file");
}

#[test]
fn a_list_of_changing_files_that_contradicts_the_records_is_found() {
    let home = tempfile::tempdir().unwrap();
    let (_, trace) = recorded(home.path());
    std::fs::write(trace.join("changing"), "77\n").unwrap();
    check_unsound(home.path(), "`changing` has file 77");
    std::fs::write(trace.join("changing"), "0\n").unwrap();
    let changes = |at, record: Record| {
        let event = Event::FileChanged(FileChanged {
            number: FileNumber(0),
            size: 1,
            offset: 0,
            bytes: Vec::new(),
        });
        let changed = Record {
            event,
            ..record.clone()
        };
        match record.event {
            Event::File(_) if at < 2 => vec![record, changed],
            _ => vec![record],
        }
    };
    rewrite(&trace, changes);
    let checked = reprise(home.path(), &["fsck"]);
    assert!(text(&checked.stdout).contains("sound"), "{checked:?}");
    std::fs::remove_file(trace.join("changing")).unwrap();
    check_unsound(home.path(), "file 0 changes, but the list");
}

#[test]
fn inconsistent_records_are_found() {
    type Choice = fn(&Event) -> bool;
    let left_out: [(Choice, &str); 5] = [
        (
            |event| matches!(event, Event::Call(_)),
            "returns from a call that it did not make",
        ),
        (|event| matches!(event, Event::Image(_)), "has not started"),
        (
            |event| matches!(event, Event::File(_)),
            "no record describes file",
        ),
        (
            |event| matches!(event, Event::Spawned(_)),
            "no record creates",
        ),
        (|event| matches!(event, Event::Exit(_)), "how task 0 ended"),
    ];
    for (left_out, complaint) in left_out {
        let home = tempfile::tempdir().unwrap();
        let (_, trace) = recorded(home.path());
        rewrite(&trace, |_, record| {
            let keep = !left_out(&record.event);
            keep.then_some(record).into_iter().collect()
        });
        check_unsound(home.path(), complaint);
    }
    let home = tempfile::tempdir().unwrap();
    let (_, trace) = recorded(home.path());
    rewrite(&trace, |_, record| vec![record.clone(), record]);
    check_unsound(home.path(), "already");
}

#[test]
fn the_number_of_described_problems_is_limited() {
    let home = tempfile::tempdir().unwrap();
    let (_, trace) = recorded(home.path());
    rewrite(&trace, |_, record| match record.event {
        Event::Image(_) => Vec::new(),
        _ => vec![record; 3],
    });
    let (directory, _) = Directory::open(&trace).unwrap();
    let report = fsck::check(&directory).unwrap();
    assert_eq!(report.problems.len(), 100);
    assert!(report.more_problems > 0);
}

/// As on a machine whose files at the same paths are other ones.
fn elsewhere(trace: &Path) {
    rewrite(trace, |_, mut record| {
        if let Event::File(file) = &mut record.event {
            file.identity.inode ^= 1;
        }
        vec![record]
    });
}

#[test]
fn a_packed_trace_needs_no_files_of_the_system() {
    let home = tempfile::tempdir().unwrap();
    let (output, trace) = recorded(home.path());
    let packed = reprise(home.path(), &["pack"]);
    assert!(packed.status.success(), "{packed:?}");
    std::fs::remove_file(home.path().join("own")).unwrap();
    elsewhere(&trace);
    check_replay(home.path(), &output);
    let checked = reprise(home.path(), &["fsck", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(json["of_the_system"], 0, "{json}");
    assert_eq!(json["problems"].as_array().unwrap().len(), 0, "{json}");
    // A trace that is packed stays as it is.
    let again = reprise(home.path(), &["pack"]);
    assert!(again.status.success(), "{again:?}");
    assert!(text(&again.stderr).contains("copied 0 files"), "{again:?}");
    check_replay(home.path(), &output);
    // The same, without what was packed.
    std::fs::remove_file(trace.join("packed.json")).unwrap();
    let replayed = reprise(home.path(), &["replay", "--quiet"]);
    assert_eq!(replayed.status.code(), Some(125), "{replayed:?}");
    let message = text(&replayed.stderr);
    assert!(message.contains("changed or replaced"), "{message}");
    check_unsound(home.path(), "changed or replaced");
    // Too late to pack it.
    let packed = reprise(home.path(), &["pack"]);
    assert_eq!(packed.status.code(), Some(1), "{packed:?}");
    assert!(
        text(&packed.stderr).contains("changed or replaced"),
        "{packed:?}"
    );
}

#[test]
fn a_packed_content_with_other_bytes_is_found() {
    let home = tempfile::tempdir().unwrap();
    let (_, trace) = recorded(home.path());
    assert!(reprise(home.path(), &["pack"]).status.success());
    for content in std::fs::read_dir(trace.join("files")).unwrap() {
        let content = content.unwrap().path();
        let length = std::fs::metadata(&content).unwrap().len();
        std::fs::write(&content, vec![0; length as usize]).unwrap();
    }
    check_unsound(home.path(), "is not the content of");
}

#[test]
fn a_replay_on_another_processor_names_the_features_that_differ() {
    let home = tempfile::tempdir().unwrap();
    let (output, trace) = recorded(home.path());
    check_replay(home.path(), &output);
    let path = trace.join("trace.json");
    let mut header: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let features = header["machine"]["features"].as_array_mut().unwrap();
    let word = |features: &[serde_json::Value], index: usize| features[index].as_u64().unwrap();
    // Everybody has SSE2, and nobody had the bit of the Itanium.
    features[1] = (word(features, 1) & !(1 << 26) | 1 << 30).into();
    std::fs::write(&path, header.to_string()).unwrap();
    let replayed = reprise(home.path(), &["replay", "--quiet"]);
    assert_eq!(replayed.status.code(), Some(125), "{replayed:?}");
    let message = text(&replayed.stderr);
    assert!(
        message.contains("has no ia64, and has sse2 as well"),
        "{message}"
    );
    assert_eq!(text(&replayed.stdout), "");
}

#[test]
fn traces_are_listed_for_programs() {
    let home = tempfile::tempdir().unwrap();
    let empty = reprise(home.path(), &["ls", "--json"]);
    assert_eq!(text(&empty.stdout), "[]\n");
    recorded(home.path());
    let list = reprise(home.path(), &["ls", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&list.stdout).unwrap();
    assert_eq!(json[0]["name"], "own-0", "{json}");
    assert!(json[0]["bytes"].as_u64() > Some(0), "{json}");
}

/// The state of a finding.
fn state(json: &serde_json::Value, name: &str) -> String {
    let findings = json["findings"].as_array().unwrap();
    let finding = findings.iter().find(|finding| finding["name"] == name);
    let finding = finding.unwrap_or_else(|| panic!("{name} is not in {json}"));
    finding["state"].as_str().unwrap().to_owned()
}

#[test]
fn the_doctor_finds_that_recording_works() {
    let home = tempfile::tempdir().unwrap();
    let output = reprise(home.path(), &["doctor", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(output.status.success(), "{json}");
    assert_eq!(json["able"], true);
    for name in ["ptrace", "seccomp", "time stamp counter", "trial"] {
        assert_eq!(state(&json, name), "fine");
    }
    let output = reprise(home.path(), &["doctor"]);
    assert!(text(&output.stdout).contains("programs can be recorded"));
}

#[test]
fn the_doctor_finds_what_is_missing() {
    let home = tempfile::tempdir().unwrap();
    let own = env!("CARGO_BIN_EXE_reprise");
    // A recorded program may not trace.
    let words = ["record", "--quiet", "--", own, "doctor", "--json"];
    let output = reprise(home.path(), &words);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["able"], false);
    assert_eq!(state(&json, "ptrace"), "missing");
    assert_eq!(state(&json, "trial"), "missing");
    assert_eq!(state(&json, "kernel"), "fine");
}

/// The divergence report of a C program that reaches its last `write` with another length.
fn diverged(source: &str, flags: &[&str]) -> String {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("program.c");
    let program = home.path().join("program");
    std::fs::write(&file, source).unwrap();
    let compiled = Command::new("cc")
        .args(["-g", "-o"])
        .args([&program, &file])
        .args(flags)
        .status()
        .unwrap();
    assert!(compiled.success());
    let program = program.to_string_lossy().into_owned();
    let output = reprise(home.path(), &["record", "--quiet", "--", &program]);
    assert!(output.status.success(), "{output:?}");
    rewrite(&home.path().join("program-0"), |_, mut record| {
        if let Event::Call(call) = &mut record.event
            && (call.nr, call.args[2]) == (1, 5)
        {
            call.args[2] = 77;
        }
        vec![record]
    });
    let replayed = reprise(home.path(), &["replay", "--quiet"]);
    assert_eq!(replayed.status.code(), Some(124), "{replayed:?}");
    text(&replayed.stderr)
}

const PROGRAM: &str = "#include <unistd.h>
__attribute__((noinline)) static int inner(int length) {
    getppid();
    return write(1, \"text\\n\", length) != length;
}
__attribute__((noinline)) static int middle(int length) {
    return inner(length + 1) + 0 * getpid();
}
int main(void) {
    for (int i = 0; i < 3; i++)
        write(2, \"\", 0);
    return middle(4);
}
";

#[track_caller]
fn check_report(report: &str) {
    for part in [
        "recorded write(0x1,",
        "replayed write(0x1,",
        "rdx was recorded as 0x4d, and is 0x5",
        " inner at ",
        "program.c:4 ",
        " middle at ",
        "program.c:7 ",
        " main at ",
        "program.c:12 ",
        "getppid() at",
    ] {
        assert!(report.contains(part), "no `{part}` in {report}");
    }
    let order = ["inner at", "middle at", "main at"].map(|name| report.find(name));
    assert!(order.is_sorted(), "{report}");
}

#[test]
fn a_divergence_report_has_both_sides_and_the_functions() {
    let report = diverged(PROGRAM, &["-O0"]);
    check_report(&report);
    // The C library's own function comes first.
    assert!(report.contains("#0 0x"), "{report}");
    // Files of the trace have the names that they had.
    assert!(report.contains("/program+0x"), "{report}");
    assert!(!report.contains("/files/"), "{report}");
}

#[test]
fn inlined_functions_are_found() {
    let program = PROGRAM.replace(
        "__attribute__((noinline))",
        "__attribute__((always_inline)) inline",
    );
    check_report(&diverged(&program, &["-O1"]));
}

#[test]
fn functions_are_found_without_frame_pointers() {
    check_report(&diverged(
        PROGRAM,
        &["-O1", "-fomit-frame-pointer", "-fno-optimize-sibling-calls"],
    ));
}

#[test]
fn functions_are_found_in_static_programs() {
    let library = Command::new("cc").arg("-print-file-name=libc.a").output();
    if !library.unwrap().stdout.contains(&b'/') {
        // The bare name says that there is none.
        return;
    }
    check_report(&diverged(
        PROGRAM,
        &["-O1", "-static", "-fno-optimize-sibling-calls"],
    ));
}

#[test]
fn functions_are_found_at_an_unstopped_call() {
    // The site of the call is patched by then.
    let program = PROGRAM.replace("i < 3", "i < 300");
    check_report(&diverged(&program, &["-O0"]));
}

#[test]
fn a_program_that_prints_something_else_diverges() {
    let home = tempfile::tempdir().unwrap();
    let (output, trace) = recorded(home.path());
    assert!(!output.stdout.is_empty());
    // As if the program had known from somewhere what was not recorded.
    rewrite(&trace, |_, mut record| {
        if let Event::Return(done) = &mut record.event
            && let [write] = &mut done.writes[..]
            && write.bytes.len() == 8
        {
            write.bytes[0] ^= 1;
        }
        vec![record]
    });
    let replayed = reprise(home.path(), &["replay", "--quiet"]);
    assert_eq!(replayed.status.code(), Some(124), "{replayed:?}");
    let message = text(&replayed.stderr);
    assert!(message.contains("bytes of other output"), "{message}");
    assert_eq!(text(&replayed.stdout), "");
}

/// Records a program that waits until `meanwhile` has been done with a library that it has
/// mapped: what is said at the end, and the trace in words.
fn recorded_while(meanwhile: impl FnOnce(&Path)) -> (String, String) {
    let home = tempfile::tempdir().unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let libc = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5))
        .find(|path| path.contains("/libc.so") || path.contains("/libc-"))
        .unwrap();
    let own = home.path().join("libc.so.6");
    std::fs::copy(libc, &own).unwrap();
    let path = format!("LD_LIBRARY_PATH={}", home.path().display());
    let script = "echo ready; read line; echo $line";
    let mut child = command::reprise(home.path())
        .args(["record", "--", "env", &path, "sh", "-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut printed = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut printed).unwrap();
    assert_eq!(printed, "ready\n");
    meanwhile(&own);
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"done\n").unwrap();
    drop(input);
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let replayed = reprise(home.path(), &["replay", "--quiet"]);
    assert_eq!(text(&replayed.stdout), "ready\ndone\n", "{replayed:?}");
    let dumped = reprise(home.path(), &["dump"]);
    (text(&ended.stderr), text(&dumped.stdout))
}

const OUTSIDE: &str = "a process that is not recorded";

#[test]
fn a_mapped_file_that_is_changed_from_outside_is_reported() {
    let (said, dumped) = recorded_while(|library| {
        let mut file = std::fs::File::options().append(true).open(library).unwrap();
        file.write_all(b"more").unwrap();
    });
    assert!(
        said.contains(OUTSIDE) && said.contains("libc.so.6"),
        "{said}"
    );
    assert!(dumped.contains(OUTSIDE), "{dumped}");
}

#[test]
fn a_mapped_file_that_is_only_touched_is_not_reported() {
    let (said, dumped) = recorded_while(|library| {
        let file = std::fs::File::open(library).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
    });
    assert!(!said.contains(OUTSIDE), "{said}");
    assert!(!dumped.contains(OUTSIDE), "{dumped}");
}
