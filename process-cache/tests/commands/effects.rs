//! Effects of a hit on the file tree.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::support::{Sandbox, check_hit, check_still_hit, check_uncacheable, program};

#[test]
fn new_files_come_back_with_their_modes() {
    check_hit(
        "",
        "echo 1 > a; chmod 640 a; echo 2 > b; chmod 4755 b; umask 077; echo 3 > c",
    );
}

#[test]
fn directories_come_back_with_their_modes() {
    check_hit(
        "",
        "mkdir -p a/b/c; chmod 750 a/b; mkdir -m 700 d; echo 1 > a/b/c/f",
    );
}

#[test]
fn symbolic_links_come_back() {
    check_hit("echo 1 > f", "ln -s f l; ln -s nowhere m; ln -s . n");
}

#[test]
fn hard_links_come_back_as_hard_links() {
    check_hit("", "echo 1 > a; ln a b; ln b c; echo 2 >> c");
}

#[test]
fn a_link_that_keeps_another_ones_time_is_not_made_anew() {
    check_uncacheable(
        "ln -s a link",
        "ln -f link hard; rm -f link; ln -s b link",
        "another name of a link that was replaced",
    );
}

#[test]
fn hard_links_to_symbolic_links_come_back() {
    check_hit("echo 1 > a; ln -s a l; ln -s none m", "ln l k; ln m n");
    check_hit("", "ln -s a l; ln l k");
}

#[test]
fn a_temporary_file_renews_the_time_of_its_directory() {
    let command = "echo 1 > d/f; rm d/f";
    for (setup, edit) in [("echo 0 > d/f", "rm d/f"), (":", "echo 0 > d/f")] {
        let sandbox = Sandbox::new(&format!("mkdir d; {setup}"));
        sandbox.cached(command);
        sandbox.reset();
        sandbox.edit(&format!("{edit}; touch -d @1000000000 d"));
        sandbox.cached(command);
        let found = fs::metadata(sandbox.path("d")).expect("d");
        assert_ne!(found.mtime(), 1_000_000_000, "after {edit}");
        assert!(!sandbox.path("d/f").exists(), "after {edit}");
    }
}

#[test]
fn appending_nothing_keeps_the_modification_time() {
    let mut commands = vec![("cat empty >> log; sleep 0.01".to_owned(), false)];
    if program(&["perl"]).is_some() {
        let script =
            "use Fcntl; sysopen F, q(log), O_WRONLY | O_APPEND | O_CREAT; utime undef, undef, *F";
        commands.push((format!("perl -e '{script}'"), true));
    }
    for (command, dated) in commands {
        let sandbox = Sandbox::new(": > empty; : > log");
        sandbox.cached(&command);
        for _ in 0..2 {
            sandbox.edit("touch -d @1000000000 log");
            sandbox.cached(&command).assert_hit();
            let found = fs::metadata(sandbox.path("log")).expect("log");
            assert_eq!(found.mtime() != 1_000_000_000, dated, "{command}");
        }
    }
}

#[test]
fn a_file_that_was_opened_left_alone_and_moved_keeps_its_time() {
    let mut commands = vec![": >> log; mv log new".to_owned()];
    if program(&["perl"]).is_some() {
        commands.push("perl -e 'open F, q(>>), q(log); rename q(log), q(new)'".into());
    }
    for command in commands {
        let sandbox = Sandbox::new("echo 1 > log");
        sandbox.cached(&command);
        for time in [1_000_000_000, 1_100_000_000] {
            sandbox.reset();
            sandbox.edit_then(&format!("echo 1 > log; touch -d @{time} log"));
            sandbox.cached(&command);
            let found = fs::metadata(sandbox.path("new")).expect("new");
            assert_eq!(found.mtime(), time, "{command}");
        }
    }
    check_hit("echo 1 > log", "sh -c 'echo 2 >> log; mv log new'");
}

