//! `cargo reprise test --std` on projects that use nothing but `std`.

mod common;

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::thread;

use common::{PACKAGE, Project, run, stderr};

const LIBRARY: &str = r#"
//! ```
//! let lock = std::sync::Mutex::new(5);
//! assert_eq!(project::content(&lock), 5);
//! ```

use std::sync::Mutex;

pub fn content(lock: &Mutex<u8>) -> u8 {
    *lock.lock().unwrap()
}

#[cfg(test)]
mod tests {
    use std::any::type_name;
    use std::collections::HashMap;
    use std::sync::{mpsc, Arc, Condvar, Mutex, Once, OnceLock, RwLock};
    use std::thread;

    include!("say.rs");

    static CHANGED: Condvar = Condvar::new();
    static LEFT: Mutex<u8> = Mutex::new(4);
    #[allow(deprecated)]
    static FIRST: Once = std::sync::ONCE_INIT;

    #[test]
    fn racing() {
        let order = Arc::new(Mutex::new(String::new()));
        let last = RwLock::new(0);
        let winner = OnceLock::new();
        let (sender, receiver) = mpsc::channel();
        thread::scope(|scope| {
            for who in 0..4 {
                let (order, sender, last, winner) = (&order, sender.clone(), &last, &winner);
                scope.spawn(move || {
                    for turn in 0..20 {
                        order.lock().unwrap().push_str(&who.to_string());
                        sender.send(who).unwrap();
                        *last.write().unwrap() = who;
                        winner.get_or_init(|| who);
                        FIRST.call_once(|| order.lock().unwrap().push('!'));
                        if turn % 7 == who {
                            thread::yield_now();
                        }
                    }
                    *LEFT.lock().unwrap() -= 1;
                    CHANGED.notify_one();
                });
            }
            let left = LEFT.lock().unwrap();
            drop(CHANGED.wait_while(left, |left| *left > 0).unwrap());
        });
        drop(sender);
        let received: String = receiver.iter().map(|who| who.to_string()).collect();
        let map: HashMap<_, _> = (0..8).map(|n| (n, ())).collect();
        let keys: Vec<_> = map.keys().collect();
        let (order, last) = (order.lock().unwrap(), last.into_inner().unwrap());
        say(&format!("{order} {received} {last} {:?} {keys:?}", winner.get()));
    }

    #[test]
    fn types() {
        say(type_name::<Mutex<()>>());
    }
}
"#;

/// Reads clocks before it does anything that is recorded, in between, and in a thread that does
/// nothing else. Its allocator reads one, too, and takes a lock of `std`.
const PROGRAM: &str = r#"
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

include!("say.rs");

/// Reads a clock while it holds a lock, as jemalloc does.
struct Locking(AtomicBool);

#[global_allocator]
static ALLOCATOR: Locking = Locking(AtomicBool::new(false));

unsafe extern "C" {
    fn clock_gettime(clock: i32, time: *mut [i64; 2]) -> i32;
}

unsafe impl GlobalAlloc for Locking {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        static ALLOCATED: Mutex<usize> = Mutex::new(0);
        *ALLOCATED.lock().unwrap() += layout.size();
        while self.0.swap(true, Ordering::Acquire) {
            std::hint::spin_loop();
        }
        let mut time = [0; 2];
        unsafe { clock_gettime(1, &raw mut time) };
        self.0.store(false, Ordering::Release);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        unsafe { System.dealloc(place, layout) }
    }
}

fn main() {
    let start = Instant::now();
    let early = SystemTime::now();
    let lock = Mutex::new(0);
    let reads = std::thread::spawn(|| (0..9).map(|_| SystemTime::now()).collect::<Vec<_>>());
    while start.elapsed() < Duration::from_millis(3) {
        *lock.lock().unwrap() += 1;
    }
    let turns = lock.into_inner().unwrap();
    let reads = reads.join().unwrap();
    say(&format!("{early:?} {turns} {:?} {reads:?}", start.elapsed()));
}
"#;

/// Notes each call of a compiler, and makes it.
const WRAPPER: &str = "#!/bin/sh\necho called >> \"$0.log\"\nexec \"$@\"\n";

#[test]
fn the_order_of_what_threads_do_with_std_is_replayed() {
    let project = Project::new(&[("Cargo.toml", PACKAGE), ("src/lib.rs", LIBRARY)]);
    let mut outcomes = HashSet::new();
    for options in [
        &["test", "--std", "-q"][..],
        &["test", "--std", "--chaos", "-q"],
    ] {
        let args = [options, &["--lib", "--", "--exact", "tests::racing"]].concat();
        run(&mut project.reprise(&args));
        let recorded = project.take_outcomes();
        let said = run(&mut project.reprise(&["replay", "--times", "8"]));
        let faithful = "8 of 8 replays ended as recorded, 0 desynchronised, 8 used every event";
        assert!(said.contains(faithful), "{said}");
        assert_eq!(project.take_outcomes(), vec![recorded[0].clone(); 8]);
        outcomes.extend(recorded);
    }
    assert_eq!(
        outcomes.len(),
        2,
        "the runs differ at least in their random seeds"
    );
}

