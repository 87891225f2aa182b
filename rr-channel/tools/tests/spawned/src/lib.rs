//! Each test says what its tasks saw, and in which order, which no two runs have in common,
//! but for replays.

#![cfg(test)]

mod exchanged;
mod observed;

use std::fmt::Debug;
use std::fs::OpenOptions;
use std::future::Future;
use std::hint;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crossbeam_channel::{bounded, unbounded, Receiver, TryRecvError};
use parking_lot::Mutex;
use rayon::prelude::*;
use tokio::runtime::{Builder, Handle};
use tokio::task::{self, JoinSet};

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

/// On several threads.
fn on_many<T>(future: impl Future<Output = T>) -> T {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(3).enable_all().build().unwrap().block_on(future)
}

/// On one thread.
fn on_one<T>(future: impl Future<Output = T>) -> T {
    Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// What a receiver gets that lets others run while there is nothing, and how often that was.
async fn receive(r: &Receiver<u64>) -> Option<(u64, u32)> {
    let mut empty = 0;
    loop {
        match r.try_recv() {
            Ok(n) => return Some((n, empty)),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) => {
                empty += 1;
                task::yield_now().await;
            }
        }
    }
}

async fn receive_all(r: Receiver<u64>) -> Vec<(u64, u32)> {
    let mut seen = Vec::new();
    while let Some(got) = receive(&r).await {
        seen.push(got);
    }
    seen
}

/// Many tasks send, one receives.
async fn gather() -> Vec<(u64, u32)> {
    let (s, r) = unbounded();
    for sender in 0..5 {
        let s = s.clone();
        tokio::spawn(async move {
            for n in 0..20 {
                work(n + sender);
                s.send(sender * 100 + n).unwrap();
                task::yield_now().await;
            }
        });
    }
    drop(s);
    tokio::spawn(receive_all(r)).await.unwrap()
}

#[test]
fn tasks_send() {
    say(on_many(gather()));
}

/// The tasks read clocks, and go on from thread to thread meanwhile.
#[test]
fn tasks_read_clocks() {
    let seen = on_many(async {
        let start = Instant::now();
        let (s, r) = unbounded();
        for sender in 0..5 {
            let s = s.clone();
            tokio::spawn(async move {
                for n in 0..20 {
                    work(n + sender);
                    s.send(start.elapsed().as_nanos() as u64).unwrap();
                    task::yield_now().await;
                    s.send(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64)
                        .unwrap();
                }
            });
        }
        drop(s);
        tokio::spawn(receive_all(r)).await.unwrap()
    });
    say(seen);
}

/// The tasks take turns, but what blocking threads do comes in between.
#[test]
fn tasks_of_one_thread_send() {
    let seen = on_one(async {
        let (s, r) = unbounded();
        for sender in 0..4 {
            let s = s.clone();
            tokio::spawn(async move {
                for n in 0..5 {
                    let m = task::spawn_blocking(move || {
                        work(sender + n);
                        sender * 100 + n
                    });
                    s.send(m.await.unwrap()).unwrap();
                }
            });
        }
        drop(s);
        tokio::spawn(receive_all(r)).await.unwrap()
    });
    say(seen);
}

/// Several tasks share what comes.
async fn share() -> Vec<Vec<(u64, u32)>> {
    let (s, r) = bounded(4);
    let mut receivers = JoinSet::new();
    for _ in 0..3 {
        receivers.spawn(receive_all(r.clone()));
    }
    drop(r);
    for sender in 0..3 {
        let s = s.clone();
        tokio::spawn(async move {
            for n in 0..20 {
                let mut message = sender * 100 + n;
                while let Err(error) = s.try_send(message) {
                    message = error.into_inner();
                    task::yield_now().await;
                }
            }
        });
    }
    drop(s);
    let mut seen = receivers.join_all().await;
    seen.sort();
    seen
}

#[test]
fn tasks_share() {
    say(on_many(share()));
}

