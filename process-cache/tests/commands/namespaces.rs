//! Programs in other namespaces, under another root directory or with other rights do what they do
//! without pcache, and are no source of facts for programs outside.

use crate::support::{Sandbox, program};

const SETUP: &str = "printf '2\\n1\\n' > f; mkdir in one two; echo one > one/f; echo two > two/f; \
                     mkdir root; printf 'sort f\\n' > script";

/// Checks that a command behaves under `pcache` as it does without, also after its programs were
/// stored outside.
fn check(command: &str) {
    let sandbox = Sandbox::new(SETUP);
    let plain = sandbox.plain(command);
    if !plain.status.success() {
        eprintln!("skipped: {command} fails here: {}", plain.err);
        return;
    }
    sandbox.cached("sort f; sort one/f; sort two/f; sh script; sort f -o g; cat f");
    for _ in 0..3 {
        sandbox.reset();
        let run = sandbox.cached(command);
        run.assert_like(&plain, command);
        assert_ne!(run.whole().result, "stored", "{:#?}", run.units);
    }
}

#[test]
fn programs_in_a_user_namespace_run() {
    check("unshare -r sort f");
    check("unshare -r sh -c 'sort f -o g; id -u; sh script'");
    check("unshare -rn sort f");
    check("unshare -ru sort f");
    check("unshare -ri sort f");
}

#[test]
fn programs_in_a_process_namespace_run() {
    check("unshare -rpf --mount-proc sort f");
    check("unshare -rpf --mount-proc sh -c 'echo $$; sort f -o g; sh script'");
    check("unshare -rpf --kill-child sort f");
}

#[test]
fn programs_in_a_mount_namespace_run() {
    check("unshare -rm sort f");
    check("unshare -rm sh -c 'mount --bind two one; sort one/f; echo three > one/f'; sort two/f");
    check("unshare -rm sh -c 'mount -t tmpfs none in; echo 1 > in/g; sort in/g; ls in'; ls in");
    // No /proc, through which a stand-in would be executed.
    check("unshare -rmpf sh -c 'mount -t tmpfs none /proc; sort f -o g; cat g'");
}

#[test]
fn programs_under_another_root_run() {
    let bind = "mount --rbind / root || exit 1";
    check(&format!(
        "unshare -rm sh -c '{bind}; exec chroot root sort $PWD/f'"
    ));
    let pivot = "mount --rbind / root && cd root && pivot_root . .$0/in || exit 1; \
                 cd $0; exec sort f";
    check(&format!("unshare -rm sh -c '{pivot}' $PWD"));
    check("unshare -r chroot / sort $PWD/f");
}

/// A sandbox that forbids one kind of new files, and with that all access to processes outside.
#[test]
fn programs_restricted_by_landlock_run() {
    let Some(python) = program(&["python3"]) else {
        return;
    };
    let source = "import ctypes, subprocess\n\
                  libc = ctypes.CDLL(None)\n\
                  handled = ctypes.c_uint64(1 << 9)\n\
                  rules = libc.syscall(444, ctypes.byref(handled), 8, 0)\n\
                  assert rules >= 0 and libc.prctl(38, 1, 0, 0, 0) == 0\n\
                  assert libc.syscall(446, rules, 0) == 0\n\
                  print(subprocess.run([\"sort\", \"f\"]).returncode, flush=True)\n";
    check(&format!("{python} -c '{source}'"));
}

#[test]
fn programs_with_fewer_rights_run() {
    check("setpriv --bounding-set=-all --inh-caps=-all sort f");
    let ids = "--reuid=65534 --regid=65534 --clear-groups";
    check(&format!("chmod 755 .. .; setpriv {ids} sort f"));
    check(&format!(
        "chmod 755 .. .; chmod 700 one; setpriv {ids} sort one/f || setpriv {ids} sort f"
    ));
}

/// A file at a path in another mount namespace says nothing about the file that
/// programs outside find there.
#[test]
fn files_of_another_mount_namespace_are_no_facts_outside() {
    let inside =
        "unshare -rm sh -c 'mount --bind two one; sort one/f; sort one/f > $0/g; cat $0/g' $PWD";
    let command = format!("sort one/f; {inside}; sort one/f two/f");
    let sandbox = Sandbox::new(SETUP);
    for edit in ["", "echo 2 > two/f", "echo 1 > one/f", "rm two/f"] {
        sandbox.reset();
        sandbox.edit_then(edit);
        let plain = sandbox.plain(&command);
        for _ in 0..2 {
            sandbox.reset();
            sandbox.edit_then(edit);
            sandbox.cached(&command).assert_like(&plain, edit);
        }
    }
}

/// The jobs beside a sandbox are skipped as before.
#[test]
fn programs_beside_a_namespace_are_skipped() {
    let sandbox = Sandbox::new(SETUP);
    let command = "unshare -r sort f > g || exit 77; sort one/f -o h";
    let first = sandbox.cached(command);
    if first.status.code() == Some(77) {
        eprintln!("skipped: namespaces cannot be made here");
        return;
    }
    first.assert_uncacheable("namespaces");
    let reason = &first.unit("sort f").reason;
    assert!(reason.contains("runs in other namespaces"), "{reason}");
    assert_eq!(first.unit("sort one/f").result, "stored");
    sandbox.reset();
    let second = sandbox.cached(command);
    assert_eq!(second.unit("sort one/f").result, "hit");
    assert_eq!(second.unit("sort f").result, "not_stored");
}

#[test]
fn the_reason_of_a_command_names_the_namespaces_below_it() {
    let command = "unshare -r sort f; echo over";
    let sandbox = Sandbox::new(SETUP);
    if !sandbox.plain("unshare -r sort f").status.success() {
        eprintln!("skipped: there are no user namespaces here");
        return;
    }
    let run = sandbox.cached(command);
    run.assert_uncacheable("sort runs in other namespaces");
}
