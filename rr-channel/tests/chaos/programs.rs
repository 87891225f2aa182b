//! Programs with a bug of order, most of which hardly ever show.
//!
//! Each says `bug` or `fine`, and ends.

use std::fs;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use rr_channel::crossbeam_channel::{Select, Sender, bounded, select, unbounded};
use rr_channel::sync::{Arc, Mutex};
use rr_channel::thread;

/// This executable, asked for this one test, is the program.
#[test]
fn run() {
    let Ok(program) = std::env::var("RR_CHANNEL_TEST_PROGRAM") else {
        return;
    };
    let has_bug = match program.as_str() {
        "early_use" => early_use(),
        "lost_update" => lost_update(),
        "late_change" => late_change(),
        "stop_overtakes" => stop_overtakes(),
        "spinning" => spinning(),
        "foreign_wait" => foreign_wait(),
        "completed_later" => completed_later(),
        "late_to_meet" => late_to_meet(),
        other => panic!("there is no program {other}"),
    };
    println!("outcome: {}", if has_bug { "bug" } else { "fine" });
    if let Some(report) = rr_channel::replay_report() {
        println!("report: {report:?}");
    }
}

/// Some tens of microseconds of other work, in each round. A whole program takes far less than the
/// 10 ms for which chaos holds a thread back. Otherwise that time would be over before the other
/// threads have come to the point for which the thread is held back.
fn work(rounds: u32) {
    let round = if cfg!(debug_assertions) { 1000 } else { 10_000 };
    (0..rounds * round).for_each(|n| {
        black_box(n);
    });
}

/// The user of a value reaches it later than the thread that sets it up.
fn early_use() -> bool {
    let (s, r) = unbounded();
    let user = s.clone();
    let ready = Arc::new(std::sync::Barrier::new(2));
    let also = Arc::clone(&ready);
    let setup = thread::spawn(move || {
        ready.wait();
        s.send("set up").unwrap();
    });
    let user = thread::spawn(move || {
        also.wait();
        work(50);
        user.send("use").unwrap();
    });
    let bug = r.recv() == Ok("use");
    setup.join().unwrap();
    user.join().unwrap();
    bug
}

/// Reads a number, and writes that number plus one, under a lock each, but not under one lock.
fn lost_update() -> bool {
    let count = Arc::new(Mutex::new(0));
    let other = Arc::clone(&count);
    let add = |count: &Mutex<i32>| {
        let old = *count.lock().unwrap();
        *count.lock().unwrap() = old + 1;
    };
    let thread = thread::spawn(move || {
        work(50);
        add(&other);
    });
    add(&count);
    thread.join().unwrap();
    *count.lock().unwrap() != 2
}

/// A flag is down for one of many steps, and another thread looks just then.
fn late_change() -> bool {
    let flag = Arc::new(Mutex::new(true));
    let (s, r) = unbounded::<()>();
    let toggler = {
        let flag = Arc::clone(&flag);
        thread::spawn(move || {
            for step in 0..10 {
                if step == 5 {
                    *flag.lock().unwrap() = false;
                    *flag.lock().unwrap() = true;
                } else {
                    drop(flag.lock().unwrap());
                    s.send(()).unwrap();
                }
            }
        })
    };
    let looker = thread::spawn(move || {
        work(100);
        !*flag.lock().unwrap()
    });
    toggler.join().unwrap();
    drop(r);
    looker.join().unwrap()
}

/// Stops at the signal to do so, and there may be a request left.
fn stop_overtakes() -> bool {
    let (requests, incoming): (Sender<u32>, _) = unbounded();
    let (stop, stopping) = bounded::<()>(1);
    let server = thread::spawn(move || {
        let mut served = 0;
        loop {
            select! {
                recv(incoming) -> request => served += request.map_or(0, |_| 1),
                recv(stopping) -> _ => return served,
            }
        }
    });
    for n in 0..20 {
        requests.send(n).unwrap();
    }
    work(2);
    stop.send(()).unwrap();
    server.join().unwrap() != 20
}

/// No bug; a thread that is held back too long here makes the other spin for ever.
fn spinning() -> bool {
    use std::sync::atomic::{AtomicU32, Ordering};
    let turn = Arc::new(AtomicU32::new(0));
    let lock = Arc::new(Mutex::new(()));
    let threads: Vec<_> = (0..2)
        .map(|me| {
            let (turn, lock) = (Arc::clone(&turn), Arc::clone(&lock));
            thread::spawn(move || {
                for _ in 0..5 {
                    while turn.load(Ordering::Acquire) % 2 != me {}
                    drop(lock.lock().unwrap());
                    turn.fetch_add(1, Ordering::Release);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    false
}

/// No bug; threads wait for each other in ways that this crate does not wrap.
fn foreign_wait() -> bool {
    let barrier = Arc::new(std::sync::Barrier::new(3));
    let lock = Arc::new(Mutex::new(0));
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let (barrier, lock) = (Arc::clone(&barrier), Arc::clone(&lock));
            std::thread::spawn(move || {
                for _ in 0..10 {
                    *lock.lock().unwrap() += 1;
                    barrier.wait();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    *lock.lock().unwrap() != 30
}

/// No bug; a message that was selected is received when there is another one, for which another
/// thread waits.
fn completed_later() -> bool {
    let (s, r) = unbounded();
    s.send(1).unwrap();
    let mut select = Select::new();
    select.recv(&r);
    let first = select.select();
    let (tell, told) = std::sync::mpsc::channel();
    let other = r.clone();
    let waiter = thread::spawn(move || {
        tell.send(fs::read_link("/proc/thread-self").unwrap())
            .unwrap();
        other.recv()
    });
    let waiting = std::path::Path::new("/proc").join(told.recv().unwrap());
    let futex = format!("{} ", libc::SYS_futex);
    while fs::read_to_string(waiting.join("syscall")).is_ok_and(|call| !call.starts_with(&futex)) {
        std::thread::yield_now();
    }
    s.send(2).unwrap();
    let first = first.recv(&r);
    (first, waiter.join().unwrap()) != (Ok(1), Ok(2))
}

/// The partner of a rendezvous is there by the time it is looked for.
fn late_to_meet() -> bool {
    let (s, r) = bounded(0);
    let comes = Arc::new(AtomicBool::new(false));
    let also = Arc::clone(&comes);
    let receiver = thread::spawn(move || {
        also.store(true, Ordering::Release);
        r.recv().unwrap();
    });
    while !comes.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    work(50);
    let bug = s.try_send(()).is_err();
    if bug {
        s.send(()).unwrap();
    }
    receiver.join().unwrap();
    bug
}
