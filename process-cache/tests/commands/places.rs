//! Results that hit in another directory, and those that do not.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::support::{PCACHE, Unit};

/// Two or more checkouts with the same files, and one store.
struct Places {
    dir: tempfile::TempDir,
    setup: String,
    /// Whether each has its own store, and all share a remote cache.
    is_remote: bool,
}

/// The result of one command in one checkout.
struct Left {
    out: String,
    files: Vec<(PathBuf, Vec<u8>)>,
    units: Vec<Unit>,
}

impl Places {
    fn new(setup: &str) -> Self {
        Self {
            // Not next to files that the user who runs the tests has open.
            dir: tempfile::Builder::new()
                .prefix("places")
                .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
                .unwrap(),
            setup: setup.to_owned(),
            is_remote: false,
        }
    }

    /// Runs a command in a new checkout, plainly and under pcache, and compares the results.
    #[track_caller]
    fn run(&self, place: &str, command: &str) -> Left {
        let dir = self.dir.path().join(place);
        let report = self.dir.path().join("report.json");
        let mut left = [false, true].map(|cached| {
            if dir.exists() {
                fs::remove_dir_all(&dir).unwrap();
            }
            fs::create_dir_all(&dir).unwrap();
            let mut program = if cached {
                let mut program = Command::new(PCACHE);
                program
                    .args(["--quiet", "--min-time", "0", "--root"])
                    .arg(format!("work={}", dir.display()));
                if self.is_remote {
                    let url = format!("dir:{}", self.dir.path().join("remote").display());
                    program.args(["--remote", &url, "--remote-patience", "300"]);
                }
                program
                    .arg("--json")
                    .args([report.as_path(), "--".as_ref(), "sh".as_ref()]);
                program
            } else {
                Command::new("sh")
            };
            let store = if self.is_remote { place } else { "" };
            let store = format!("store-{}", store.replace('/', "-"));
            let shell = |command: &mut Command, script: &str| {
                command
                    .env_clear()
                    // No directory near the checkouts: a result depends on its distance.
                    .env("PATH", "/usr/local/bin:/usr/bin:/bin")
                    .env("LC_ALL", "C")
                    .env("PWD", &dir)
                    .env("PCACHE_DIR", self.dir.path().join(&store))
                    .current_dir(&dir)
                    .args(["-c", script])
                    .output()
                    .unwrap()
            };
            let setup = shell(&mut Command::new("sh"), &self.setup);
            assert!(setup.status.success(), "{setup:?}");
            let output = shell(&mut program, command);
            assert!(output.status.success(), "{place}: {output:?}");
            Left {
                out: String::from_utf8(output.stdout).unwrap(),
                files: files(&dir),
                units: Vec::new(),
            }
        });
        let [plain, cached] = &mut left;
        assert_eq!(plain.out, cached.out, "{place}");
        assert_eq!(plain.files, cached.files, "{place}");
        cached.units = crate::support::units(&report);
        let [_, cached] = left;
        cached
    }
}

