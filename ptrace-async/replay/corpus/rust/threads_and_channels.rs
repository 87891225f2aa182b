// Threads that send to one channel, in whatever order.
use std::sync::mpsc;
use std::thread;

fn main() {
    let (to, from) = mpsc::channel();
    for number in 0..4 {
        let to = to.clone();
        thread::spawn(move || {
            for i in 0..50 {
                to.send(number * 100 + i).unwrap();
                if i % 10 == 0 {
                    thread::yield_now();
                }
            }
        });
    }
    drop(to);
    let got: Vec<i32> = from.iter().collect();
    assert_eq!(got.len(), 200);
    println!("{got:?}");
}
