//! A failing remote cache: the command always behaves as the plain one.

use std::time::Duration;

use super::server::{FakeServer, Fault, PLAIN};
use super::{check_shared, sandbox};

const SETUP: &str = "seq 3000 > f; seq 900000 > large";
const COMMAND: &str = "sort -r f > g; cp large copy; cat g; rm f";

/// Checks that with these faults here and on another machine, tree, output and status equal those
/// of the plain command. Returns the failure that the last run reported.
#[track_caller]
fn check_fault(here: Fault, elsewhere: Fault) -> String {
    let server = FakeServer::start(PLAIN);
    let mut sandbox = sandbox(SETUP, &server.url());
    let plain = sandbox.plain(COMMAND);
    sandbox.reset();
    server.fail(here);
    sandbox.cached(COMMAND).assert_like(&plain, "here");
    sandbox.elsewhere();
    server.fail(elsewhere);
    if elsewhere == Fault::Silent {
        // With the usual patience.
        sandbox.options.truncate(2);
    }
    let run = sandbox.cached(COMMAND);
    run.assert_like(&plain, "elsewhere");
    assert!(!run.is_hit(), "nothing can be had");
    sandbox.told()["trouble"].to_string()
}

#[test]
fn a_full_server_stores_nothing_and_nothing_is_lost() {
    let trouble = check_fault(Fault::Full, Fault::Full);
    assert!(trouble.contains("full"), "{trouble}");
}

#[test]
fn wrong_bytes_are_refused() {
    let trouble = check_fault(Fault::None, Fault::WrongBytes);
    assert!(trouble.contains("refused"), "{trouble}");
}

#[test]
fn a_result_with_missing_contents_is_a_miss() {
    check_fault(Fault::None, Fault::Lost);
}

#[test]
fn a_silent_server_is_given_up() {
    let trouble = check_fault(Fault::None, Fault::Silent);
    assert!(trouble.contains("in time"), "{trouble}");
}

#[test]
fn a_slow_server_is_given_up_after_a_few_requests() {
    const UNITS: usize = 60;
    let server = FakeServer::start(PLAIN);
    let mut sandbox = sandbox("seq 300 > f", &server.url());
    let command = format!("for n in $(seq {UNITS}); do sort -r f > g; done");
    let plain = sandbox.plain(&command);
    sandbox.reset();
    server.fail(Fault::Slow(Duration::from_millis(300)));
    // With the usual patience, and downloads that save no time.
    sandbox.options.truncate(2);
    sandbox
        .options
        .extend(["--remote-mode".to_owned(), "read".to_owned()]);
    let run = sandbox.cached(&command);
    run.assert_like(&plain, "with a slow server");
    // The initial second pays for three requests, and each six seconds of the whole run for
    // another one.
    let asked = server.asked("get");
    assert!((1..UNITS / 3).contains(&asked), "{asked}");
}

#[test]
fn a_server_may_die_at_any_moment() {
    for requests in 0..12 {
        let server = FakeServer::start(PLAIN);
        let mut sandbox = sandbox(SETUP, &server.url());
        let plain = sandbox.plain(COMMAND);
        sandbox.reset();
        sandbox.cached(COMMAND);
        sandbox.elsewhere();
        server.fail(Fault::Dies(requests));
        sandbox.options.truncate(2);
        // Early enough, so that the command is still skipped.
        sandbox.cached(COMMAND).assert_like(&plain, "elsewhere");
    }
}

#[test]
fn an_unreachable_server_does_not_fail_the_command() {
    let port = {
        // A port that no process uses: it belonged to this process until now.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("an address").port()
    };
    for url in [
        format!("grpc://127.0.0.1:{port}"),
        format!("grpcs://127.0.0.1:{port}"),
        "grpc://nobody.invalid:1".to_owned(),
        "dir:/there/is/no/such/directory".to_owned(),
    ] {
        let sandbox = sandbox(SETUP, &url);
        let plain = sandbox.plain("sort f");
        sandbox.reset();
        sandbox
            .cached("sort f")
            .assert_like(&plain, "with nobody there");
        let told = sandbox.told();
        assert_ne!(told["trouble"].to_string(), "[]", "{url}");
        assert_eq!(told["hits"], 0);
    }
}

#[test]
fn a_remote_failure_is_reported_once_and_not_when_quiet() {
    let mut sandbox = sandbox("seq 300 > f", "dir:/there/is/no/such/directory");
    let run = sandbox.cached("sort f");
    assert_eq!(run.err, "");
    sandbox.elsewhere();
    // In addition to `--quiet`; the last option counts.
    sandbox.options.push("--explain".to_owned());
    let mut command = std::process::Command::new(crate::support::PCACHE);
    command.args([
        "--remote",
        "dir:/there/is/no/such/directory",
        "--",
        "sort",
        "f",
    ]);
    let run = sandbox.run(sandbox.environment(&mut command));
    let lines = run
        .err
        .lines()
        .filter(|line| line.contains("remote cache dir:"));
    assert!((1..=2).contains(&lines.count()), "{}", run.err);
}

#[test]
fn a_server_that_recovers_is_used_again() {
    let server = FakeServer::start(PLAIN);
    let sandbox = sandbox("seq 300 > f", &server.url());
    server.fail(Fault::Full);
    sandbox.cached("sort f > g");
    server.fail(Fault::None);
    sandbox.elsewhere();
    check_shared(&sandbox, "sort f > g");
}