fn files(dir: &std::path::Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let kind = fs::symlink_metadata(&path).unwrap().file_type();
        if kind.is_dir() {
            found.extend(files(&path));
        } else if kind.is_symlink() {
            found.push((
                path.clone(),
                fs::read_link(&path)
                    .unwrap()
                    .into_os_string()
                    .into_encoded_bytes(),
            ));
        } else {
            found.push((path.clone(), fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

impl Left {
    #[track_caller]
    fn is_hit(&self, command: &str) -> bool {
        // Inside a skipped unit.
        if self
            .units
            .first()
            .is_some_and(|whole| whole.result == "hit")
        {
            return true;
        }
        let named = |unit: &&Unit| unit.command.starts_with(command);
        let unit = self.units.iter().find(named);
        let unit = unit.unwrap_or_else(|| panic!("no {command}: {:#?}", self.units));
        unit.result == "hit"
    }
}

const SOURCE: &str = "mkdir src; echo '#include \"h.h\"\nint main() { return f(); }' > src/a.c; \
                      echo 'static int f() { return 0; }' > src/h.h";

/// Checks whether a command is skipped in one directory after a run in another one.
#[track_caller]
fn check(setup: &str, command: &str, unit: &str, [there, here]: [&str; 2], expected: bool) {
    let places = Places::new(setup);
    assert!(!places.run(there, command).is_hit(unit));
    let left = places.run(here, command);
    assert_eq!(left.is_hit(unit), expected, "{command}: {:#?}", left.units);
}

const APART: [&str; 2] = ["some/where", "else/place"];

#[test]
fn a_program_with_mapped_paths_hits_in_another_directory() {
    let map = "cc -g -ffile-prefix-map=$PWD=. -c src/a.c -o a.o";
    check(SOURCE, map, "cc", APART, true);
    check(SOURCE, "cc -c src/a.c -o a.o", "cc", APART, true);
    let absolute = "cc -g -ffile-prefix-map=$PWD=. -I$PWD/src -c $PWD/src/a.c -o $PWD/a.o";
    check(SOURCE, absolute, "cc", APART, true);
    // Directories of the same depth and of others.
    check(SOURCE, map, "cc", ["a/b/checkout", "another"], true);
}

#[test]
fn a_dependency_file_hits_elsewhere_with_local_names() {
    // The form that CMake uses.
    let listed =
        "cc -ffile-prefix-map=$PWD=. -I$PWD/src -MD -MT a.o -MF a.o.d -o a.o -c $PWD/src/a.c";
    check(SOURCE, listed, "cc", APART, true);
    let phony = "cc -ffile-prefix-map=$PWD=. -MMD -MP -MF x.d -o a.o -c $PWD/src/a.c; cat x.d";
    check(SOURCE, phony, "cc", APART, true);
    // A list that mentions the directory in another way is no dependency file.
    let target = "cc -ffile-prefix-map=$PWD=. -MD -MT x$PWD -MF a.d -o a.o -c $PWD/src/a.c";
    check(SOURCE, target, "cc", APART, false);
}

#[test]
fn a_program_that_contains_its_path_misses_elsewhere() {
    check(SOURCE, "cc -g -c src/a.c -o a.o", "cc", APART, false);
    check(SOURCE, "cc -g -gz -c src/a.c -o a.o", "cc", APART, false);
    // The use of the name is unknown.
    check(SOURCE, "cc -c $PWD/src/a.c -o a.o", "cc", APART, false);
}

#[test]
fn a_remote_cache_serves_results_of_other_directories() {
    let mut places = Places::new(SOURCE);
    places.is_remote = true;
    fs::create_dir(places.dir.path().join("remote")).unwrap();
    let command = "cc -g -ffile-prefix-map=$PWD=. -MD -c $PWD/src/a.c -o a.o; echo 1 >> log";
    assert!(!places.run("one/tree", command).is_hit("sh"));
    assert!(places.run("two/other", command).is_hit("sh"));
    // A result that belongs to its directory hits only there.
    let command = "pwd > f";
    assert!(!places.run("one/tree", command).is_hit("sh"));
    assert!(!places.run("two/other", command).is_hit("sh"));
}

#[test]
fn a_changed_source_is_no_hit_elsewhere() {
    let command = "cc -c src/a.c -o a.o";
    let mut places = Places::new(SOURCE);
    places.run("one/tree", command);
    places.setup.push_str("; echo '/* */' >> src/h.h");
    assert!(!places.run("two/tree", command).is_hit("cc"));
    // A header appears before the other one.
    let mut places = Places::new("mkdir i j; echo 'int x;' > j/h.h; echo '#include <h.h>' > a.c");
    let command = "cc -Ii -Ij -c a.c";
    places.run("one/tree", command);
    places.setup.push_str("; echo 'char x;' > i/h.h");
    assert!(!places.run("two/tree", command).is_hit("cc"));
}

#[test]
fn output_that_contains_its_path_misses_elsewhere() {
    for command in [
        "pwd",
        "echo $PWD > f",
        "ln -s $PWD l",
        "pwd | tr / _",
        "printf '%s' $PWD | sed 's,/,%2F,g' > f",
        "pwd | tr a-z A-Z",
    ] {
        check("", command, "sh", APART, false);
    }
}

#[test]
fn a_path_read_from_a_file_binds_the_result_to_its_directory() {
    // The same bytes in all directories; they name one of the two.
    let places = Places::new("");
    let there = places.dir.path().join("some/where");
    let setup = format!("echo {0} > config; echo 1 > x", there.display());
    let places = Places { setup, ..places };
    let command = "test \"$(cat config)\" = \"$PWD\" && echo 1 > f; echo 2 > g";
    places.run("some/where", command);
    assert!(!places.run("else/place", command).is_hit("sh"));
    // The other way round.
    let places = Places::new("");
    let here = places.dir.path().join("else/place");
    let setup = format!("echo {0} > config; echo 1 > x", here.display());
    let places = Places { setup, ..places };
    places.run("some/where", command);
    assert!(!places.run("else/place", command).is_hit("sh"));
}

#[test]
fn shells_may_print_a_component_common_to_both_directories() {
    let command = "echo ${PWD##*/} > f";
    check("", command, "sh", ["one/name", "two/name"], true);
    check("", command, "sh", ["one/name", "one/other"], false);
    // A word that occurs by chance, which the second directory shows.
    let places = Places::new("");
    let command = "echo name > f";
    assert!(!places.run("one/name", command).is_hit("sh"));
    assert!(!places.run("two/other", command).is_hit("sh"));
    assert!(places.run("three/third", command).is_hit("sh"));
    check("", "echo 1 > f", "sh", ["one/name", "two/other"], true);
}

#[test]
fn files_above_a_base_directory_are_queried_at_its_location() {
    // The file next to the base directory depends on the location of that.
    let command = "cat ../beside 2> /dev/null || echo none";
    let places = Places::new("");
    fs::create_dir_all(places.dir.path().join("two")).unwrap();
    fs::write(places.dir.path().join("two/beside"), "there\n").unwrap();
    assert_eq!(places.run("one/tree", command).out, "none\n");
    assert_eq!(places.run("two/tree", command).out, "there\n");
    assert_eq!(places.run("three/tree", command).out, "none\n");
    // By an absolute path, derived from that of the base directory.
    let command = "cat ${PWD%/*}/beside 2> /dev/null || echo none";
    assert_eq!(places.run("one/tree", command).out, "none\n");
    assert_eq!(places.run("two/tree", command).out, "there\n");
    assert_eq!(places.run("deeper/one/tree", command).out, "none\n");
}

#[test]
fn link_lookups_above_a_base_directory_hit_elsewhere() {
    check("echo 1 > f", "cp \"$(realpath f)\" g", "sh", APART, false);
    let command = "cc -ffile-prefix-map=$PWD=. -c $PWD/src/a.c -o a.o";
    check(SOURCE, command, "cc", ["one/two", "another"], true);
}

#[test]
fn an_unknown_program_hits_elsewhere_after_two_equal_runs() {
    // sort is known to keep lines unchanged, but not in which order.
    let setup = "printf 'b\\na\\n' > f";
    let places = Places::new(setup);
    let command = "sort f > g";
    assert!(!places.run("aa/bb", command).is_hit("sort"));
    assert!(!places.run("cccc/dd", command).is_hit("sort"));
    assert!(places.run("e/ffffff", command).is_hit("sort"));
    // Neither of them had the same depth.
    assert!(!places.run("e/f/g", command).is_hit("sort"));
    // Two directories that agree in everything on which the result depends.
    let places = Places::new(setup);
    let command = "echo ${#PWD} > g";
    places.run("aa/bb", command);
    places.run("cc/ddd", command);
    places.run("cc/dd", command);
    let command = "printf %s \"$PWD\" | wc -c > g";
    places.run("aa/bb", command);
    places.run("cc/dd", command);
    places.run("cc/ddd", command);
    places.run("ee/ff", command);
}

#[test]
fn a_link_into_a_base_directory_follows_it() {
    let places = Places::new("");
    let one = places.dir.path().join("one/tree");
    fs::create_dir_all(&one).unwrap();
    std::os::unix::fs::symlink(&one, places.dir.path().join("link")).unwrap();
    let command = format!("echo 1 > {}/link/f", places.dir.path().display());
    let left = places.run("one/tree", &command);
    assert_eq!(left.files.len(), 1);
    fs::remove_file(one.join("f")).unwrap();
    // The write goes to the target of the link.
    let left = places.run("two/tree", &command);
    assert!(left.files.is_empty() && one.join("f").exists());
}

/// Two directories with makefiles, and one above them; each writes a file.
const MAKES: &str = "mkdir lib app; printf 'all: ; @$(MAKE) -C lib; $(MAKE) -C app\\n' > Makefile; \
                     for d in lib app; do printf 'all: ; @cat in; cat in > out\\n' > $d/Makefile; \
                     echo 1 > $d/in; done; find . -exec touch -d @1000000000 {} +";

#[test]
fn directory_messages_of_make_are_relocated() {
    check(MAKES, "make", "make", APART, true);
    check(MAKES, "make -w; echo 1 > f", "sh", APART, true);
    // A directory with a name of another length, and of another depth.
    check(MAKES, "make -w", "sh", ["some/deep/place", "another"], true);
    // Make prints its directory, and so does another program.
    check(MAKES, "pwd; make -w -C lib", "make", APART, true);
    check(MAKES, "make -w -C lib > log", "make", APART, true);
    let mut places = Places::new(MAKES);
    places.is_remote = true;
    fs::create_dir(places.dir.path().join("remote")).unwrap();
    assert!(!places.run("one/tree", "make -w").is_hit("sh"));
    let left = places.run("two/other", "make -w");
    let here = places.dir.path().join("two/other");
    let said = format!("make: Entering directory '{}'\n", here.display());
    assert!(
        left.is_hit("sh") && left.out.starts_with(&said),
        "{}",
        left.out
    );
}

/// A makefile that compiles and echoes the command.
const COMPILES: &str = "printf 'f = $(CFLAGS) $(MAP)$(HERE) $(EXTRA)\\n\
                        all: ; echo cc $(f); cc -g $(CFLAGS) -c a.c\\n' > Makefile; \
                        echo 'int x;' > a.c; touch -d @1000000000 . a.c Makefile";

#[test]
fn echoed_commands_of_make_name_the_given_directory() {
    for flags in [
        "CFLAGS=-ffile-prefix-map=$PWD=.",
        "CFLAGS='-O2 -fdebug-prefix-map='$PWD'=. -ffile-prefix-map='$PWD=.",
    ] {
        // Another program that echoes the option is not make.
        check(
            COMPILES,
            &format!("make {flags}"),
            "sh -c 'make",
            APART,
            false,
        );
        let quiet = COMPILES.replace("echo cc", ": cc");
        check(&quiet, &format!("make {flags}"), "sh", APART, true);
        check(&quiet, &format!("{flags} make"), "sh", APART, true);
        check(
            &quiet,
            &format!("{flags} make -w"),
            "sh",
            ["some/deep/place", "another"],
            true,
        );
        // Passed to a recursive make.
        let below = format!(
            "mkdir s; cd s; {quiet}; cd ..; echo 'all: ; $(MAKE) -C s' > Makefile; \
                             touch -d @1000000000 . s Makefile"
        );
        check(&below, &format!("make {flags}"), "sh", APART, true);
    }
}

#[test]
fn messages_of_a_skipped_make_are_relocated_within_a_running_build() {
    let mut places = Places::new(MAKES);
    places.run("a/one", "make");
    // One of the two recursive makes is skipped; the other one and its ancestors run.
    places.setup = MAKES.replace("; find", "; echo 2 > app/in; find");
    let left = places.run("b/second", "make");
    let fates: Vec<(&str, &str)> = left
        .units
        .iter()
        .filter(|unit| unit.command.starts_with("make -C"))
        .map(|unit| (unit.command.as_str(), unit.result.as_str()))
        .collect();
    assert_eq!(fates, [("make -C lib", "hit"), ("make -C app", "stored")]);
    assert!(places.run("c/third-one", "make").is_hit("sh"));
}

#[test]
fn only_directory_messages_of_make_itself_are_relocated() {
    let info = "printf '$(info %s)\\nall: ;\\n'";
    let flags = "CFLAGS=-ffile-prefix-map=$PWD=.";
    for (setup, command) in [
        ("", "echo \"make: Entering directory '$PWD'\""),
        // About another directory than its working directory.
        (
            &format!("mkdir s; {info} \"make: Entering directory '\\$(CURDIR)/s'\" > Makefile"),
            "make",
        ),
        (&format!("{info} \"in '\\$(CURDIR)'\" > Makefile"), "make"),
        (
            &format!("{info} \"make: entering directory '\\$(CURDIR)'\" > Makefile"),
            "make",
        ),
        // To a file of the tree.
        (MAKES, "make -w > log"),
        (MAKES, "make -w | tee log"),
        // Through another program.
        (MAKES, "make -w | cat"),
        // An option followed by another mention.
        (COMPILES, &format!("make {flags} EXTRA=$PWD")),
        (
            COMPILES,
            &format!("make {flags}x EXTRA=-ffile-prefix-map=$PWD"),
        ),
        // Make did not get it as one option.
        (COMPILES, "make MAP=-ffile-prefix-map= HERE=$PWD"),
        (COMPILES, "make 'CFLAGS=-ffile-prefix-map=$(CURDIR)=.'"),
    ] {
        check(setup, command, "sh", APART, false);
    }
    // A filter's output is ordinary output, and is the same as without pcache.
    for filter in [
        "wc -c",
        "{ head -c 40; cat > /dev/null; }",
        "cut -c 20-",
        "sed 's,/.*/,,'",
        "sort",
        "fold -w 7",
    ] {
        let places = Places::new(MAKES);
        for place in ["aa/bb", "cc/ddd", "cc/dd", "eeee/f", "g/hh", "i/j/k"] {
            places.run(place, &format!("make -w | {filter}"));
        }
    }
}

#[test]
fn commits_in_order_do_not_deadlock() {
    // Compilers read many files that others may read; the shell after them does not.
    let places = Places::new(
        "for n in 1 2 3; do printf '#include <stdio.h>\\n#include <stdlib.h>\\nint f%s;\\n' $n \
         > $n.c; done",
    );
    let command = "for n in 1 2 3; do cc -c $n.c; cat $n.c > $n.copy; cp $n.copy $n.again; done; \
                   ar cr lib.a 1.o 2.o 3.o";
    places.run("a", command);
    let left = places.run("b", command);
    assert!(left.units.iter().any(|unit| unit.result == "hit"));
}
