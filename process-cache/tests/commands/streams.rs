//! Writes to inherited descriptors, and their destinations.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use crate::support::{Run, Sandbox, check_hit, ending, program};

const BOTH: &str = "for i in 1 2 3; do echo out $i; echo err $i >&2; done";

#[test]
fn both_streams_are_replayed() {
    check_hit("", BOTH);
}

#[test]
fn streams_that_share_a_pipe_keep_their_order() {
    check_hit("", &format!("({BOTH}) 2>&1"));
    let sandbox = Sandbox::new("");
    let joined = |sandbox: &Sandbox| {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let mut pcache = sandbox.pcache();
        pcache.args(["--", "sh", "-c", BOTH]);
        pcache
            .stdout(writer.try_clone().expect("a descriptor"))
            .stderr(writer);
        let mut child = pcache.spawn().expect("pcache starts");
        drop(pcache);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("text");
        assert!(child.wait().expect("it ends").success());
        text
    };
    let first = joined(&sandbox);
    assert_eq!(first, "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n");
    assert_eq!(joined(&sandbox), first);
}

#[test]
fn streams_that_share_a_file_keep_their_order() {
    let sandbox = Sandbox::new("");
    for _ in 0..2 {
        let file = File::create(sandbox.path("log")).expect("a file");
        let mut pcache = sandbox.pcache();
        pcache.args(["--", "sh", "-c", BOTH]);
        pcache
            .stdout(file.try_clone().expect("a descriptor"))
            .stderr(file);
        assert!(pcache.status().expect("pcache starts").success());
        assert_eq!(
            sandbox.text("log"),
            "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n"
        );
    }
}

#[test]
fn output_caused_by_another_process_follows_its_cause() {
    let command = "{ for i in $(seq 300); do echo out $i >&2; echo $i; done } | \
                   while read x; do echo in $x >&2; done";
    let sandbox = Sandbox::new("");
    sandbox.cached(command);
    let again = sandbox.cached(command);
    again.assert_hit();
    let lines: Vec<&str> = again.err.lines().collect();
    let at = |line: String| lines.iter().position(|it| **it == line).expect("a line");
    for i in 1..=300 {
        assert!(at(format!("out {i}")) < at(format!("in {i}")), "{i}");
    }
}

#[test]
fn a_file_read_and_appended_by_one_unit_has_its_earlier_content_as_fact() {
    for command in [
        "wc -c < log >> log",
        "sort < log >> log",
        "cat log > other; cat < other >> log",
    ] {
        let sandbox = Sandbox::new("echo a > log");
        for _ in 0..3 {
            let before = sandbox.text("log");
            sandbox.cached(command);
            let cached = sandbox.text("log");
            sandbox.edit(&format!("printf '%s' '{before}' > log"));
            sandbox.plain(command);
            assert_eq!(cached, sandbox.text("log"), "{command}: {before:?}");
        }
    }
}

#[test]
fn output_to_a_file_inside_the_command_keeps_its_order() {
    check_hit("", &format!("({BOTH}) > log 2>&1"));
}

#[test]
fn a_megabyte_through_a_pipe_arrives() {
    check_hit("head -c 1000000 /dev/zero | tr '\\0' x > f", "cat f");
}

#[test]
fn a_megabyte_through_a_pipe_inside_arrives() {
    check_hit(
        "head -c 1000000 /dev/zero | tr '\\0' x > f",
        "cat f | cksum",
    );
}

#[test]
fn output_of_a_skipped_child_in_a_pipeline_arrives() {
    let command = "cat f | cksum; cat g";
    let sandbox = Sandbox::new("head -c 1000000 /dev/zero | tr '\\0' x > f; echo 1 > g");
    let plain = sandbox.plain(command);
    sandbox.cached(command).assert_like(&plain, "first run");
    sandbox.edit("echo 2 > g");
    let run = sandbox.cached(command);
    assert_eq!(run.unit("cat f").result, "hit");
    assert_eq!(run.out, plain.out.replace("\n1\n", "\n2\n"));
}

