//! Each test says what its pieces of work saw, and in which order, which no two runs have in
//! common, but for replays.

#![cfg(test)]

use std::fmt::Debug;
use std::fs::OpenOptions;
use std::hint;
use std::io::Write as _;
use std::panic::{self, AssertUnwindSafe};

use crossbeam_channel::{bounded, unbounded};
use parking_lot::{Condvar, Mutex};
use rayon::prelude::*;

fn say(seen: impl Debug) {
    let path = std::env::var_os("OUTCOMES").unwrap();
    let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(format!("{seen:?}\n").as_bytes()).unwrap();
}

/// Work, of an amount that looks random.
fn work(n: u64) {
    let mut x = n;
    for _ in 0..n * 7919 % 3000 {
        x = hint::black_box(x.wrapping_mul(31));
    }
}

#[test]
fn par_iter_sends() {
    let (s, r) = unbounded();
    (0..200).into_par_iter().for_each(|n| {
        work(n);
        s.send(n).unwrap();
    });
    drop(s);
    say(r.iter().collect::<Vec<u64>>());
}

#[test]
fn par_iter_locks() {
    let order = Mutex::new(Vec::new());
    (0..200).into_par_iter().for_each(|n| {
        work(n);
        // Which of the pool's threads it is does not change, either.
        order.lock().push((n, rayon::current_thread_index()));
    });
    say(order.into_inner());
}

/// How an iterator is split depends on who was idle.
#[test]
fn splits() {
    let pieces = Mutex::new(Vec::new());
    (0..3000)
        .into_par_iter()
        .fold(Vec::new, |mut piece, n| {
            work(n);
            piece.push(n);
            piece
        })
        .for_each(|piece| pieces.lock().push((piece[0], piece.len())));
    say(pieces.into_inner());
}

fn fork(depth: u32, path: u64, order: &Mutex<Vec<u64>>) {
    order.lock().push(path);
    if depth == 0 {
        return work(path);
    }
    rayon::join(
        || fork(depth - 1, path * 2, order),
        || fork(depth - 1, path * 2 + 1, order),
    );
    order.lock().push(path + 1_000_000);
}

#[test]
fn joins() {
    let order = Mutex::new(Vec::new());
    fork(7, 1, &order);
    say(order.into_inner());
}

#[test]
fn joins_that_panic() {
    let order = Mutex::new(Vec::new());
    for n in 0..20 {
        let result = panic::catch_unwind(AssertUnwindSafe(|| {
            rayon::join(
                || {
                    order.lock().push(n);
                    assert_ne!(n % 3, 0, "expected");
                },
                || {
                    work(n);
                    order.lock().push(n + 100);
                    assert_ne!(n % 4, 0, "expected");
                },
            )
        }));
        order.lock().push(u64::from(result.is_err()));
    }
    say(order.into_inner());
}

#[test]
fn scopes() {
    let order = Mutex::new(Vec::new());
    rayon::scope(|s| {
        for n in 0..50 {
            let order = &order;
            s.spawn(move |s| {
                work(n);
                order.lock().push(n);
                if n % 5 == 0 {
                    s.spawn(move |_| {
                        work(n + 3);
                        order.lock().push(n + 1000);
                    });
                }
            });
        }
    });
    say(order.into_inner());
}

#[test]
fn scopes_in_order() {
    let order = Mutex::new(Vec::new());
    rayon::scope_fifo(|s| {
        for n in 0..50 {
            let order = &order;
            s.spawn_fifo(move |s| {
                work(n);
                order.lock().push(n);
                if n % 5 == 0 {
                    s.spawn_fifo(move |_| {
                        work(n + 3);
                        order.lock().push(n + 1000);
                    });
                }
            });
        }
    });
    say(order.into_inner());
}

#[test]
fn spawns() {
    let (s, r) = bounded(3);
    for n in 0..40 {
        let s = s.clone();
        rayon::spawn(move || {
            work(n);
            s.send(n).unwrap();
            if n % 4 == 0 {
                rayon::spawn(move || s.send(n + 100).unwrap());
            }
        });
    }
    drop(s);
    say(r.iter().collect::<Vec<u64>>());
}

/// An iterator in an iterator, in a pool of its own.
#[test]
fn nested() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    let order = Mutex::new(Vec::new());
    let sum: u64 = pool.install(|| {
        let outer = (0..20).into_par_iter().map(|n| {
            order.lock().push(n);
            let inner = (0..50).into_par_iter().map(|m| {
                if m % 10 == 0 {
                    work(m + n);
                    order.lock().push(n * 100 + m);
                }
                m
            });
            inner.sum::<u64>() + n
        });
        outer.sum()
    });
    let threads = pool.broadcast(|context| {
        order.lock().push(context.index() as u64 + 5000);
        context.num_threads()
    });
    drop(pool);
    say((sum, threads, order.into_inner()));
}

/// From one pool into another, and back.
#[test]
fn across_pools() {
    let pools = [2, 3].map(|n| rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap());
    let order = Mutex::new(Vec::new());
    pools[0].scope(|s| {
        for n in 0..20 {
            let (order, pools) = (&order, &pools);
            s.spawn(move |_| {
                work(n);
                order.lock().push(n);
                pools[1].install(|| {
                    rayon::join(|| order.lock().push(n + 100), || order.lock().push(n + 200))
                });
            });
        }
    });
    say(order.into_inner());
}

/// Work that waits for other work, as many pieces at a time as there are threads.
#[test]
fn waits() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(4).build().unwrap();
    let (turn, changed) = (Mutex::new(Vec::new()), Condvar::new());
    pool.broadcast(|context| {
        for round in 0..20 {
            work(context.index() as u64 + round);
            let mut turn = turn.lock();
            turn.push(context.index());
            changed.notify_all();
            let needed = round as usize * 2;
            changed.wait_while(&mut turn, |turn| turn.len() < needed);
        }
    });
    say(turn.into_inner());
}

#[test]
fn yields() {
    let order = Mutex::new(Vec::new());
    rayon::scope(|s| {
        for n in 0..20 {
            let order = &order;
            s.spawn(move |_| {
                work(n);
                let found = rayon::yield_now();
                order.lock().push((n, found));
                let found = rayon::yield_local();
                order.lock().push((n + 100, found));
            });
        }
    });
    say(order.into_inner());
}

/// There is less of it if `DIVERGE` is set.
#[test]
fn diverges() {
    let count = match std::env::var_os("DIVERGE") {
        None => 200,
        Some(_) => 70,
    };
    let order = Mutex::new(Vec::new());
    (0..count).into_par_iter().for_each(|n| {
        work(n);
        order.lock().push(n);
    });
    rayon::scope(|s| {
        for n in 0..count / 10 {
            let order = &order;
            s.spawn(move |_| order.lock().push(n));
        }
    });
    let mut seen = order.into_inner();
    seen.sort_unstable();
    say((seen.len(), seen.iter().sum::<u64>()));
}
