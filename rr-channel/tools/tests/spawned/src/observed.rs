//! Tasks that observe what is not an operation of its own: that nothing is there yet, that somebody
//! is gone, which branch was first.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::{Mutex, Notify, Semaphore, mpsc, oneshot};
use tokio::task::{self, JoinSet};
use tokio::time::{interval, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::work;

const MOMENT: Duration = Duration::from_micros(300);

/// The result of a future that has one now.
fn now<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

async fn slow(name: &'static str, moments: u32) -> &'static str {
    sleep(MOMENT * moments).await;
    name
}

async fn branches_make_timers() -> Vec<&'static str> {
    let mut seen = Vec::new();
    for round in 0..20 {
        let first = tokio::spawn(async move {
            work(round * 7);
            tokio::select! { name = slow("a", 3) => name, name = slow("b", 2) => name }
        });
        seen.push(first.await.unwrap());
    }
    seen
}

async fn sets_are_tried() -> Vec<i64> {
    let mut set = JoinSet::new();
    let mut seen = Vec::new();
    for n in 0..12 {
        set.spawn(async move {
            work(n * 37);
            task::yield_now().await;
            work(n * 11);
            n as i64
        });
        work(n * 5);
        match set.try_join_next() {
            Some(joined) => seen.push(joined.unwrap()),
            None => seen.push(-1),
        }
    }
    let mut vain = 0;
    while !set.is_empty() {
        match set.try_join_next_with_id() {
            Some(joined) => seen.push(joined.unwrap().1),
            None => {
                vain += 1;
                task::yield_now().await;
            }
        }
    }
    seen.push(vain);
    seen
}

/// Tasks that work until they are cancelled: by a token, or by that of which it is a child.
async fn tokens_are_cancelled() -> Vec<u64> {
    let mut seen = Vec::new();
    for round in 0..10 {
        let token = CancellationToken::new();
        let tracker = TaskTracker::new();
        let done = Arc::new(AtomicU64::new(0));
        for n in 0..3 {
            let (sender, mut receiver) = mpsc::unbounded_channel();
            let token = token.child_token();
            let done = Arc::clone(&done);
            tracker.spawn(async move {
                loop {
                    tokio::select! {
                        () = token.cancelled() => break,
                        Some(m) = receiver.recv() => drop(done.fetch_add(m, SeqCst)),
                    }
                }
            });
            tracker.spawn(async move {
                for m in 0..10 {
                    work(n * 29 + m * 13);
                    if sender.send(m).is_err() {
                        break;
                    }
                    task::yield_now().await;
                }
            });
        }
        let guard = token.clone().drop_guard();
        let canceller = tokio::spawn(async move {
            work(round * 41);
            task::yield_now().await;
            drop(guard);
        });
        seen.push(u64::from(token.is_cancelled()));
        let early = token.run_until_cancelled(sleep(MOMENT)).await;
        seen.push(u64::from(early.is_none()));
        seen.push(tracker.len() as u64);
        tracker.close();
        tracker.wait().await;
        canceller.await.unwrap();
        seen.push(done.load(SeqCst));
    }
    seen
}

async fn batches_are_drained() -> Vec<usize> {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let senders: Vec<_> = (0..3)
        .map(|n| {
            let sender = sender.clone();
            tokio::spawn(async move {
                for m in 0..20 {
                    work(n * 31 + m * 17);
                    sender.send(m).unwrap();
                    task::yield_now().await;
                }
            })
        })
        .collect();
    drop(sender);
    let mut batches = Vec::new();
    while receiver.recv().await.is_some() {
        let mut batch = 1;
        while let Some(Some(_)) = now(receiver.recv()) {
            batch += 1;
        }
        batches.push(batch);
    }
    for sender in senders {
        sender.await.unwrap();
    }
    batches
}

async fn notifications_are_enabled() -> Vec<bool> {
    let notice = Arc::new(Notify::new());
    let (stop, mut stopped) = oneshot::channel::<()>();
    let notifies = Arc::clone(&notice);
    let notifier = tokio::spawn(async move {
        let mut ticks = interval(MOMENT);
        while now(&mut stopped).is_none() {
            ticks.tick().await;
            notifies.notify_waiters();
        }
    });
    let mut seen = Vec::new();
    for _ in 0..10 {
        let mut notified = pin!(notice.notified());
        work(300);
        seen.push(notified.as_mut().enable());
        notified.await;
    }
    drop(stop);
    notifier.await.unwrap();
    seen
}

/// Receivers close their channels while others send into them.
async fn receivers_close() -> Vec<(u64, Vec<u64>, Vec<bool>)> {
    let mut all = Vec::new();
    for round in 0..10 {
        let (bounded, mut receiver) = mpsc::channel(3);
        let (unbounded, mut other) = mpsc::unbounded_channel();
        let senders: Vec<_> = (0..2)
            .map(|n| {
                let (bounded, unbounded) = (bounded.clone(), unbounded.clone());
                tokio::spawn(async move {
                    let mut sent = Vec::new();
                    for m in 0..6 {
                        work(n * 41 + m * 13 + round);
                        sent.push(unbounded.send(n * 100 + m).is_ok());
                        sent.push(bounded.send(n * 100 + m).await.is_ok());
                    }
                    sent
                })
            })
            .collect();
        drop((bounded, unbounded));
        let first = receiver.recv().await;
        work(round * 60);
        receiver.close();
        other.close();
        let mut received: Vec<u64> = first.into_iter().collect();
        while let Some(message) = receiver.recv().await {
            received.push(message);
        }
        while let Some(message) = other.recv().await {
            received.push(message);
        }
        let mut sent = Vec::new();
        for sender in senders {
            sent.extend(sender.await.unwrap());
        }
        all.push((round, received, sent));
    }
    all
}

/// A server goes while there are requests: their senders find that out.
async fn servers_go() -> Vec<Vec<i64>> {
    let mut all = Vec::new();
    for round in 0..10 {
        let (requests, mut requested) = mpsc::channel::<oneshot::Sender<u64>>(4);
        let server = tokio::spawn(async move {
            for n in 0..4 {
                let Some(answer) = requested.recv().await else {
                    return;
                };
                work(n * 50 + round);
                let _ = answer.send(n);
            }
        });
        let clients: Vec<_> = (0..3)
            .map(|n| {
                let requests = requests.clone();
                tokio::spawn(async move {
                    let mut seen = Vec::new();
                    for m in 0..3 {
                        work(n * 23 + m * 11);
                        let (answer, answered) = oneshot::channel();
                        seen.push(match requests.send(answer).await {
                            // A request that is sent while the server goes stays in the channel.
                            Ok(()) => match timeout(MOMENT * 20, answered).await {
                                Ok(answer) => answer.map_or(-1, |n| n as i64),
                                Err(_) => -3,
                            },
                            Err(_) => -2,
                        });
                    }
                    seen
                })
            })
            .collect();
        for client in clients {
            all.push(client.await.unwrap());
        }
        server.await.unwrap();
    }
    all
}

async fn capacities_are_seen() -> Vec<usize> {
    let (sender, mut receiver) = mpsc::channel(4);
    let permits = Arc::new(Semaphore::new(3));
    let some = Arc::clone(&permits);
    let sends = tokio::spawn(async move {
        let mut seen = Vec::new();
        for n in 0..30 {
            work(n * 3);
            let _permit = some.acquire().await;
            sender.send(n).await.unwrap();
            seen.push(sender.capacity());
        }
        seen
    });
    let mut seen = Vec::new();
    while receiver.recv().await.is_some() {
        seen.extend([receiver.capacity(), receiver.sender_strong_count()]);
        seen.push(permits.forget_permits(0) + permits.available_permits());
    }
    seen.extend(sends.await.unwrap());
    seen
}

static FIRST: Notify = Notify::const_new();
static SECOND: Notify = Notify::const_new();
static COUNT: Mutex<u64> = Mutex::const_new(0);

async fn statics_are_told_apart() -> Vec<&'static str> {
    let notifier = tokio::spawn(async {
        for n in 0..10 {
            sleep(MOMENT).await;
            *COUNT.lock().await += 1;
            if n % 3 == 0 { &FIRST } else { &SECOND }.notify_one();
        }
    });
    let mut seen = Vec::new();
    for _ in 0..10 {
        seen.push(tokio::select! {
            biased;
            () = FIRST.notified() => "first",
            () = SECOND.notified() => "second",
        });
        *COUNT.lock().await += 1;
    }
    notifier.await.unwrap();
    seen
}

