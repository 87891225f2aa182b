//! Tasks that use tokio's locks, channels, notifications and timers: which of these, and when, is
//! chosen at random from a seed. Each test says what every task saw, which no two runs have in
//! common, but for replays.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::{broadcast, mpsc, oneshot, watch, Barrier, Mutex, Notify, RwLock, Semaphore};
use tokio::task::{self, JoinSet};
use tokio::time::{interval, sleep, timeout};

use super::{on_many, on_one, say, work};

/// Numbers that look random: the same ones for a seed (Vigna, xorshift64*).
struct Numbers(u64);

impl Numbers {
    fn new(seed: u64, task: u64) -> Self {
        let mut numbers = Numbers((seed * 1000 + task + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        numbers.below(2);
        numbers
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit
    }
}

const MOMENT: Duration = Duration::from_micros(300);

type Request = (u64, oneshot::Sender<u64>);

/// The objects that the tasks share.
struct Shared {
    locks: [Mutex<u64>; 2],
    table: RwLock<u64>,
    permits: Semaphore,
    notices: [Notify; 2],
    state: watch::Sender<u64>,
    news: broadcast::Sender<u64>,
    requests: mpsc::Sender<Request>,
    messages: mpsc::UnboundedSender<u64>,
}

/// The operations of a task, and their results.
type Seen = Vec<(&'static str, i64)>;

async fn user(shared: Arc<Shared>, seed: u64, number: u64, steps: u64) -> Seen {
    let mut numbers = Numbers::new(seed, number);
    let mut state = shared.state.subscribe();
    let mut news = shared.news.subscribe();
    let mut seen = Seen::new();
    for step in 0..steps {
        let lock = &shared.locks[numbers.below(2) as usize];
        let notice = &shared.notices[numbers.below(2) as usize];
        let value = number * 1000 + step;
        work(numbers.below(50));
        let (what, result) = match numbers.below(30) {
            0 | 1 => {
                let mut guard = lock.lock().await;
                *guard = *guard * 3 + number;
                if numbers.below(2) == 0 {
                    task::yield_now().await;
                }
                ("lock", (*guard % 1000) as i64)
            }
            2 => match lock.try_lock() {
                Ok(mut guard) => {
                    *guard += number;
                    ("try_lock", (*guard % 1000) as i64)
                }
                Err(_) => ("try_lock", -1),
            },
            3 => ("read", (*shared.table.read().await % 1000) as i64),
            4 => {
                let mut table = shared.table.write().await;
                *table = *table * 5 + number;
                ("write", (*table % 1000) as i64)
            }
            5 => {
                let permit = shared.permits.acquire_many(1 + numbers.below(3) as u32).await;
                task::yield_now().await;
                ("acquire", permit.is_ok().into())
            }
            6 => match shared.permits.try_acquire() {
                Ok(permit) => {
                    task::yield_now().await;
                    drop(permit);
                    ("try_acquire", 1)
                }
                Err(_) => ("try_acquire", -1),
            },
            7 => ("available", shared.permits.available_permits() as i64),
            8 => {
                notice.notify_one();
                ("notify_one", 0)
            }
            9 => {
                notice.notify_waiters();
                ("notify_waiters", 0)
            }
            10 | 11 => {
                ("notified", timeout(MOMENT, notice.notified()).await.is_ok().into())
            }
            12 => {
                shared.state.send_replace(value);
                ("send state", 0)
            }
            13 => {
                let is_new = shared.state.send_if_modified(|state| {
                    let is_odd = *state % 2 == 1;
                    *state += u64::from(is_odd);
                    is_odd
                });
                ("modify state", is_new.into())
            }
            14 => ("state", *state.borrow() as i64),
            15 => ("has changed", state.has_changed().unwrap().into()),
            16 => match timeout(MOMENT, state.changed()).await {
                Ok(Ok(())) => ("changed", *state.borrow_and_update() as i64),
                Ok(Err(_)) => ("changed", -1),
                Err(_) => ("changed", -2),
            },
            17 => ("send news", shared.news.send(value).map_or(-1, |count| count as i64)),
            18 => match timeout(MOMENT, news.recv()).await {
                Ok(Ok(value)) => ("news", value as i64),
                Ok(Err(error)) => ("news", -10 - i64::from(error != broadcast::error::RecvError::Closed)),
                Err(_) => ("news", -2),
            },
            19 => match news.try_recv() {
                Ok(value) => ("try news", value as i64),
                Err(broadcast::error::TryRecvError::Lagged(n)) => ("try news", -100 - n as i64),
                Err(_) => ("try news", -1),
            },
            20 | 21 => {
                let (answer, answered) = oneshot::channel();
                shared.requests.send((value, answer)).await.unwrap();
                ("ask", answered.await.map_or(-1, |answer| answer as i64))
            }
            22 => {
                let (answer, mut answered) = oneshot::channel();
                match shared.requests.try_send((value, answer)) {
                    Ok(()) => {
                        work(numbers.below(100));
                        ("try ask", answered.try_recv().map_or(-1, |answer| answer as i64))
                    }
                    Err(_) => ("try ask", -2),
                }
            }
            23 => {
                let (answer, answered) = oneshot::channel();
                shared.requests.send((value, answer)).await.unwrap();
                ("ask in time", timeout(MOMENT, answered).await.map_or(-2, |answer| answer.map_or(-1, |answer| answer as i64)))
            }
            24 => {
                shared.messages.send(value).unwrap();
                ("send", 0)
            }
            25 => {
                sleep(MOMENT * numbers.below(3) as u32 / 2).await;
                ("sleep", 0)
            }
            26 => {
                let which = tokio::select! {
                    () = notice.notified() => 0,
                    guard = lock.lock() => 1 + (*guard % 100) as i64,
                    value = news.recv() => 1000 + value.map_or(-1, |value| value as i64),
                    () = sleep(MOMENT) => -1,
                };
                ("select", which)
            }
            27 => {
                let both = tokio::join!(lock.lock(), shared.table.read(), sleep(MOMENT / 3));
                ("join", (*both.0 % 100 * 100 + *both.1 % 100) as i64)
            }
            28 => {
                let mut children = JoinSet::new();
                for n in 0..3 {
                    let shared = Arc::clone(&shared);
                    children.spawn(async move {
                        work(n * 17 + step);
                        let mut guard = shared.locks[0].lock().await;
                        *guard += n;
                        (n, *guard % 100)
                    });
                }
                let mut order = 0;
                while let Some(child) = children.join_next().await {
                    let (n, value) = child.unwrap();
                    order = order * 1000 + n * 100 + value;
                }
                ("children", order as i64)
            }
            _ => {
                let messages = shared.messages.clone();
                let child = task::spawn_blocking(move || {
                    work(value);
                    messages.send(value + 500).is_ok()
                });
                ("block", child.await.unwrap().into())
            }
        };
        seen.push((what, result));
    }
    seen
}

/// Answers requests, not all of them.
async fn server(mut requests: mpsc::Receiver<Request>, seed: u64) -> Seen {
    let mut numbers = Numbers::new(seed, 100);
    let mut seen = Seen::new();
    loop {
        let request = match numbers.below(4) {
            0 => match requests.try_recv() {
                Ok(request) => Some(request),
                Err(mpsc::error::TryRecvError::Empty) => {
                    seen.push(("empty", requests.len() as i64));
                    requests.recv().await
                }
                Err(mpsc::error::TryRecvError::Disconnected) => None,
            },
            1 => match timeout(MOMENT, requests.recv()).await {
                Ok(request) => request,
                Err(_) => {
                    seen.push(("late", 0));
                    continue;
                }
            },
            _ => requests.recv().await,
        };
        let Some((value, answer)) = request else {
            return seen;
        };
        work(value);
        let result: i64 = match numbers.below(5) {
            0 => answer.is_closed().into(),
            _ => answer.send(value * 2).is_ok().into(),
        };
        seen.push(("request", value as i64 * 10 + result));
    }
}

/// Collects messages, several at once.
async fn collector(mut messages: mpsc::UnboundedReceiver<u64>, seed: u64) -> Seen {
    let mut numbers = Numbers::new(seed, 101);
    let mut seen = Seen::new();
    let mut ticks = interval(MOMENT * 2);
    loop {
        let mut some = Vec::new();
        tokio::select! {
            count = messages.recv_many(&mut some, 1 + numbers.below(4) as usize) => {
                if count == 0 {
                    return seen;
                }
                seen.extend(some.iter().map(|message| ("message", *message as i64)));
                seen.push(("count", count as i64));
            }
            _ = ticks.tick() => seen.push(("tick", 0)),
        }
        work(numbers.below(200));
    }
}

async fn anything(seed: u64, users: u64, steps: u64) -> Vec<Seen> {
    let (requests, requested) = mpsc::channel(2);
    let (messages, received) = mpsc::unbounded_channel();
    let shared = Arc::new(Shared {
        locks: Default::default(),
        table: RwLock::new(1),
        permits: Semaphore::new(4),
        notices: Default::default(),
        state: watch::channel(0).0,
        news: broadcast::channel(2).0,
        requests,
        messages,
    });
    let server = tokio::spawn(server(requested, seed));
    let collector = tokio::spawn(collector(received, seed));
    let mut all = Vec::new();
    for number in 0..users {
        all.push(tokio::spawn(user(Arc::clone(&shared), seed, number, steps)));
    }
    drop(shared);
    let mut seen = Vec::new();
    for user in all {
        seen.push(user.await.unwrap());
    }
    seen.push(server.await.unwrap());
    seen.push(collector.await.unwrap());
    seen
}

/// The seed: the given one, or what `SEED` says.
fn seed(given: u64) -> u64 {
    let set = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    set.unwrap_or(given)
}

#[test]
fn many_do_anything() {
    say(on_many(anything(seed(1), 4, 30)));
}

#[test]
fn others_do_anything() {
    say(on_many(anything(seed(2), 6, 20)));
}

#[test]
fn one_does_anything() {
    say(on_one(anything(seed(3), 4, 30)));
}

/// The last to arrive leads, and the others go on in some order.
#[test]
fn tasks_meet() {
    let seen = on_many(async {
        let barrier = Arc::new(Barrier::new(3));
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        for n in 0..3_u64 {
            let (barrier, order) = (Arc::clone(&barrier), Arc::clone(&order));
            tasks.spawn(async move {
                let mut led = Vec::new();
                for round in 0..10 {
                    work(n * 37 + round * 11);
                    led.push(barrier.wait().await.is_leader());
                    order.lock().await.push(n);
                }
                led
            });
        }
        let mut led = Vec::new();
        while let Some(task) = tasks.join_next().await {
            led.push(task.unwrap());
        }
        let order = order.lock().await.clone();
        (led, order)
    });
    say(seen);
}

/// Threads outside of the runtime use the same channels, and wait in their own way.
#[test]
fn threads_and_tasks_exchange() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (asks, mut asked) = mpsc::channel::<Request>(1);
    let threads: Vec<_> = (0..3_u64)
        .map(|n| {
            let asks = asks.clone();
            std::thread::spawn(move || {
                let mut seen = Vec::new();
                for m in 0..8 {
                    work(n * 31 + m);
                    let (answer, answered) = oneshot::channel();
                    asks.blocking_send((n * 10 + m, answer)).unwrap();
                    seen.push(answered.blocking_recv().unwrap());
                }
                seen
            })
        })
        .collect();
    drop(asks);
    let served = runtime.block_on(async move {
        let mut served = Vec::new();
        while let Some((value, answer)) = asked.recv().await {
            served.push(value);
            let number = served.len() as u64;
            tokio::spawn(async move {
                work(value);
                let _ = answer.send(number);
            });
        }
        served
    });
    let answers: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    say((served, answers));
}
