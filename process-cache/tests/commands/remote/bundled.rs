//! Results that a server inlines with path sets, including their contents.

use std::fs;

use process_cache::remote::bundle::{self, Bundle};
use process_cache::remote::codec::Key;

use super::server::{FakeServer, Kind, PLAIN};
use super::{check_shared, sandbox};

/// Makes more files than one compiler would.
const BUILD: &str = "for i in 1 2 3 4 5; do seq $i 2000 > f$i; done; cat in; echo done";

/// Checks on another machine, with all bundles changed, that the build is skipped and makes the
/// same files.
#[track_caller]
fn check_not_needed(change: impl Fn(Bundle, usize) -> Vec<u8>) {
    let server = FakeServer::start(PLAIN);
    let sandbox = sandbox("echo 1 > in", &server.url());
    let plain = sandbox.plain(BUILD);
    let files = |n: u32| fs::read(sandbox.path(&format!("f{n}"))).expect("a file");
    let all: usize = (1..=5).map(|n| files(n).len()).sum();
    sandbox.reset();
    sandbox.cached(BUILD);
    let changed = server.change_bundles(|bytes| {
        let bundle = Bundle::decode(bytes).expect("a bundle");
        change(bundle, all)
    });
    assert_eq!(changed, 1, "the whole has one");
    sandbox.elsewhere();
    let there = sandbox.cached(BUILD);
    there.assert_like(&plain, "elsewhere");
    there.assert_hit();
}

#[test]
fn a_build_comes_with_one_request() {
    let server = FakeServer::start(PLAIN);
    let sandbox = sandbox("echo 1 > in", &server.url());
    let plain = sandbox.plain(BUILD);
    sandbox.reset();
    sandbox.cached(BUILD);
    sandbox.elsewhere();
    let before = ["get", "batch read", "read"].map(|what| server.asked(what));
    let there = sandbox.cached(BUILD);
    there.assert_like(&plain, "elsewhere");
    there.assert_hit();
    let after = ["get", "batch read", "read"].map(|what| server.asked(what));
    assert_eq!(after, [before[0] + 1, before[1], before[2]]);
    assert_ne!(sandbox.told()["received_bytes"], 0);
}

#[test]
fn a_server_without_inlined_contents_serves() {
    let server = FakeServer::start(Kind {
        inlines: false,
        ..PLAIN
    });
    check_shared(&sandbox("echo 1 > in", &server.url()), BUILD);
}

#[test]
fn a_bundle_for_other_inputs_is_not_used() {
    let server = FakeServer::start(PLAIN);
    let sandbox = sandbox("echo 1 > in", &server.url());
    sandbox.cached(BUILD);
    sandbox.elsewhere();
    sandbox.edit("echo 2 > in");
    let run = sandbox.cached(BUILD);
    assert_eq!(run.out, "2\ndone\n");
    assert!(!run.is_hit());
}

#[test]
fn a_bundle_is_never_needed() {
    check_not_needed(|_, _| b"rubbish".to_vec());
    check_not_needed(|_, _| Vec::new());
    let encode = |key, result: &[u8], contents: &[u8]| {
        let bundle = bundle::encode(key, result, contents).expect("zstd");
        bundle.expect("a short one")
    };
    // For another result; too short; with other contents of the same length.
    check_not_needed(|found, all| encode(Key([7; 32]), &found.result, &vec![b'x'; all]));
    check_not_needed(|found, all| encode(found.key, &found.result, &vec![b'x'; all - 1]));
    check_not_needed(|found, all| encode(found.key, &found.result, &vec![b'x'; all]));
}

#[test]
fn a_bundled_result_is_checked_like_any_other() {
    let server = FakeServer::start(PLAIN);
    let sandbox = sandbox("echo 1 > in", &server.url());
    let plain = sandbox.plain(BUILD);
    let files = |n: u32| fs::read(sandbox.path(&format!("f{n}"))).expect("a file");
    let all: usize = (1..=5).map(|n| files(n).len()).sum();
    sandbox.reset();
    sandbox.cached(BUILD);
    server.change_bundles(|bytes| {
        let found = Bundle::decode(bytes).expect("a bundle");
        let mut stored =
            process_cache::remote::codec::decode_result(&found.result).expect("a result");
        for effect in &mut stored.outcome.effects {
            if let process_cache::model::outcome::Effect::Write { path, .. } = effect {
                *path = "/usr/planted".into();
            }
        }
        let result = process_cache::remote::codec::encode_result(&stored).expect("a result");
        let bundle = bundle::encode(found.key, &result, &vec![b'x'; all]).expect("zstd");
        bundle.expect("a short one")
    });
    sandbox.elsewhere();
    let run = sandbox.cached(BUILD);
    run.assert_like(&plain, "elsewhere");
    assert!(!run.is_hit());
    let miss = &run.whole().miss;
    assert!(miss.contains("refused"), "{miss}");
    assert!(!std::path::Path::new("/usr/planted").exists());
}
