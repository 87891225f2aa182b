//! Results of one machine hit on another one.
//!
//! The two machines are one sandbox whose store is removed in between. The server is part of this
//! test ([`server`]), so that the protocol is tested everywhere; stock servers are used if
//! installed ([`stock`]).

mod bundled;
mod faults;
mod hostile;
mod server;
mod stock;

use std::fs::{self, File};
use std::process::Command;

use process_cache::remote::digest::Function;
use serde_json::Value;

use self::server::{FakeServer, Kind, PLAIN};
use crate::support::{PCACHE, Run, Sandbox};

/// Creates a sandbox whose runs use this remote cache, with long time limits for a busy machine.
fn sandbox(setup: &str, url: &str) -> Sandbox {
    let mut sandbox = Sandbox::new(setup);
    let patient = ["--remote-patience", "--remote-wait", "--remote-timeout"];
    sandbox.options = vec!["--remote".to_owned(), url.to_owned()];
    let options = patient
        .iter()
        .flat_map(|option| [(*option).to_owned(), "300".to_owned()]);
    sandbox.options.extend(options);
    sandbox
        .options
        .extend(["--remote-keep", "now"].map(str::to_owned));
    sandbox
}

impl Sandbox {
    /// Simulates another machine: the original tree, and an empty store.
    fn elsewhere(&self) {
        self.reset();
        fs::remove_dir_all(self.store()).expect("a store");
    }

    /// Returns the last run's report on its remote cache.
    fn told(&self) -> Value {
        let text = fs::read(self.report()).expect("a report");
        let report: Value = serde_json::from_slice(&text).expect("JSON");
        report["remote"].clone()
    }
}

/// Checks that the command behaves as the plain one here and on another machine, and is skipped
/// there.
#[track_caller]
fn check_shared(sandbox: &Sandbox, command: &str) -> Run {
    let plain = sandbox.plain(command);
    sandbox.reset();
    sandbox.cached(command).assert_like(&plain, "here");
    let told = sandbox.told();
    assert_eq!(told["not_stored"], 0, "{told}");
    assert_ne!(told["stored"], 0, "{told}");
    sandbox.elsewhere();
    let there = sandbox.cached(command);
    there.assert_like(&plain, "elsewhere");
    let told = sandbox.told();
    assert!(there.is_hit(), "{told}, {:#?}", there.units);
    assert_eq!(told["hits"], 1);
    // Afterwards the local store has it too.
    sandbox.reset();
    let again = sandbox.cached(command);
    again.assert_like(&plain, "again");
    again.assert_hit();
    assert_eq!(sandbox.told()["hits"], 0);
    there
}

#[test]
fn a_result_of_one_machine_hits_on_another() {
    for function in [Function::Sha256, Function::Blake3] {
        for zstd in [false, true] {
            for inlines in [false, true] {
                let server = FakeServer::start(Kind {
                    function,
                    zstd,
                    inlines,
                });
                let sandbox = sandbox("seq 3000 > f", &server.url());
                check_shared(&sandbox, "sort -r f > g; echo out; echo err >&2; exit 3");
            }
        }
    }
}

/// The command does not wait for the store, and no inherited descriptor of pcache stays open
/// meanwhile.
#[test]
fn a_background_process_stores_the_whole_command() {
    let server = FakeServer::start(PLAIN);
    let mut sandbox = sandbox("seq 3000 > f", &server.url());
    *sandbox.options.last_mut().expect("options") = "behind".to_owned();
    let path = sandbox.dir().with_file_name("lock");
    // It has a lock as standard input and as another descriptor.
    let run = || {
        let lock = File::create(&path).expect("a file");
        lock.try_lock().expect("nobody has it");
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec 9<&0; exec \"$@\"", "sh"]);
        shell.arg(PCACHE).args(sandbox.pcache().get_args());
        shell.args(["--", "sh", "-c", "sort -r f > g; echo out"]);
        sandbox.run(sandbox.environment(&mut shell).stdin(lock))
    };
    run();
    sandbox.elsewhere();
    loop {
        run().assert_hit();
        if sandbox.told()["hits"] == 0 {
            break;
        }
        sandbox.reset();
    }
}

#[test]
fn all_file_effects_are_uploaded_and_restored() {
    let server = FakeServer::start(PLAIN);
    let sandbox = sandbox(
        "echo a > a; echo b > b; mkdir d; echo c > d/c; echo old > log; ln -s a l",
        &server.url(),
    );
    let command = "rm a; mv b e; rm -r d; mkdir -p n/m; echo x > n/m/x; ln -s x n/m/y
        ln n/m/x n/z; echo new >> log; chmod 700 n; touch -d @1000000000 e; : > empty; rm l";
    check_shared(&sandbox, command);
}