#[test]
fn what_a_program_reads_from_clocks_is_replayed() {
    let project = Project::new(&[("Cargo.toml", PACKAGE), ("src/main.rs", PROGRAM)]);
    run(&mut project.reprise(&["run", "--std", "-q"]));
    let recorded = project.take_outcomes();
    let said = run(&mut project.reprise(&["replay", "--times", "5"]));
    let faithful = "5 of 5 replays ended as recorded, 0 desynchronised, 5 used every event";
    assert!(said.contains(faithful), "{said}");
    assert_eq!(project.take_outcomes(), vec![recorded[0].clone(); 5]);
}

#[test]
fn programs_that_abort_where_they_panic_are_recorded() {
    let manifest = format!("{PACKAGE}[profile.dev]\npanic = \"abort\"\n");
    let project = Project::new(&[("Cargo.toml", &manifest), ("src/main.rs", PROGRAM)]);
    run(&mut project.reprise(&["run", "--std", "-q"]));
    run(&mut project.reprise(&["replay"]));
    let outcomes = project.take_outcomes();
    assert_eq!((outcomes.len(), &outcomes[0]), (2, &outcomes[1]));
}

#[test]
fn a_plain_build_afterwards_has_the_original() {
    let project = Project::new(&[("Cargo.toml", PACKAGE), ("src/lib.rs", LIBRARY)]);
    let wrapper = project.path().join("wrapper");
    fs::write(project.path().join("text"), WRAPPER).unwrap();
    // By another process: it is not open for writing in a child of another test.
    run(Command::new("cp")
        .arg(project.path().join("text"))
        .arg(&wrapper));
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    let types = ["--", "--exact", "tests::types"];

    // With tests in the documentation, and a wrapper of the user's.
    let output = project
        .reprise(&["test", "--std"])
        .env("RUSTC_WRAPPER", &wrapper)
        .output()
        .unwrap();
    let said = stderr(&output);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{printed}");
    assert!(
        printed.contains("src/lib.rs - (line 2) ... ok"),
        "{printed}"
    );
    assert!(wrapper.with_extension("log").exists());
    let mut recorded = project.take_outcomes();
    recorded.retain(|line| line.contains("Mutex"));
    assert_eq!(recorded, ["rr_channel_core::sync::mutex::Mutex<()>"]);

    let plain = project.reprise(&[]);
    let mut cargo = Command::new(env!("CARGO"));
    cargo.envs(
        plain
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    cargo.args(["test", "-q", "--offline", "--lib"]).args(types);
    run(cargo.current_dir(project.path()));
    let seen = project.take_outcomes();
    assert_eq!(seen, ["std::sync::poison::mutex::Mutex<()>"]);
}

#[test]
fn the_std_is_built_without_the_configuration_of_the_project() {
    let configuration = "[profile.release]\npanic = \"abort\"\n\
                         [source.crates-io]\nreplace-with = \"nothing\"\n\
                         [source.nothing]\ndirectory = \"vendor\"\n";
    let project = Project::new(&[
        ("Cargo.toml", PACKAGE),
        ("src/lib.rs", LIBRARY),
        (".cargo/config.toml", configuration),
        ("vendor/.keep", ""),
    ]);
    let mut reprise = project.reprise(&["test", "--std", "--lib"]);
    // Not below the project, whose configuration would hold there.
    let cache = tempfile::tempdir().unwrap();
    run(reprise
        .env("XDG_CACHE_HOME", cache.path())
        .env("CARGO_PROFILE_RELEASE_PANIC", "abort"));
}

#[test]
fn recordings_with_and_without_it_can_be_built_at_once() {
    let manifest = format!("{PACKAGE}[dependencies]\ncrossbeam-channel = \"0.5\"\n");
    let source = "#[test]\nfn sends() {\n    let (s, r) = crossbeam_channel::unbounded();\n    \
                  s.send(1).unwrap();\n    assert_eq!(r.recv(), Ok(1));\n}\n";
    let project = Project::new(&[("Cargo.toml", &manifest), ("src/lib.rs", source)]);
    let options: [&[&str]; 3] = [&["test"], &["test", "--std"], &["test", "--std"]];
    thread::scope(|scope| {
        for options in options {
            scope.spawn(|| run(&mut project.reprise(options)));
        }
    });
}

#[test]
fn without_it_there_is_nothing_to_record() {
    let project = Project::new(&[("Cargo.toml", PACKAGE), ("src/lib.rs", LIBRARY)]);
    let output = project.reprise(&["test"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("`--std`"), "{}", stderr(&output));
}
