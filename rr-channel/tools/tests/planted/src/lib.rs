//! Tests that fail now and then, each for one reason among much that does not matter.
//!
//! `cargo reprise test --places --until success`, the same with `--until failure --chaos`,
//! and `cargo reprise minimize` says the reason.

#![cfg(test)]

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crossbeam_channel::{bounded, select, unbounded, RecvTimeoutError};
use parking_lot::Mutex;

/// The books are opened and then closed; what comes in between counts. Other accounts
/// report at the same time.
#[test]
fn a_message_comes_too_late() {
    #[derive(Debug, PartialEq)]
    enum Report {
        Noise(u32),
        Payment,
        Close,
    }
    let (s, r) = unbounded();
    let mut threads = Vec::new();
    for account in 0..3 {
        let s = s.clone();
        threads.push(thread::spawn(move || {
            for n in 0..20 {
                s.send(Report::Noise(account * 100 + n)).unwrap();
                thread::yield_now();
            }
        }));
    }
    let payer = s.clone();
    threads.push(thread::spawn(move || {
        payer.send(Report::Payment).unwrap(); // the payment
    }));
    threads.push(thread::spawn(move || {
        thread::yield_now();
        s.send(Report::Close).unwrap(); // the close
    }));
    let mut is_open = true;
    let mut late = false;
    for report in &r {
        match report {
            Report::Close => is_open = false,
            Report::Payment => late = !is_open,
            Report::Noise(_) => {}
        }
    }
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(!late, "paid after the books were closed");
}

/// Takes what it finds and gives it back plus one, but lets go of the lock in between.
/// Other locks are taken at the same time.
#[test]
fn an_update_is_lost() {
    let balance = Arc::new(Mutex::new(0));
    let noise = Arc::new(Mutex::new(0));
    let mut threads = Vec::new();
    for _ in 0..2 {
        let (balance, noise) = (Arc::clone(&balance), Arc::clone(&noise));
        threads.push(thread::spawn(move || {
            for _ in 0..10 {
                *noise.lock() += 1;
            }
            let old = *balance.lock(); // the read
            *noise.lock() += 1;
            *balance.lock() = old + 1; // the write
            for _ in 0..10 {
                *noise.lock() += 1;
            }
        }));
    }
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(*balance.lock(), 2);
}

/// Workers share a queue, and one of them may find nothing in it.
#[test]
fn a_worker_gets_nothing() {
    let (s, r) = bounded(4);
    let workers: Vec<_> = (0..3)
        .map(|n| {
            let r = r.clone();
            thread::Builder::new()
                .name(format!("worker {n}"))
                .spawn(move || {
                    let mut done = 0;
                    while let Ok(job) = r.recv() {
                        let _: u32 = job;
                        done += 1;
                        thread::yield_now();
                    }
                    done
                })
                .unwrap()
        })
        .collect();
    drop(r);
    for job in 0..30 {
        s.send(job).unwrap();
    }
    drop(s);
    for worker in workers {
        assert_ne!(worker.join().unwrap(), 0, "a worker was idle");
    }
}

/// A server is told to stop, and stops, whatever has been asked of it before.
#[test]
fn a_stop_is_seen_before_a_request() {
    let (requests, incoming) = unbounded();
    let (stop, stopping) = bounded(1);
    let server = thread::spawn(move || {
        let mut served = 0;
        loop {
            select! {
                recv(incoming) -> request => served += request.unwrap_or(0),
                recv(stopping) -> _ => return served,
            }
        }
    });
    for _ in 0..10 {
        requests.send(1).unwrap();
    }
    stop.send(()).unwrap();
    assert_eq!(server.join().unwrap(), 10);
    drop(requests);
}

/// Whether the answer comes in time is chance. The margins are wide, so that it does not depend on
/// the machine.
#[test]
fn an_answer_takes_too_long() {
    let (s, r) = unbounded();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let is_late = now.subsec_nanos() / 64 % 2 == 1;
    let server = thread::spawn(move || {
        thread::sleep(Duration::from_millis(if is_late { 300 } else { 0 }));
        s.send("an answer")
    });
    let answer = r.recv_timeout(Duration::from_millis(150));
    assert_ne!(answer, Err(RecvTimeoutError::Timeout));
    server.join().unwrap().unwrap();
}

/// Half of all times are odd. Other times are read as well, and do not matter.
#[test]
fn work_takes_an_odd_time() {
    let (s, r) = unbounded();
    let mut noise = Vec::new();
    let begun = Instant::now(); // the beginning
    for n in 0..3 {
        noise.push(Instant::now());
        s.send(n).unwrap();
        r.recv().unwrap();
    }
    let end = Instant::now(); // the end
    noise.push(Instant::now());
    assert_eq!(end.duration_since(begun).as_nanos() % 2, 0);
}
