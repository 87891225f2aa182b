//! Time and random numbers are inputs: programs that show them run again.

use crate::support::{
    Sandbox, check_hit, check_hit_in, check_runs_again, check_runs_again_in, check_uncacheable,
    program,
};

#[test]
fn the_date_in_a_file_is_written_again() {
    let sandbox = Sandbox::new("");
    sandbox.cached("date +%N > x");
    let first = sandbox.text("x");
    sandbox.cached("date +%N > x");
    assert_ne!(sandbox.text("x"), first);
}

#[test]
fn a_program_that_shows_the_time_runs_again() {
    check_runs_again("date +%s", "time of day");
}

#[test]
fn python_that_asks_for_the_time_runs_again() {
    if let Some(python) = program(&["python3"]) {
        check_runs_again(
            &format!("{python} -c 'import time; print(time.time())'"),
            "time of day",
        );
    }
}

#[test]
fn python_that_draws_a_number_runs_again() {
    if let Some(python) = program(&["python3"]) {
        check_runs_again(
            &format!("{python} -c 'import uuid; print(uuid.uuid4())'"),
            "",
        );
    }
}

#[test]
fn a_universal_identifier_is_drawn_again() {
    if let Some(uuidgen) = program(&["uuidgen"]) {
        check_runs_again(&uuidgen, "random");
    }
    check_runs_again("cat /proc/sys/kernel/random/uuid", "random/uuid");
}

#[test]
fn a_random_name_that_is_shown_is_made_again() {
    check_runs_again("mktemp -u", "random");
}

#[test]
fn a_random_number_of_bash_is_drawn_again() {
    if let Some(bash) = program(&["bash"]) {
        check_runs_again(&format!("{bash} -c 'echo $RANDOM'"), "RANDOM");
    }
}

#[test]
fn a_random_number_of_a_script_is_drawn_again_however_bash_gets_the_script() {
    let Some(bash) = program(&["bash"]) else {
        return;
    };
    let setup = "echo 'echo $RANDOM' > in.sh; printf '%s\n' 'while read -r l; do echo \"$l\"; \
        done <<E' '#define SEED $RANDOM' E > head.sh";
    for command in [
        "BASH < in.sh",
        "cat in.sh | BASH",
        "echo 'echo $RANDOM' | BASH",
        "BASH <<'E'\necho $RANDOM\nE\n",
        "cat in.sh | BASH -c 'read -r x; eval \"$x\"'",
        "BASH -c 'eval \"$(cat in.sh)\"'",
        "(env printf 'echo $RAN'; env printf 'D'; env printf 'OM\\n') | BASH",
        "env 'FUNC%%=() { echo $RANDOM; }' BASH -c f",
        "BASH head.sh",
    ] {
        let command = command
            .replace("BASH", &bash)
            .replace("FUNC", "BASH_FUNC_f");
        println!("{command}");
        check_runs_again_in(&Sandbox::new(setup), &command, "RANDOM");
    }
    let others = "import subprocess as s; s.run(['bash'], input=b'echo $RANDOM\\n')";
    if let Some(python) = program(&["python3"]) {
        check_runs_again(
            &format!("{python} -c \"{others}\""),
            "from its standard input",
        );
    }
}

#[test]
fn a_script_that_bash_gets_from_its_input_is_skipped() {
    if let Some(bash) = program(&["bash"]) {
        let setup = "echo 'GL_GNULIB_RANDOM=0; echo $GL_GNULIB_RANDOM' > in.sh";
        for command in [
            "BASH < in.sh",
            "cat in.sh | BASH",
            "BASH -c 'eval \"$(cat in.sh)\"'",
            "BASH in.sh",
        ] {
            let command = command.replace("BASH", &bash);
            println!("{command}");
            check_hit_in(&Sandbox::new(setup), &command);
        }
    }
}

#[test]
fn programs_of_other_interpreters_that_come_by_their_input_are_looked_through() {
    for (interpreter, option, text, reason) in [
        ("perl", "", "print $^T", "time of its start"),
        ("perl", "-w -", "print -M \"f\"", "time of its start"),
        ("mawk", "-f -", "BEGIN { srand(); print rand() }", "random"),
        (
            "python3",
            "-u",
            "import time; print(time.monotonic())",
            "a clock",
        ),
    ] {
        let Some(found) = program(&[interpreter]) else {
            continue;
        };
        let setup = format!("echo 1 > f; echo '{text}' > s; echo '#' > empty");
        let sandbox = Sandbox::new(&setup);
        println!("{interpreter} {option}");
        check_runs_again_in(&sandbox, &format!("{found} {option} < s"), reason);
        let piped = format!("cat s | {found} {option}");
        check_runs_again_in(&sandbox, &piped, "from its standard input");
        check_hit_in(&sandbox, &format!("{found} {option} < empty"));
    }
}

