//! Common programs that query the clock or random numbers at their start: they are skipped if
//! neither can affect the output.

use crate::support::{Sandbox, check_hit, check_runs_again, check_uncacheable, program};

/// Versions of Python with a known start-up.
const PYTHONS: [&str; 3] = ["python3.11", "python3.12", "python3.10"];

#[test]
fn python_is_skipped() {
    let Some(python) = program(&PYTHONS) else {
        return;
    };
    // Without `site`, which runs other installed modules.
    for script in ["print(1)", "open(\"x\", \"w\").write(\"1\")"] {
        check_hit("", &format!("{python} -S -c '{script}'"));
    }
    check_hit(
        "echo 'import sys, os; print(sorted(os.listdir(\".\")), open(sys.argv[1]).read())' > s.py; \
         echo 1 > f",
        &format!("{python} -S s.py f"),
    );
}

#[test]
fn python_that_tells_the_time_runs_again() {
    let Some(python) = program(&PYTHONS) else {
        return;
    };
    for script in [
        "import time; print(time.time())",
        "import time; print(time.localtime())",
        "import time; print(time.ctime())",
        "import time; print(time.tzname)",
        "import datetime; print(datetime.datetime.now())",
        "import time; print(time.monotonic())",
    ] {
        check_runs_again(&format!("{python} -S -c '{script}'"), "");
    }
    check_runs_again(&format!("{python} -S -X importtime -c 'pass'"), "");
}

#[test]
fn python_that_draws_a_number_runs_again() {
    let Some(python) = program(&PYTHONS) else {
        return;
    };
    for script in [
        "import random; print(random.random())",
        "import os; print(os.urandom(4))",
        "import uuid; print(uuid.uuid4())",
    ] {
        check_runs_again(&format!("{python} -S -c '{script}'"), "");
    }
}

#[test]
fn perl_is_skipped() {
    let Some(perl) = program(&["perl"]) else {
        return;
    };
    check_hit("", &format!("{perl} -e 'print 1'"));
    check_hit(
        "echo 'while (<>) { print uc; }' > s.pl; echo text > f",
        &format!("{perl} s.pl f > g"),
    );
    check_hit("", &format!("{perl} -e 'srand(5); print rand'"));
}

#[test]
fn perl_that_draws_a_number_runs_again() {
    let Some(perl) = program(&["perl"]) else {
        return;
    };
    check_runs_again(&format!("{perl} -e 'print rand'"), "/dev/urandom");
    check_runs_again(
        &format!("{perl} -e 'BEGIN {{ print rand }}'"),
        "/dev/urandom",
    );
    // Then its own start needs less randomness.
    let seeded = "PERL_HASH_SEED=0 PERL_INTERNAL_RAND_SEED=1";
    check_runs_again(&format!("{seeded} {perl} -e 'print rand'"), "/dev/urandom");
}

#[test]
fn perl_that_tells_the_time_runs_again() {
    let Some(perl) = program(&["perl"]) else {
        return;
    };
    check_runs_again(&format!("{perl} -e 'print time'"), "time of day");
    check_runs_again(
        &format!("{perl} -e 'print scalar localtime'"),
        "time of day",
    );
    check_runs_again(&format!("{perl} -e 'print $^T'"), "time of its start");
    check_runs_again(&format!("{perl} -e 'print -M \"f\"'"), "time of its start");
    check_runs_again(
        &format!("echo 'print $^T' > s.pl; {perl} s.pl"),
        "time of its start",
    );
}

#[test]
fn a_search_by_name_is_skipped() {
    check_hit("mkdir d; echo 1 > d/x", "find . -name x");
    check_hit(
        "mkdir d; echo 1 > d/x",
        "find . -type f -size +0 -exec cat {} +",
    );
}

#[test]
fn a_search_by_age_runs_again() {
    for test in ["-mmin +1", "-newer f", "-mtime 0", "-ls"] {
        check_runs_again(&format!("find . {test}"), "time of day");
    }
}

