//! Commands under a shell with job control on a terminal.
//!
//! Shell and line discipline are real: a test types what a user would type, and reads the output
//! on the screen.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::support::{PCACHE, Sandbox};

/// Time limit for a broken test.
const TOO_LONG: Duration = Duration::from_secs(60);

/// A terminal from the user's side.
struct Terminal {
    side: File,
    shell: Child,
    /// The screen's text up to the next awaited text.
    shown: String,
    /// Length of the part that has been awaited.
    seen: usize,
}

impl Terminal {
    /// Starts a shell with job control that runs a script; `$RUN` in it is the prefix of a
    /// command.
    fn new(sandbox: &Sandbox, run: &str, script: &str) -> Self {
        let side = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC);
        let side = side.expect("a terminal");
        grantpt(&side).expect("a terminal");
        unlockpt(&side).expect("a terminal");
        let name = ptsname(&side, Vec::new()).expect("a name");
        let open = || -> OwnedFd {
            let path = OsStr::from_bytes(name.as_bytes());
            let file = File::options().read(true).write(true).open(path);
            file.expect("a terminal").into()
        };
        // The tests may run in the background, where job-control signals are ignored. setsid makes
        // standard input the controlling terminal of the session.
        let mut shell = Command::new("env");
        shell.args([
            "--default-signal",
            "setsid",
            "--ctty",
            "sh",
            "-m",
            "-c",
            script,
        ]);
        sandbox.environment(&mut shell).env("RUN", run);
        shell.stdin(open()).stdout(open()).stderr(open());
        Self {
            shell: shell.spawn().expect("setsid starts"),
            side: File::from(side),
            shown: String::new(),
            seen: 0,
        }
    }

    /// Waits for this text on the screen, after all that was awaited before.
    #[track_caller]
    fn await_text(&mut self, text: &str) {
        loop {
            if let Some(at) = self.shown[self.seen..].find(text) {
                self.seen += at + text.len();
                return;
            }
            assert!(self.read(), "ended before {text:?}: {}", self.shown);
        }
    }

    fn type_in(&mut self, keys: &str) {
        self.side.write_all(keys.as_bytes()).expect("keys");
    }

    /// Reads more output; returns false at the end.
    #[track_caller]
    fn read(&mut self) -> bool {
        let timeout = TOO_LONG.try_into().expect("a time");
        let mut ready = [PollFd::new(&self.side, PollFlags::IN)];
        let count = poll(&mut ready, Some(&timeout)).expect("poll");
        assert!(count > 0, "nothing follows: {}", self.shown);
        let mut bytes = [0; 4096];
        // When no process has the terminal open any more, reads fail with EIO.
        match self.side.read(&mut bytes) {
            Ok(count) if count > 0 => {
                self.shown
                    .push_str(&String::from_utf8_lossy(&bytes[..count]));
                true
            }
            _ => false,
        }
    }

    /// Returns all text of the screen after the shell has ended.
    fn finish(mut self) -> String {
        while self.read() {}
        self.shell.wait().expect("the shell ends");
        std::mem::take(&mut self.shown)
    }
}

/// A text on the screen, and the reply that is typed then.
type Answer<'a> = (&'a str, &'a str);

