//! Programs whose nondeterminism lies in the locks of parking_lot, of each of its versions; the
//! surrounding module defines that version's names.

use std::sync::Arc;
use std::time::Duration;

use super::lot::lock_api::RwLockWriteGuard;
use super::lot::{
    Condvar, FairMutex, FairMutexGuard, Mutex, Once, OnceState, ReentrantMutex, RwLock,
    RwLockUpgradableReadGuard,
};
use super::{Recursive, mutex as new_mutex, read_again, rwlock as new_rwlock};
use rr_channel::thread;

use crate::locks::{pause, threads};
use crate::programs::{Outcome, line};

pub(crate) fn run(program: &str) -> Outcome {
    match program {
        "mutex" => mutex(),
        "try_lock" => try_lock(),
        "fair" => fair(),
        "reentrant" => reentrant(),
        "rwlock" => rwlock(),
        "upgrades" => upgrades(),
        "condvar" => condvar(),
        "wait_for" => wait_for(),
        "once" => once(),
        other => panic!("no program called {other}"),
    }
}

/// The order in which threads enter critical sections, also of locks in statics.
fn mutex() -> Outcome {
    static ORDER: Mutex<Vec<usize>> = new_mutex(Vec::new());
    static COUNT: RwLock<u64> = new_rwlock(0);
    let mut outcome = threads(4, |who| {
        let mut seen = Vec::new();
        for n in 0..100 {
            ORDER.lock().push(who);
            pause(who, n);
            *COUNT.write() += 1;
            seen.push(*COUNT.read());
        }
        line(&format!("thread {who}"), &seen)
    });
    outcome.push(line("order", &ORDER.lock()));
    outcome
}

/// Attempts, timed ones among them, and looks.
fn try_lock() -> Outcome {
    let mutex = Arc::new(Mutex::new(0));
    let rwlock = RwLock::new(0);
    threads(3, move |who| {
        let mut seen = Vec::new();
        for n in 0..60 {
            seen.push(match n % 6 {
                0 => mutex.try_lock().is_some_and(|mut count| {
                    *count += 1;
                    pause(who, n);
                    true
                }),
                1 => mutex
                    .try_lock_for(Duration::from_micros(50))
                    .is_some_and(|mut count| {
                        *count += 1;
                        thread::sleep(Duration::from_micros(60));
                        true
                    }),
                2 => mutex.is_locked(),
                3 => rwlock
                    .try_write_for(Duration::from_micros(20))
                    .is_some_and(|mut count| {
                        *count += 1;
                        thread::sleep(Duration::from_micros(30));
                        true
                    }),
                4 => rwlock
                    .try_read_for(Duration::from_micros(20))
                    .is_some_and(|count| *count > 10),
                _ => rwlock.try_read().is_some() && !rwlock.is_locked_exclusive(),
            });
        }
        seen.push(*mutex.lock() > 20);
        line(&format!("thread {who}"), &seen)
    })
}

fn fair() -> Outcome {
    let order = Arc::new(FairMutex::new(Vec::new()));
    let seen = Arc::clone(&order);
    threads(3, move |who| {
        for n in 0..60 {
            let mut guard = seen.lock();
            guard.push(who);
            if n % 7 == 0 {
                FairMutexGuard::bump(&mut guard);
                guard.push(who);
            }
        }
        String::new()
    });
    vec![line("order", &order.lock())]
}

fn reentrant() -> Outcome {
    let order = ReentrantMutex::new(std::cell::RefCell::new(Vec::new()));
    let order = Arc::new(order);
    let seen = Arc::clone(&order);
    threads(3, move |who| {
        for n in 0..60 {
            let outer = seen.lock();
            outer.borrow_mut().push(who);
            let inner = seen.try_lock().unwrap();
            pause(who, n);
            inner.borrow_mut().push(who);
        }
        String::new()
    });
    vec![line("order", &order.lock().borrow())]
}

