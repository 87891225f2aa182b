//! Processes with so many lookups that these become unstopped calls: the stored result equals that
//! of stopped calls.

use crate::support::{Sandbox, check_hit, check_uncacheable, program};

/// Each kind of lookup, hundreds of times, in one shell.
const COMMAND: &str = "i=0
    while [ $i -lt 200 ]; do
        i=$((i + 1))
        [ -e missing/$i ] && echo found $i
        [ -f other/$i ] && echo other $i
        [ -x sources/$i ] && echo program $i
        [ -L sources/$i ] && echo link $i
        . ./sources/$i
    done
    echo $sum > result";
const SETUP: &str = "mkdir missing other sources aside
    for i in $(seq 200); do echo 'sum=$((sum + '$i'))' > sources/$i; done
    for i in $(seq 0 7 200); do echo text > other/$i; done";

/// Edits, with whether the answer to a lookup changes.
const EDITS: [(&str, bool); 9] = [
    (":", false),
    ("echo 'sum=1' > sources/150", true),
    ("echo > missing/133", true),
    ("rm other/140", true),
    ("mkdir other/141", true),
    ("chmod +x sources/199", true),
    ("mv sources/3 aside; ln -s ../aside/3 sources/3", true),
    ("rmdir missing; echo > missing; chmod -x missing", true),
    ("echo > aside/new", false),
];

#[test]
fn facts_are_the_same_with_and_without_stops() {
    for [first, then] in [["auto", "stops"], ["stops", "auto"], ["auto", "auto"]] {
        let mut sandbox = Sandbox::new(SETUP);
        let by = |how: &str| vec![format!("--interception={how}")];
        sandbox.options = by(first);
        let run = sandbox.cached(COMMAND);
        assert_eq!(run.whole().result, "stored", "{first}: {:#?}", run.units);
        for (edit, misses) in EDITS {
            sandbox.reset();
            sandbox.edit_then(edit);
            let plain = sandbox.plain(COMMAND);
            sandbox.reset();
            sandbox.edit_then(edit);
            sandbox.options = [by(then), vec!["--read-only".to_owned()]].concat();
            let run = sandbox.cached(COMMAND);
            run.assert_like(&plain, edit);
            assert_eq!(run.is_hit(), !misses, "{first}, {then}: {edit}");
        }
    }
}

#[test]
fn concurrent_lookups_do_not_hide_created_files() {
    let command = "look() {
            i=0
            while [ $i -lt 300 ]; do
                i=$((i + 1))
                [ -e made/$i ] || [ -d made/d$i ] || [ -r nowhere/$i ]
            done
        }
        make() {
            i=0
            while [ $i -lt 60 ]; do
                i=$((i + 1))
                [ -e made/d$i ]
                mkdir made/d$i
                echo $i > made/$i
                mv made/$i made/d$i/file
                [ $((i % 2)) = 0 ] || : > made/$i
            done
        }
        mkdir made
        look & make & look & look
        wait
        [ -e made/1 ] && [ ! -e made/2 ] && [ -e made/d60/file ] && echo all";
    let sandbox = Sandbox::new("");
    let plain = sandbox.plain(command);
    assert_eq!(plain.out, "all\n");
    for _ in 0..4 {
        sandbox.reset();
        let run = sandbox.cached(command);
        run.assert_like(&plain, "under pcache");
    }
}

#[test]
fn files_behind_links_of_the_process_count() {
    for command in [
        "[ -e /proc/self/cwd/flag ] && echo yes || echo no",
        "[ -e /proc/$$/cwd/flag ] && echo yes || echo no",
        "[ -e /proc/self/root$PWD/flag ] && echo yes || echo no",
        "exec 5< .; [ -e /proc/self/fd/5/flag ] && echo yes || echo no",
        "exec 5< .; [ -e /dev/fd/5/flag ] && echo yes || echo no",
        "ls /proc/self/cwd; ls /proc/self/cwd/.",
        "cd d; exec 5< ..; cd ..; cat /proc/self/fd/5/flag 2> /dev/null || echo none",
    ] {
        check_hit("mkdir d", command);
        let sandbox = Sandbox::new("mkdir d");
        sandbox.cached(command);
        sandbox.reset();
        sandbox.edit("mkdir d; echo 1 > flag");
        let plain = sandbox.plain(command);
        sandbox.cached(command).assert_like(&plain, command);
    }
}

#[test]
fn attributes_behind_links_of_the_process_count() {
    if program(&["getfattr"]).is_none() || program(&["setfattr"]).is_none() {
        return;
    }
    let command = "getfattr -n user.a /proc/self/cwd/f 2> /dev/null";
    let sandbox = Sandbox::new("echo 1 > f");
    for value in ["1", "2"] {
        sandbox.edit(&format!("setfattr -n user.a -v {value} f"));
        let plain = sandbox.plain(command);
        sandbox.cached(command).assert_like(&plain, value);
    }
}

#[test]
fn links_to_links_of_processes_are_followed_and_not_cached() {
    let reason = "follows a link that leads through /proc to a file of a process";
    let setup = "mkdir d; ln -s /proc/self/cwd here";
    check_uncacheable(setup, "cd d; [ -e ../here/flag ] || echo no", reason);
    check_uncacheable(setup, "cat here/absent || :", reason);
}

#[test]
fn files_behind_links_of_other_processes_are_not_cached() {
    let command = "(exec 5< .; sh -c '[ -e /proc/$PPID/cwd/flag ] || echo no'; :)";
    check_uncacheable("", command, "asks about another process");
}
