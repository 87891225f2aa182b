//! Failures that another run may not meet, and processes that are ended from outside: neither they
//! nor the units above them are stored, whatever the exit status.

use std::fs::{File, OpenOptions};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use crate::support::{Run, Sandbox, check_hit, copy_program, program};

/// Ends the process whose id a command writes to the file `pid`.
fn kill_from_outside(sandbox: &Sandbox, signal: i32) {
    loop {
        let id = std::fs::read_to_string(sandbox.path("pid")).unwrap_or_default();
        if let Some(id) = id.strip_suffix('\n') {
            let id = id.parse().ok().and_then(rustix::process::Pid::from_raw);
            let signal = rustix::process::Signal::from_named_raw(signal).expect("a signal");
            return rustix::process::kill_process(id.expect("an id"), signal).expect("it lives");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs a command that waits to be killed.
fn killed(sandbox: &Sandbox, command: &str, signal: i32) -> Run {
    std::thread::scope(|scope| {
        scope.spawn(|| kill_from_outside(sandbox, signal));
        sandbox.cached(command)
    })
}

#[test]
fn a_unit_with_a_process_killed_from_outside_is_not_stored_nor_any_above() {
    let spin = "echo $$ > pid; while :; do :; done";
    for (inner, signal, reason) in [
        (
            format!("sh -c \"{}\"", spin.replace('$', "\\$")),
            libc::SIGKILL,
            "SIGKILL",
        ),
        (
            format!("sh -c \"{}\"", spin.replace('$', "\\$")),
            libc::SIGTERM,
            "received signal 15",
        ),
        // The process has never executed a program.
        (
            "(sh -c 'echo $PPID' > pid; while :; do :; done)".to_owned(),
            libc::SIGKILL,
            "SIGKILL",
        ),
    ] {
        let sandbox = Sandbox::new("");
        let command = format!("{inner} & wait $!; echo $?");
        let run = killed(&sandbox, &command, signal);
        assert_eq!(run.out, format!("{}\n", 128 + signal));
        for unit in run
            .units
            .iter()
            .filter(|unit| unit.command.contains("while"))
        {
            assert_eq!(unit.result, "not_stored", "{:#?}", run.units);
            assert!(unit.reason.contains(reason), "{:#?}", run.units);
        }
    }
}

#[test]
fn a_process_that_reaches_its_limit_is_not_stored() {
    let sandbox = Sandbox::new("");
    let command = "(ulimit -t 1; exec sh -c 'while :; do :; done'); echo $?";
    let run = sandbox.cached(command);
    assert_eq!(run.out, "137\n");
    run.assert_uncacheable("");
    let below = run.unit("sh -c 'while");
    assert_eq!(below.result, "not_stored", "{:#?}", run.units);
}

#[test]
fn a_core_dump_is_made_each_time() {
    let command = "ulimit -c unlimited; sh -c 'kill -SEGV $$'; echo $?";
    let sandbox = Sandbox::new("");
    let dumps = |run: &crate::support::Run| run.err.contains("core dumped");
    let plain = sandbox.plain(command);
    sandbox.edit("rm -f core*");
    for _ in 0..2 {
        let run = sandbox.cached(command);
        assert_eq!(run.out, "139\n");
        assert_eq!(dumps(&run), dumps(&plain), "{run:#?}");
        // A machine may give core dumps to a program, or limit them.
        if dumps(&plain) {
            run.assert_uncacheable("a process dumped core");
        }
        sandbox.edit("rm -f core*");
    }
}

#[test]
fn a_unit_that_ends_its_own_process_is_stored() {
    check_hit("", "sh -c 'kill -9 $$'; echo $?");
}

#[test]
fn a_mapping_that_lost_its_file_is_not_stored() {
    let Some(python) = program(&["python3.12", "python3.11", "python3.10"]) else {
        return;
    };
    let script = "import mmap, os\nf = open(\"f\", \"r+b\")\nm = mmap.mmap(f.fileno(), 8192)\n\
        os.ftruncate(f.fileno(), 0)\nprint(m[0])";
    let sandbox = Sandbox::new("head -c 8192 /dev/zero > f");
    let run = sandbox.cached(&format!("{python} -c '{script}'; echo $?"));
    assert_eq!(run.out, "135\n");
    run.assert_uncacheable("received SIGBUS");
}

#[test]
fn a_lock_that_was_held_once_is_not_remembered() {
    let Some(perl) = program(&["perl"]) else {
        return;
    };
    let sandbox = Sandbox::new("touch lock");
    let command =
        format!("{perl} -e 'open F, \"<lock\"; print flock(F, 6) ? \"got\" : \"busy\"'; echo");
    let command = command.as_str();
    let held = File::open(sandbox.path("lock")).expect("a file");
    flock(&held, FlockOperation::LockExclusive).expect("a lock");
    let run = sandbox.cached(command);
    assert_eq!(run.out, "busy\n");
    run.assert_uncacheable("fails for the moment");
    drop(held);
    assert_eq!(sandbox.cached(command).out, "got\n");
    sandbox.cached(command).assert_hit();
}

#[test]
fn a_program_that_was_busy_once_is_not_remembered() {
    let sandbox = Sandbox::new("");
    copy_program("/bin/echo", &sandbox.path("prog"));
    let command = "./prog hi 2> /dev/null; echo $?";
    let busy = OpenOptions::new().append(true).open(sandbox.path("prog"));
    let run = sandbox.cached(command);
    assert_eq!(run.out, "126\n");
    run.assert_uncacheable("execve fails for the moment: Text file busy");
    drop(busy);
    assert_eq!(sandbox.cached(command).out, "hi\n0\n");
}

#[test]
fn a_file_that_reaches_its_limit_is_not_said_to_fill_a_disk() {
    let sandbox = Sandbox::new("");
    let run = sandbox.cached("(ulimit -f 1; seq 10000 > big); echo $?");
    assert_eq!(run.out, "153\n");
    run.assert_uncacheable("File too large");
}

#[test]
fn a_lack_of_descriptors_is_not_remembered() {
    let sandbox = Sandbox::new("touch f");
    let run = sandbox.cached("ulimit -n 3; { : < f; } 2> /dev/null || echo none");
    assert_eq!(run.out, "none\n");
    run.assert_uncacheable("Too many open files");
}

#[test]
fn a_device_that_is_always_full_is_a_fact() {
    check_hit("", "echo x 2> /dev/null > /dev/full; echo $?");
}

#[test]
fn a_pipe_that_no_process_reads_is_not_remembered() {
    let Some(perl) = program(&["perl"]) else {
        return;
    };
    let sandbox = Sandbox::new("mkfifo pipe");
    let script = "use Fcntl; print sysopen(F, \"pipe\", O_WRONLY | O_NONBLOCK) ? 1 : 2";
    let run = sandbox.cached(&format!("{perl} -e '{script}'; echo"));
    assert_eq!(run.out, "2\n");
    run.assert_uncacheable("");
}

#[test]
fn errors_that_follow_from_facts_are_stored() {
    check_hit(
        "mkdir -p full; touch full/f",
        "mkdir -p d; mkdir -p d; cat none 2> /dev/null; rmdir full 2> /dev/null; \
         ln -s x full/f 2> /dev/null; echo | cat; echo $?",
    );
}

/// Stops a command from outside and continues it, twice.
fn stop_and_continue(sandbox: &Sandbox, waits: bool) {
    let id = loop {
        let id = std::fs::read_to_string(sandbox.path("pid")).unwrap_or_default();
        if let Some(id) = id.strip_suffix('\n') {
            break id.parse::<i32>().expect("an id");
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let process = rustix::process::Pid::from_raw(id).expect("an id");
    for _ in 0..2 {
        rustix::process::kill_process(process, rustix::process::Signal::STOP).expect("it lives");
        // The tracer is the parent, and its parent stops with the command.
        let front = stat(stat(id).1).1;
        while !matches!(stat(id).0, 't' | 'T') || waits && stat(front).0 != 'T' {
            std::thread::sleep(Duration::from_millis(1));
        }
        rustix::process::kill_process(process, rustix::process::Signal::CONT).expect("it lives");
        while matches!(stat(id).0, 't' | 'T') {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    std::fs::write(sandbox.path("gate"), "go\n").expect("a reader");
}

/// Returns the state of a process, and its parent.
fn stat(id: i32) -> (char, i32) {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).expect("it lives");
    let (_, after) = stat.rsplit_once(')').expect("a name");
    let mut fields = after.split_whitespace();
    let state = fields.next().and_then(|state| state.chars().next());
    let parent = fields.next().and_then(|parent| parent.parse().ok());
    (state.expect("a state"), parent.expect("a parent"))
}

#[test]
fn a_command_that_others_stop_and_continue_goes_on() {
    for waits in [true, false] {
        let sandbox = Sandbox::new("mkfifo gate");
        let command = "echo $$ > pid; read x < gate; echo $x";
        let run = std::thread::scope(|scope| {
            scope.spawn(|| stop_and_continue(&sandbox, waits));
            sandbox.cached(command)
        });
        assert_eq!(run.out, "go\n");
    }
}