#[test]
fn a_child_that_appends_nothing_keeps_the_time_that_another_has_set() {
    check_hit("", "echo 1 > a; touch -d @1000000000 a; sh -c 'exec 3>> a'");
    check_hit(
        "",
        "echo 1 > a; touch -d @1000000000 a; sh -c 'echo 2 >> a'",
    );
}

#[test]
fn a_skipped_unit_that_appends_nothing_keeps_the_time_of_the_writer_before_it() {
    let setup = "echo 1 > b
        echo 'exec 3>> a; cat b > c' > inner.sh
        for i in 1 2; do echo \"cat b > a; sh inner.sh; cat b > d$i\" > outer$i.sh; done";
    let sandbox = Sandbox::new(setup);
    sandbox.cached("sh outer1.sh");
    // The inner one is skipped.
    let run = sandbox.cached("sh outer2.sh");
    assert_eq!(run.unit("sh inner.sh").result, "hit", "{:#?}", run.units);
    sandbox.edit("touch -d @1000000000 a");
    sandbox.cached("sh outer2.sh").assert_hit();
    let found = fs::metadata(sandbox.path("a")).expect("a");
    assert_ne!(found.mtime(), 1_000_000_000);
}

#[test]
fn a_file_opened_for_appending_is_made_if_missing() {
    let command = "cat empty >> log; sleep 0.01";
    let sandbox = Sandbox::new(": > empty; echo 1 > log");
    sandbox.cached(command);
    sandbox.edit("rm log");
    sandbox.cached(command).assert_hit();
    assert_eq!(sandbox.text("log"), "");
}

#[test]
fn the_truncation_of_an_empty_file_is_repeated() {
    let command = ": > made; sh -c ': > made; sleep 0.01'";
    let sandbox = Sandbox::new("");
    sandbox.cached(command);
    sandbox.edit("echo 1 > made");
    sandbox.cached("sh -c ': > made; sleep 0.01'");
    assert_eq!(sandbox.text("made"), "");
}

#[test]
fn appends_of_a_skipped_child_are_effects_of_its_parent() {
    let sandbox = Sandbox::new("echo line > x; echo 1 > y; echo 'cat x >> log; sleep 0.01' > s.sh");
    let command = "sh s.sh; cat y";
    sandbox.cached(command);
    sandbox.edit("rm log; echo 2 > y");
    let run = sandbox.cached(command);
    assert_eq!(run.unit("sh s.sh").result, "hit");
    for lines in 2..4 {
        sandbox.cached(command).assert_hit();
        assert_eq!(sandbox.text("log"), "line\n".repeat(lines));
    }
}

#[test]
fn holes_stay_holes() {
    let command = "rm -f new; truncate -s 300M new; echo end >> new; truncate -s 5 small; \
                   for f in old kept; do truncate -s 2M $f; echo x | dd of=$f bs=1 seek=1500000 conv=notrunc 2> /dev/null; done";
    let sandbox = Sandbox::new("seq 1 400000 > old");
    let blocks = |name| fs::metadata(sandbox.path(name)).expect(name).blocks();
    sandbox.cached(command);
    let names = ["new", "small", "kept"];
    let before = names.map(blocks);
    sandbox.reset();
    sandbox.cached(command).assert_hit();
    assert_eq!(names.map(blocks), before);
    assert!(before[0] < 1000, "a file system with holes");
}

#[test]
fn deletions_are_repeated() {
    check_hit("echo 1 > f; ln -s f l; mkdir d", "rm f l; rmdir d");
}

#[test]
fn a_renamed_file_is_renamed_again() {
    check_hit("echo 1 > a; mkdir d", "mv a d/b");
}

#[test]
fn a_made_directory_that_moves_often_is_made_at_its_last_place() {
    let make = "mkdir q(a); mkdir q(a/d); for (q(a/f), q(a/d/g)) {open F, q(>), $_; print F 1}";
    let moves = "rename q(a), q(b); system q(cat b/d/g; cp b/f b/h); rename q(b), q(c)";
    let ends = [
        "",
        "mkdir q(a); open F, q(>), q(a/f)",
        "rename q(c/f), q(f); rename q(c), q(b); symlink q(f), q(b/f)",
        "print open(F, q(b/f)) ? 1 : 0",
    ];
    for end in ends {
        check_hit("", &format!("perl -e '{make} close F; {moves}; {end}'"));
    }
}