/// Reads one line of a command's output, and then no more.
fn first_line(command: &mut Command) -> (String, (Option<i32>, Option<i32>)) {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    {
        let mut reader = BufReader::new(child.stdout.take().expect("a pipe"));
        reader.read_line(&mut line).expect("a line");
    }
    (line, ending(child.wait().expect("it ends")))
}

#[test]
fn a_reader_that_exits_early_ends_a_skipped_command_like_a_real_one() {
    let sandbox = Sandbox::new("");
    let script = "seq 1 1000000";
    let complete = sandbox.cached(script);
    assert_eq!(complete.out.len(), 6_888_896);
    let mut plain = Command::new("sh");
    sandbox.environment(plain.args(["-c", script]));
    let expected = first_line(&mut plain);
    assert_eq!(
        first_line(sandbox.pcache().args(["--", "sh", "-c", script])),
        expected
    );
}

#[test]
fn a_reader_that_exits_early_ends_a_first_run_like_a_plain_one() {
    let sandbox = Sandbox::new("");
    let script = "seq 1 1000000";
    let mut plain = Command::new("sh");
    sandbox.environment(plain.args(["-c", script]));
    let expected = first_line(&mut plain);
    assert_eq!(
        first_line(sandbox.pcache().args(["--", "sh", "-c", script])),
        expected
    );
}

#[test]
fn closed_streams_stay_closed() {
    check_hit("", "echo x >&-; echo $? > status; cat < /dev/null");
}

#[test]
fn output_without_a_last_newline_is_replayed() {
    check_hit("", "printf one; printf two >&2; printf three");
}

#[test]
fn bytes_that_are_no_text_are_replayed() {
    let sandbox = Sandbox::new("");
    let command = "printf '\\000\\377\\200x'";
    let bytes = || {
        let mut pcache = sandbox.pcache();
        pcache
            .args(["--", "sh", "-c", command])
            .output()
            .expect("pcache runs")
            .stdout
    };
    assert_eq!(bytes(), b"\0\xff\x80x");
    assert_eq!(bytes(), b"\0\xff\x80x");
}

#[test]
fn output_is_appended_where_the_caller_appends() {
    let sandbox = Sandbox::new("");
    let append = || {
        let log = File::options()
            .append(true)
            .create(true)
            .open(sandbox.path("log"));
        let mut pcache = sandbox.pcache();
        pcache
            .args(["--", "echo", "line"])
            .stdout(log.expect("a file"));
        assert!(pcache.status().expect("pcache runs").success());
    };
    append();
    append();
    append();
    assert_eq!(sandbox.text("log"), "line\nline\nline\n");
}

#[test]
fn python_may_query_its_output_position_at_start() {
    let Some(python) = program(&["python3"]) else {
        return;
    };
    for (script, result) in [
        ("print(1)", "hit"),
        ("import sys; print(sys.stdout.tell())", "not_stored"),
        ("import os; print(os.lseek(2, 0, 1))", "not_stored"),
    ] {
        let command = format!("(date +%N; {python} -c '{script}') > log 2>&1");
        let sandbox = Sandbox::new("");
        sandbox.cached(&command);
        let again = sandbox.cached(&command);
        let unit = again
            .units
            .iter()
            .find(|unit| unit.command.starts_with("python"));
        assert_eq!(unit.expect("a unit").result, result, "{script}: {again:?}");
    }
}

