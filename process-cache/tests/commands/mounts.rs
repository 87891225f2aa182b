//! Calls that need two files on one mount, and directories that are mount points for a while.

use std::process::Command;

use crate::support::{PCACHE, Sandbox};
use crate::tool_calls::Tool;

/// Runs steps in a mount namespace of their own. In them, `plain` and `cached` stand for a
/// command's two ways.
pub(crate) fn in_namespace(sandbox: &Sandbox, script: &str) -> Option<String> {
    let script = format!(
        "mount --bind out out && umount out || exit 77
         cached() {{ PCACHE_DIR=$PWD/store '{PCACHE}' -q --min-time 0 -- \"$@\"; }}
         {script}"
    );
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--map-root-user", "sh", "-c", &script]);
    let run = sandbox.run(sandbox.environment(&mut unshare));
    if !run.status.success() {
        eprintln!("skipped: nothing can be mounted here: {}", run.err);
        return None;
    }
    Some(run.out)
}

/// A command gives `apart` while `out` is a mount point, and `together` while it is none, in any
/// order and as often as it runs.
#[track_caller]
fn check(command: &str, apart: &str, together: &str) {
    let sandbox = Sandbox::new("mkdir out work; echo 1 > work/a; touch -d @1000000000 work/a");
    let reset = "rm -rf out/* work/b; rm -f work/a; echo 1 > work/a; touch -d @1000000000 work/a";
    let script = format!(
        "run() {{ {reset}; cached {command}; ls out work | tr -s '\\n' ' '; echo; }}
         mount --bind out out; run; run; umount out
         run; run
         mount --bind out out; run; umount out; run"
    );
    let Some(out) = in_namespace(&sandbox, &script) else {
        return;
    };
    let expected = [apart, apart, together, together, apart, together].map(|it| format!("{it}\n"));
    assert_eq!(out, expected.concat(), "{command}");
}

#[test]
fn a_rename_fails_only_while_its_directories_are_on_two_mounts() {
    check(
        "perl -e 'print rename(\"work/a\", \"out/a\") ? \"moved\" : \"no: $!\", \"\\n\"'",
        "no: Invalid cross-device link\nout: work: a ",
        "moved\nout: a work: ",
    );
}

#[test]
fn a_link_fails_only_while_its_directories_are_on_two_mounts() {
    check(
        "perl -e 'print link(\"work/a\", \"out/a\") ? \"linked\" : \"no: $!\", \"\\n\"'",
        "no: Invalid cross-device link\nout: work: a ",
        "linked\nout: a work: a ",
    );
}

#[test]
fn a_directory_that_the_command_made_is_on_the_mount_of_the_one_above() {
    check(
        "sh -c 'mkdir work/b out/b; echo 2 > work/b/f; perl -e \"print rename(q(work/b/f), \
         q(out/b/f)) ? 1 : 0\"; rm -r work/b; ls out/b'",
        "0out: b work: a ",
        "1f\nout: b work: a ",
    );
}

#[test]
fn a_link_that_two_mounts_forbid_is_skipped() {
    let sandbox = Sandbox::new("mkdir out work; echo 1 > work/a");
    let script = "mount --bind out out
         for round in 1 2; do
             PCACHE_DIR=$PWD/store \"$PCACHE\" --min-time 0 -- sh -c \
                 'ln work/a out/c 2> /dev/null || cp work/a out/c; cat out/c; rm out/c' 2>> said
         done";
    let script = format!("PCACHE='{PCACHE}'; {script}");
    let Some(out) = in_namespace(&sandbox, &script) else {
        return;
    };
    assert_eq!(out, "1\n1\n");
    let said = sandbox.text("said");
    assert!(said.contains("skipped ("), "{said}");
}

#[test]
fn an_inherited_file_that_a_mount_covers_is_not_the_one_at_its_path() {
    let sandbox = Sandbox::new("mkdir out; echo old > f; echo new > g");
    let script = "exec 5< f; mount --bind g f; cached cat <&5; exec 5< f; cached cat <&5; exec 5<&-; umount f
         exec 5< f; cached cat <&5";
    let Some(out) = in_namespace(&sandbox, script) else {
        return;
    };
    assert_eq!(out, "old\nnew\nold\n");
    // Nothing is at its path.
    let sandbox = Sandbox::new("mkdir out d");
    let script = "for text in old new; do
             echo $text > d/f; exec 5< d/f; mount --bind out d
             cached cat <&5; exec 5<&-; umount d; exec 5< d/f; mount --bind out d
             cached bash -c 'read -u 5 text; echo $text'; exec 5<&-; umount d
         done";
    let out = in_namespace(&sandbox, script).expect("as above");
    assert_eq!(out, "old\nold\nnew\nnew\n");
}

#[test]
fn a_result_of_the_directory_at_a_path_is_not_one_of_an_inherited_directory_below_it() {
    let setup = "mkdir out d e; echo new | tee d/f > e/f; touch -d @1000000000 d/f e/f";
    let script = "exec 5< d; cached cat /dev/fd/5/f
         echo old > d/f; exec 5< d; mount --bind e d; cached cat /dev/fd/5/f
         exec 5< d; cached cat /dev/fd/5/f";
    let Some(out) = in_namespace(&Sandbox::new(setup), script) else {
        return;
    };
    assert_eq!(out, "new\nold\nnew\n");
}

#[test]
fn a_file_in_an_inherited_directory_below_a_mount_is_made_there() {
    let script = "for run in 1 2; do
             exec 5< d; mount --bind e d; cached sh -c 'echo one > /dev/fd/5/k'; exec 5<&-; umount d
             cat d/k; rm d/k; ls e
         done";
    let Some(out) = in_namespace(&Sandbox::new("mkdir d e"), script) else {
        return;
    };
    assert_eq!(out, "one\none\n");
}

#[test]
fn a_copy_that_a_full_disk_cut_short_is_made_again() {
    let (tool, sandbox) = (Tool::new(), Sandbox::new("mkdir out"));
    let copies = ["sendfile", "splice", "copy"].map(|call| {
        let command = tool.makes(&format!("open,out/in,r open,out/o,wct {call},4,3,60000"));
        format!(
            "head -c 60000 /dev/zero > out/in; head -c 60000 /dev/zero > out/rest
             cached {command} > cut; rm out/rest out/o
             cached {command} > whole; stat -c %s out/o; rm out/*"
        )
    });
    let script = format!(
        "mount -t tmpfs -o size=128k none out
         {}
         umount out; grep -c =60000 cut",
        copies.join("\n")
    );
    let Some(out) = in_namespace(&sandbox, &format!("{script} || true")) else {
        return;
    };
    // No copy was whole while the disk was full.
    assert_eq!(out, "60000\n60000\n60000\n0\n");
}