#[test]
fn a_moved_link_keeps_its_time() {
    check_hit("ln -s f l; touch -h -d @1000000000 l", "mv l m");
}

#[test]
fn a_file_moved_over_another_replaces_it() {
    check_hit("echo 1 > a; echo 2 > b", "mv a b");
}

#[test]
fn a_file_moved_within_a_made_directory_is_there() {
    check_hit("", "mkdir d; echo 1 > d/a; mv d/a d/b; ln -s b d/l");
}

#[test]
fn truncated_files_are_truncated_again() {
    check_hit(
        "seq 100 > a; seq 100 > b",
        ": > a; truncate -s 10 b; truncate -s 1000 c",
    );
}

#[test]
fn appends_are_repeated() {
    check_hit(
        "echo before > log",
        "echo more >> log; echo yet more >> log",
    );
}

#[test]
fn appending_does_not_depend_on_the_existing_content() {
    check_still_hit(
        "echo before > log",
        "echo more >> log",
        "echo else > log; echo and >> log",
    );
}

#[test]
fn appending_to_a_file_that_has_gone_makes_it() {
    let sandbox = Sandbox::new("echo before > log");
    sandbox.cached("echo more >> log");
    sandbox.edit("rm log");
    sandbox.cached("echo more >> log");
    assert_eq!(sandbox.text("log"), "more\n");
}

#[test]
fn a_file_written_in_place_keeps_its_inode() {
    let sandbox = Sandbox::new("echo 1 > f");
    sandbox.cached("echo 2 > f");
    sandbox.reset();
    let before = inode(&sandbox, "f");
    sandbox.cached("echo 2 > f").assert_hit();
    assert_eq!(inode(&sandbox, "f"), before);
    assert_eq!(sandbox.text("f"), "2\n");
}

#[test]
fn a_file_written_in_place_changes_under_its_other_names() {
    let sandbox = Sandbox::new("echo 1 > f");
    sandbox.cached("echo 2 > f");
    sandbox.edit("echo 1 > f; ln f other");
    sandbox.cached("echo 2 > f");
    assert_eq!(sandbox.text("other"), "2\n");
}

#[test]
fn a_file_removed_and_made_again_is_a_new_one() {
    let sandbox = Sandbox::new("echo 1 > f");
    sandbox.cached("rm f; echo 2 > f");
    sandbox.reset();
    sandbox.edit("ln f other");
    let before = inode(&sandbox, "f");
    sandbox.cached("rm f; echo 2 > f");
    assert_ne!(inode(&sandbox, "f"), before);
    assert_eq!(sandbox.text("other"), "1\n");
}

#[test]
fn a_touched_directory_is_newer_than_its_files_again() {
    let make = "mkdir -p d; echo 1 > d/x; sleep 0.02; echo 2 > d/y; sleep 0.02; touch d";
    let sandbox = Sandbox::new("");
    sandbox.cached(make);
    sandbox.edit("rm -r d");
    sandbox.cached(make).assert_hit();
    let order = sandbox.plain("[ d/x -nt d/y ] || [ d/y -nt d ] || [ ! d -nt d/y ]");
    assert!(!order.status.success(), "{order:#?}");
}

