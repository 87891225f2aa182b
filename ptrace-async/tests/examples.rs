//! The examples work as their documentation describes.

use std::cell::RefCell;
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;

use ptrace_async::runtime::Program;

#[path = "../examples/handle_unlink.rs"]
#[expect(dead_code, reason = "the example's main")]
mod handle_unlink;
#[path = "../examples/strace.rs"]
#[expect(dead_code, reason = "the example's main")]
mod strace;
#[path = "../examples/swarm.rs"]
#[expect(dead_code, reason = "the example's main")]
mod swarm;

fn strace_of(argv: &[&str]) -> String {
    let bytes = Rc::new(RefCell::new(Vec::new()));
    let output: strace::Output = bytes.clone();
    strace::strace(&Program::new(argv).expect("no NUL"), &output).expect("traced");
    String::from_utf8_lossy(&bytes.borrow()).into_owned()
}

#[test]
fn strace_prints_calls_with_their_results() {
    let text = strace_of(&["cat", "/no/such/file"]);
    assert!(
        text.contains(r#"openat(AT_FDCWD, "/no/such/file", O_RDONLY) = -1 ENOENT"#),
        "{text}"
    );
    assert!(text.contains(r#"execve("/"#), "{text}");
    assert!(text.ends_with("+++ exited with 1 +++\n"), "{text}");
}

#[test]
fn strace_follows_children_and_shows_signals() {
    let text = strace_of(&["sh", "-c", "cat /no/such/child; kill -TERM $$"]);
    assert!(text.contains("/no/such/child"), "{text}");
    assert!(text.contains("--- signal 15 ---"), "{text}");
    assert!(text.ends_with("+++ killed by 15 +++\n"), "{text}");
}

#[test]
fn handle_unlink_prints_the_inode_of_each_deleted_file() {
    let dir = tempfile::tempdir().expect("directory");
    let mut expected = Vec::new();
    for name in ["a", "b"] {
        let path = dir.path().join(name);
        std::fs::write(&path, name).expect("written");
        let inode = std::fs::metadata(&path).expect("there").ino();
        expected.push(handle_unlink::Deleted {
            path: path.to_str().expect("UTF-8").into(),
            inode,
        });
    }
    // For a link the inode is that of the link, not of its target.
    let link = dir.path().join("link");
    std::os::unix::fs::symlink("/etc/passwd", &link).expect("made");
    expected.push(handle_unlink::Deleted {
        path: link.to_str().expect("UTF-8").into(),
        inode: std::fs::symlink_metadata(&link).expect("there").ino(),
    });
    let dir = dir.path().to_str().expect("UTF-8");
    let script = format!("rm -f {dir}/a {dir}/absent; rm -f {dir}/b {dir}/link");
    let program = Program::new(&["sh", "-c", &script]).expect("no NUL");
    assert_eq!(
        handle_unlink::deletions(&program).expect("traced"),
        expected
    );
}

#[test]
fn swarm_sees_every_process_begin_and_end() {
    assert_eq!(swarm::swarm(200).expect("traced"), (201, 201));
}