#[test]
fn a_file_that_is_opened_twice_has_two_positions() {
    let sandbox = Sandbox::new("");
    for _ in 0..3 {
        // They look alike: one file, opened in the same way, at the same position.
        let open = || File::create(sandbox.path("log")).expect("a file");
        let (mut out, mut err) = (open(), open());
        let mut pcache = sandbox.pcache();
        pcache
            .args(["--", "sh", "-c", "echo error >&2; echo out"])
            .stdout(out.try_clone().expect("a descriptor"))
            .stderr(err.try_clone().expect("a descriptor"));
        assert!(pcache.status().expect("pcache runs").success());
        assert_eq!(sandbox.text("log"), "out\nr\n");
        assert_eq!(out.stream_position().expect("a position"), 4);
        assert_eq!(err.stream_position().expect("a position"), 6);
    }
}

#[test]
fn output_goes_to_the_file_position_of_the_caller() {
    let sandbox = Sandbox::new("");
    let script = |program: &str| format!("({program} one; {program} two; {program} one) > log");
    sandbox.plain(&script("echo"));
    let plain = sandbox.text("log");
    let echo = format!("'{}' -q --min-time 0 -- echo", crate::support::PCACHE);
    for _ in 0..2 {
        sandbox.plain(&script(&echo));
        assert_eq!(sandbox.text("log"), plain);
    }
}

#[test]
fn a_pipe_on_standard_input_is_read_by_the_command_itself() {
    let mut sandbox = Sandbox::new("");
    sandbox.input = Some(b"one".to_vec());
    let run: Run = sandbox.cached("cat");
    assert_eq!(run.out, "one");
    run.assert_uncacheable("pipe");
    sandbox.input = Some(b"two".to_vec());
    assert_eq!(sandbox.cached("cat").out, "two");
}

#[test]
fn a_command_that_ignores_the_pipe_on_its_standard_input_is_skipped() {
    let sandbox = Sandbox::new("echo 1 > f");
    let (nothing, writer) = std::io::pipe().expect("a pipe");
    let run = || {
        let mut pcache = sandbox.pcache();
        pcache.args(["--", "cat", "f"]);
        pcache.stdin(nothing.try_clone().expect("a descriptor"));
        sandbox.run(&mut pcache)
    };
    run();
    run().assert_hit();
    // A pipe without a writer differs: it has an end.
    drop(writer);
    // A process that another test is starting may still have it open.
    let mut ended = [PollFd::new(&nothing, PollFlags::empty())];
    poll(&mut ended, None).expect("an end");
    assert!(!run().is_hit());
    run().assert_hit();
}

/// Checks that a command behaves under `pcache` as it does plainly, whatever ran before.
#[track_caller]
fn as_plainly(sandbox: &Sandbox, command: &str) -> Run {
    sandbox.reset();
    let plain = sandbox.plain(command);
    sandbox.reset();
    let run = sandbox.cached(command);
    run.assert_like(&plain, command);
    run
}

/// The same for commands that run one after the other.
#[track_caller]
fn all_as_plainly(setup: &str, commands: &[&str]) {
    let sandbox = Sandbox::new(setup);
    for command in commands {
        as_plainly(&sandbox, command);
    }
}

/// Creates a program in the directory `b` that notes its streams before it executes the real one.
fn curious(tool: &str) -> String {
    format!(
        "mkdir b; cat > b/{tool} <<'END'
#!/bin/sh
for fd in 0 1 2; do
    if test -p /dev/fd/$fd; then echo pipe; else echo other; fi
done > kinds
echo $SHLVL $MAKEFLAGS >> kinds
exec /usr/bin/{tool} \"$@\"
END
chmod +x b/{tool}"
    )
}

/// Checks the result of the compiler itself, under any parent.
#[track_caller]
fn assert_compiler(run: &Run, result: &str) {
    let compilers: Vec<_> = run
        .units
        .iter()
        .filter(|unit| unit.command.starts_with("cc "))
        .collect();
    assert_eq!(compilers.len(), 1, "{:#?}", run.units);
    assert_eq!(compilers[0].result, result, "{:#?}", run.units);
}