#[test]
fn large_contents_travel_as_streams() {
    for zstd in [false, true] {
        let server = FakeServer::start(Kind { zstd, ..PLAIN });
        // Hardly compressible data.
        let setup = "head -c 3000000 /dev/urandom > f; head -c 6000000 /dev/zero > z";
        let sandbox = sandbox(setup, &server.url());
        sandbox.edit("cp f z /tmp/ 2>/dev/null; :");
        let command = "cat f f f > g; cat z g > h; cat z z | tail -c 5000000";
        sandbox.cached(command);
        let sums = |sandbox: &Sandbox| sandbox.plain("cksum g h").out;
        let here = sums(&sandbox);
        assert!(server.asked("write") > 0, "as a stream");
        sandbox.edit("rm g h");
        fs::remove_dir_all(sandbox.store()).expect("a store");
        let there = sandbox.cached(command);
        there.assert_hit();
        assert!(server.asked("read") > 0, "as a stream");
        assert_eq!(sums(&sandbox), here);
        assert_eq!(there.out.len(), 5_000_000);
    }
}

#[test]
fn a_leaf_is_skipped_inside_of_a_tree_that_runs() {
    let server = FakeServer::start(PLAIN);
    let sandbox = sandbox("seq 300 > a; seq 500 > b", &server.url());
    sandbox.cached("sort a > x; sort b > y");
    sandbox.elsewhere();
    sandbox.edit("echo 7 > b");
    let run = sandbox.cached("sort a > x; sort b > y");
    assert_eq!(run.whole().result, "stored");
    assert_eq!(run.unit("sort a").result, "hit");
    assert_eq!(run.unit("sort b").result, "stored");
    assert_eq!(sandbox.text("y"), "7\n");
}

/// The build of redis does this: a header contains its creation time, and other files include it.
#[test]
fn a_header_with_a_time_and_its_users_are_rebuilt_elsewhere() {
    let server = FakeServer::start(PLAIN);
    let setup = r#"
        echo 'echo "char *id = \"$(uname -n)-$(date +%s%N)\";" > release.h' > header.sh
        echo '#include "release.h"' > release.c; echo 'int x = 1;' > other.c"#;
    let sandbox = sandbox(setup, &server.url());
    let build = || {
        let run = sandbox
            .cached("sh header.sh; cc -c release.c; cc -c other.c; cat release.o other.o > all");
        assert!(run.status.success(), "{run:?}");
        let id = sandbox.plain("cut -d '\"' -f 2 release.h | tee id").out;
        assert!(id.len() > 20, "{id:?}");
        for file in ["release.o", "all"] {
            let found = sandbox.plain(&format!("grep -q -F -f id {file}"));
            assert!(
                found.status.success(),
                "{file} was made from another header"
            );
        }
        (run, id)
    };
    let (_, here) = build();
    sandbox.elsewhere();
    let (run, there) = build();
    assert_ne!(here, there, "the header is an old one");
    run.assert_uncacheable("time of day");
    assert_eq!(run.unit("sh header.sh").result, "not_stored");
    assert_eq!(run.unit("date").result, "not_stored");
    assert_eq!(run.unit("cc -c release.c").result, "stored");
    assert_eq!(run.unit("cc -c other.c").result, "hit");
    assert_eq!(run.unit("cat release.o").result, "stored");
}

#[test]
fn results_with_different_path_sets_are_both_found() {
    let server = FakeServer::start(PLAIN);
    let command = "if [ -e flag ]; then cat a; else cat b; fi";
    let sandbox = sandbox("echo a > a; echo b > b", &server.url());
    assert_eq!(sandbox.cached(command).out, "b\n");
    sandbox.elsewhere();
    sandbox.edit_then("echo 1 > flag");
    assert_eq!(sandbox.cached(command).out, "a\n");
    sandbox.elsewhere();
    let run = sandbox.cached(command);
    assert_eq!(run.out, "b\n");
    run.assert_hit();
}

#[test]
fn a_changed_input_is_a_miss() {
    let server = FakeServer::start(PLAIN);
    let sandbox = sandbox("echo 1 > a", &server.url());
    sandbox.cached("cat a");
    sandbox.elsewhere();
    sandbox.edit("echo 2 > a");
    let run = sandbox.cached("cat a");
    assert_eq!(run.out, "2\n");
    assert!(!run.is_hit());
}

#[test]
fn remote_mode_read_uploads_nothing_and_write_downloads_nothing() {
    let server = FakeServer::start(PLAIN);
    let mut sandbox = sandbox("seq 300 > a", &server.url());
    let usual = sandbox.options.clone();
    let with = |mode: &str| {
        let mut options = usual.clone();
        options.extend(["--remote-mode".to_owned(), mode.to_owned()]);
        options
    };
    sandbox.options = with("read");
    sandbox.cached("sort a");
    assert_eq!((server.entries(), server.asked("update")), (0, 0));
    sandbox.elsewhere();
    sandbox.options = with("write");
    sandbox.cached("sort a");
    let asked = server.asked("get");
    assert!(server.entries() > 0);
    sandbox.elsewhere();
    assert!(!sandbox.cached("sort a").is_hit());
    let told = sandbox.told();
    assert_eq!((&told["hits"], &told["misses"]), (&0.into(), &0.into()));
    assert!(
        server.asked("get") > asked,
        "path sets are read to be extended"
    );
    sandbox.elsewhere();
    sandbox.options = with("read");
    sandbox.cached("sort a").assert_hit();
}

