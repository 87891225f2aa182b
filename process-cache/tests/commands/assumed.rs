//! Assumptions about programs hold, and options that weaken an assumption are respected.

use crate::support::{
    Sandbox, check_hit, check_miss, check_runs_again, check_runs_again_in, check_still_hit,
    check_uncacheable, program,
};
use std::process::Command;

/// Two files with times, of which the first is older.
const OLDER: &str = "echo 1 > a; echo 2 > b; touch -d @1000000000 a; touch -d @1100000000 b";
/// An edit after which the first is newer.
const NEWER: &str = "touch -d @1200000000 a";

#[test]
fn a_polling_loop_is_not_accelerated() {
    let sandbox = Sandbox::new("");
    let command = "sleep 0.01; sleep 0.01; echo over";
    let first = sandbox.cached(command);
    let sleeps: Vec<_> = first.units.iter().skip(1).collect();
    assert_eq!(sleeps.len(), 2, "{first:?}");
    for sleep in sleeps {
        assert_eq!(sleep.result, "not_stored", "{first:?}");
    }
    sandbox.cached(command).assert_hit();
}

#[test]
fn the_size_counts_for_programs_that_query_it_before_appending() {
    for (interpreter, script) in [
        (
            "python3",
            "f = open(\"log\", \"a\"); f.tell() == 0 and f.write(\"header\\n\"); f.write(\"row\\n\")",
        ),
        (
            "perl",
            "open F, \">>log\"; print F \"header\\n\" if !-s F; print F \"row\\n\"",
        ),
    ] {
        let Some(found) = program(&[interpreter]) else {
            continue;
        };
        let option = if interpreter == "perl" { "-e" } else { "-c" };
        let sandbox = Sandbox::new("");
        for _ in 0..3 {
            sandbox.cached(&format!("{found} {option} '{script}'"));
        }
        assert_eq!(
            sandbox.text("log"),
            "header\nrow\nrow\nrow\n",
            "{interpreter}"
        );
    }
    let sandbox = Sandbox::new("");
    sandbox.cached("echo line >> log");
    sandbox.cached("echo line >> log").assert_hit();
    assert_eq!(sandbox.text("log"), "line\nline\n");
}

#[test]
fn the_time_of_a_directory_counts_where_it_is_compared() {
    let setup = "mkdir d; echo 1 > f; touch -d @1000000000 d; touch -d @1100000000 f";
    let edit = "touch -d @1200000000 d";
    check_miss(setup, "[ f -nt d ] && echo install || echo skip", edit, "");
    check_miss(
        setup,
        "env test d -ot f && echo install || echo skip",
        edit,
        "",
    );
    if let Some(bash) = program(&["bash"]) {
        let command = format!("{bash} -c 'if [[ f -nt d ]]; then echo install; fi'");
        check_miss(setup, &command, edit, "");
    }
}

#[test]
fn two_names_of_one_file_are_told_from_two_files() {
    let (one, two) = ("echo 1 > a; ln a b", "rm b; cp a b");
    check_miss(one, "[ a -ef b ] && echo one", two, "");
    check_miss(one, "env test a -ef b && echo one", two, "");
    check_miss(
        "echo 1 > a; cp a b",
        "[ a -ef b ] || echo two",
        "ln -f a b",
        "",
    );
    let sandbox = Sandbox::new(one);
    sandbox.cached("[ a -ef b ] && echo one");
    sandbox.cached("[ a -ef b ] && echo one").assert_hit();
    if let Some(bash) = program(&["bash"]) {
        check_miss(
            one,
            &format!("{bash} -c '[[ a -ef b ]] && echo one'"),
            two,
            "",
        );
        check_runs_again(
            &format!("{bash} -c '[ -N / ]; echo'"),
            "when files were read",
        );
    }
    check_runs_again("env test -N /; echo", "when files were read");
}

/// As autoconf writes it.
const CONFIGURE: &str = r#"ac_pwd=`pwd` && test -n "$ac_pwd" &&
ac_ls_di=`ls -di .` &&
ac_pwd_ls_di=`cd "$ac_pwd" && ls -di .` ||
  exit 1
test "X$ac_ls_di" = "X$ac_pwd_ls_di" || exit 2
echo ok > config.h
"#;

#[test]
fn a_configure_in_another_directory_of_the_same_name_is_skipped() {
    let make_anew = "cp -rp d e; rm -r d; mv e d";
    let setup =
        format!("mkdir d; cat > d/configure <<'EOF'\n{CONFIGURE}EOF\nchmod 755 d/configure");
    check_still_hit(&setup, "cd d && sh ./configure", make_anew);
    // Other programs that show the number depend on it.
    let sandbox = Sandbox::new("mkdir d");
    sandbox.cached("cd d && ls -di .");
    sandbox.cached("cd d && ls -di .").assert_hit();
    sandbox.edit_then(make_anew);
    sandbox
        .cached("cd d && ls -di .")
        .assert_miss("inode number");
}