#[test]
fn tasks_lock() {
    let order = Arc::new(Mutex::new(Vec::new()));
    on_many(async {
        let mut tasks = Vec::new();
        for n in 0..30 {
            let order = Arc::clone(&order);
            tasks.push(tokio::spawn(async move {
                work(n);
                order.lock().push(n);
                task::yield_now().await;
                work(n + 1);
                order.lock().push(n + 100);
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
    });
    say(order.lock());
}

/// What blocking threads do is named by who wants it done, and there are as many of them as
/// there happen to be.
async fn block(order: Arc<Mutex<Vec<u64>>>) {
    let mut tasks = JoinSet::new();
    for n in 0..10 {
        let order = Arc::clone(&order);
        tasks.spawn(async move {
            let mut parts = Vec::new();
            for m in 0..4 {
                let order = Arc::clone(&order);
                parts.push(task::spawn_blocking(move || {
                    work(n * 4 + m);
                    order.lock().push(n * 10 + m);
                }));
            }
            for part in parts {
                part.await.unwrap();
            }
            order.lock().push(n + 1000);
        });
    }
    tasks.join_all().await;
}

#[test]
fn tasks_block() {
    let order = Arc::default();
    on_many(block(Arc::clone(&order)));
    say(order.lock());
}

#[test]
fn tasks_of_one_thread_block() {
    let order = Arc::default();
    on_one(block(Arc::clone(&order)));
    say(order.lock());
}

/// Tasks wait in place, more of them than there are threads.
#[test]
fn tasks_wait() {
    let seen = on_many(async {
        let (s, r) = bounded(0);
        let mut tasks = JoinSet::new();
        for n in 0..8 {
            let (s, r) = (s.clone(), r.clone());
            tasks.spawn(async move {
                work(n);
                task::block_in_place(|| match n % 2 {
                    0 => {
                        s.send(n).unwrap();
                        (n, n)
                    }
                    _ => (n, r.recv().unwrap()),
                })
            });
        }
        let mut seen = tasks.join_all().await;
        seen.sort();
        seen
    });
    say(seen);
}

/// Tasks that spawn tasks, some of which are aborted before they are done with waiting.
#[test]
fn tasks_spawn() {
    let order = Arc::new(Mutex::new(Vec::new()));
    on_many(async {
        let mut tasks = JoinSet::new();
        for n in 0..6 {
            let order = Arc::clone(&order);
            tasks.spawn(async move {
                let never = tokio::spawn(std::future::pending::<()>());
                let mut parts = Vec::new();
                for m in 0..4 {
                    let order = Arc::clone(&order);
                    parts.push(tokio::spawn(async move {
                        work(n + m);
                        order.lock().push(n * 10 + m);
                        task::yield_now().await;
                        tokio::spawn(async move { order.lock().push(n * 10 + m + 100) });
                    }));
                }
                never.abort();
                assert!(never.await.unwrap_err().is_cancelled());
                for part in parts {
                    part.await.unwrap();
                }
            });
        }
        tasks.join_all().await;
        // Those that nobody waits for.
        while order.lock().len() < 48 {
            task::yield_now().await;
        }
    });
    say(order.lock());
}

/// Threads outside of the runtime answer its tasks.
async fn ask() -> Vec<Vec<u64>> {
    let (asks, asked) = unbounded::<(u64, crossbeam_channel::Sender<u64>)>();
    let servers: Vec<_> = (0..2)
        .map(|_| {
            let asked = asked.clone();
            std::thread::spawn(move || {
                let mut seen = Vec::new();
                for (n, answer) in asked {
                    work(n);
                    seen.push(n);
                    answer.send(n + 1).unwrap();
                }
                seen
            })
        })
        .collect();
    drop(asked);
    let mut tasks = JoinSet::new();
    for n in 0..6 {
        let asks = asks.clone();
        tasks.spawn(async move {
            let (s, r) = unbounded();
            for m in 0..5 {
                asks.send((n * 10 + m, s.clone())).unwrap();
                let (answer, _) = receive(&r).await.unwrap();
                assert_eq!(answer, n * 10 + m + 1);
            }
        });
    }
    drop(asks);
    tasks.join_all().await;
    servers.into_iter().map(|server| server.join().unwrap()).collect()
}

#[test]
fn tasks_ask() {
    say(on_many(ask()));
}

#[test]
fn tasks_of_one_thread_ask() {
    say(on_one(ask()));
}

/// The messages of several tasks and of threads meet in one place, which is no task.
#[test]
fn all_send() {
    let (s, r) = unbounded();
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    let threads: Vec<_> = (0..2)
        .map(|n| {
            let s = s.clone();
            std::thread::spawn(move || (0..20).for_each(|m| s.send(n * 100 + m).unwrap()))
        })
        .collect();
    for n in 2..5 {
        let s = s.clone();
        runtime.spawn(async move {
            for m in 0..20 {
                s.send(n * 100 + m).unwrap();
                if m % 5 == 0 {
                    tokio::time::sleep(std::time::Duration::from_micros(m)).await;
                }
            }
        });
    }
    drop(s);
    let seen: Vec<u64> = r.iter().collect();
    for thread in threads {
        thread.join().unwrap();
    }
    say((runtime.metrics().num_workers(), seen));
}

/// With messages of tokio's own, of which nothing is recorded: but who gets what from whom is
/// the same in every run.
/// More tasks than threads, each of which has a pool do something, and waits for that.
async fn fork() -> (Vec<u64>, Vec<u64>) {
    let (s, r) = unbounded();
    let taken = Arc::new(Mutex::new(Vec::new()));
    for sender in 0..6 {
        let s = s.clone();
        let taken = Arc::clone(&taken);
        tokio::spawn(async move {
            for round in 0..3 {
                (0..8_u64).into_par_iter().for_each(|n| {
                    let n = sender * 100 + round * 10 + n;
                    work(n);
                    s.send(n).unwrap();
                    if n % 3 == 0 {
                        taken.lock().push(n);
                    }
                });
                task::yield_now().await;
            }
        });
    }
    drop(s);
    let got = task::spawn_blocking(move || r.iter().collect()).await.unwrap();
    let taken = taken.lock().clone();
    (got, taken)
}

#[test]
fn tasks_fork() {
    say(on_many(fork()));
}

#[test]
fn tasks_of_one_thread_fork() {
    say(on_one(fork()));
}

#[test]
fn tasks_reply() {
    let order = Arc::new(Mutex::new(Vec::new()));
    on_many(async {
        let mut tasks = JoinSet::new();
        for n in 0..10 {
            let order = Arc::clone(&order);
            tasks.spawn(async move {
                let (s, r) = tokio::sync::oneshot::channel();
                let of_child = Arc::clone(&order);
                Handle::current().spawn(async move {
                    work(n);
                    of_child.lock().push(n);
                    s.send(n * 2).unwrap();
                });
                let reply = r.await.unwrap();
                order.lock().push(1000 + reply);
            });
        }
        tasks.join_all().await;
    });
    say(order.lock());
}

/// There is less of it if `DIVERGE` is set. Who receives looks again and again, if it is `eager`.
async fn diverge(order: Arc<Mutex<Vec<u64>>>, eager: bool) {
    let count = match std::env::var_os("DIVERGE") {
        None => 40,
        Some(_) => 25,
    };
    let (s, r) = unbounded();
    for n in 0..count {
        let (s, order) = (s.clone(), Arc::clone(&order));
        tokio::spawn(async move {
            work(n);
            order.lock().push(n);
            s.send(n).unwrap();
        });
    }
    drop(s);
    let seen: Vec<_> = if eager {
        let seen = tokio::spawn(receive_all(r)).await.unwrap();
        seen.into_iter().map(|(n, _)| n).collect()
    } else {
        task::spawn_blocking(move || r.iter().collect()).await.unwrap()
    };
    say((seen.len(), seen.iter().sum::<u64>()));
}

#[test]
fn diverges() {
    on_many(diverge(Arc::default(), true));
}

#[test]
fn diverges_on_one_thread() {
    on_one(diverge(Arc::default(), false));
}
