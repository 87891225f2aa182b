//! Privileges: set-uid programs, and environments without permission to trace.
#![expect(
    unsafe_code,
    reason = "a seccomp filter is installed between fork and exec, by prctl(2) only"
)]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use crate::support::{PCACHE, Run, Sandbox, check_hit, check_uncacheable, copy_program, program};

/// An ordinary user, and the owner of a program.
const USER: u32 = 65534;
const OWNER: u32 = 65533;

/// A sandbox for an ordinary user, with a copy of `pcache` in a directory that this user can read.
struct Ordinary {
    sandbox: Sandbox,
    pcache: PathBuf,
}

impl Ordinary {
    /// Returns `None`, with a note, if the tests run as an ordinary user, who cannot create a
    /// set-uid program of another user.
    fn new(setup: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can set this up");
            return None;
        }
        let sandbox = Sandbox::new(setup);
        let root = sandbox.dir().parent().expect("a parent").to_owned();
        for path in [&root, &sandbox.dir()] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o777)).expect("a mode");
        }
        let pcache = root.join("pcache");
        copy_program(PCACHE, &pcache);
        Some(Self { sandbox, pcache })
    }

    /// Adds a set-uid copy of id(1); `None` if set-uid programs have no effect.
    fn with_set_uid() -> Option<Self> {
        let ordinary = Self::new("")?;
        let id = program(&["id"])?;
        let copy = ordinary.sandbox.path("their-id");
        copy_program(id, &copy);
        std::os::unix::fs::chown(&copy, Some(OWNER), Some(OWNER)).expect("an owner");
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o4755)).expect("a mode");
        let plain = ordinary.run(&["./their-id", "-u"]);
        if plain.out != format!("{OWNER}\n") {
            eprintln!("skipped: set-uid programs have no effect here");
            return None;
        }
        Some(ordinary)
    }

    /// Runs a command as the ordinary user.
    fn run(&self, command: &[&str]) -> Run {
        let mut setpriv = Command::new("setpriv");
        let ids = [format!("--reuid={USER}"), format!("--regid={USER}")];
        setpriv.args(ids).arg("--clear-groups").args(command);
        self.sandbox.run(self.sandbox.environment(&mut setpriv))
    }

    /// Runs a command as the ordinary user under `pcache`.
    fn cached(&self, options: &[&str], command: &[&str]) -> Run {
        let mut words = vec![self.pcache.to_str().expect("text"), "--min-time", "0"];
        words.extend(options);
        words.push("--");
        words.extend(command);
        self.run(&words)
    }
}

#[test]
fn a_set_uid_program_is_named_under_the_filter() {
    let Some(ordinary) = Ordinary::with_set_uid() else {
        return;
    };
    for command in [
        &["./their-id", "-u"][..],
        &["sh", "-c", "./their-id -u; echo after"],
    ] {
        for _ in 0..2 {
            let run = ordinary.cached(&["--explain"], command);
            assert!(run.status.success(), "{}", run.err);
            // It runs, without the rights of its owner.
            assert!(run.out.starts_with(&format!("{USER}\n")), "{}", run.err);
            let warning = "their-id is set-uid and runs without its rights here; --no-seccomp";
            assert!(run.err.contains(warning), "{}", run.err);
            let reason = "their-id runs with other rights (set-uid)";
            assert!(run.err.contains(reason), "{}", run.err);
        }
    }
}

#[test]
fn a_set_uid_program_keeps_its_rights_without_a_filter() {
    let Some(ordinary) = Ordinary::with_set_uid() else {
        return;
    };
    for _ in 0..2 {
        let options = ["--no-seccomp", "--explain"];
        let run = ordinary.cached(&options, &["sh", "-c", "./their-id -u; echo $?; id -u"]);
        assert_eq!(run.out, format!("{OWNER}\n0\n{USER}\n"), "{}", run.err);
        assert!(
            run.err.contains("their-id untraced (set-uid)"),
            "{}",
            run.err
        );
        let run = ordinary.cached(&options, &["./their-id", "-u"]);
        assert_eq!(run.out, format!("{OWNER}\n"), "{}", run.err);
        assert!(
            run.err.contains("their-id untraced (set-uid)"),
            "{}",
            run.err
        );
    }
}