#[test]
fn a_listing_that_leaves_out_the_year_runs_again() {
    // The chosen one depends on the present.
    check_uncacheable(
        "echo 1 > f; touch -d @1000000000 f",
        "ls -l f",
        "time of day",
    );
}

#[test]
fn bash_is_skipped() {
    check_hit("", "exec bash -c 'echo 1 > x'");
}

#[test]
fn copies_that_keep_times_are_skipped() {
    check_hit("echo 1 > a; touch -d @1234567890 a", "cp -p a b");
    check_hit(
        "echo 1 > a; mkdir d; echo 2 > d/x",
        "cp -a a d e; cp -a d f",
    );
}

#[test]
fn installing_is_skipped() {
    check_hit(
        "echo 1 > a",
        "install -m 640 a b; install -d -m 750 d; install a d",
    );
}

#[test]
fn a_date_that_is_given_is_set_again() {
    check_hit("echo 1 > f", "touch -d @1000 f");
}

#[test]
fn editing_in_place_is_skipped() {
    check_hit("echo a > f", "sed -i s/a/b/ f");
}

#[test]
fn moving_a_directory_that_was_there_runs_again() {
    check_uncacheable("mkdir d; echo 1 > d/x", "mv d e", "moves the directory");
}

#[test]
fn programs_that_read_proc_usage_run_again() {
    for file in ["/proc/self/maps", "/proc/self/stat", "/proc/uptime"] {
        check_runs_again(&format!("cat {file}"), &format!("opens {file}"));
    }
    check_runs_again("head -c 8 /dev/urandom", "reads /dev/urandom");
    // grep may ask for the bounds of its stack, once.
    check_hit("echo a > f", "grep a f");
    check_runs_again("grep -c . /proc/self/maps", "opens /proc/self/maps");
    check_runs_again("cd /proc/self && grep -c . maps", "opens /proc/self/maps");
}

#[test]
fn rustc_is_skipped() {
    // The compiler itself, not the rustup wrapper.
    let told = std::process::Command::new("rustc")
        .args(["--print", "sysroot"])
        .output();
    let Some(sysroot) = told
        .ok()
        .and_then(|told| String::from_utf8(told.stdout).ok())
    else {
        return;
    };
    let rustc = format!("{}/bin/rustc", sysroot.trim());
    let start = "echo 'fn main() { println!(\"1\"); }' > a.rs";
    check_hit(start, &format!("{rustc} a.rs"));
    check_hit(
        start,
        &format!("{rustc} --crate-type lib --emit metadata a.rs 2>&1"),
    );
}

#[test]
fn an_object_that_is_there_already_does_not_hinder_its_compiler() {
    let sandbox = Sandbox::new("echo 'int f(void) { return 1; }' > a.c");
    assert!(sandbox.cached("cc -c -o a.o a.c").status.success());
    sandbox.cached("cc -c -o a.o a.c").assert_hit();
    // Another file with other permissions exists: it is replaced, as the assembler does.
    sandbox.plain("echo something else > a.o; chmod 600 a.o");
    sandbox.cached("cc -c -o a.o a.c").assert_hit();
    let after = sandbox.plain("stat -c %a a.o; nm a.o | grep -c ' T f'");
    let expected = sandbox
        .plain("umask 022; rm a.o; cc -c -o a.o a.c; stat -c %a a.o; nm a.o | grep -c ' T f'");
    assert_eq!(after.out, expected.out);
    // A write through a link is a different case.
    sandbox.plain("mv a.o b.o; ln -s b.o a.o");
    let run = sandbox.cached("cc -c -o a.o a.c");
    assert!(run.status.success() && !run.is_hit(), "{run:?}");
}

#[test]
fn a_unit_given_a_temporary_file_is_stored_with_its_parent() {
    for (name, program) in [("cat", "cat $t"), ("sort", "sort --output=$t f")] {
        let sandbox = Sandbox::new("echo 1 > f");
        let run = sandbox.cached(&format!("t=$(mktemp $PWD/XXXXXX); {program}; rm $t"));
        let reason = &run.unit(name).reason;
        assert!(reason.contains("temporary file"), "{:#?}", run.units);
    }
}
