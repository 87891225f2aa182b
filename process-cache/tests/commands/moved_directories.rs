//! Working directories and directory descriptors whose directories are moved, replaced or covered
//! by a mount: nothing is stored under a path that leads elsewhere.
//!
//! Other processes move them while the unit waits at a gate, as in `races`.

use crate::mounts::in_namespace;
use crate::races::{run_beside, sandbox};
use crate::support::{Sandbox, program};
use crate::tool_calls::Tool;

/// Another directory with the same content is put in the place of `full`.
const REPLACED: &str = "mv full moved; mkdir full; cp -p moved/* full";

/// Checks that after a run beside which `full` was replaced, the same command does what it does
/// plainly.
fn check_replaced(command: &str) {
    let Some(python) = program(&["python3"]) else {
        return;
    };
    let changed = format!("{REPLACED}; echo other > full/1");
    for (interception, change) in [("auto", REPLACED), ("stops", REPLACED), ("auto", &changed)] {
        let sandbox = sandbox(interception);
        let replace = format!("run {change}");
        let steps = ["await gate0", &replace, "open gate0"];
        if !run_beside(&python, &sandbox, "gate0", &steps, command) {
            return;
        }
        for edit in [&changed, "echo other > full/1", "true"] {
            sandbox.reset();
            sandbox.edit_then(edit);
            let plain = sandbox.plain(command);
            sandbox.reset();
            sandbox.edit_then(edit);
            let run = sandbox.cached(command);
            run.assert_like(&plain, &format!("{interception}, after {edit}"));
        }
    }
}

#[test]
fn a_working_directory_that_another_process_replaces_is_not_published() {
    check_replaced("cd full; read x < ../gate0; cp 1 copy; cat 1");
    check_replaced("(cd full; read x < ../gate0; read y < 1; echo $y > copy)");
    check_replaced("cd full; read x < ../gate0; cat 1; cd ..; echo over > out");
}

#[test]
fn an_open_directory_that_another_process_replaces_is_not_published() {
    let tool = Tool::new();
    check_replaced(&tool.makes("open,full,d open,gate0,r fchdir,3 open,1,r read,5"));
    check_replaced(
        &tool.makes("open,full,d open,gate0,r fchdir,3 open,copy,wct write,5,x close,3"),
    );
}

#[test]
fn a_directory_that_a_command_moves_below_itself_is_followed() {
    let sandbox = Sandbox::new("mkdir p; echo old > p/f");
    let moves = "cd p; mv ../p ../q; mkdir ../p; echo new > ../p/f; cat f; cp f g";
    let edit = "echo two > p/f";
    // The last one runs where the first one left things.
    let innocent = "cd p; cat f; cp f g";
    for command in [moves, innocent, moves] {
        for edit in ["", edit, "echo new > p/f"] {
            sandbox.reset();
            sandbox.edit_then(edit);
            let plain = sandbox.plain(command);
            sandbox.reset();
            sandbox.edit_then(edit);
            let run = sandbox.cached(command);
            run.assert_like(&plain, &format!("{command} after {edit:?}"));
        }
    }
}

#[test]
fn a_directory_covered_by_a_mount_is_not_the_one_at_its_path() {
    let sandbox = Sandbox::new("mkdir out work; echo below > out/f; echo above > work/f");
    let script = "cached() { PCACHE_DIR=$store \"$PCACHE\" -q --min-time 0 -- \"$@\"; }
         cd out; mount --bind ../work ../out
         # The shell is still below the mount.
         cached cat f; cached cp f g; cached cat f
         cd ../out; cached cat f; cached cp f g
         cd ..; umount out; ls out; cat work/g; true";
    let script = format!(
        "PCACHE='{}'; store=$PWD/store; {script}",
        crate::support::PCACHE
    );
    let Some(out) = in_namespace(&sandbox, &script) else {
        return;
    };
    assert_eq!(out, "below\nbelow\nabove\nf\ng\nabove\n");
}