/// Runs a script on a terminal. Typed text is not echoed: the echo would appear when it is typed,
/// not when it is read.
fn converse(sandbox: &Sandbox, run: &str, script: &str, answers: &[Answer<'_>]) -> String {
    let mut terminal = Terminal::new(sandbox, run, &format!("stty -echo; {script}"));
    for (text, keys) in answers {
        terminal.await_text(text);
        terminal.type_in(keys);
    }
    terminal.finish()
}

fn under_pcache(sandbox: &Sandbox) -> String {
    let report = sandbox.report();
    format!("{PCACHE} -q --min-time 0 --json {} --", report.display())
}

/// Returns the report of the last run.
fn report(sandbox: &Sandbox) -> serde_json::Value {
    let report = std::fs::read(sandbox.report()).expect("a report");
    serde_json::from_slice(&report).expect("JSON")
}

/// Checks that a script shows the same on a terminal of this width with and without `pcache`,
/// whatever ran before.
#[track_caller]
fn as_plainly(sandbox: &Sandbox, columns: u32, script: &str) {
    let script = format!("stty cols {columns}; {script}");
    let shown = |run: &str| {
        sandbox.reset();
        converse(sandbox, run, &script, &[])
    };
    let plain = shown("");
    assert_eq!(shown(&under_pcache(sandbox)), plain, "{script}");
}

/// Checks that the conversation is the same without `pcache`, with it, and with it again, and has
/// this end.
#[track_caller]
fn check_conversation(script: &str, answers: &[Answer<'_>], end: &str) {
    check_conversation_in(&Sandbox::new(""), script, answers, end);
}

/// [`check_conversation`] in a given sandbox.
#[track_caller]
fn check_conversation_in(sandbox: &Sandbox, script: &str, answers: &[Answer<'_>], end: &str) {
    let plain = converse(sandbox, "", script, answers);
    assert!(plain.ends_with(&format!("{end}\r\n")), "{plain}");
    for _ in 0..2 {
        sandbox.reset();
        let shown = converse(sandbox, &under_pcache(sandbox), script, answers);
        assert_eq!(shown, plain);
    }
}

/// Make queries the name of its terminal to pass it on.
#[test]
fn make_is_skipped_on_a_terminal() {
    let sandbox =
        Sandbox::new(r"printf 'out: in\n\tsleep 0.01; cp in out\n' > Makefile; echo 1 > in");
    for skipped in [false, true] {
        sandbox.edit("rm -f out");
        let shown = converse(&sandbox, &under_pcache(&sandbox), "$RUN make; cat out", &[]);
        assert!(shown.ends_with("1\r\n"), "{shown}");
        let report = report(&sandbox);
        assert_eq!(
            report["units"].as_array().map(Vec::len) == Some(1),
            skipped,
            "{report:#}"
        );
        assert_eq!(report["summary"]["hits"] == 1, skipped, "{report:#}");
    }
}

#[test]
fn control_c_ends_a_command_and_its_shell_sees_why() {
    check_conversation(
        "trap : INT; $RUN sh -c 'echo ready; while :; do :; done'; echo status $?",
        &[("ready", "\x03")],
        "status 130",
    );
}

#[test]
fn control_c_reaches_the_whole_job() {
    check_conversation(
        "trap : INT; \
         $RUN sh -c 'trap \"echo caught\" INT; sh -c \"echo ready; while :; do :; done\"; \
                     echo inner $?; exit 3'; echo status $?",
        &[("ready", "\x03")],
        "status 3",
    );
}

#[test]
fn a_command_that_handles_control_c_goes_on() {
    check_conversation(
        "$RUN sh -c 'trap \"n=1; echo caught\" INT; echo ready; \
                     while test -z \"$n\"; do :; done; read x; echo got $x; exit 4'; echo status $?",
        &[("ready", "\x03"), ("caught", "word\n")],
        "status 4",
    );
}

#[test]
fn a_command_that_ignores_control_c_does_not_hear_of_it() {
    check_conversation(
        "trap '' INT; $RUN sh -c 'echo ready; read x; echo got $x; exit 5'; echo status $?",
        &[("ready", "\x03word\n")],
        "status 5",
    );
}

#[test]
fn control_backslash_ends_a_command() {
    check_conversation(
        "ulimit -c 0; $RUN sh -c 'echo ready; while :; do :; done'; echo status $?",
        &[("ready", "\x1c")],
        "status 131",
    );
}

#[test]
fn control_z_stops_a_command_until_it_is_continued() {
    // 148: stopped by SIGTSTP.
    check_conversation(
        "$RUN sh -c 'echo ready; read x; echo got $x; exit 6'; echo stopped $?; \
         fg; echo status $?",
        &[("ready", "\x1a"), ("stopped 148", "word\n")],
        "status 6",
    );
}

#[test]
fn control_z_stops_a_command_as_often_as_it_is_typed() {
    check_conversation(
        "$RUN sh -c 'echo ready; read x; echo got $x; read x; echo got $x; exit 7'; \
         echo stopped $?; fg; echo again $?; fg; echo status $?",
        &[
            ("ready", "\x1a"),
            ("stopped 148", "one\n"),
            ("got one", "\x1a"),
            ("again 148", "two\n"),
        ],
        "status 7",
    );
}

const THREADS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *work(void *argument) {
    for (;;) pause();
    return argument;
}
int main(void) {
    pthread_t thread;
    char line[16];
    for (int i = 0; i < 8; i++) pthread_create(&thread, NULL, work, NULL);
    puts("ready");
    fflush(stdout);
    fgets(line, sizeof line, stdin);
    printf("got %s", line);
    return 7;
}
"#;

#[test]
fn control_z_stops_a_command_with_threads_once() {
    check_conversation_in(
        &Sandbox::new(&format!(
            "cat > t.c <<'END'\n{THREADS}END\ncc -pthread -o t t.c"
        )),
        "$RUN ./t; echo stopped $?; fg; echo status $?",
        &[("ready", "\x1a"), ("stopped 148", "word\n")],
        "status 7",
    );
}

#[test]
fn a_stopped_command_goes_on_in_the_background() {
    check_conversation(
        "mkfifo gate; $RUN sh -c 'echo ready; read x < gate; echo $x > left; exit 8'; \
         echo stopped $?; bg; echo go > gate; wait %1; echo status $?; cat left",
        &[("ready", "\x1a")],
        "status 8\r\ngo",
    );
}

#[test]
fn a_command_in_the_background_that_reads_the_terminal_stops() {
    // 149: stopped by SIGTTIN.
    check_conversation(
        "$RUN sh -c 'read x; echo got $x; exit 9' & wait %1; echo stopped $?; fg; echo status $?",
        &[("stopped 149", "word\n")],
        "status 9",
    );
}

#[test]
fn a_unit_that_reads_the_terminal_is_not_stored() {
    let sandbox = Sandbox::new("");
    for word in ["one", "two"] {
        let script = "$RUN sh -c 'echo ready; read x; echo got $x'";
        let answers = [("ready", &*format!("{word}\n"))];
        let shown = converse(&sandbox, &under_pcache(&sandbox), script, &answers);
        assert!(shown.ends_with(&format!("got {word}\r\n")), "{shown}");
        let report = report(&sandbox);
        let unit = &report["units"][0];
        assert_eq!(unit["result"], "not_stored", "{report:#}");
        assert_eq!(unit["reason"], "reads from the terminal", "{report:#}");
    }
}

#[test]
fn the_reason_is_shown_on_the_terminal() {
    let sandbox = Sandbox::new("");
    let script = format!("{PCACHE} --explain -- sh -c 'echo ready; read x'");
    let shown = converse(&sandbox, "", &script, &[("ready", "\n")]);
    assert!(
        shown.contains("not cached: reads from the terminal"),
        "{shown}"
    );
}

#[test]
fn a_command_sees_the_terminal_that_it_is_on() {
    // Both terminals exist, so that they have different names.
    let sandbox = Sandbox::new("");
    let script = "tty; $RUN tty; for fd in 0 1 2; do $RUN test -t $fd; echo $?; done; \
                  $RUN test -t 1 > /dev/null; echo $?; $RUN stty size; echo ready; read x";
    let mut terminals = [(); 2].map(|()| Terminal::new(&sandbox, &under_pcache(&sandbox), script));
    let mut names = Vec::new();
    for terminal in &mut terminals {
        terminal.await_text("ready");
        let lines: Vec<_> = terminal.shown.lines().collect();
        assert!(lines[0].starts_with("/dev/pts/"), "{lines:?}");
        assert_eq!(lines[1], lines[0]);
        assert_eq!(lines[2..], ["0", "0", "0", "1", "0 0", "ready"]);
        names.push(lines[0].to_owned());
    }
    assert_ne!(names[0], names[1]);
    for mut terminal in terminals {
        terminal.type_in("\n");
        terminal.finish();
    }
}

/// A user at a terminal is told where to find the reasons why units ran.
#[test]
fn the_terminal_shows_where_to_find_reasons() {
    let sandbox = Sandbox::new("echo 1 > a; echo 1 > b");
    let run = format!("{PCACHE} --min-time 0 --");
    let script = "$RUN sh -c 'sort a > a.out; sort b > b.out'";
    let hint = "`pcache why` says why the others ran";
    let screens: Vec<String> = ["", "echo 2 > a", ""]
        .into_iter()
        .map(|change| {
            sandbox.edit(change);
            converse(&sandbox, &run, script, &[])
        })
        .collect();
    let told: Vec<bool> = screens.iter().map(|text| text.contains(hint)).collect();
    assert_eq!(told, [false, true, false], "{screens:?}");
}

/// The compiler queries the width of its terminal even if it prints nothing.
#[test]
fn a_silent_compiler_is_skipped_on_a_terminal_of_any_size() {
    let sandbox = Sandbox::new("echo 'int f(void) { return 1; }' > a.c");
    let run = under_pcache(&sandbox);
    for (script, skipped) in [
        ("$RUN cc -c a.c", false),
        ("stty rows 10 cols 40; $RUN cc -c a.c", true),
        ("$RUN cc -c a.c > log 2>&1", true),
        ("$RUN cc -c a.c 2>&1 | cat", true),
    ] {
        sandbox.reset();
        converse(&sandbox, &run, script, &[]);
        assert!(sandbox.path("a.o").exists(), "{script}");
        let report = report(&sandbox);
        assert_eq!(
            report["summary"]["hits"] == 1,
            skipped,
            "{script}: {report:#}"
        );
    }
}

#[test]
fn diagnostics_fit_the_width_of_the_terminal() {
    let sandbox = Sandbox::new(
        "printf 'int f(void) { return 1111111111 + 1111111111 + 1111111111 + g(); }' > a.c",
    );
    let script = "stty cols 40; $RUN cc -c a.c; stty cols 200; $RUN cc -c a.c; \
                  stty cols 40; $RUN cc -c a.c";
    check_conversation_in(&sandbox, &format!("{script}; echo $?"), &[], "0");
}

/// Of concurrent commands, only one gets the terminal as its standard input, at random.
#[test]
fn compilers_of_a_parallel_make_are_skipped_on_a_terminal() {
    let setup = "for i in 1 2 3 4 5 6; do echo \"int f$i(void) { return $i; }\" > $i.c; done; \
                 echo 'all: 1.o 2.o 3.o 4.o 5.o 6.o' > Makefile";
    let sandbox = Sandbox::new(setup);
    let run = under_pcache(&sandbox);
    for (turn, skipped) in [0, 6, 6].into_iter().enumerate() {
        sandbox.reset();
        // Make itself runs.
        sandbox.edit(&format!("echo '# {turn}' >> Makefile"));
        converse(&sandbox, &run, "$RUN make -j3 -f Makefile", &[]);
        let report = report(&sandbox);
        assert_eq!(report["summary"]["hits"], skipped, "{report:#}");
    }
}

/// A program that queries the terminal's size sees its present size; others are skipped.
#[test]
fn the_terminal_size_counts_for_programs_that_ask() {
    let sandbox = Sandbox::new(
        "echo 1 > in; printf 'all: out\nout: in\n\tcp in out\n' > Makefile; \
         printf 'size:\n\t@stty size\n' > Sized; \
         printf 'said: w.c\n\tcc -c w.c\n' > Said; echo 'int f(void) { return g(); }' > w.c",
    );
    let run = under_pcache(&sandbox);
    let hits = |script: &str| {
        sandbox.reset();
        let shown = converse(&sandbox, &run, script, &[]);
        let report = report(&sandbox);
        (shown, report["units"][0]["result"] == "hit")
    };
    for (command, others_are_hit) in [
        ("make", true),
        ("make -f Sized", false),
        ("make -f Said", false),
        ("sh -c 'stty size'", false),
        ("sh -c 'cp in out'", true),
    ] {
        for (size, is_hit) in [
            ("rows 10 cols 80", false),
            ("rows 10 cols 80", true),
            ("rows 10 cols 50", others_are_hit),
            ("rows 10 cols 50", true),
            ("rows 10 cols 80", true),
        ] {
            let (shown, hit) = hits(&format!("stty {size}; $RUN {command}"));
            assert_eq!(hit, is_hit, "{command} with {size}: {shown}");
            if command.contains("ize") {
                let columns = size.rsplit(' ').next().expect("a number");
                assert_eq!(shown.trim_end(), format!("10 {columns}"), "{command}");
            }
        }
    }
}

/// Checks that a script does the same on terminals of 60 and then of 150 columns, and compares its
/// output.
#[track_caller]
fn check_sizes(setup: &str, script: &str) {
    let sandbox = Sandbox::new(setup);
    for columns in [60, 60, 150] {
        as_plainly(&sandbox, columns, script);
    }
}

#[test]
fn the_terminal_width_counts_for_redirected_output() {
    check_sizes(":", "$RUN cc --help=common > out 2> err; cat out err");
    check_sizes(":", "$RUN sh -c 'cc --help=common | cat > out'; cat out");
}

#[test]
fn children_of_a_compiler_see_the_terminal_size() {
    let setup = "echo 'int f(void) { return 1; }' > a.c; mkdir b; \
                 printf '#!/bin/sh\nstty size > kinds\nexec /usr/bin/as \"$@\"\n' > b/as; \
                 chmod +x b/as";
    check_sizes(setup, "$RUN cc -B b/ -c a.c > log 2>&1; cat kinds log");
}

/// Terminals under descriptor numbers other than 0, 1 and 2.
#[test]
fn the_terminal_size_counts_through_any_descriptor() {
    let setup = "cat > s.c <<'END'
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
int main(int argc, char **argv) {
    struct winsize size;
    int fd = argc > 1 ? atoi(argv[1]) : fcntl(1, F_DUPFD, 20);
    FILE *out = fopen(\"out\", \"w\");
    if (ioctl(fd, TIOCGWINSZ, &size) == 0) fprintf(out, \"%d\\n\", size.ws_col);
    return fclose(out);
}
END
cc -o s s.c";
    check_sizes(setup, "$RUN ./s; cat out");
    check_sizes(setup, "$RUN ./s 7 7>&1; cat out");
}

/// A part of a unit that is skipped later has printed output for a terminal of another size.
#[test]
fn a_skipped_part_may_depend_on_the_terminal_size() {
    let sandbox = Sandbox::new(
        "printf 'int f(void) { return 1111111111 + 1111111111 + 1111111111 + g(); }' > w.c; \
         printf 'all:\n\t@echo 1; cc -c w.c\n' > Makefile; \
         printf 'all:\n\t@echo 2; cc -c w.c\n' > Other",
    );
    for (file, columns) in [
        ("Makefile", 40),
        ("Other", 40),
        ("Other", 200),
        ("Makefile", 200),
    ] {
        as_plainly(&sandbox, columns, &format!("$RUN make -f {file}"));
    }
}

/// A compiler of a parallel make without standard input knows no width, and writes without a
/// limit.
#[test]
fn a_compiler_without_a_terminal_has_another_width() {
    let sandbox = Sandbox::new(
        "printf 'int f(void) { return 1111111111 + 1111111111 + 1111111111 + g(); }' > w.c",
    );
    for script in [
        "$RUN cc -c w.c < /dev/null",
        "$RUN cc -c w.c",
        "$RUN cc -c w.c < /dev/null",
    ] {
        as_plainly(&sandbox, 70, script);
    }
}
