//! Explanations: each planted reason is named, with its values, by the first command that a new
//! user would type.

use std::process::Command;

use serde_json::Value;

use crate::support::{PCACHE, Sandbox};

/// Returns the output of `pcache` with these arguments.
fn told(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let mut command = Command::new(PCACHE);
    let output = sandbox
        .environment(command.args(arguments))
        .output()
        .expect("pcache runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {text}{errors}");
    text
}

fn json(sandbox: &Sandbox, arguments: &[&str]) -> Value {
    serde_json::from_str(&told(sandbox, arguments)).expect("JSON")
}

/// A small project in which each file is made for a different reason.
const PROJECT: &str = r##"
mkdir -p inc/first inc/second
for unit in header flag shadow calm generated; do
    echo "#include \"$unit.h\"" > $unit.c
    echo "int $unit = 1;" > inc/second/$unit.h
done
rm inc/second/generated.h
echo one > words
printf '#!/bin/sh\nsleep 0.01\necho "level ${LEVEL:-none}" > level.txt\n' > level.sh
printf '#!/bin/sh\ndate +%%N > stamp.txt\n' > stamp.sh
chmod +x level.sh stamp.sh
cat > build.sh <<'END'
set -e
cc -c -Iinc/first -Iinc/second -o header.o header.c
cc -c -Iinc/first -Iinc/second $FLAG -o flag.o flag.c
cc -c -Iinc/first -Iinc/second -o shadow.o shadow.c
cc -c -Iinc/first -Iinc/second -o calm.o calm.c
sed 's/.*/int w_&;/' words > inc/second/generated.h
cc -c -Iinc/first -Iinc/second -o generated.o generated.c
$SETTING ./level.sh
./stamp.sh
END
"##;

#[test]
fn each_of_six_planted_reasons_is_on_the_first_screen() {
    let sandbox = Sandbox::new(PROJECT);
    let build = |flag: &str, setting: &str| {
        let run = sandbox.cached(&format!("FLAG={flag}; SETTING='{setting}'; . ./build.sh"));
        assert!(run.status.success(), "{run:#?}");
    };
    build("-O1", "env");
    sandbox.edit(
        "rm -f *.o *.txt inc/second/generated.h
         echo 'int header = 2;' > inc/second/header.h
         echo 'int shadow = 3;' > inc/first/shadow.h
         echo two >> words",
    );
    build("-O2", "env LEVEL=high");

    let screen = told(&sandbox, &["why"]);
    assert!(screen.lines().count() <= 40, "{screen}");
    for reason in [
        "inc/second/header.h changed",
        "argument -O2 instead of -O1",
        "inc/first/shadow.h appeared",
        "words changed",
        "variable LEVEL is set  (now \"high\")",
        "not cached: reads the time of day",
    ] {
        assert!(screen.contains(reason), "{reason:?} is not in\n{screen}");
    }
    assert!(!screen.contains("calm"), "{screen}");
    // A variable that affects the build must not be suggested for ignoring.
    assert!(!screen.contains("ignore_variables"), "{screen}");

    // Selects a unit by part of its command.
    let one = told(&sandbox, &["why", "./stamp.sh"]);
    assert!(one.contains("not cached: reads the time of day"), "{one}");

    // Selects a changed file by its name: shows the units that ran for it.
    let input = told(&sandbox, &["why", "header.h"]);
    assert!(
        input.contains("inc/second/header.h changed") && input.contains("header.c"),
        "{input}"
    );
    assert!(!input.contains("variable LEVEL"), "{input}");

    // Selects a unit by its output; the reason is followed to its cause.
    let one = told(&sandbox, &["why", "header.o"]);
    assert!(
        one.contains("because  inc/second/header.h changed"),
        "{one}"
    );
    let followed = told(&sandbox, &["why", "generated.o"]);
    assert!(
        followed.contains("inc/second/generated.h changed")
            && followed.contains("which ran because words changed"),
        "{followed}"
    );
    let variable = told(&sandbox, &["why", "level.txt"]);
    assert!(
        variable.contains("because  variable LEVEL is set"),
        "{variable}"
    );

    let page = told(&sandbox, &["report", "-o", "-"]);
    for reason in ["inc/second/header.h changed", "SOURCE_DATE_EPOCH", "<svg"] {
        assert!(page.contains(reason), "{reason:?} is not in\n{page}");
    }

    let graph = told(&sandbox, &["graph"]);
    assert!(
        graph.contains("hit ") && graph.contains("calm.c"),
        "{graph}"
    );
    assert!(graph.contains("(inc/second/header.h changed)"), "{graph}");
}