#[test]
fn a_directory_is_newer_than_the_files_made_before_its_last_name_again() {
    let scripts = [
        "echo 1 > d/x; sleep 0.02; echo 2 > d/y; sleep 0.02; echo 3 > d/y",
        "echo 1 > d/x; echo 2 > d/new; sleep 0.02; mv d/new d/y",
        "echo 1 > d/x; sleep 0.02; rm d/gone",
        "echo 1 > x; sleep 0.02; ln -s x d/y",
        "echo 1 > d/x; sleep 0.02; sh -c 'echo 2 > d/y; sleep 0.02; mkdir d/z'",
    ];
    for script in scripts {
        let edit = "rm -rf x d; mkdir d; echo > d/gone; touch -d @1000000000 d";
        let sandbox = Sandbox::new(edit);
        let newer = || {
            let newer = |name| sandbox.plain(&format!("[ d -nt {name} ]")).status.success();
            [newer("x"), newer("d/x"), newer("d/y")]
        };
        sandbox.cached(script);
        let order = newer();
        assert!(order.contains(&true), "{script}");
        sandbox.edit(edit);
        sandbox.cached(script).assert_hit();
        assert_eq!(newer(), order, "{script}");
    }
}

#[test]
fn the_directory_behind_a_link_is_newer_than_the_files_in_it_again() {
    let script = "echo 1 > d/x; sleep 0.02; echo 2 > d/y";
    let sandbox = Sandbox::new("mkdir d");
    sandbox.cached(script);
    sandbox.edit("rm -r d; mkdir e; touch -d @1000000000 e; ln -s e d; touch -hd @1000000000 d");
    let run = sandbox.cached(script);
    let state = sandbox.plain("[ e -nt d/x ] && stat -c %Y d && ls e");
    assert_eq!(state.out, "1000000000\nx\ny\n", "{run:#?}");
}

#[test]
fn a_directory_in_which_no_name_is_made_keeps_its_time() {
    let script = "echo 1 > d/x; sleep 0.02; echo 2 > d/y";
    let there = "rm -rf d; mkdir d; touch d/x d/y; touch -d @1000000000 d";
    let missing = "rm -rf d; mkdir d; touch -d @1000000000 d";
    for (first, then) in [(missing, there), (there, missing), (there, there)] {
        let sandbox = Sandbox::new(first);
        sandbox.cached(script);
        sandbox.edit(then);
        sandbox.cached(script).assert_hit();
        let newer = sandbox.plain("[ d -nt d/x ]").status.success();
        assert_eq!(newer, then == missing, "{first} then {then}");
        let kept = sandbox
            .plain("[ $(stat -c %Y d) = 1000000000 ]")
            .status
            .success();
        assert_eq!(kept, then == there, "{first} then {then}");
    }
}

#[test]
fn a_product_shares_no_inode_with_the_store() {
    let sandbox = Sandbox::new("seq 10 > f");
    let command = "sort f > g";
    sandbox.cached(command);
    let right = sandbox.text("g");
    for _ in 0..2 {
        sandbox.reset();
        sandbox.cached(command).assert_hit();
        assert_eq!(sandbox.text("g"), right);
        assert_eq!(fs::metadata(sandbox.path("g")).expect("g").nlink(), 1);
        // Written in place, as a careless program would do.
        sandbox.edit("printf garbage | dd of=g conv=notrunc 2> /dev/null");
    }
}

#[test]
fn modes_that_were_set_are_set() {
    check_hit("echo 1 > f; mkdir d", "chmod 600 f; chmod 700 d");
}

#[test]
fn a_restored_script_can_be_run() {
    check_hit("", "printf '#!/bin/sh\\necho hi\\n' > s; chmod +x s; ./s");
}

#[test]
fn times_that_were_set_are_exact() {
    let Some(touch) = program(&["touch"]) else {
        return;
    };
    check_hit("echo 1 > f", &format!("{touch} -d @1234567890.123456789 f"));
}

#[test]
fn an_unwritten_file_keeps_its_time() {
    let sandbox = Sandbox::new("echo 1 > f; echo 2 > g; touch -d @1234567890 g");
    sandbox.cached("cat g > f");
    sandbox.reset();
    sandbox.cached("cat g > f").assert_hit();
    assert_eq!(
        fs::metadata(sandbox.path("g")).expect("g").mtime(),
        1_234_567_890
    );
}

