// Commands, with pipes to and from them.
use std::io::Write;
use std::process::{Command, Stdio};

fn main() {
    let mut child = Command::new("sort")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let id = child.id();
    let mut to = child.stdin.take().unwrap();
    for i in 0..50 {
        writeln!(to, "{}", (i * 7919 + id) % 1000).unwrap();
    }
    drop(to);
    let output = child.wait_with_output().unwrap();
    print!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(Command::new("/nowhere").spawn().is_err());
    assert_eq!(Command::new("sh").args(["-c", "exit 4"]).status().unwrap().code(), Some(4));
}