/// The comparison uses the last run, not one that happens to be more similar.
#[test]
fn an_option_is_compared_with_the_last_run() {
    let sandbox = Sandbox::new("echo 'int a = 1;' > a.c");
    let build = |option: &str| {
        sandbox.edit("rm -f a.o");
        let run = sandbox.cached(&format!("cc -c {option} -o a.o a.c"));
        assert!(run.status.success(), "{run:#?}");
    };
    for option in ["", "-DLEVEL=1", "-DLEVEL=2"] {
        build(option);
    }
    let screen = told(&sandbox, &["why"]);
    let reason = "argument -DLEVEL=2 instead of -DLEVEL=1";
    assert!(screen.contains(reason), "{screen}");
    assert!(!screen.contains("new argument"), "{screen}");
}

/// The linked program changed because a compiler ran: that reason counts, not the assembler in it.
#[test]
fn a_dependency_on_part_of_a_unit_names_the_unit() {
    let sandbox = Sandbox::new("echo 'int main(void) { return 0; }' > a.c; touch a.h");
    let build = || {
        let run = sandbox.cached("cc -c -include a.h -o a.o a.c; cc -o a a.o");
        assert!(run.status.success(), "{run:#?}");
    };
    build();
    sandbox.edit("rm -f a.o a; echo 'int b = 1;' > a.h");
    build();
    let screen = told(&sandbox, &["why"]);
    assert!(screen.contains("1. a.h changed"), "{screen}");
    assert!(!screen.contains(". covered by the unit above"), "{screen}");
    let linked = told(&sandbox, &["why", "a"]);
    assert!(linked.contains("which ran because a.h changed"), "{linked}");
}

/// An older stored result is not reported.
#[test]
fn a_unit_not_stored_last_time_is_explained_by_its_uncacheable_reason() {
    let sandbox = Sandbox::new("echo 1 > in; echo 'cat in; sleep 0.01' > script");
    let run = || sandbox.cached("sh ./script > out");
    run();
    sandbox.edit("echo 'cat in; date +%N' > script");
    run();
    run();
    let why = told(&sandbox, &["why"]);
    assert!(why.contains("not cached: reads the time of day"), "{why}");
    assert!(!why.contains("script changed"), "{why}");
}

#[test]
fn a_page_is_not_made_in_the_project() {
    let sandbox = Sandbox::new("echo 1 > in");
    sandbox.cached("cat in > out");
    let path = told(&sandbox, &["report"]);
    let path = std::path::Path::new(path.trim_end());
    assert!(!path.starts_with(sandbox.dir()), "{}", path.display());
    let page = std::fs::read_to_string(path).expect("a page");
    assert!(page.contains("<svg"), "{page}");
    std::fs::remove_file(path).expect("it is ours");
}

#[test]
fn secrets_are_named_and_not_shown() {
    let mut sandbox = Sandbox::new("");
    for value in ["hunter2-first", "hunter2-second"] {
        sandbox.variables = vec![("SERVICE_TOKEN".into(), value.into())];
        sandbox.cached("sleep 0.01; echo x > x");
    }
    let screen = told(&sandbox, &["why"]);
    assert!(
        screen.contains("variable SERVICE_TOKEN changed"),
        "{screen}"
    );
    assert!(!screen.contains("hunter2"), "{screen}");
    let shown = told(&sandbox, &["show", "--json", "1"]);
    assert!(shown.contains("SERVICE_TOKEN=(not shown)"), "{shown}");
    for directory in ["journal"] {
        for file in std::fs::read_dir(sandbox.store().join(directory)).expect("a directory") {
            let bytes = std::fs::read(file.expect("a file").path()).expect("bytes");
            assert!(memchr::memmem::find(&bytes, b"hunter2").is_none());
        }
    }
}

