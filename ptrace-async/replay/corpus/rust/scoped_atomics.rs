// Scoped threads that race for numbers.
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

fn main() {
    let next = AtomicUsize::new(0);
    let mut taken = vec![Vec::new(); 4];
    thread::scope(|scope| {
        for mine in &mut taken {
            let next = &next;
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    if number >= 400 {
                        break;
                    }
                    mine.push(number);
                    if number % 9 == 0 {
                        thread::yield_now();
                    }
                }
            });
        }
    });
    println!("{taken:?}");
}
