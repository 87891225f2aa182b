// park with and without a time-out, and sleeping.
use std::thread;
use std::time::{Duration, Instant};

fn main() {
    let start = Instant::now();
    let main = thread::current();
    let other = thread::spawn(move || {
        thread::sleep(Duration::from_millis(3));
        main.unpark();
        thread::park_timeout(Duration::from_millis(2));
    });
    thread::park();
    other.join().unwrap();
    println!("{:?}", start.elapsed());
}
