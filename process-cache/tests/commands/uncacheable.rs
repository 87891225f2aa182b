//! Reasons that make a command uncacheable; the command behaves as without `pcache`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::Stdio;

use crate::support::{Sandbox, check_hit, check_uncacheable, program};

#[test]
fn a_connection_to_an_outside_socket_is_uncacheable() {
    let Some(python) = program(&["python3"]) else {
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let server = std::thread::spawn(move || {
        for answer in ["one", "two"] {
            let (mut peer, _) = listener.accept().expect("a peer");
            peer.write_all(answer.as_bytes()).expect("an answer");
        }
    });
    let script = format!(
        "import socket; s = socket.create_connection((\"127.0.0.1\", {port})); print(s.recv(9).decode())"
    );
    let sandbox = Sandbox::new("");
    let mut said = Vec::new();
    for _ in 0..2 {
        let run = sandbox.cached(&format!("{python} -c '{script}'"));
        assert_eq!(run.whole().result, "not_stored");
        said.push(run.out);
    }
    assert_eq!(said, ["one\n", "two\n"]);
    server.join().expect("the server ends");
}

#[test]
fn a_process_left_behind_is_uncacheable() {
    let sandbox = Sandbox::new("mkfifo gate left");
    for _ in 0..2 {
        let run = sandbox.cached("(read x < gate; echo $x > left) > /dev/null 2>&1 & echo started");
        assert_eq!(run.out, "started\n");
        run.assert_uncacheable("leaves processes running");
        // The process lives until the gate is opened.
        assert_eq!(sandbox.plain("echo go > gate; cat left").out, "go\n");
    }
}

#[test]
fn hidden_memory_is_uncacheable() {
    let Some(perl) = program(&["perl"]) else {
        return;
    };
    let hides = format!("syscall({}, {}, 0)", libc::SYS_prctl, libc::PR_SET_DUMPABLE);
    let writes = "open F, \">\", \"out\"; print F \"written\"; close F; print -s \"out\"";
    check_uncacheable(
        "",
        &format!("{perl} -e '{hides}; {writes}'"),
        "hides its memory",
    );
}

#[test]
fn a_signal_to_a_process_outside_is_uncacheable() {
    let sandbox = Sandbox::new("");
    let command = format!("kill -0 {}", std::process::id());
    for _ in 0..2 {
        let run = sandbox.cached(&command);
        assert!(run.status.success(), "{run:?}");
        run.assert_uncacheable("signal");
    }
}

#[test]
fn a_signal_inside_the_command_is_cacheable() {
    // dash prints "Terminated" if the process ended before the shell waits.
    check_hit(
        "",
        "exec 2> /dev/null; sleep 100 & kill $!; wait $!; echo $?",
    );
}

#[test]
fn a_signal_from_outside_is_uncacheable() {
    let sandbox = Sandbox::new("");
    for _ in 0..2 {
        let mut pcache = sandbox.pcache();
        pcache.args([
            "--",
            "sh",
            "-c",
            "trap 'echo caught; exit 3' USR1; echo $$; while :; do :; done",
        ]);
        let mut child = pcache
            .stdout(Stdio::piped())
            .spawn()
            .expect("pcache starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let pid: i32 = lines
            .next()
            .expect("a line")
            .expect("text")
            .parse()
            .expect("a pid");
        let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
        rustix::process::kill_process(pid, rustix::process::Signal::USR1).expect("a signal");
        assert_eq!(lines.next().expect("a line").expect("text"), "caught");
        assert_eq!(child.wait().expect("it ends").code(), Some(3));
        let report = std::fs::read_to_string(sandbox.report()).expect("a report");
        assert!(report.contains("signal"), "{report}");
    }
}

#[test]
fn a_signal_to_pcache_reaches_the_command() {
    let sandbox = Sandbox::new("");
    let mut pcache = sandbox.pcache();
    pcache.args([
        "--",
        "sh",
        "-c",
        "trap 'echo caught; exit 3' TERM; echo ready; while :; do :; done",
    ]);
    let mut child = pcache
        .stdout(Stdio::piped())
        .spawn()
        .expect("pcache starts");
    let mut reader = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    reader.read_line(&mut line).expect("a line");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("a signal");
    line.clear();
    reader.read_to_string(&mut line).expect("text");
    assert_eq!(line, "caught\n");
    assert_eq!(child.wait().expect("it ends").code(), Some(3));
}

#[test]
fn a_fifo_is_uncacheable() {
    check_uncacheable("", "mkfifo p; cat p & echo hi > p; wait", "FIFO");
}

#[test]
fn the_state_of_a_process_is_uncacheable() {
    check_uncacheable("", "cat /proc/self/stat > /dev/null", "/proc/self/stat");
}

#[test]
fn shared_memory_is_uncacheable() {
    let Some(python) = program(&["python3"]) else {
        return;
    };
    let script = "from multiprocessing import shared_memory as s; m = s.SharedMemory(create=True, size=9); m.close(); m.unlink()";
    check_uncacheable("", &format!("{python} -c '{script}'"), "");
}

#[test]
fn a_pipe_inside_leaves_the_whole_command_cacheable() {
    let sandbox = Sandbox::new("seq 100 > f; echo 1 > g");
    let command = "sort < f | uniq | head -2; cat g";
    let first = sandbox.cached(command);
    assert_eq!(first.whole().result, "stored");
    assert!(
        first.unit("uniq").reason.contains("pipe"),
        "{:#?}",
        first.units
    );
    sandbox.cached(command).assert_hit();
}

#[test]
fn an_escaping_uncacheable_reason_applies_to_ancestors() {
    let sandbox = Sandbox::new("");
    let run = sandbox.cached("sh -c 'head -c 4 /dev/urandom > x; :'; :");
    for unit in &run.units {
        assert_eq!(unit.result, "not_stored", "{unit:?}");
    }
}

#[test]
fn explain_shows_the_reason() {
    let sandbox = Sandbox::new("");
    let mut pcache = std::process::Command::new(crate::support::PCACHE);
    pcache.args([
        "--explain",
        "--",
        "sh",
        "-c",
        "cat /proc/uptime > /dev/null; :",
    ]);
    let run = sandbox.run(sandbox.environment(&mut pcache));
    assert!(
        run.err.contains("not cached: opens /proc/uptime"),
        "{}",
        run.err
    );
}

#[test]
fn a_file_changed_by_another_process_is_uncacheable() {
    let sandbox = Sandbox::new("echo 1 > f; mkfifo begun go");
    let mut pcache = sandbox.pcache();
    pcache.args(["--", "sh", "-c", "cat f; echo > begun; read x < go; cat f"]);
    let child = pcache
        .stdout(Stdio::piped())
        .spawn()
        .expect("pcache starts");
    sandbox.edit("read x < begun; echo 2 > f; echo > go");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.stdout, b"1\n2\n");
    let report = std::fs::read_to_string(sandbox.report()).expect("a report");
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["units"][0]["result"], "not_stored", "{report:#}");
}

#[test]
fn a_part_that_prints_the_session_is_not_skipped() {
    check_uncacheable(
        "",
        "env > out; sleep 0.01",
        "prints its whole environment, with variables of the session",
    );
    check_hit("", "env A=b sh -c 'echo $A > out'; sleep 0.01");
}

#[test]
fn failing_units_are_not_stored_if_the_configuration_says_so() {
    let mut sandbox = Sandbox::new("echo a > input");
    let config = sandbox.store().with_file_name("config.toml");
    std::fs::write(&config, "store_failures = false").unwrap();
    let command = "grep -q b input || echo none";
    // Stored by default, and not used below.
    assert_eq!(sandbox.cached(command).unit("grep").result, "stored");
    let variable = ("PCACHE_CONFIG".to_owned(), config.display().to_string());
    sandbox.variables.push(variable);
    for whole in ["stored", "hit"] {
        let run = sandbox.cached(command);
        assert_eq!(run.out, "none\n");
        assert_eq!(run.whole().result, whole, "{:#?}", run.units);
        if whole == "stored" {
            let told = run.unit("grep");
            let reason = "fails, and `store_failures` is false";
            assert_eq!(told.reason, reason, "{:#?}", run.units);
        }
    }
}