/// Readers and writers.
fn rwlock() -> Outcome {
    let count = Recursive::new(0);
    threads(4, move |who| {
        let mut seen = Vec::new();
        for n in 0..80 {
            if (n + who).is_multiple_of(3) {
                let mut guard = count.write();
                *guard += 1;
                // Others may read from here on.
                let guard = RwLockWriteGuard::downgrade(guard);
                seen.push(*guard);
            } else {
                let guard = count.read();
                pause(who, n);
                seen.push(*guard + *read_again(&count));
            }
        }
        line(&format!("thread {who}"), &seen)
    })
}

/// Readers that may become writers.
fn upgrades() -> Outcome {
    let count = RwLock::new(0_u64);
    threads(4, move |who| {
        let mut seen = Vec::new();
        for n in 0..60 {
            match (n + who) % 4 {
                0 => {
                    let guard = count.upgradable_read();
                    pause(who, n);
                    let mut guard = RwLockUpgradableReadGuard::upgrade(guard);
                    *guard += 1;
                    let guard = RwLockWriteGuard::downgrade_to_upgradable(guard);
                    seen.push(*guard);
                    seen.push(*RwLockUpgradableReadGuard::downgrade(guard));
                }
                1 => match count.try_upgradable_read() {
                    None => seen.push(0),
                    Some(guard) => match RwLockUpgradableReadGuard::try_upgrade(guard) {
                        Ok(mut guard) => *guard += 1,
                        Err(guard) => seen.push(*guard),
                    },
                },
                _ => {
                    let guard = count.read();
                    thread::yield_now();
                    seen.push(*guard);
                }
            }
        }
        line(&format!("thread {who}"), &seen)
    })
}

/// A queue; whom its notifications found waiting is part of the outcome.
fn condvar() -> Outcome {
    let queue = Mutex::new(Vec::new());
    let filled = Condvar::new();
    threads(4, move |who| {
        let mut seen = Vec::new();
        for n in 0..60 {
            if who < 2 {
                queue.lock().push((who, n));
                pause(who, n);
                seen.push((0, usize::from(filled.notify_one())));
            } else {
                let mut queue = queue.lock();
                filled.wait_while(&mut queue, |queue| queue.is_empty());
                seen.extend(queue.pop());
            }
        }
        seen.push((1, filled.notify_all()));
        line(&format!("thread {who}"), &seen)
    })
}

/// Waits that race with their deadlines.
fn wait_for() -> Outcome {
    let turn = Mutex::new(0);
    let changed = Condvar::new();
    threads(2, move |who| {
        let mut seen = Vec::new();
        for n in 0..60 {
            if who == 0 {
                *turn.lock() += 1;
                changed.notify_all();
                thread::sleep(Duration::from_micros(10 * (n as u64 % 10)));
            } else {
                let mut turn = turn.lock();
                let limit = Duration::from_micros(50);
                let result = changed.wait_for(&mut turn, limit);
                seen.push((*turn, result.timed_out()));
                let now = *turn;
                let result = changed.wait_while_for(&mut turn, |turn| *turn == now, limit);
                seen.push((*turn, result.timed_out()));
            }
        }
        line(&format!("thread {who}"), &seen)
    })
}

/// The initializing thread, and the states that others see meanwhile.
fn once() -> Outcome {
    let onces: Vec<_> = (0..40).map(|_| Once::new()).collect();
    let calls = Mutex::new(Vec::new());
    threads(3, move |who| {
        let mut seen = Vec::new();
        for (n, once) in onces.iter().enumerate() {
            seen.push(match once.state() {
                OnceState::New => 0,
                OnceState::InProgress => 1,
                OnceState::Done => 2,
                OnceState::Poisoned => 3,
            });
            let mut mine = 0;
            once.call_once(|| {
                mine = 4;
                pause(who, n);
                calls.lock().push(who);
            });
            assert!(once.state().done());
            seen.push(mine);
        }
        line(&format!("thread {who}"), &seen)
    })
}