#[test]
fn runs_are_listed_and_found_again() {
    let sandbox = Sandbox::new("echo 1 > in");
    sandbox.cached("cat in > out");
    sandbox.cached("cat in > out");
    sandbox.cached("cat in > out");
    let log = json(&sandbox, &["log", "--json"]);
    let runs = log["runs"].as_array().expect("runs");
    assert_eq!((log["version"].as_u64(), runs.len()), (Some(1), 3));
    let last = told(&sandbox, &["why"]);
    assert!(last.contains("everything was skipped"), "{last}");
    let first = told(&sandbox, &["why", "--run", "-2"]);
    assert!(first.contains("nothing like it ran before"), "{first}");
    let id = runs[2]["id"].as_str().expect("an id");
    assert_eq!(told(&sandbox, &["why", "--run", id]), first);
    let graph = json(&sandbox, &["graph", "--json"]);
    assert_eq!(graph["units"][0]["result"], "hit", "{graph:#}");
    for key in [
        "id",
        "began_us",
        "wall_us",
        "command",
        "directory",
        "ending",
        "hits",
    ] {
        assert!(!graph["run"][key].is_null(), "{key}: {graph:#}");
    }
}

#[test]
fn output_at_another_file_position_is_explained() {
    let sandbox = Sandbox::new("echo 1 > in");
    for before in ["", "echo 0; "] {
        sandbox.cached(&format!("{{ {before}sort in; }} > out"));
    }
    let screen = told(&sandbox, &["why"]);
    let reason = "standard output has another offset in its file  (its beginning → further on)";
    assert!(screen.contains(reason), "{screen}");
}

/// A script is a program and is read by its interpreter: that is one change.
#[test]
fn a_tool_that_changed_is_one_reason() {
    let sandbox =
        Sandbox::new("printf '#!/bin/sh\nsleep 0.01; echo 1 > out\n' > tool; chmod +x tool");
    sandbox.cached("./tool");
    sandbox.edit("sed -i 's/echo 1/echo 2/' tool");
    sandbox.cached("./tool");
    for arguments in [&["why"][..], &["why", "out"]] {
        let screen = told(&sandbox, arguments);
        assert_eq!(screen.matches("tool changed").count(), 1, "{screen}");
    }
}

/// A run of another command in between does not count as a change since the last one.
#[test]
fn changes_before_the_last_run_are_not_reported() {
    let sandbox = Sandbox::new(
        r##"
printf '#!/bin/sh\necho "int v = 1;"\n' > tool; chmod +x tool
printf '#include "v.h"\n' > a.c
"##,
    );
    let build = |before: &str, setting: &str| {
        sandbox.edit(&format!("rm -f a.o v.h; {before}"));
        let run = sandbox.cached(&format!("{setting}; ./tool > v.h; cc -c a.c"));
        assert!(run.status.success(), "{run:#?}");
    };
    build("", "export OTHER=");
    build("", "export OTHER=set");
    build("", "export OTHER=");
    build("sed -i 's/v = 1/v = 2/' tool", "export OTHER=");
    let screen = told(&sandbox, &["why"]);
    assert!(screen.contains("tool changed"), "{screen}");
    assert!(!screen.contains("variable OTHER"), "{screen}");
    let object = told(&sandbox, &["why", "a.o"]);
    assert!(
        object.contains("v.h changed") && object.contains("which ran because tool changed"),
        "{object}"
    );
}

/// A missing file is not explained by the unit that once made it.
#[test]
fn the_maker_of_a_missing_file_is_no_cause() {
    let sandbox = Sandbox::new(
        r##"
printf 'p: a.o\n\tgcc -o p a.o\na.o: a.c a.h\n\tgcc -Ii1 -Ii2 -c a.c\n' > Makefile
mkdir i1 i2; touch i2/z.h; echo 'static int v;' > a.h
printf '#include "a.h"\n#include <z.h>\nint main(void) { return v; }\n' > a.c
touch -d '1 hour ago' *
"##,
    );
    for change in [
        "",
        "",
        "rm -f a.o p",
        "touch a.c",
        "touch i1/z.h; rm -f a.o p",
        "rm -f i1/z.h a.o p; touch a.h",
    ] {
        sandbox.edit(change);
        let run = sandbox.cached("make");
        assert!(run.status.success(), "{run:#?}");
    }
    let screen = told(&sandbox, &["why"]);
    assert!(!screen.contains("appeared"), "{screen}");
}