#[test]
fn a_test_of_autoconf_may_stat_files_of_configure() {
    let command = "echo 1 > confdefs.h; ./conftest -c %s confdefs.h";
    check_hit("cp $(command -v stat) conftest", command);
    check_uncacheable(
        "cp $(command -v stat) other",
        "echo 1 > confdefs.h; ./other -c %s confdefs.h",
        "reads the time of",
    );
}

#[test]
fn archives_hold_times_on_request() {
    if program(&["ar"]).is_none() {
        return;
    }
    let setup = "echo 1 > x; echo x > list; echo crU lib.a x > told; touch -d @1000000000 x";
    let edit = "touch -d @1200000000 x";
    check_still_hit(setup, "ar cr lib.a @list", edit);
    for command in ["ar crU lib.a @list", "ar -r -U lib.a x", "ar @told"] {
        check_uncacheable(setup, command, "reads the time of");
    }
}

#[test]
fn information_about_other_processes_is_uncacheable() {
    check_runs_again("[ -e /proc/1/stat ]; echo", "another process");
    check_runs_again("[ -e /proc/4194304 ]; echo", "another process");
    check_runs_again("ls /proc > /dev/null", "lists /proc");
    check_hit("", "[ -e /proc/self ] && echo yes");
}

#[test]
fn a_program_that_takes_a_lock_runs_again() {
    if program(&["flock"]).is_some() {
        check_runs_again("flock f cat f", "takes a lock");
    }
}

#[test]
fn a_working_directory_replaced_by_a_link_is_a_difference() {
    let edit = "mv d e; ln -s e d";
    check_miss("mkdir d", "cd d && pwd -P", edit, "");
    check_miss(
        "mkdir d; echo 'all:;@echo made' > d/Makefile",
        "make -C d",
        edit,
        "",
    );
}

#[test]
fn times_count_with_the_options_that_use_them() {
    check_miss(OLDER, "mv -u a b", NEWER, "");
    check_miss(OLDER, "mv --update a b", NEWER, "");
    check_miss(
        "echo 1 > a; sleep 0.02; echo 2 > b",
        "ls -c",
        "sleep 0.02; chmod 600 a",
        "",
    );
    check_runs_again("ls -u", "were read");
    check_runs_again("find . -amin -3", "were read");
    check_miss(OLDER, "diff -p a b || true", NEWER, "");
    if program(&["ar"]).is_some() {
        check_runs_again("ar -r -c -U x.a f", "which it made");
    }
}

#[test]
fn a_time_that_is_handed_on_counts() {
    let setup = "echo 1 > a; touch -d @1000000000 a";
    for (tool, command) in [
        ("xz", "xz -k a"),
        ("gzip", "gzip -nk a"),
        ("bzip2", "bzip2 -k a"),
        ("zstd", "zstd -q a"),
    ] {
        if program(&[tool]).is_some() {
            let shown = format!("{command}; stat -c %Y a.*");
            check_miss(setup, &shown, NEWER, "");
        }
    }
    if program(&["strip"]).is_some() {
        let setup = "echo 'int x;' > a.c; cc -c a.c; touch -d @1000000000 a.o";
        let edit = "touch -d @1200000000 a.o";
        check_miss(setup, "strip -p -o b.o a.o; stat -c %Y b.o", edit, "");
    }
    if program(&["xz"]).is_some() {
        check_hit("echo 1 > a", "xz -c a > b; xz < a > c");
    }
}

#[test]
fn dates_that_depend_on_the_present_are_told_from_those_that_do_not() {
    check_runs_again("touch -d '1 hour ago' 2024-01-01.log", "time of day");
    check_hit(
        "",
        "touch -d 2024-01-01 x; touch -d @1000000000 y; touch --date=2024-01-01 z",
    );
    if program(&["tar"]).is_some() {
        check_runs_again("tar --newer-mtime='2 seconds ago' -cf - f | cksum", "");
        check_hit("echo 1 > f", "tar --mtime=2024-01-01 -cf x.tar f");
    }
}

#[test]
fn an_order_at_random_is_drawn_again() {
    for command in ["sort --sort=random f", "sort --key=1R f", "sort -k 1R f"] {
        check_runs_again(command, "random");
    }
    check_hit("seq 9 > f", "sort -k 1,1 -n -r f");
}

