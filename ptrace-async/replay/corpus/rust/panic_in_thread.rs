// A thread panics, and is joined; the first one panics as well.
// status: 101
use std::thread;

fn main() {
    let result = thread::spawn(|| panic!("in {:?}", thread::current().id())).join();
    assert!(result.is_err());
    panic!("at the end of {}", std::process::id());
}