#[test]
fn a_file_rewritten_with_equal_content_gets_a_new_time() {
    let sandbox = Sandbox::new("echo 1 > f; echo 1 > g");
    sandbox.cached("cat f > g");
    sandbox.reset();
    let old = modified(&sandbox, "g");
    sandbox.cached("cat f > g").assert_hit();
    assert!(modified(&sandbox, "g") > old);
}

#[test]
fn products_are_made_in_the_order_they_were_made() {
    let sandbox = Sandbox::new("");
    let command = "for i in 5 4 3 2 1; do echo $i > f$i; done; echo again > f5";
    sandbox.cached(command);
    sandbox.reset();
    // The events show the order even if all of them are within one tick.
    let kept =
        rustix::fs::inotify::CreateFlags::NONBLOCK | rustix::fs::inotify::CreateFlags::CLOEXEC;
    let notices = rustix::fs::inotify::init(kept);
    let notices = notices.expect("inotify");
    let flags = rustix::fs::inotify::WatchFlags::CREATE | rustix::fs::inotify::WatchFlags::MOVED_TO;
    rustix::fs::inotify::add_watch(&notices, sandbox.dir(), flags).expect("a watch");
    sandbox.cached(command).assert_hit();
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut reader = rustix::fs::inotify::Reader::new(notices, &mut buffer);
    let mut order = Vec::new();
    while let Ok(event) = reader.next() {
        let name = event.file_name().expect("a name").to_string_lossy();
        if name.len() == 2 {
            order.push(name.into_owned());
        }
    }
    assert_eq!(order, ["f4", "f3", "f2", "f1", "f5"]);
    let times: Vec<_> = order.iter().map(|name| modified(&sandbox, name)).collect();
    assert!(times.is_sorted(), "{times:?}");
}

#[test]
fn restored_times_do_not_lie_in_the_future() {
    let sandbox = Sandbox::new("");
    let command = "for i in $(seq 50); do echo $i > f$i; done";
    sandbox.cached(command);
    sandbox.reset();
    sandbox.cached(command).assert_hit();
    let now = std::time::SystemTime::now();
    for i in 1..=50 {
        let time = fs::metadata(sandbox.path(&format!("f{i}"))).and_then(|m| m.modified());
        assert!(time.expect("a time") <= now, "f{i}");
    }
}

const PROJECT: &str = "printf 'p: a.o b.o\\n\\tcc -o p a.o b.o\\n%%.o: %%.c h.h\\n\\tcc -c $<\\n' \
     > Makefile; echo '#include \"h.h\"\nint f(void); int main(void) { return f() - H; }' > a.c; \
     echo '#include \"h.h\"\nint f(void) { return H; }' > b.c; echo '#define H 1' > h.h";

#[test]
fn make_has_nothing_to_do_after_a_hit() {
    let sandbox = Sandbox::new(PROJECT);
    sandbox.cached("make");
    sandbox.reset();
    sandbox.cached("make").assert_hit();
    let question = sandbox.plain("make -q");
    assert!(question.status.success(), "{question:?}");
}

#[test]
fn make_has_nothing_to_do_after_hits_of_single_units() {
    let sandbox = Sandbox::new(PROJECT);
    sandbox.cached("make");
    sandbox.reset();
    sandbox.edit("echo '# changed' >> Makefile");
    let run = sandbox.cached("make");
    assert_eq!(run.unit("cc -c a.c").result, "hit");
    let question = sandbox.plain("make -q");
    assert!(question.status.success(), "{question:?}");
}

#[test]
fn ninja_has_nothing_to_do_after_hits() {
    if program(&["ninja"]).is_none() {
        return;
    }
    let sandbox = Sandbox::new(
        "printf 'rule c\\n command = sort $in > $out\\nbuild m: c i\\nbuild o: c m\\n' > build.ninja; \
         seq 100 > i",
    );
    sandbox.cached("ninja");
    for start in ["", "rm o", "rm m o", "rm m o .ninja_log", "touch i"] {
        sandbox.edit(start);
        sandbox.cached("ninja");
        let question = sandbox.plain("ninja -n");
        assert!(
            question.out.contains("no work to do"),
            "{start}: {}",
            question.out
        );
    }
}