#[test]
fn the_status_of_a_set_uid_program_arrives() {
    let Some(ordinary) = Ordinary::with_set_uid() else {
        return;
    };
    for option in ["--no-seccomp", "--quiet"] {
        let run = ordinary.cached(&[option], &["./their-id", "--no-such-option"]);
        assert_eq!(run.status.code(), Some(1), "{option}: {}", run.err);
        let script = "./their-id --no-such-option 2> /dev/null; exit $(($? + 2))";
        let run = ordinary.cached(&[option], &["sh", "-c", script]);
        assert_eq!(run.status.code(), Some(3), "{option}: {}", run.err);
    }
}

/// Makes ptrace(2) fail with EPERM in a command and its children, as the seccomp profiles of some
/// containers do.
fn without_ptrace(command: &mut Command) -> &mut Command {
    let op = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let refuse = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let mut filter = [
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        op(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            libc::SYS_ptrace as u32,
            0,
            1,
        ),
        op(libc::BPF_RET | libc::BPF_K, refuse, 0, 0),
        op(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let install = move || {
        let program = libc::sock_fprog {
            len: filter.len() as u16,
            filter: filter.as_mut_ptr(),
        };
        // SAFETY: numbers, and a program of the stated length that lives until
        // the call returns.
        let failed = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                || libc::prctl(
                    libc::PR_SET_SECCOMP,
                    libc::SECCOMP_MODE_FILTER,
                    &raw const program,
                ) != 0
        };
        if failed {
            return Err(std::io::Error::last_os_error());
        }
        Ok(())
    };
    // SAFETY: the closure only makes system calls on its own memory.
    unsafe { command.pre_exec(install) }
}

#[test]
fn forbidden_ptrace_is_an_error_and_runs_nothing() {
    let sandbox = Sandbox::new("");
    for option in ["--quiet", "--no-seccomp"] {
        let mut pcache = Command::new(PCACHE);
        sandbox.environment(&mut pcache);
        pcache.args([option, "--", "sh", "-c", "echo ran | tee f"]);
        let run = sandbox.run(without_ptrace(&mut pcache));
        assert_eq!(run.status.code(), Some(125), "{}", run.err);
        assert_eq!(run.out, "");
        assert!(!sandbox.path("f").exists());
        for part in [
            "pcache: the command cannot be traced",
            "--cap-add=SYS_PTRACE",
            "--fallback",
        ] {
            assert!(run.err.contains(part), "{}", run.err);
        }
    }
}

#[test]
fn the_fallback_for_forbidden_ptrace_is_the_plain_command() {
    let sandbox = Sandbox::new("");
    // It also has the signals that the plain command has.
    let script = "grep -E '^Sig[BCIP]' /proc/self/status; echo ran | tee f; echo aside >&2; exit 3";
    let mut shell = Command::new("sh");
    sandbox.environment(shell.args(["-c", script]));
    let plain = sandbox.run(without_ptrace(&mut shell));
    assert_eq!(plain.status.code(), Some(3));
    for _ in 0..2 {
        sandbox.reset();
        let mut pcache = Command::new(PCACHE);
        sandbox.environment(&mut pcache);
        pcache.args(["--fallback", "--", "sh", "-c", script]);
        let mut run = sandbox.run(without_ptrace(&mut pcache));
        let first = run.err.lines().next().unwrap_or_default().to_owned();
        assert!(
            first.starts_with("pcache: the command cannot be traced"),
            "{}",
            run.err
        );
        run.err = run.err[first.len() + 1..].to_owned();
        run.assert_like(&plain, "with --fallback");
    }
}

#[test]
fn stored_results_are_used_without_ptrace() {
    let sandbox = Sandbox::new("echo 1 > f");
    sandbox.cached("cat f > g; cat g");
    sandbox.reset();
    let mut pcache = sandbox.pcache();
    pcache.args(["--", "sh", "-c", "cat f > g; cat g"]);
    let run = sandbox.run(without_ptrace(&mut pcache));
    assert_eq!(run.out, "1\n", "{}", run.err);
    assert_eq!(sandbox.text("g"), "1\n");
    run.assert_hit();
}

/// The command that creates namespaces as in a container.
const UNSHARE: [&str; 3] = ["unshare", "-Urpf", "--mount-proc"];

#[test]
fn inside_of_namespaces_a_second_run_is_skipped() {
    let sandbox = Sandbox::new("echo 1 > f");
    let mut probe = Command::new(UNSHARE[0]);
    sandbox.environment(probe.args(&UNSHARE[1..]).arg("true"));
    if !sandbox.run(&mut probe).status.success() {
        eprintln!("skipped: namespaces cannot be made here");
        return;
    }
    let script = "id -u; cat f > g; sort -r f g";
    let run = |words: &[&str]| {
        sandbox.reset();
        let mut unshare = Command::new(UNSHARE[0]);
        unshare.args(&UNSHARE[1..]).args(words);
        unshare.args(["sh", "-c", script]);
        sandbox.run(sandbox.environment(&mut unshare))
    };
    let report = sandbox.report();
    let report = report.to_str().expect("text");
    let options = [PCACHE, "-q", "--min-time", "0", "--json", report, "--"];
    let plain = run(&[]);
    assert_eq!(plain.out, "0\n1\n1\n");
    let first = run(&options);
    first.assert_like(&plain, "first run");
    assert_eq!(first.whole().result, "stored", "{:#?}", first.units);
    let second = run(&options);
    second.assert_like(&plain, "second run");
    second.assert_hit();
}

#[test]
fn inside_of_namespaces_of_an_ordinary_user_a_second_run_is_skipped() {
    let Some(ordinary) = Ordinary::new("echo 1 > f") else {
        return;
    };
    if !ordinary
        .run(&[&UNSHARE[..], &["true"]].concat())
        .status
        .success()
    {
        eprintln!("skipped: an ordinary user cannot make namespaces here");
        return;
    }
    let pcache = ordinary.pcache.to_str().expect("text");
    let run = || {
        ordinary.sandbox.edit("rm -f g");
        let command = [
            &UNSHARE[..],
            &[pcache, "--explain", "--min-time", "0", "--"],
            &["sh", "-c", "id -u; cat f > g; sort -r f g"],
        ];
        ordinary.run(&command.concat())
    };
    let first = run();
    assert_eq!(first.out, "0\n1\n1\n", "{first:?}");
    let second = run();
    assert_eq!(second.out, first.out);
    assert!(second.err.contains("skipped ("), "{}", second.err);
    assert_eq!(ordinary.sandbox.text("g"), "1\n");
}

#[test]
fn a_store_on_a_mount_that_forbids_execution_is_a_store() {
    let sandbox = Sandbox::new("echo 1 > f; mkdir store");
    let script = format!(
        "mount -t tmpfs -o noexec none store || exit 77
         for round in 1 2; do
             PCACHE_DIR=$PWD/store/s '{PCACHE}' --min-time 0 -- cat f || exit 1
         done"
    );
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--map-root-user", "sh", "-c", &script]);
    let run = sandbox.run(sandbox.environment(&mut unshare));
    if run.status.code() != Some(0) && !run.err.contains("pcache:") {
        eprintln!("skipped: a file system cannot be mounted here: {}", run.err);
        return;
    }
    assert_eq!(run.out, "1\n1\n", "{}", run.err);
    assert!(
        run.err.contains("skipped (1 unit unchanged)"),
        "{}",
        run.err
    );
}

#[test]
fn setting_the_same_ids_is_skipped_and_setting_others_is_not() {
    let Some(python) = program(&["python3"]) else {
        return;
    };
    let takes = |ids: &str| format!("{python} -c 'import os; u = os.getuid(); {ids}; print(u)'");
    check_hit("", &takes("os.setresuid(-1, u, -1); os.setresuid(u, u, u)"));
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can take others");
        return;
    }
    for ids in [
        "os.setresuid(-1, 65534, 0)",
        "os.setresuid(-1, 65534, 0); os.setresuid(0, 0, 0)",
    ] {
        check_uncacheable("", &takes(ids), "changes credentials");
    }
}