const PLACES: [&str; 9] = [
    "cc -c a.c; true",
    "cc -c a.c > log; true",
    "cc -c a.c > log 2>&1; true",
    "cc -c a.c 2>> log; true",
    "cc -c a.c 2> /dev/null; true",
    "cc -c a.c 2>&1 | cat",
    "cc -c a.c < a.c; true",
    "{ cat; cc -c a.c; } < a.c",
    "cat a.c | { cc -c a.c; cat; }",
];

#[test]
fn unused_streams_do_not_count_for_a_compiler() {
    let sandbox = Sandbox::new("echo 'int f(void) { return 1; }' > a.c");
    for (index, place) in PLACES.into_iter().enumerate() {
        let run = as_plainly(&sandbox, place);
        assert_compiler(&run, if index == 0 { "stored" } else { "hit" });
    }
}

#[test]
fn the_output_stream_of_a_compiler_counts_if_it_writes() {
    let mut sandbox = Sandbox::new("echo 'int f(void) { return g(); }' > a.c");
    for place in &PLACES[..6] {
        for result in ["stored", "hit"] {
            // The shell's key differs.
            sandbox.variables = vec![("TURN".to_owned(), result.to_owned())];
            let run = as_plainly(&sandbox, &format!("unset TURN; {place}"));
            assert_compiler(&run, result);
        }
    }
}

#[test]
fn the_input_of_a_compiler_counts() {
    all_as_plainly(
        "echo 'int f(void) { return 1; }' > a.c; echo 'int f(void) { return 2; }' > b.c; \
         printf '1234567890' > c.c; echo 'int f(void) { return 3; }' >> c.c",
        &[
            "cc -x c -c -o o - < /dev/null; true",
            "cc -x c -c -o o - < a.c; true",
            "cc -x c -c -o o - < b.c; true",
            "{ dd bs=10 count=1 status=none; cc -x c -c -o o -; } < c.c",
            "cat a.c | cc -x c -c -o o -; true",
            "cat b.c | cc -x c -c -o o -; true",
            "cc -x c -c -o o - < a.c; true",
            "{ cc -x c -c -o o -; cat; } < a.c",
        ],
    );
}

#[test]
fn children_of_a_silent_compiler_may_query_the_streams() {
    all_as_plainly(
        &format!(
            "echo 'int f(void) {{ return 1; }}' > a.c; {}",
            curious("as")
        ),
        &[
            "cc -B b/ -c a.c; true",
            "cc -B b/ -c a.c 2> log; true",
            "cc -B b/ -c a.c > log; true",
            "cat a.c | cc -B b/ -c a.c; true",
            "SHLVL=7 cc -B b/ -c a.c; true",
            "MAKEFLAGS=k cc -B b/ -c a.c; true",
            "cc -B b/ -c a.c; true",
        ],
    );
}

/// The kinds of shells, scripts and makes that start the compiler do not count.
#[test]
fn the_nesting_of_makes_and_shells_does_not_count_for_a_compiler() {
    let sandbox = Sandbox::new("echo 'int f(void) { return 1; }' > a.c");
    for (index, place) in [
        "cc -c a.c; true",
        "SHLVL=3 cc -c a.c; true",
        "MAKELEVEL=2 MAKEFLAGS=w MFLAGS=-w cc -c a.c; true",
    ]
    .into_iter()
    .enumerate()
    {
        sandbox.reset();
        let run = sandbox.cached(place);
        assert_compiler(&run, if index == 0 { "stored" } else { "hit" });
    }
}

/// A program with a question prompts only on a terminal.
#[test]
fn the_presence_of_a_terminal_counts_for_programs_that_prompt() {
    let sandbox = Sandbox::new("echo 1 > a; echo 2 > b; chmod 400 b");
    for (place, result) in [
        ("mv a b; true", "stored"),
        ("mv a b < b; true", "stored"),
        ("mv a b > log; true", "hit"),
    ] {
        sandbox.reset();
        let run = sandbox.cached(place);
        let unit = run.units.iter().find(|unit| unit.command == "mv a b");
        let unit = unit.expect("mv is reported");
        assert_eq!(unit.result, result, "{place}: {:#?}", run.units);
    }
}