/// A result contains the order of times, and `why` finds the changed one.
#[test]
fn a_touched_file_is_named() {
    let sandbox = Sandbox::new(
        r##"
printf 'p: a.o\n\tgcc -o p a.o\na.o: a.c a.h\n\tgcc -c a.c\n' > Makefile
echo 'int main(void) { return 0; }' > a.c; echo 'static int v;' > a.h
"##,
    );
    // The output of make is missing at first, then it exists; then times differ.
    for (change, told_as) in [
        ("", None),
        ("touch a.h", Some("a.h is newer, with the same content")),
        ("", None),
        ("touch a.c", Some("a.c is newer, with the same content")),
        ("chmod 600 a.c", Some("permissions of a.c changed")),
        ("", None),
        ("touch a.h", Some("a.h is newer, with the same content")),
    ] {
        sandbox.edit(change);
        let run = sandbox.cached("make");
        assert!(run.status.success(), "{run:#?}");
        let screen = told(&sandbox, &["why"]);
        if let Some(told_as) = told_as {
            assert!(screen.contains(told_as), "{screen}");
            assert!(!screen.contains("2. "), "{screen}");
        }
    }
}

/// A directory is one reason, with advice.
#[test]
fn another_checkout_is_explained() {
    let sandbox = Sandbox::new(
        "mkdir one two; echo 'int v;' | tee one/a.c > two/a.c
        echo '#!/bin/sh' | tee one/s > two/s; chmod 755 one/s two/s",
    );
    for command in [&["cc", "-c", "a.c"][..], &["./s"]] {
        for name in ["one", "two"] {
            let mut pcache = sandbox.pcache();
            let directory = sandbox.path(name);
            pcache.arg("--").args(command).env("PWD", &directory);
            let run = sandbox.run(pcache.current_dir(directory));
            assert!(run.status.success(), "{run:#?}");
        }
        let mut why = Command::new(PCACHE);
        sandbox
            .environment(&mut why)
            .current_dir(sandbox.path("two"));
        let output = why.arg("why").output().expect("pcache runs");
        let screen = String::from_utf8_lossy(&output.stdout);
        assert!(screen.contains("1. another working directory"), "{screen}");
        assert!(screen.contains("--root"), "{screen}");
        assert!(!screen.contains("PWD"), "{screen}");
        let output = why.arg("1").output().expect("pcache runs");
        let screen = String::from_utf8_lossy(&output.stdout);
        assert!(screen.contains("another working directory"), "{screen}");
        assert!(!screen.contains("program"), "{screen}");
    }
}

/// The result used for a skipped unit is the one compared with the next run, not the last run.
#[test]
fn comparisons_use_the_result_that_hit() {
    let sandbox = Sandbox::new(
        r##"
mkdir i o; echo '#define M 1' > i/m1.h; echo '#define M 2' > i/m2.h; ln -s m1.h i/m.h
printf '#include <m.h>\nint x = M;\n' > a.c
"##,
    );
    for change in [
        ":",
        "echo '#define M 9' > o/m.h",
        "rm o/m.h",
        "ln -sfn m2.h i/m.h",
    ] {
        sandbox.edit(&format!("rm -f a.o; {change}"));
        let run = sandbox.cached("cc -Io -Ii -c a.c");
        assert!(run.status.success(), "{run:#?}");
        assert_eq!(run.is_hit(), change == "rm o/m.h", "{change}");
    }
    let screen = told(&sandbox, &["why"]);
    assert!(screen.contains("1. i/m.h changed"), "{screen}");
    assert!(!screen.contains("o/m.h"), "{screen}");
}