#[test]
fn the_host_name_counts_only_for_programs_that_ask() {
    let sandbox = Sandbox::new("echo 1 > f");
    let on = |host: &str, command: &str| {
        sandbox.reset();
        let script = format!("hostname {host} && exec \"$@\"");
        let mut unshare = Command::new("unshare");
        unshare.args(["-Ur", "--uts", "sh", "-c", &script, "sh"]);
        unshare.args([PCACHE, "-q", "--min-time", "0", "--json"]);
        unshare.arg(sandbox.report());
        unshare.args(["--", "sh", "-c", command]);
        sandbox.run(sandbox.environment(&mut unshare))
    };
    if !on("one", "true").status.success() {
        eprintln!("skipped: the host cannot be given another name here");
        return;
    }
    let command = "sort f > g; cat /proc/self/cgroup > /dev/null";
    assert_eq!(on("one", command).whole().result, "stored");
    on("two", command).assert_hit();
    let command = "uname -n";
    assert_eq!(on("one", command).out, "one\n");
    assert_eq!(on("two", command).out, "two\n");
    let again = on("one", command);
    again.assert_hit();
    assert_eq!(again.out, "one\n");
}

#[test]
fn users_share_a_store_that_is_open_to_their_group() {
    use std::os::unix::fs::chown;
    const GROUP: u32 = 65_532;
    let Some(ordinary) = Ordinary::new("seq 2000 > in") else {
        return;
    };
    let sandbox = &ordinary.sandbox;
    let store = sandbox.store();
    fs::create_dir_all(&store).expect("a directory");
    chown(&store, None, Some(GROUP)).expect("a group");
    fs::set_permissions(&store, fs::Permissions::from_mode(0o2770)).expect("a mode");
    let build = |user: u32, umask: &str| {
        let _ = fs::remove_file(sandbox.path("out"));
        let mut setpriv = Command::new("setpriv");
        let ids = [format!("--reuid={user}"), format!("--regid={user}")];
        let script = format!(r#"umask {umask}; exec "$0" "$@""#);
        setpriv.args(ids).arg(format!("--groups={GROUP}"));
        setpriv.args(["sh", "-c", &script]).arg(&ordinary.pcache);
        setpriv.args(["--min-time", "0", "--", "sh", "-c", "sort -r in > out"]);
        let run = sandbox.run(sandbox.environment(&mut setpriv));
        assert!(run.status.success(), "{run:#?}");
        assert!(!run.err.contains("cannot"), "{}", run.err);
        run.err.contains("pcache: skipped")
    };
    // Neither user locks the other out, in any order and with any umask.
    assert!(!build(USER, "077") && !build(OWNER, "022"));
    assert!(build(USER, "077") && build(OWNER, "022"));
    let mut fsck = Command::new(PCACHE);
    let found = sandbox.environment(fsck.arg("fsck")).output();
    let found = found.expect("pcache runs");
    assert!(found.status.success(), "{found:?}");
}

#[test]
fn directories_that_their_owner_cannot_write_come_back() {
    let Some(ordinary) = Ordinary::new("") else {
        return;
    };
    let dir = ordinary.sandbox.dir();
    std::os::unix::fs::chown(dir, Some(USER), Some(USER)).expect("an owner");
    let report = ordinary.sandbox.report();
    let options = ["--quiet", "--json", report.to_str().expect("text")];
    let source = "mkdir -p s/t; echo 1 > s/a; echo 2 > s/t/b; chmod 555 s/t s";
    let archive = "mkdir -p d/e; echo 1 > d/e/a; chmod 500 d/e d; touch -d @1000000000 d/e/a d/e d; \
                   tar cf t.tar d; chmod -R u+w d; rm -r d";
    for (setup, command) in [
        (source, "cp -r s e"),
        (archive, "tar xf t.tar"),
        (":", "mkdir -p o/p; echo 1 > o/p/x; chmod -R a-w o"),
        (":", "mkdir d; echo 1 > d/a; chmod 500 d"),
        ("mkdir d", "echo 1 > d/a; ln -s a d/l; chmod 555 d"),
        (
            "mkdir d; echo 1 > d/a",
            "rm d/a; mkdir d/e; chmod 555 d/e d",
        ),
    ] {
        let again = || {
            let old = "find . -exec touch -hd @1234567890 {} +";
            let setup = format!("chmod -R u+rwx ./*; rm -rf ./*; {setup}; {old}");
            let run = ordinary.run(&["sh", "-c", &setup]);
            assert!(run.status.success(), "{setup}: {run:?}");
        };
        again();
        let plain = ordinary.run(&["sh", "-c", command]);
        again();
        let first = ordinary.cached(&options, &["sh", "-c", command]);
        first.assert_like(&plain, command);
        again();
        let second = ordinary.cached(&options, &["sh", "-c", command]);
        second.assert_like(&plain, command);
        second.assert_hit();
    }
}

#[test]
fn a_moved_file_keeps_its_group_where_directories_pass_on_theirs() {
    let Some(Ordinary { sandbox, .. }) = Ordinary::new("mkdir d; echo x > f") else {
        return;
    };
    let group = || fs::metadata(sandbox.path("d/k")).expect("moved").gid();
    let edits = ["true", "chgrp 5 d; chmod 2755 d", "chgrp 6 d; chmod 2755 d"];
    for command in [
        "mv f d/k",
        "cp f tmp; mv tmp d/k",
        "cp f d/tmp; mv d/tmp d/k",
    ] {
        for edit in edits {
            sandbox.reset();
            sandbox.edit_then(edit);
            sandbox.plain(command);
            let plain = group();
            for _ in 0..2 {
                sandbox.reset();
                sandbox.edit_then(edit);
                sandbox.cached(command);
                assert_eq!(group(), plain, "{command} after {edit}");
            }
        }
    }
}

#[test]
fn a_directory_with_a_list_keeps_the_group_bit_of_a_group_that_is_not_the_users() {
    let Some(ordinary) = Ordinary::new("mkdir d; chgrp 5 d; chmod 2777 d") else {
        return;
    };
    let dir = ordinary.sandbox.path("d");
    // All rights for everybody, and for user 7.
    let mut list = vec![2, 0, 0, 0];
    for (tag, id) in [
        (1, u32::MAX),
        (2, 7),
        (4, u32::MAX),
        (16, u32::MAX),
        (32, u32::MAX),
    ] {
        list.extend([tag, 0, 7, 0]);
        list.extend(id.to_le_bytes());
    }
    let none = rustix::fs::XattrFlags::empty();
    if let Err(error) = rustix::fs::setxattr(&dir, "system.posix_acl_default", &list, none) {
        eprintln!("skipped: no access list can be set here: {error}");
        return;
    }
    let command = ["mkdir", "d/m"];
    let plain = ordinary.run(&command);
    assert!(plain.status.success(), "{plain:?}");
    for round in 0..2 {
        fs::remove_dir(dir.join("m")).expect("removed");
        let run = ordinary.cached(&[], &command);
        let mode = fs::metadata(dir.join("m")).expect("made").mode();
        assert_eq!(mode & 0o7777, 0o2777, "round {round}");
        assert_eq!(
            run.err.contains("pcache: skipped"),
            round == 1,
            "{}",
            run.err
        );
    }
}