async fn answers_are_late() -> Vec<i64> {
    let mut seen = Vec::new();
    for round in 0..20 {
        let (answer, mut answered) = oneshot::channel();
        let answers = tokio::spawn(async move {
            work(round * 9);
            answer.send(round as i64).is_ok()
        });
        seen.push(match timeout(MOMENT / 3, &mut answered).await {
            Ok(answer) => answer.unwrap(),
            Err(_) => -1,
        });
        drop(answered);
        seen.push(answers.await.unwrap().into());
    }
    seen
}

async fn timers_are_tried() -> Vec<u64> {
    let mut ticks = interval(MOMENT / 4);
    let mut seen = Vec::new();
    for n in 0..20 {
        work(n * 111);
        let mut tried = 0;
        while now(ticks.tick()).is_none() {
            tried += 1;
            work(n + tried);
            if tried % 5 == 0 {
                task::yield_now().await;
            }
        }
        seen.push(tried);
    }
    seen
}

/// Tasks are cancelled in the middle of what they do, before they begin, and when they are done.
async fn tasks_are_aborted() -> Vec<String> {
    let mut seen = Vec::new();
    let count = Arc::new(Mutex::new(0));
    for round in 0..10 {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let tasks: Vec<_> = (0..4)
            .map(|n| {
                let (sender, count) = (sender.clone(), Arc::clone(&count));
                tokio::spawn(async move {
                    for m in 0..n * 3 {
                        work(n * 67 + m * 29 + round);
                        *count.lock().await += 1;
                        sender.send(n * 10 + m).unwrap();
                        if m % 2 == 0 {
                            sleep(MOMENT / 8).await;
                        }
                    }
                    n
                })
            })
            .collect();
        let blocks = sender.clone();
        let blocking = task::spawn_blocking(move || {
            work(round);
            blocks.send(1000).unwrap();
        });
        drop(sender);
        work(round * 90);
        let aborts: Vec<_> = tasks.iter().map(|task| task.abort_handle()).collect();
        sleep(MOMENT / 4 * (round % 3) as u32).await;
        for abort in aborts {
            abort.abort();
        }
        blocking.abort();
        let mut ended = Vec::new();
        for task in tasks {
            ended.push(task.await.map_err(|error| error.is_cancelled()));
        }
        let blocked = blocking.await.map_err(|error| error.is_cancelled());
        let mut received = Vec::new();
        while let Some(message) = receiver.recv().await {
            received.push(message);
        }
        seen.push(format!(
            "{ended:?} {blocked:?} {received:?} {}",
            count.lock().await
        ));
    }
    seen
}

