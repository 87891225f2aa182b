//! Inputs that somebody changes while a unit runs are never taken for its inputs.
//!
//! The unit opens a gate, a plain file, between its reads. Whoever holds a lease on
//! the gate (fcntl(2), `F_SETLEASE`) is told when that happens, and the unit waits
//! until the lease is given back: so the change is made at a known place of the unit
//! and nothing depends on time, nor does the unit see anything but plain files, for
//! which its result is stored where nothing changes.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::support::{Sandbox, program};

const SETUP: &str = "printf 'old 1\\nold 2\\n' > input; touch gate0 gate1 gate2 gate3";

/// Reads a part, another part of the same open file, the file again, and writes.
const UNIT: &str = "read x < gate0; exec 4< input; read a <&4; read x < gate1; read b <&4; \
                    read c < input; [ -e other ] && d=other; read x < gate2; \
                    echo $a $b $c $d > out; read x < gate3";

/// Changes the input when somebody opens the gate.
const OUTSIDER: &str = r#"
import fcntl, os, signal, subprocess, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGIO})
gate = os.open(sys.argv[1], os.O_RDWR)
try:
    fcntl.fcntl(gate, fcntl.F_SETLEASE, fcntl.F_WRLCK)
except OSError as error:
    print("no lease:", error, flush=True)
    sys.exit()
print("ready", flush=True)
signal.sigwait({signal.SIGIO})
subprocess.run(["sh", "-c", sys.argv[2]], check=True)
print("changed", flush=True)
fcntl.fcntl(gate, fcntl.F_SETLEASE, fcntl.F_UNLCK)
"#;

/// The ways to change the input.
const CHANGES: &[&str] = &[
    "printf 'new 1\\nnew 2\\n' > input",
    "printf 'new 1\\nnew 2\\n' > fresh; mv fresh input",
    "printf 'new 3\\n' >> input",
    "printf 'new\\n' > input",
    "rm input",
    // Size and time as before.
    "touch -r input stamp; printf 'new 1\\nnew 2\\n' > input; touch -r stamp input; rm stamp",
    "echo > other",
    // Nothing differs afterwards, but what was read does.
    "cp -p input saved; printf 'new 1\\nnew 2\\n' > input; rm input; mv saved input",
];

/// Somebody who waits at a gate; nobody where there are no leases.
fn outsider(python: &str, sandbox: &Sandbox, gate: usize, change: &str) -> Option<Child> {
    let mut command = Command::new(python);
    command
        .args(["-c", OUTSIDER])
        .arg(sandbox.path(&format!("gate{gate}")))
        .arg(change);
    let mut child = sandbox
        .environment(&mut command)
        .stdout(Stdio::piped())
        .spawn()
        .expect("python starts");
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
    out.read_line(&mut line).expect("a line");
    if line != "ready\n" {
        eprintln!("skipped: {line}");
        child.wait().expect("it ends");
        return None;
    }
    // The pipe has room for what else it says.
    child.stdout = Some(out.into_inner());
    Some(child)
}

/// Runs the unit while the change is made at one gate; afterwards it must do, with
/// the input as it was and as it is now, what it does without pcache.
fn check(python: &str, gate: usize, change: &str) -> bool {
    let sandbox = Sandbox::new(SETUP);
    let Some(mut child) = outsider(python, &sandbox, gate, change) else {
        return false;
    };
    sandbox.cached(UNIT);
    let status = child.wait().expect("it ends");
    assert!(status.success(), "gate {gate}, {change:?}: {status:?}");
    for edit in ["", change] {
        sandbox.reset();
        sandbox.edit_then(edit);
        let plain = sandbox.plain(UNIT);
        sandbox.reset();
        sandbox.edit_then(edit);
        let run = sandbox.cached(UNIT);
        run.assert_like(
            &plain,
            &format!("after {change:?} at gate {gate}, with {edit:?}"),
        );
    }
    true
}

#[test]
fn an_input_that_changes_while_a_unit_runs_is_not_published() {
    let Some(python) = program(&["python3"]) else {
        return;
    };
    for change in CHANGES {
        for gate in 0..4 {
            if !check(&python, gate, change) {
                return;
            }
        }
    }
}

#[test]
fn a_unit_that_waits_at_gates_is_stored_when_nothing_changes() {
    // Otherwise the test above shows nothing.
    crate::support::check_hit(SETUP, UNIT);
    let Some(python) = program(&["python3"]) else {
        return;
    };
    let sandbox = Sandbox::new(SETUP);
    let Some(mut child) = outsider(&python, &sandbox, 1, ":") else {
        return;
    };
    let run = sandbox.cached(UNIT);
    assert_eq!(run.whole().result, "stored", "{:#?}", run.units);
    assert!(child.wait().expect("it ends").success());
    sandbox.reset();
    sandbox.cached(UNIT).assert_hit();
}
