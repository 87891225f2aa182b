//! `cargo reprise` on a project that knows nothing of it.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use common::{PACKAGE, Project, run, stderr};

const DEPENDENCIES: &str = r#"
[dependencies]
crossbeam-channel = "0.5"
parking_lot = { version = "0.12", features = ["arc_lock"] }
"#;

/// Neither compilers nor build scripts may see what makes a process record.
const BUILD_SCRIPT: &str = r#"
fn main() {
    for (name, _) in std::env::vars_os() {
        assert!(!name.to_string_lossy().starts_with("RR_CHANNEL"), "{name:?}");
    }
}
"#;

const LIBRARY: &str = r#"
#[cfg(test)]
mod tests {
    use crossbeam_channel::{bounded, unbounded};
    use std::process::Command;
    use std::thread;

    include!("say.rs");

    #[test]
    fn racing() {
        let (s, r) = bounded(3);
        let senders: Vec<_> = (0..3)
            .map(|who| {
                let s = s.clone();
                thread::spawn(move || {
                    for _ in 0..50 {
                        s.send(who).unwrap();
                        thread::yield_now();
                    }
                })
            })
            .collect();
        drop(s);
        let order: String = r.iter().map(|who| who.to_string()).collect();
        for sender in senders {
            sender.join().unwrap();
        }
        say(&order);
    }

    /// A place that can be told in four bytes is what the linker chose.
    #[test]
    fn placed() {
        let (s, _r) = unbounded();
        s.send(()).unwrap();
        let place = say as fn(&str) as usize;
        say(if place < 1 << 32 { "fixed" } else { "anywhere" });
    }