/// Sets of tasks that are dropped, or emptied as far as their tasks are done.
async fn sets_are_dropped() -> Vec<u64> {
    let count = Arc::new(Mutex::new(0));
    let mut seen = Vec::new();
    for round in 0..10 {
        let mut set = JoinSet::new();
        for n in 0..5 {
            let count = Arc::clone(&count);
            set.spawn(async move {
                work(n * 71 + round * 13);
                for _ in 0..n {
                    *count.lock().await += 1;
                    task::yield_now().await;
                }
                n
            });
        }
        work(round * 40);
        if let Some(first) = set.join_next().await {
            seen.push(first.unwrap());
        }
        if round % 2 == 0 {
            drop(set);
        } else {
            set.abort_all();
            while let Some(ended) = set.join_next().await {
                seen.push(ended.map_or(99, |n| n));
            }
        }
        task::yield_now().await;
        seen.push(*count.lock().await);
    }
    seen
}

/// Tasks that are not done when the runtime ends: what they have done by then is seen afterwards.
fn runtimes_end(on: fn(Pin<Box<dyn Future<Output = ()>>>)) -> Vec<u64> {
    let mut seen = Vec::new();
    for round in 0..5 {
        let count = Arc::new(AtomicU64::new(0));
        let counts = Arc::clone(&count);
        on(Box::pin(async move {
            let lock = Arc::new(Mutex::new(0));
            for n in 0..3 {
                let (counts, lock) = (Arc::clone(&counts), Arc::clone(&lock));
                tokio::spawn(async move {
                    let mut ticks = interval(MOMENT * (1 + n));
                    loop {
                        ticks.tick().await;
                        *lock.lock().await += 1;
                        counts.fetch_add(1, SeqCst);
                    }
                });
            }
            sleep(MOMENT * (3 + round)).await;
        }));
        seen.push(count.load(SeqCst));
    }
    seen
}

macro_rules! tests {
    ($($program:ident)*) => {$(
        #[test]
        fn $program() {
            say(on(super::$program()));
        }
    )*};
}

/// The programs, on the threads that a function of the crate makes.
macro_rules! programs {
    ($module:ident, $on:ident) => {
        mod $module {
            use super::super::{say, $on as on};

            tests! {
                branches_make_timers
                batches_are_drained
                notifications_are_enabled
                receivers_close
                servers_go
                capacities_are_seen
                statics_are_told_apart
                answers_are_late
                timers_are_tried
                tasks_are_aborted
                sets_are_dropped
                sets_are_tried
                tokens_are_cancelled
            }

            #[test]
            fn runtimes_end() {
                say(super::runtimes_end(|future| on(future)));
            }
        }
    };
}

programs!(many, on_many);
programs!(one, on_one);