#[test]
fn links_of_directories_are_counted_again() {
    check_runs_again("find . -maxdepth 1 -type d -links 2", "names");
}

#[test]
fn a_program_of_the_project_is_not_known_by_its_name() {
    let source = "#include <stdio.h>\n#include <time.h>\nint main(void) \
                  { printf(\"%ld\\n\", (long) time(0)); return 0; }\n";
    let sandbox = Sandbox::new("");
    for name in ["sum", "test", "file"] {
        std::fs::write(sandbox.path("x.c"), source).expect("a file");
        let compiled = Command::new("cc")
            .args(["-o", name, "x.c"])
            .current_dir(sandbox.dir())
            .status();
        assert!(compiled.is_ok_and(|status| status.success()), "cc");
        check_runs_again_in(&sandbox, &format!("./{name}"), "time of day");
    }
}

#[test]
fn a_compilation_over_an_old_output_hits_without_it() {
    check_still_hit("echo 'int x;' > a.c; cc -c a.c", "cc -c a.c", "rm a.o");
    let link = "cc -o p a.o && ./p";
    let setup = "echo 'int main(void) { return 0; }' > a.c; cc -c a.c; cc -o p a.o";
    check_still_hit(setup, link, "rm p");
}

#[test]
fn a_compiler_that_could_not_write_is_no_pattern_for_when_it_can() {
    if rustix::process::geteuid().is_root() {
        eprintln!("skipped: root may write everything");
        return;
    }
    let setup = "echo 'int x;' > a.c; echo > a.s; chmod 444 a.s";
    check_miss(setup, "cc -S a.c", "chmod 644 a.s", "");
}

#[test]
fn with_a_small_limit_on_files_the_command_runs_all_the_same() {
    let sandbox = Sandbox::new("");
    for (limit, cached) in [(8, false), (1_000_000, true)] {
        let pcache = sandbox.pcache();
        let pcache = pcache.get_program().display().to_string();
        let script = format!("ulimit -f {limit} && exec '{pcache}' -- sh -c 'echo hi; echo > f'");
        let mut command = Command::new("sh");
        let run = sandbox.run(sandbox.environment(command.args(["-c", &script])));
        assert!(run.status.success(), "{run:?}");
        assert_eq!(run.out, "hi\n", "{run:?}");
        assert_eq!(run.err.contains("ulimit -f"), !cached, "{run:?}");
    }
}

#[test]
fn another_personality_is_not_that_of_the_machine() {
    if program(&["setarch"]).is_some() {
        let sandbox = Sandbox::new("");
        let command = "setarch i686 uname -m";
        let plain = sandbox.plain(command);
        sandbox.cached("sh -c 'uname -m'");
        sandbox
            .cached(command)
            .assert_like(&plain, "after the other");
    }
}

#[test]
fn a_directory_hands_down_its_access_list() {
    use std::os::unix::fs::MetadataExt;
    let sandbox = Sandbox::new("mkdir p; echo 1 > a");
    sandbox.cached("cp a p/b");
    sandbox.edit("rm p/b");
    // An acl(5) in the kernel's format: version 2; owner, group and others with their rights.
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, rights) in [(1_u16, 6_u16), (4, 0), (0x20, 0)] {
        list.extend(tag.to_le_bytes().into_iter().chain(rights.to_le_bytes()));
        list.extend(u32::MAX.to_le_bytes());
    }
    let name = "system.posix_acl_default";
    let flags = rustix::fs::XattrFlags::empty();
    if let Err(error) = rustix::fs::setxattr(sandbox.path("p"), name, &list, flags) {
        eprintln!("skipped: no access lists here ({error})");
        return;
    }
    sandbox.cached("cp a p/b");
    let found = std::fs::metadata(sandbox.path("p/b")).expect("p/b");
    assert_eq!(found.mode() & 0o777, 0o600);
}

#[test]
fn a_directory_hands_down_its_group() {
    let setup = "mkdir p";
    let command = "mkdir p/s && stat -c %a p/s";
    for edit in ["chmod g+s p", "chmod g-s p"] {
        let sandbox = Sandbox::new(setup);
        sandbox.cached("mkdir p/s");
        sandbox.edit(&format!("rmdir p/s; {edit}"));
        sandbox.cached("mkdir p/s");
        let mode = |sandbox: &Sandbox| {
            use std::os::unix::fs::MetadataExt;
            std::fs::metadata(sandbox.path("p/s")).expect("p/s").mode() & 0o7777
        };
        let plain = Sandbox::new(setup);
        plain.edit(edit);
        plain.plain(command);
        assert_eq!(mode(&sandbox), mode(&plain), "{edit}");
    }
}