#[test]
fn a_file_that_is_also_the_output_stream_differs_from_others() {
    for command in ["cc -E -P a.c -o log", "sort -o log a.c 2>&1; echo 1"] {
        let sandbox = Sandbox::new("printf '#warning 1\nint a;\n' > a.c; echo 1 > log");
        for place in ["> other 2>&1", "> log 2>&1"] {
            as_plainly(&sandbox, &format!("{{ {command}; }} {place}; true"));
        }
    }
}

#[test]
fn stream_queries_of_the_linker_count_for_the_compiler() {
    all_as_plainly(
        &format!(
            "echo 'int main(void) {{ return 1; }}' > a.c; cc -c a.c; {}",
            curious("ld")
        ),
        &[
            "cc -B b/ a.o; true",
            "cc -B b/ a.o 2> log; true",
            "cat a.c | cc -B b/ a.o; true",
            "SHLVL=7 cc -B b/ a.o; true",
            "cc -B b/ a.o; true",
        ],
    );
}

/// Standard output is the same as standard input, which may be anything.
#[test]
fn output_shared_with_input_is_classified_on_its_own() {
    let sandbox = Sandbox::new("echo 'int f(void) { return g(); }' > a.c; mkfifo p");
    let open = |path: &std::path::Path| File::options().read(true).write(true).open(path);
    let run = |file: &File| {
        let copy = || file.try_clone().expect("a descriptor");
        let mut pcache = sandbox.pcache();
        pcache.args(["--", "cc", "-c", "a.c"]);
        pcache.stdin(copy()).stdout(copy()).stderr(copy());
        assert!(pcache.status().expect("pcache starts").success());
    };
    run(&open("/dev/null".as_ref()).expect("/dev/null"));
    let mut pipe = open(&sandbox.path("p")).expect("a pipe");
    run(&pipe);
    let ready = [PollFd::new(&pipe, PollFlags::IN)];
    assert_eq!(poll(&mut { ready }, Some(&Timespec::default())), Ok(1));
    let mut text = [0; 4096];
    let count = pipe.read(&mut text).expect("a warning");
    let text = String::from_utf8_lossy(&text[..count]);
    assert!(text.contains("implicit declaration"), "{text}");
}

#[test]
fn a_change_through_the_name_of_a_descriptor_is_not_stored() {
    all_as_plainly(
        "echo 1 > in",
        &[
            "chmod 640 /dev/stdin < in; true",
            "chmod 640 /dev/stdin < in; true",
            "chmod 640 /dev/fd/1 > out; true",
            "chmod 640 /dev/fd/1 >> in; true",
        ],
    );
}

/// Commands act twice on the file of their input or output: on one file and then on another, or on
/// a file that was replaced.
#[test]
fn operations_on_a_descriptor_apply_to_its_file() {
    all_as_plainly(
        "echo 1 > full; : > empty; : > o1; : > o2; cat > c.c <<'END'
#include <sys/stat.h>
int main(void) { return fchmod(1, 0600); }
END
cc -o c c.c; rm c.c",
        &[
            "touch -d @1000 - >> o1; true",
            "touch -d @1000 - >> o2; true",
            "./c > o1; true",
            "./c > o2; true",
            "test -s /dev/stdin < empty && echo 1; true",
            "test -s /dev/stdin < full && echo 1; true",
            "sh -c 'test -s /dev/stdout && echo 1 || echo 2; true' >> full; true",
            "sh -c 'test -s /dev/stdout && echo 1 || echo 2; true' >> empty; true",
            "stat -L -c %s /dev/stdin < empty; true",
            "stat -L -c %s /dev/stdin < full; true",
        ],
    );
}
