//! A store with killed writers, on a full disk, and in a directory without write permission.
//!
//! The writers are this test program itself, which runs one of the ignored tests below.

use std::fs;
use std::io::Write;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use process_cache::model::fact::{Answer, Digest, Fact, Query};
use process_cache::model::file_key::FileKey;
use process_cache::model::miss::Miss;
use process_cache::model::outcome::{Effect, Ending, Outcome, StreamChunk, StreamData, Time};
use process_cache::model::weak_key::WeakKey;
use process_cache::restore;
use process_cache::store::{DigestTable, Lookup, Store, StoreError, Trust};

const DIR: &str = "PCACHE_TEST_STORE";

fn key(n: u32) -> WeakKey {
    let mut digest = [0; 32];
    digest[..4].copy_from_slice(&n.to_le_bytes());
    WeakKey(Digest(digest))
}

fn facts(n: u32) -> Vec<Vec<Fact>> {
    let fact = |m: u32| Fact {
        query: Query::Content(format!("/header/{m}").as_str().into()),
        answer: Answer::Error(n as i32),
    };
    vec![(0..20).map(fact).collect(), (20..40).map(fact).collect()]
}

/// Content that contains its number, with a varying length.
fn content(n: u32) -> Vec<u8> {
    format!("{n} ").into_bytes().repeat(1 + n as usize % 5000)
}

fn outcome(n: u32, content: Digest, length: u64) -> Outcome {
    Outcome {
        ending: Ending::Exited(0),
        stream: vec![StreamChunk {
            fd: 1,
            data: StreamData::Stored(content, length),
        }],
        positions: Vec::new(),
        flags: Vec::new(),
        effects: vec![Effect::Write {
            path: format!("/nowhere/{n}").as_str().into(),
            content,
            length,
            holes: false,
            mode: None,
            create_mode: 0o644,
            fresh: true,
            time: Time::Present,
        }],
        ages: Vec::new(),
        facts: Vec::new(),
        conditions: None,
        cpu_us: u64::from(n),
        wall_us: 0,
        units: 1,
    }
}

fn record(store: &Store, n: u32) -> Result<u64, StoreError> {
    let bytes = content(n);
    let digest = store.put_bytes(&bytes)?;
    store.record(
        &key(n % 7),
        facts(n),
        &outcome(n, digest, bytes.len() as u64),
    )
}

fn table_key(n: u32) -> FileKey {
    FileKey {
        device: 1,
        inode: u64::from(n % 1000),
        size: u64::from(n),
        modified: 1,
        changed: 1,
    }
}

fn table_digest(n: u32) -> Digest {
    key(n).0
}