#[test]
fn a_read_only_store_keeps_no_downloads() {
    let server = FakeServer::start(PLAIN);
    let setup = "seq 300 > a; seq 500 > b; head -c 3000000 /dev/zero > z";
    let mut sandbox = sandbox(setup, &server.url());
    let command = "sort a > x; sort b > y; cat z z > zz; cat x";
    let plain = sandbox.plain(command);
    sandbox.reset();
    sandbox.cached(command);
    // Another machine, whose store another user has filled with other data.
    sandbox.elsewhere();
    sandbox.cached("sort -r a > other");
    sandbox.reset();
    let store = sandbox.store();
    let files = || {
        let mut open = vec![store.clone()];
        let mut found = Vec::new();
        while let Some(path) = open.pop() {
            if path.is_dir() {
                let entries = fs::read_dir(&path).expect("a directory");
                open.extend(entries.map(|entry| entry.expect("an entry").path()));
            } else {
                found.push((path.clone(), fs::read(&path).expect("a file")));
            }
        }
        found.sort();
        found
    };
    let before = files();
    sandbox.options.push("--read-only".to_owned());
    let there = sandbox.cached(command);
    there.assert_like(&plain, "elsewhere");
    there.assert_hit();
    // In a tree that runs, too.
    sandbox.reset();
    sandbox.edit("echo 7 > b");
    let run = sandbox.cached(command);
    assert_ne!(run.whole().result, "hit");
    assert_eq!(run.unit("sort a").result, "hit");
    assert_eq!(run.unit("cat z z").result, "hit");
    assert_eq!(sandbox.text("y"), "7\n");
    assert_eq!(sandbox.told()["trouble"].as_array().map(Vec::len), Some(0));
    assert!(before == files(), "the store is as it was");
}

#[test]
fn without_the_option_no_server_is_contacted() {
    let server = FakeServer::start(PLAIN);
    let sandbox = Sandbox::new("seq 300 > a");
    sandbox.cached("sort a");
    assert!(sandbox.told().is_null());
    assert_eq!(server.asked("capabilities"), 0);
}

#[test]
fn every_request_carries_the_instance_and_secrets() {
    let server = FakeServer::start(PLAIN);
    let url = format!("grpc://localhost:{}/team/main", server.port());
    let mut sandbox = sandbox("head -c 5000000 /dev/urandom > f; seq 20 > s", &url);
    let secrets = tempfile::tempdir().expect("a directory");
    let (token, headers) = (secrets.path().join("token"), secrets.path().join("headers"));
    fs::write(&token, "s3cret\n").expect("a file");
    fs::write(&headers, "x-team: a\n\nx-other: b: c\n").expect("a file");
    for (option, file) in [("--remote-token", &token), ("--remote-headers", &headers)] {
        sandbox.options.push(option.to_owned());
        sandbox.options.push(file.display().to_string());
    }
    sandbox.cached("cp f g; cp s t; sort s");
    fs::remove_dir_all(sandbox.store()).expect("a store");
    sandbox.edit("rm g t");
    sandbox.cached("cp f g; cp s t; sort s").assert_hit();
    let instances = server.instances();
    assert!(
        instances.iter().all(|name| name == "team/main"),
        "{instances:?}"
    );
    for what in [
        "get",
        "update",
        "missing",
        "batch write",
        "batch read",
        "write",
        "read",
    ] {
        assert!(server.asked(what) > 0, "{what}");
    }
    let tokens = server.tokens();
    assert!(tokens.iter().all(|token| token == "Bearer s3cret"));
    assert!(tokens.len() >= instances.len(), "each request shows it");
}

#[test]
fn a_server_can_be_known_by_its_certificate() {
    let certificate = include_bytes!("localhost.pem");
    let key = include_bytes!("localhost.key");
    let identity = tonic::transport::Identity::from_pem(certificate, key);
    let server = FakeServer::start_with(PLAIN, Some(identity));
    let url = format!("grpcs://localhost:{}", server.port());
    let mut sandbox = sandbox("seq 300 > a", &url);
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("ca.pem");
    fs::write(&file, certificate).expect("a file");
    // It has no signature that the system trusts.
    sandbox.cached("sort a");
    let trouble = sandbox.told()["trouble"].to_string();
    assert!(trouble.contains("certificate"), "{trouble}");
    sandbox.elsewhere();
    sandbox
        .options
        .extend(["--remote-ca".to_owned(), file.display().to_string()]);
    check_shared(&sandbox, "sort -r a > b");
}

#[test]
fn a_directory_serves_as_well() {
    let shared = tempfile::tempdir().expect("a directory");
    let url = format!("dir:{}", shared.path().display());
    let sandbox = sandbox("seq 2000 > s", &url);
    check_shared(&sandbox, "sort -r s > t; cp s u; cat s s; rm s");
}

#[test]
fn an_invalid_url_is_reported() {
    let sandbox = sandbox("", "http://localhost");
    let run = sandbox.cached("echo never");
    assert_eq!(run.status.code(), Some(125));
    assert!(run.err.contains("is no remote cache"), "{}", run.err);
    assert_eq!(run.out, "");
}
