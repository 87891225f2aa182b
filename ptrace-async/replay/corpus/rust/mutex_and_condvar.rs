// Locks of the standard library, on futexes of their own.
use std::sync::{Arc, Barrier, Condvar, Mutex, RwLock};
use std::thread;

fn main() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let turn = Arc::new((Mutex::new(0), Condvar::new()));
    let total = Arc::new(RwLock::new(0));
    let barrier = Arc::new(Barrier::new(4));
    let threads: Vec<_> = (0..4)
        .map(|me| {
            let (order, turn, total, barrier) = (order.clone(), turn.clone(), total.clone(), barrier.clone());
            thread::spawn(move || {
                for _ in 0..20 {
                    order.lock().unwrap().push(me);
                    *total.write().unwrap() += me;
                    barrier.wait();
                }
                let (lock, changed) = &*turn;
                let mut at = lock.lock().unwrap();
                while *at != me {
                    at = changed.wait(at).unwrap();
                }
                *at += 1;
                changed.notify_all();
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    println!("{:?} {}", order.lock().unwrap(), total.read().unwrap());
}