#[test]
fn ninja_has_nothing_to_do_after_the_same_again() {
    if program(&["ninja"]).is_none() {
        return;
    }
    let sandbox = Sandbox::new(
        "printf 'rule c\\n command = sort $in > $out\\nbuild out/m: c i\\nbuild out/o: c out/m\\n' \
         > build.ninja; seq 100 > i; touch -d @1000000000 i build.ninja",
    );
    for _ in 0..2 {
        sandbox.reset();
        // Without -j it queries the machine, and is not stored for that reason.
        sandbox.cached("ninja -j1");
        let question = sandbox.plain("ninja -n");
        assert!(question.out.contains("no work to do"), "{}", question.out);
    }
}

#[test]
fn a_build_that_rebuilds_its_outputs_is_restored() {
    check_hit(
        PROJECT,
        "make; touch h.h; make; make -q && echo nothing to do",
    );
}

#[test]
fn a_restored_program_runs() {
    let sandbox = Sandbox::new(PROJECT);
    sandbox.cached("make");
    sandbox.reset();
    sandbox.cached("make").assert_hit();
    assert!(sandbox.plain("./p").status.success());
}

#[test]
fn an_archive_is_unpacked_again() {
    check_hit(
        "mkdir d out; echo 1 > d/a; chmod 600 d/a; mkdir d/e; touch -d @1234567890 d/a d/e d; \
         tar cf t.tar d",
        "tar xf t.tar -C out",
    );
}

#[test]
fn a_copied_tree_comes_back() {
    check_hit(
        "mkdir -p d/q; echo 1 > d/a; ln -s a d/l; chmod 750 d/q",
        "cp -r d e",
    );
}

#[test]
fn a_directory_replaced_by_a_file_comes_back_as_a_file() {
    check_hit("mkdir d; echo 1 > f", "rmdir d; echo 2 > d; rm f; mkdir f");
}

#[test]
fn files_made_and_removed_leave_no_trace() {
    check_hit(
        "echo 1 > f",
        "cp f t; cat t > u; rm t; mkdir d; mv u d/u; rm d/u; rmdir d; cat f",
    );
}

#[test]
fn a_sparse_file_comes_back() {
    check_hit("", "truncate -s 1000000 s; echo end >> s");
}

#[test]
fn a_file_opened_for_reading_and_writing_comes_back() {
    check_hit(
        "printf 'one\\ntwo\\n' > f",
        "exec 5<>f; read line <&5; echo new >&5; echo $line",
    );
}

fn inode(sandbox: &Sandbox, name: &str) -> u64 {
    fs::metadata(sandbox.path(name))
        .unwrap_or_else(|e| panic!("{name}: {e}"))
        .ino()
}

fn modified(sandbox: &Sandbox, name: &str) -> (i64, i64) {
    let metadata = fs::metadata(sandbox.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    (metadata.mtime(), metadata.mtime_nsec())
}

#[test]
fn directories_that_are_read_only_in_the_end_come_back() {
    check_hit("", "mkdir -p d/e; echo 1 > d/e/f; chmod 555 d/e d");
    check_hit("mkdir d", "echo 1 > d/f; chmod 500 d");
    check_hit("mkdir s; echo 1 > s/f; chmod 555 s", "cp -r s t");
}

#[test]
fn a_directory_that_comes_back_takes_the_set_gid_bit_of_its_parent() {
    let sandbox = Sandbox::new("mkdir p");
    sandbox.cached("mkdir p/d");
    for (bit, mode) in [("g+s", 0o2000), ("g-s", 0)] {
        sandbox.edit(&format!("rmdir p/d; chmod {bit} p"));
        sandbox.cached("mkdir p/d");
        let found = fs::metadata(sandbox.path("p/d")).expect("d").mode();
        assert_eq!(found & 0o7000, mode, "{bit}");
    }
}