    #[test]
    fn locking() {
        use parking_lot::{ArcMutexGuard, Condvar, Mutex, RawMutex};
        use std::sync::Arc;

        static CHANGED: Condvar = Condvar::new();
        let order = Arc::new(Mutex::new(String::new()));
        let threads: Vec<_> = (0..3)
            .map(|who| {
                let order = Arc::clone(&order);
                thread::spawn(move || {
                    for n in 0..50 {
                        let mut guard: ArcMutexGuard<RawMutex, String> = order.lock_arc();
                        guard.push_str(&who.to_string());
                        CHANGED.notify_all();
                        if n % 7 == who {
                            drop(guard);
                            thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        let mut seen = order.lock();
        CHANGED.wait_while(&mut seen, |seen| seen.len() < 150);
        drop(seen);
        for thread in threads {
            thread.join().unwrap();
        }
        say(&order.lock());
    }

    /// Passes or fails by chance.
    #[test]
    fn flaky() {
        let (s, r) = unbounded();
        for who in 0..2 {
            let s = s.clone();
            thread::spawn(move || s.send(who));
        }
        let first = r.recv().unwrap();
        say(&first.to_string());
        assert_eq!(first == 0, std::env::var_os("WANT_ONE").is_none());
    }

    #[test]
    fn with_a_child() {
        let (s, r) = unbounded();
        s.send(1).unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::racing", "--nocapture"])
            .output()
            .unwrap();
        assert!(child.status.success());
        assert_eq!(String::from_utf8_lossy(&child.stderr), "");
        assert_eq!(r.recv(), Ok(1));
        say("fine");
    }
}
"#;

/// A project with these tables in its manifest.
fn project(tables: &str) -> Project {
    Project::new(&[
        ("Cargo.toml", &format!("{PACKAGE}{tables}")),
        ("build.rs", BUILD_SCRIPT),
        ("src/lib.rs", LIBRARY),
    ])
}

/// Every file of the project but what lies in `target`, with its content.
fn files(project: &Project) -> BTreeSet<(PathBuf, Vec<u8>)> {
    let mut files = BTreeSet::new();
    let mut dirs = vec![project.path().to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path == project.target() {
                continue;
            }
            if path.is_dir() {
                dirs.push(path);
            } else {
                files.insert((path.clone(), fs::read(path).unwrap()));
            }
        }
    }
    files
}

#[test]
fn a_project_is_recorded_and_replayed_as_it_is() {
    let project = project(DEPENDENCIES);
    let before = files(&project);

    // The order of messages is that of the recording, in each replay.
    let said = run(&mut project.reprise(&["test", "-q", "--", "--exact", "tests::racing"]));
    assert!(
        said.contains("reprise: recording 1: exit status 0; 301 events of 4 threads in "),
        "{said}"
    );
    let recorded = project.take_outcomes();
    assert_eq!(recorded.len(), 1);
    let said = run(&mut project.reprise(&["replay", "--times", "5"]));
    assert!(
        said.contains(
            "reprise: recording 1: 5 of 5 replays ended as recorded, 0 desynchronised, \
             5 used every event"
        ),
        "{said}"
    );
    assert_eq!(project.take_outcomes(), vec![recorded[0].clone(); 5]);

    // Executables lie at fixed addresses, unless the project has its own idea of a compiler.
    let placed = |expected: &str| {
        run(&mut project.reprise(&["test", "-q", "--", "--exact", "tests::placed"]));
        assert_eq!(project.take_outcomes(), [expected]);
    };
    placed("fixed");
    project.write("wrapper.sh", "#!/bin/sh\nexec \"$@\"\n");
    // By another process: a child of another test would have it open for writing for a moment.
    let wrapper = project.path().join("wrapper");
    let mut install = Command::new("install");
    install.args(["-m", "755", "wrapper.sh", "wrapper"]);
    run(install.current_dir(project.path()));
    // A runner of its own, which is a string, is overridden.
    let of_its_own = "build.rustc-workspace-wrapper = \"./wrapper\"\n\
                      target.x86_64-unknown-linux-gnu.runner = \"false -E\"";
    project.write(".cargo/config.toml", of_its_own);
    placed("anywhere");
    fs::remove_dir_all(project.path().join(".cargo")).unwrap();
    fs::remove_file(wrapper).unwrap();
    fs::remove_file(project.path().join("wrapper.sh")).unwrap();

    // The order in which locks were acquired is the recording's, whoever is delayed.
    run(&mut project.reprise(&["test", "--places", "--", "--exact", "tests::locking"]));
    let recorded = project.take_outcomes();
    let said = run(&mut project.reprise(&["replay", "--times", "5", "--chaos=3"]));
    assert!(
        said.contains(": 5 of 5 replays ended as recorded, 0 desynch"),
        "{said}"
    );
    assert_eq!(project.take_outcomes(), vec![recorded[0].clone(); 5]);

    // A failure is found, kept, and fails again. Whichever message comes first, either
    // this or its opposite fails soon.
    let flaky = [
        "--until",
        "failure",
        "--at-most",
        "40",
        "-q",
        "--",
        "--exact",
        "tests::flaky",
    ];
    let mut args = vec!["test"];
    args.extend(flaky);
    let mut wants_one = false;
    let mut output = project.reprise(&args).output().unwrap();
    if stderr(&output).contains("none of 40 runs was a failure") {
        assert_eq!(output.status.code(), Some(125));
        wants_one = true;
        output = project
            .reprise(&args)
            .env("WANT_ONE", "1")
            .output()
            .unwrap();
    }
    assert_eq!(output.status.code(), Some(101), "{}", stderr(&output));
    let failed = project.take_outcomes().pop().unwrap();
    let mut replay = project.reprise(&["replay", "--times", "3"]);
    if wants_one {
        replay.env("WANT_ONE", "1");
    }
    let said = run(&mut replay);
    assert!(
        said.contains(": 3 of 3 replays ended as recorded, 0 desynch"),
        "{said}"
    );
    assert_eq!(project.take_outcomes(), vec![failed; 3]);
    let output = project.reprise(&["replay", "1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let output = project.reprise(&["list"]).output().unwrap();
    let list = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(list.lines().count(), 5, "{list}");

    // Chaos makes either message the first.
    let in_chaos = [&["test", "--chaos"][..], &flaky].concat();
    for variable in ["WANT_ZERO", "WANT_ONE"] {
        let output = project
            .reprise(&in_chaos)
            .env(variable, "1")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(101), "{}", stderr(&output));
        assert!(stderr(&output).contains(" (chaos "), "{}", stderr(&output));
    }

    // Processes that a test starts are left alone, in both modes.
    run(&mut project.reprise(&["test", "-q", "--", "--exact", "tests::with_a_child"]));
    run(&mut project.reprise(&["replay"]));

    // How long a replay waits is for the user to say.
    let said = run(project
        .reprise(&["replay", "1"])
        .env("RR_CHANNEL_PATIENCE", "much"));
    assert!(said.contains("RR_CHANNEL_PATIENCE=much is not"), "{said}");

    assert_eq!(files(&project), before);
}

const IPC: &str = r#"
use ipc_channel::ipc::IpcReceiver;

#[test]
fn racing() {
    race(|r| std::iter::from_fn(|| r.recv().ok()).collect());
}

#[test]
fn streaming() {
    race(|r| futures_executor::block_on_stream(r.to_stream()).map(Result::unwrap).collect());
}

fn race(receive: impl FnOnce(IpcReceiver<u32>) -> Vec<u32>) {
    let (s, r) = ipc_channel::ipc::channel().unwrap();
    for who in 0..3_u32 {
        let s = s.clone();
        std::thread::spawn(move || {
            for _ in 0..20 {
                s.send(who).unwrap();
                std::thread::yield_now();
            }
        });
    }
    drop(s);
    let seen = receive(r);
    say(&format!("{seen:?}"));
}

include!("../src/say.rs");
"#;

#[test]
fn an_older_parking_lot_and_ipc_channel_are_replaced() {
    let dependencies = DEPENDENCIES.replace("version = \"0.12\"", "version = \"0.11\"");
    assert_ne!(dependencies, DEPENDENCIES);
    let project = project(
        &(dependencies
            + "ipc-channel = { version = \"0.23\", features = [\"async\"] }\n\
               futures-executor = \"0.3\"\n"),
    );
    project.write("tests/ipc.rs", IPC);
    record_and_replay(&project, &["--lib", "--", "--exact", "tests::locking"]);
    for test in ["racing", "streaming"] {
        record_and_replay(&project, &["--test", "ipc", "--", "--exact", test]);
    }
}

#[test]
fn the_latest_parking_lot_is_replaced() {
    let dependencies = DEPENDENCIES.replace("version = \"0.12\"", "version = \"0.13\"");
    assert_ne!(dependencies, DEPENDENCIES);
    let project = project(&dependencies);
    record_and_replay(&project, &["--lib", "--", "--exact", "tests::locking"]);
}

/// Records a test, and replays it.
fn record_and_replay(project: &Project, test: &[&str]) {
    run(&mut project.reprise(&[&["test", "-q"], test].concat()));
    let recorded = project.take_outcomes();
    let said = run(&mut project.reprise(&["replay", "--times", "3"]));
    let faithful = ": 3 of 3 replays ended as recorded, 0 desynchronised, 3 used every event";
    assert!(said.contains(faithful), "{said}");
    assert_eq!(project.take_outcomes(), vec![recorded[0].clone(); 3]);
}

/// Its threads could not be told apart.
#[test]
fn a_static_executable_is_refused() {
    let manifest = "[package]\nname = \"p\"\nedition = \"2024\"\n\
                    [dependencies]\ncrossbeam-channel = \"0.5\"\n";
    let project = Project::new(&[("Cargo.toml", manifest), ("src/lib.rs", "")]);
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = project
        .reprise(&["test", "-q", "--target", &target])
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .output()
        .unwrap();
    let said = stderr(&output);
    assert!(!output.status.success(), "{said}");
    let refusal = "cannot tell the threads of a static executable apart";
    assert!(said.contains(refusal), "{said}");
}

#[test]
fn a_project_without_channels_has_nothing_to_record() {
    let project = project("");
    let output = project.reprise(&["test"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(
        stderr(&output).contains("reprise: nothing to record: this project depends on none of"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn coverage_lists_unrecorded_uses() {
    let manifest = format!(
        "{PACKAGE}[dependencies]\ncrossbeam-channel = \"0.5\"\nrayon = \"1\"\n\n\
         [dev-dependencies]\nparking_lot = \"0.12\"\n\
         old = {{ package = \"parking_lot\", version = \"0.11\" }}\n"
    );
    let source = "use std::sync::{Arc, mpsc};\n\n#[test]\nfn a() { std::thread::park() }\n";
    let project = Project::new(&[("Cargo.toml", &manifest), ("src/lib.rs", source)]);
    let said = project.reprise(&["coverage"]).output().unwrap();
    assert!(said.status.success(), "{}", stderr(&said));
    let said = String::from_utf8(said.stdout).unwrap();
    let line = |package: &str| {
        let found = said.lines().filter(|line| line.starts_with(package));
        let words = found.map(|line| {
            line.split_whitespace()
                .skip(2)
                .collect::<Vec<_>>()
                .join(" ")
        });
        words.collect::<Vec<_>>()
    };
    assert_eq!(
        line("project "),
        ["not recorded: std's mpsc, thread::park"],
        "{said}"
    );
    assert_eq!(line("crossbeam-channel "), ["recorded"], "{said}");
    assert_eq!(line("rayon-core "), ["recorded"], "{said}");
    assert_eq!(line("parking_lot 0.12"), ["recorded"], "{said}");
    assert_eq!(line("parking_lot 0.11"), ["not recorded"], "{said}");

    let json = project.reprise(&["coverage", "--json"]).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json[0]["package"], "project", "{json}");
    assert_eq!(
        json[0]["not_recorded"],
        serde_json::json!(["mpsc", "thread::park"])
    );

    // Whoever records is told, before anything is built.
    let output = project.reprise(&["test", "--no-such-option"]).output();
    let said = stderr(&output.unwrap());
    for told in [
        "reprise: dependencies that are not recorded: parking_lot 0.11.",
        "reprise: locks and channels of std, which are not recorded, are used in project \
         (mpsc, thread::park), ",
    ] {
        assert!(said.contains(told), "{said}");
    }
}

#[test]
fn a_recording_that_cannot_be_replayed_is_an_error() {
    let project = project(DEPENDENCIES);
    let output = project.reprise(&["replay"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    let said = stderr(&output);
    assert!(
        said.contains("reprise: there is no recording in "),
        "{said}"
    );
    let output = project
        .reprise(&["test", "--manifest-path", "none/Cargo.toml"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    let said = stderr(&output);
    assert!(said.contains("reprise: `cargo metadata` failed"), "{said}");
}