#[test]
fn a_clock_of_bash_is_read_again() {
    if let Some(bash) = program(&["bash"]) {
        for variable in ["EPOCHREALTIME", "EPOCHSECONDS", "SECONDS"] {
            check_runs_again(&format!("{bash} -c 'echo ${variable}'"), "");
        }
        check_runs_again(&format!("{bash} -c 'printf \"%(%s)T\\n\" -1'"), "");
        check_runs_again(&format!("{bash} -c 'echo $SRANDOM'"), "");
    }
}

#[test]
fn a_generated_key_is_generated_again() {
    if let Some(openssl) = program(&["openssl"]) {
        check_runs_again(&format!("{openssl} rand -hex 8"), "random");
    }
}

#[test]
fn bytes_of_the_random_device_are_read_again() {
    check_runs_again("head -c 8 /dev/urandom | od", "urandom");
}

#[test]
fn a_shuffle_is_drawn_again() {
    check_runs_again("seq 10 | shuf", "random");
    check_runs_again("seq 10 | sort -R", "random");
}

#[test]
fn a_sort_is_no_chance() {
    check_hit("seq 100 > f", "sort -r f");
}

#[test]
fn a_long_listing_depends_on_the_times_it_shows() {
    let sandbox = Sandbox::new("echo 1 > f; touch -d @1000000000 f");
    sandbox.cached("ls -l f");
    sandbox.edit("touch -d @1200000000 f");
    let run = sandbox.cached("ls -l f");
    assert!(!run.is_hit());
    assert!(run.out.contains("2008"), "{}", run.out);
}

#[test]
fn uptime_is_read_again() {
    check_runs_again("cat /proc/uptime", "/proc/uptime");
}

#[test]
fn a_bash_script_without_chance_is_skipped() {
    if let Some(bash) = program(&["bash"]) {
        check_hit(
            "echo 1 > f",
            &format!("{bash} -c 'while read x; do echo $x; done < f'"),
        );
    }
}

#[test]
fn a_reason_to_run_again_leaves_the_rest_of_the_tree_skipped() {
    let sandbox = Sandbox::new("seq 10 > f");
    let command = "sort -r f; date > /dev/null; :";
    sandbox.cached(command);
    let run = sandbox.cached(command);
    run.assert_uncacheable("time of day");
    assert_eq!(run.unit("sort").result, "hit");
    assert_eq!(run.unit("date").result, "not_stored");
}

#[test]
fn strict_makes_the_clock_of_a_compiler_uncacheable() {
    let mut sandbox = Sandbox::new("echo 'int x;' > a.c");
    sandbox.options = vec!["--strict".into()];
    // Without a temporary file, whose name is random.
    sandbox
        .cached("cc -fsyntax-only a.c")
        .assert_uncacheable("time of day");
    sandbox.options.clear();
    check_hit("echo 'int x;' > a.c", "cc -c a.c");
}

#[test]
fn a_clock_read_by_a_child_makes_its_ancestors_uncacheable() {
    check_uncacheable("", "sh -c 'sh -c \"date > /dev/null\"'", "time of day");
}

#[test]
fn a_date_in_a_program_is_compiled_again() {
    let sandbox = Sandbox::new("echo 'char *date = __DATE__;' > a.c");
    check_dated(&sandbox);
}

#[test]
fn a_date_that_macros_paste_together_is_compiled_again() {
    let sandbox = Sandbox::new(
        "printf '#define C(a, b) a##b\n#define D(a, b) C(a, b)\nchar *time = D(__TI, ME__);\n' > a.c",
    );
    check_dated(&sandbox);
}

#[test]
fn the_time_of_a_source_that_is_compiled_in_is_compiled_again() {
    let sandbox = Sandbox::new("echo 'char *time = __TIMESTAMP__;' > a.c");
    check_dated(&sandbox);
}

#[track_caller]
fn check_dated(sandbox: &Sandbox) {
    for _ in 0..2 {
        sandbox.reset();
        let run = sandbox.cached("cc -c a.c");
        assert!(run.status.success(), "{run:?}");
        run.assert_uncacheable("print a local time");
    }
}

/// An awk whose programs pcache reads: `awk` may be another one.
fn awk() -> &'static str {
    let known = ["mawk", "gawk"];
    let path = std::env::var_os("PATH").unwrap();
    let is_there = |name: &&str| std::env::split_paths(&path).any(|dir| dir.join(name).exists());
    known.into_iter().find(is_there).expect("mawk or gawk")
}

#[test]
fn a_random_number_of_awk_is_drawn_again() {
    let command = format!("{} 'BEGIN {{ srand(); print rand() }}'", awk());
    check_runs_again(&command, "random");
}

#[test]
fn an_awk_program_without_chance_is_skipped() {
    let command = format!("{} '{{ s += $1 }} END {{ print s }}' f", awk());
    check_hit("seq 10 > f", &command);
}

#[test]
fn the_date_in_a_data_base_of_make_is_shown_again() {
    let sandbox = Sandbox::new("echo all: > Makefile");
    for _ in 0..2 {
        sandbox
            .cached("make -p > x")
            .assert_uncacheable("print a local time");
    }
}