/// Runs one of the ignored tests in a separate process.
fn writer(name: &str, dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", name])
        .env(DIR, dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
#[ignore = "a helper of writers_that_are_killed_leave_a_usable_store"]
fn record_for_ever() {
    let Some(dir) = std::env::var_os(DIR).map(PathBuf::from) else {
        return;
    };
    let store = Store::open(&dir).unwrap();
    for n in (0..).map(|n: u32| n.wrapping_mul(7919) % 100_000) {
        record(&store, n).unwrap();
        let table = DigestTable::open(dir.join("digests"), false);
        for m in n..n + 3 {
            table.insert(&table_key(m), table_digest(m), 0, Trust::HashedAt(i64::MAX));
        }
        table.flush().unwrap();
        println!("recorded {n}");
    }
}

#[test]
fn writers_that_are_killed_leave_a_usable_store() {
    let dir = tempfile::tempdir().unwrap();
    let mut known = Vec::new();
    for round in 1..=12 {
        let mut writers: Vec<Child> = (0..2)
            .map(|_| writer("record_for_ever", dir.path()))
            .collect();
        let output = writers[0].stdout.take().unwrap();
        let numbers = BufReader::new(output).lines().map_while(Result::ok);
        let numbers =
            numbers.filter_map(|line| line.split_once("recorded ")?.1.parse::<u32>().ok());
        known.extend(numbers.take(round * 3));
        for child in &mut writers {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        check(dir.path(), &known);
    }
    // Unfinished files are collected once they are old.
    let store = Store::open(dir.path()).unwrap();
    for file in fs::read_dir(dir.path().join("tmp")).unwrap() {
        let file = fs::File::open(file.unwrap().path()).unwrap();
        file.set_modified(std::time::SystemTime::UNIX_EPOCH)
            .unwrap();
    }
    let limits = process_cache::model::limits::Limits {
        max_bytes: u64::MAX,
        max_age: None,
    };
    store.gc(limits).unwrap();
    let findings = store.check(false).unwrap();
    assert_eq!(findings.damaged, []);
    assert_eq!(fs::read_dir(dir.path().join("tmp")).unwrap().count(), 0);
}

/// Checks that all blobs reported by a writer exist, and that no blob is wrong.
fn check(dir: &Path, known: &[u32]) {
    let store = Store::open(dir).unwrap();
    for &n in known {
        let ask = &mut |_: &Query| Answer::Error(n as i32);
        match store.lookup(&key(n % 7), ask).unwrap() {
            Lookup::Hit(found) => {
                assert_eq!(found.cpu_us, u64::from(n));
                let StreamData::Stored(digest, length) = found.stream[0].data else {
                    panic!("an inline chunk");
                };
                let bytes = store.get_bytes(&digest).unwrap();
                assert_eq!((bytes.len() as u64, bytes), (length, content(n)));
            }
            // A tree keeps the newest results only, but it exists.
            Lookup::Miss(Miss::Changed { .. }) => {}
            Lookup::Miss(miss) => panic!("{n}: {miss:?}"),
        }
    }
    let table = DigestTable::open(dir.join("digests"), true);
    for n in (0..100_000).step_by(7) {
        let found = table.get(&table_key(n));
        assert!(found.is_none_or(|found| found == (table_digest(n), 0)));
    }
    record(&store, 1).unwrap();
}

#[test]
#[ignore = "a helper of a_full_disk_is_an_error_value; expects a small file system"]
fn fill_the_disk() {
    let Some(dir) = std::env::var_os(DIR).map(PathBuf::from) else {
        return;
    };
    let store = Store::open(dir.join("store")).unwrap();
    let mut stored = Vec::new();
    let error = loop {
        let n = stored.len() as u32 * 5000 + 4999;
        match record(&store, n) {
            Ok(_) => stored.push(n),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Io { .. }), "{error}");
    assert!(!stored.is_empty());
    // A large content is written while it is hashed.
    let mut large = tempfile::tempfile_in("/dev/shm")
        .or_else(|_| tempfile::tempfile())
        .unwrap();
    large.write_all(&vec![1; 2 << 20]).unwrap();
    assert!(matches!(
        store.put_file(&large, 2 << 20),
        Err(StoreError::Io { .. })
    ));
    let table = DigestTable::open(dir.join("store/digests"), false);
    for n in 0..20_000 {
        let key = FileKey {
            inode: n,
            ..table_key(0)
        };
        table.insert(&key, Digest([1; 32]), 0, Trust::HashedAt(i64::MAX));
    }
    assert!(table.flush().is_err());
    // A restore needs room too; existing files stay.
    let target = dir.join("out");
    fs::write(&target, "old").unwrap();
    let n = stored[0];
    let bytes = content(n);
    let digest = store.put_bytes(&bytes).unwrap();
    let Effect::Write {
        create_mode, time, ..
    } = outcome(n, digest, 0).effects[0].clone()
    else {
        unreachable!("a write");
    };
    let effects: Vec<Effect> = (0..100)
        .map(|n| Effect::Write {
            path: if n == 0 {
                target.clone()
            } else {
                dir.join(n.to_string())
            }
            .into(),
            content: digest,
            length: bytes.len() as u64,
            holes: false,
            mode: None,
            create_mode,
            fresh: true,
            time,
        })
        .collect();
    let error = restore::apply(&store, &effects).unwrap_err();
    assert!(error.is_clean(), "{error}");
    assert_eq!(fs::read(&target).unwrap(), b"old");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 2);
    // Failed writes use none of the remaining room.
    assert_eq!(fs::read_dir(dir.join("store/tmp")).unwrap().count(), 0);
    for n in stored {
        let ask = &mut |_: &Query| Answer::Error(n as i32);
        let found = store.lookup(&key(n % 7), ask).unwrap();
        assert!(matches!(found, Lookup::Hit(_)), "{n}: {found:?}");
    }
    println!("full and well");
}

#[test]
fn a_full_disk_is_an_error_value() {
    let dir = tempfile::tempdir().unwrap();
    let script = r#"mount -t tmpfs -o size=512k none "$PCACHE_TEST_STORE" || exit 77
        exec "$0" --ignored --exact --nocapture fill_the_disk"#;
    let output = Command::new("unshare")
        .args(["--mount", "--map-root-user", "sh", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .env(DIR, dir.path())
        .output();
    let Ok(output) = output else {
        eprintln!("skipped: there is no unshare(1)");
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    if matches!(output.status.code(), Some(1 | 77)) {
        eprintln!("skipped: a file system cannot be mounted here: {complained}");
        return;
    }
    assert!(said.contains("full and well"), "{said}{complained}");
}

#[test]
fn a_directory_that_cannot_be_written_serves_readers() {
    let dir = tempfile::tempdir().unwrap();
    record(&Store::open(dir.path()).unwrap(), 5).unwrap();
    let allow = |mode| fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).unwrap();
    allow(0o555);
    let store = Store::open(dir.path()).unwrap();
    // Root may write to every directory.
    if store.is_read_only() {
        assert!(matches!(record(&store, 6), Err(StoreError::ReadOnly)));
    }
    let found = store.lookup(&key(5), &mut |_| Answer::Error(5)).unwrap();
    assert!(matches!(found, Lookup::Hit(_)));
    allow(0o755);
}
