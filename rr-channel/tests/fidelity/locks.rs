//! Programs whose nondeterminism lies in locks, wake-ups and initializations.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rr_channel::crossbeam_channel::unbounded;
use rr_channel::sync::{
    Arc, Barrier, Condvar, LazyLock, Mutex, Once, OnceLock, RwLock, TryLockError,
};
use rr_channel::thread;

use crate::programs::{Outcome, joined, line};

pub(crate) fn run(program: &str) -> Outcome {
    match program {
        "mutex" => mutex(),
        "static_mutex" => static_mutex(),
        "many_mutexes" => many_mutexes(),
        "try_lock" => try_lock(),
        "rwlock" => rwlock(),
        "try_rwlock" => try_rwlock(),
        "notify_one" => notify_one(),
        "notify_all" => notify_all(),
        "unguarded_notify" => unguarded_notify(),
        "wait_timeout" => wait_timeout(),
        "wait_timeout_while" => wait_timeout_while(),
        "semaphore" => semaphore(),
        "barrier" => barrier(),
        "crowded_barrier" => crowded_barrier(),
        "once" => once(),
        "once_panics" => once_panics(),
        "once_lock" => once_lock(),
        "lazy_lock" => lazy_lock(),
        "poison" => poison(),
        "park" => park(),
        "park_timeout" => park_timeout(),
        "is_finished" => is_finished(),
        "foreign_lockers" => foreign_lockers(),
        "locking_destructors" => locking_destructors(),
        "forked" => forked(),
        "killed_with_locks" => killed_with_locks(),
        other => panic!("no program called {other}"),
    }
}

/// Now and then, lets others run: by the numbers, not by the clock.
pub(crate) fn pause(who: usize, n: usize) {
    if (n + who).is_multiple_of(5) {
        thread::yield_now();
    }
}

pub(crate) fn threads(
    count: usize,
    f: impl Fn(usize) -> String + Send + Sync + 'static,
) -> Outcome {
    let f = Arc::new(f);
    let handles = (0..count)
        .map(|who| {
            let f = Arc::clone(&f);
            thread::spawn(move || f(who))
        })
        .collect();
    joined(handles)
}

/// The order in which threads enter a critical section.
fn mutex() -> Outcome {
    let order = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&order);
    threads(4, move |who| {
        for n in 0..100 {
            seen.lock().unwrap().push(who);
            pause(who, n);
        }
        String::new()
    });
    vec![line("order", &order.lock().unwrap())]
}

fn static_mutex() -> Outcome {
    static ORDER: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    threads(3, |who| {
        for n in 0..100 {
            let mut order = ORDER.lock().unwrap();
            order.push(who);
            pause(who, n);
        }
        String::new()
    });
    vec![line("order", &ORDER.lock().unwrap())]
}

/// More locks than threads, nested in one order; some are moved while they are not used.
fn many_mutexes() -> Outcome {
    let locks: Vec<_> = (0..6).map(|_| Mutex::new(Vec::new())).collect();
    let locks = Arc::new(locks.into_iter().rev().collect::<Vec<_>>());
    let shared = Arc::clone(&locks);
    threads(3, move |who| {
        for n in 0..80 {
            let mut first = shared[n % 3].lock().unwrap();
            let mut second = shared[3 + (n + who) % 3].lock().unwrap();
            first.push((who, second.len()));
            pause(who, n);
            second.push((who, first.len()));
        }
        String::new()
    });
    let locks = Arc::into_inner(locks).unwrap();
    locks
        .into_iter()
        .map(|lock| line("lock", &lock.into_inner().unwrap()))
        .collect()
}

fn try_lock() -> Outcome {
    let lock = Mutex::new(0);
    threads(3, move |who| {
        let mut seen = Vec::new();
        for n in 0..100 {
            match lock.try_lock() {
                Ok(mut count) => {
                    *count += 1;
                    seen.push(*count);
                    pause(who, n);
                }
                Err(TryLockError::WouldBlock) => {
                    seen.push(0);
                    thread::yield_now();
                }
                Err(TryLockError::Poisoned(_)) => unreachable!("nobody panics"),
            }
        }
        line(&format!("thread {who}"), &seen)
    })
}

fn rwlock() -> Outcome {
    let lock = RwLock::new(0_usize);
    threads(5, move |who| {
        let mut seen = Vec::new();
        for n in 0..60 {
            if who < 2 {
                *lock.write().unwrap() += who + 1;
                pause(who, n);
            } else {
                let first = lock.read().unwrap();
                pause(who, n);
                seen.push(*first);
            }
        }
        line(&format!("thread {who}"), &seen)
    })
}

fn try_rwlock() -> Outcome {
    let lock = RwLock::new(0_usize);
    threads(4, move |who| {
        let mut seen = Vec::new();
        for n in 0..60 {
            if (who + n).is_multiple_of(3) {
                let guard = lock.try_write().map(|mut value| {
                    *value += 1;
                    thread::yield_now();
                    *value
                });
                seen.push(guard.ok());
            } else {
                let guard = lock.try_read();
                pause(who, n);
                seen.push(guard.ok().map(|value| *value));
            }
        }
        line(&format!("thread {who}"), &seen)
    })
}

/// Jobs for whichever of several waiters is woken.
fn notify_one() -> Outcome {
    let queue = Arc::new((Mutex::new(VecDeque::new()), Condvar::new()));
    let worker = Arc::clone(&queue);
    let workers: Vec<_> = (0..3)
        .map(|who| {
            let queue = Arc::clone(&worker);
            thread::spawn(move || {
                let mut seen = Vec::new();
                loop {
                    let mut jobs = queue.0.lock().unwrap();
                    while jobs.is_empty() {
                        jobs = queue.1.wait(jobs).unwrap();
                    }
                    match jobs.pop_front() {
                        Some(Some(job)) => seen.push(job),
                        _ => break line(&format!("worker {who}"), &seen),
                    }
                }
            })
        })
        .collect();
    for n in 0..90 {
        queue.0.lock().unwrap().push_back(Some(n));
        queue.1.notify_one();
        pause(0, n);
    }
    for _ in 0..3 {
        queue.0.lock().unwrap().push_back(None);
        queue.1.notify_one();
    }
    joined(workers)
}

/// All are woken; the order in which they get on is up to the mutex.
fn notify_all() -> Outcome {
    let state = Arc::new((Mutex::new((0, Vec::new())), Condvar::new()));
    let shared = Arc::clone(&state);
    let waiters: Vec<_> = (0..4)
        .map(|who| {
            let state = Arc::clone(&shared);
            thread::spawn(move || {
                for round in 1..=15 {
                    let mut guard = state
                        .1
                        .wait_while(state.0.lock().unwrap(), |state| state.0 < round)
                        .unwrap();
                    let count = guard.0;
                    guard.1.push((who, count));
                    drop(guard);
                    state.1.notify_all();
                }
                String::new()
            })
        })
        .collect();
    for n in 0..15 {
        state.0.lock().unwrap().0 += 1;
        state.1.notify_all();
        pause(0, n);
    }
    joined(waiters);
    vec![line("order", &state.0.lock().unwrap().1)]
}

/// The awaited value is not guarded by the mutex: only the notification says that it is there.
fn unguarded_notify() -> Outcome {
    let state = Arc::new((Mutex::new(Vec::new()), Condvar::new(), AtomicUsize::new(0)));
    let (s, r) = unbounded();
    let waiters: Vec<_> = (0..2)
        .map(|who| {
            let (state, s) = (Arc::clone(&state), s.clone());
            thread::spawn(move || {
                for round in 1..=30 {
                    let mut guard = state.0.lock().unwrap();
                    s.send(()).unwrap();
                    while state.2.load(Ordering::SeqCst) < round {
                        guard = state.1.wait(guard).unwrap();
                    }
                    guard.push(who);
                }
                String::new()
            })
        })
        .collect();
    for _ in 0..30 {
        r.recv().unwrap();
        r.recv().unwrap();
        // Both have had the mutex, and give it up by waiting.
        drop(state.0.lock().unwrap());
        state.2.fetch_add(1, Ordering::SeqCst);
        state.1.notify_all();
    }
    joined(waiters);
    vec![line("order", &state.0.lock().unwrap())]
}

fn wait_timeout() -> Outcome {
    let state = Arc::new((Mutex::new((0, false)), Condvar::new()));
    let waiter = {
        let state = Arc::clone(&state);
        thread::spawn(move || {
            let mut seen = Vec::new();
            let mut guard = state.0.lock().unwrap();
            while !guard.1 {
                let timeout;
                (guard, timeout) = state
                    .1
                    .wait_timeout(guard, Duration::from_micros(150))
                    .unwrap();
                seen.push((timeout.timed_out(), guard.0));
            }
            line("waiter", &seen)
        })
    };
    for n in 0..30 {
        state.0.lock().unwrap().0 += 1;
        state.1.notify_one();
        thread::sleep(Duration::from_micros(50 + 10 * n));
    }
    state.0.lock().unwrap().1 = true;
    joined(vec![waiter])
}

fn wait_timeout_while() -> Outcome {
    let state = Arc::new((Mutex::new(0), Condvar::new()));
    let waiter = {
        let state = Arc::clone(&state);
        thread::spawn(move || {
            let mut seen = Vec::new();
            for n in 1..=30 {
                let guard = state.0.lock().unwrap();
                let (guard, timeout) = state
                    .1
                    .wait_timeout_while(guard, Duration::from_micros(100), |count| *count < n)
                    .unwrap();
                seen.push((timeout.timed_out(), *guard));
            }
            line("waiter", &seen)
        })
    };
    for n in 0..30 {
        *state.0.lock().unwrap() += 1;
        state.1.notify_all();
        thread::sleep(Duration::from_micros(n));
    }
    joined(vec![waiter])
}

struct Semaphore(Mutex<usize>, Condvar);

impl Semaphore {
    fn acquire(&self) -> usize {
        let mut free = self.1.wait_while(self.0.lock().unwrap(), |free| *free == 0);
        let free = free.as_mut().unwrap();
        **free -= 1;
        **free
    }

    fn release(&self) {
        *self.0.lock().unwrap() += 1;
        self.1.notify_one();
    }
}

fn semaphore() -> Outcome {
    let semaphore = Semaphore(Mutex::new(2), Condvar::new());
    let inside = AtomicUsize::new(0);
    threads(4, move |who| {
        let mut seen = Vec::new();
        for n in 0..50 {
            seen.push(semaphore.acquire());
            assert!(inside.fetch_add(1, Ordering::SeqCst) < 2);
            pause(who, n);
            inside.fetch_sub(1, Ordering::SeqCst);
            semaphore.release();
        }
        line(&format!("thread {who}"), &seen)
    })
}

/// The leader of each round.
fn barrier() -> Outcome {
    let barrier = Barrier::new(3);
    threads(3, move |who| {
        let mut seen = Vec::new();
        for n in 0..40 {
            pause(who, n);
            seen.push(barrier.wait().is_leader());
        }
        line(&format!("thread {who}"), &seen)
    })
}

/// More threads than the barrier is for, so that it matters which threads meet.
fn crowded_barrier() -> Outcome {
    let barrier = Barrier::new(2);
    // An even number, so that no thread is left alone.
    let left = Mutex::new(80);
    threads(4, move |who| {
        let mut seen = Vec::new();
        loop {
            let mut left = left.lock().unwrap();
            if *left == 0 {
                break line(&format!("thread {who}"), &seen);
            }
            *left -= 1;
            let n = *left;
            drop(left);
            pause(who, n);
            seen.push((n, barrier.wait().is_leader()));
        }
    })
}

fn once() -> Outcome {
    let starts: Vec<_> = (0..40).map(|_| Once::new()).collect();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let order = Arc::clone(&seen);
    let mut outcome = threads(3, move |who| {
        let mut ran = Vec::new();
        for (n, start) in starts.iter().enumerate() {
            let before = start.is_completed();
            start.call_once(|| {
                order.lock().unwrap().push(who);
                thread::yield_now();
                ran.push(n);
            });
            ran.extend(before.then_some(100));
        }
        line(&format!("thread {who}"), &ran)
    });
    outcome.push(line("order", &seen.lock().unwrap()));
    outcome
}

/// Some panic, and others force their way or are told.
fn once_panics() -> Outcome {
    std::panic::set_hook(Box::new(|_| {}));
    let starts: Vec<_> = (0..40).map(|_| Once::new()).collect();
    threads(3, move |who| {
        let mut seen = Vec::new();
        for (n, start) in starts.iter().enumerate() {
            pause(who, n);
            let mut ran = None;
            let result = catch_unwind(AssertUnwindSafe(|| {
                if who == 0 {
                    start.call_once_force(|state| ran = Some(state.is_poisoned()));
                } else {
                    start.call_once(|| panic!("as planned"));
                }
            }));
            seen.push((result.is_ok(), ran));
        }
        line(&format!("thread {who}"), &seen)
    })
}

fn once_lock() -> Outcome {
    let cells: Vec<_> = (0..40).map(|_| OnceLock::new()).collect();
    threads(4, move |who| {
        let mut seen = Vec::new();
        for (n, cell) in cells.iter().enumerate() {
            pause(who, n);
            let before = cell.get().copied();
            let set = who == 3 && cell.set(who).is_ok();
            seen.push((before, set, *cell.get_or_init(|| who)));
        }
        line(&format!("thread {who}"), &seen)
    })
}

fn lazy_lock() -> Outcome {
    static TURN: AtomicUsize = AtomicUsize::new(0);
    let start = Arc::new(Barrier::new(3));
    let mut outcome = Vec::new();
    for _ in 0..15 {
        let start = Arc::clone(&start);
        let who_made = LazyLock::new(|| TURN.fetch_add(1, Ordering::SeqCst));
        let made = Mutex::new(Vec::new());
        outcome.extend(threads(3, move |who| {
            start.wait();
            let before = LazyLock::get(&who_made).is_some();
            let value = *who_made;
            made.lock().unwrap().push(who);
            line(
                &format!("thread {who}"),
                &(before, value, made.lock().unwrap().len()),
            )
        }));
    }
    outcome
}

/// Threads that panic with the lock in their hands; the others see it poisoned, or not.
fn poison() -> Outcome {
    std::panic::set_hook(Box::new(|_| {}));
    let lock = (Mutex::new(0), RwLock::new(0));
    threads(4, move |who| {
        let mut seen = Vec::new();
        for n in 0..40 {
            if who == 0 && n % 4 == 3 {
                let panicked = catch_unwind(AssertUnwindSafe(|| {
                    let _both = (lock.0.lock(), lock.1.write());
                    panic!("as planned");
                }));
                assert!(panicked.is_err());
            }
            pause(who, n);
            let poisoned = lock.0.is_poisoned();
            let healed = lock.0.lock().map(|mut count| *count += 1).is_ok();
            let read = lock.1.read().is_ok();
            if who == 1 {
                let guard = lock.0.lock();
                lock.0.clear_poison();
                drop(guard);
            }
            seen.push((poisoned, healed, read));
        }
        line(&format!("thread {who}"), &seen)
    })
}

/// How often a thread wakes until it has seen all that others have announced.
fn park() -> Outcome {
    let announced = Arc::new(Mutex::new(0));
    let reader = {
        let announced = Arc::clone(&announced);
        thread::spawn(move || {
            let mut seen = Vec::new();
            while seen.last() != Some(&60) {
                thread::park();
                seen.push(*announced.lock().unwrap());
            }
            line("reader", &seen)
        })
    };
    let thread = reader.thread().clone();
    threads(3, move |who| {
        for n in 0..20 {
            *announced.lock().unwrap() += 1;
            thread.unpark();
            pause(who, n);
        }
        String::new()
    });
    joined(vec![reader])
}

fn park_timeout() -> Outcome {
    let done = Arc::new(AtomicBool::new(false));
    let count = Arc::new(Mutex::new(0));
    let main = thread::current();
    let counter = {
        let (done, count) = (Arc::clone(&done), Arc::clone(&count));
        thread::spawn(move || {
            for n in 0..40 {
                *count.lock().unwrap() += 1;
                main.unpark();
                thread::sleep(Duration::from_micros(10 * n));
            }
            done.store(true, Ordering::SeqCst);
            main.unpark();
            String::new()
        })
    };
    let mut seen = Vec::new();
    while seen.last() != Some(&40) {
        thread::park_timeout(Duration::from_micros(200));
        seen.push(*count.lock().unwrap());
    }
    joined(vec![counter]);
    assert!(done.load(Ordering::SeqCst));
    vec![line("main", &seen)]
}

/// The order in which threads finish, also of a scope. Values that a finished thread held are
/// free.
fn is_finished() -> Outcome {
    let held = Arc::new(());
    let handles: Vec<_> = (0..4)
        .map(|who| {
            let held = Arc::clone(&held);
            thread::spawn(move || {
                for n in 0..10 * who {
                    pause(who, n);
                }
                drop(held);
            })
        })
        .collect();
    let mut seen = Vec::new();
    while handles.iter().any(|handle| !handle.is_finished()) {
        seen.push(handles.iter().filter(|handle| handle.is_finished()).count());
        thread::yield_now();
    }
    assert_eq!(Arc::strong_count(&held), 1);
    thread::scope(|scope| {
        let child = scope.spawn(|| pause(0, 0));
        let looks = std::iter::from_fn(|| (!child.is_finished()).then(thread::yield_now)).count();
        seen.push(looks);
    });
    vec![line("main", &seen)]
}

/// Threads that are not wrapped.
fn foreign_lockers() -> Outcome {
    let order = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for who in 0..3 {
            let order = &order;
            scope.spawn(move || {
                for n in 0..100 {
                    order.lock().unwrap().push(who);
                    pause(who, n);
                }
            });
        }
    });
    vec![line("order", &order.into_inner().unwrap())]
}

/// Thread-locals that lock when they are destroyed.
fn locking_destructors() -> Outcome {
    static ORDER: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    struct Last(usize);
    impl Drop for Last {
        fn drop(&mut self) {
            ORDER.lock().unwrap().push(self.0 + 10);
        }
    }
    thread_local! {
        static LAST: std::cell::OnceCell<Last> = const { std::cell::OnceCell::new() };
    }
    threads(4, |who| {
        LAST.with(|last| last.get_or_init(|| Last(who)).0);
        for n in 0..30 {
            ORDER.lock().unwrap().push(who);
            pause(who, n);
        }
        String::new()
    });
    vec![line("order", &ORDER.lock().unwrap())]
}

/// A child process, made by fork(2) while threads fight over a lock, uses locks of its
/// own as often; nothing of that is in its parent's log.
fn forked() -> Outcome {
    static ORDER: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    let fighters: Vec<_> = (0..2)
        .map(|who| {
            thread::spawn(move || {
                for n in 0..200 {
                    ORDER.lock().unwrap().push(who);
                    pause(who, n);
                }
                String::new()
            })
        })
        .collect();
    let (own, rw) = (Mutex::new(0), RwLock::new(0));
    let work = || {
        for _ in 0..100 {
            *own.lock().unwrap() += 1;
            *rw.write().unwrap() += *own.try_lock().unwrap();
        }
    };
    work();
    let worked = in_child(|| {
        work();
        Once::new().call_once(work);
        Barrier::new(1).wait();
        let guard = own.lock().unwrap();
        let (guard, _) = Condvar::new().wait_timeout(guard, Duration::ZERO).unwrap();
        *guard == 300
    });
    assert!(worked);
    work();
    joined(fighters);
    let order = ORDER.lock().unwrap();
    vec![line("order", &order), line("own", &own)]
}

/// Runs `f` in a child process, and says whether it returned `true`.
#[expect(unsafe_code, reason = "fork(2) has no safe interface")]
fn in_child(f: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child only uses locks of its own, and leaves without destructors. The
    // GNU C library's allocator is usable in the child of a threaded process.
    match unsafe { libc::fork() } {
        0 => {
            let result = catch_unwind(AssertUnwindSafe(f));
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(!result.unwrap_or(false))) }
        }
        child => {
            let mut status = 0;
            // SAFETY: `status` is writable.
            let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
            ended == child && status == 0
        }
    }
}

/// Kills itself while threads fight over a lock, once the main thread has seen enough.
fn killed_with_locks() -> Outcome {
    static ORDER: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    static MORE: Condvar = Condvar::new();
    for who in 0..3 {
        thread::spawn(move || {
            loop {
                ORDER.lock().unwrap().push(who);
                MORE.notify_one();
            }
        });
    }
    let order = ORDER.lock().unwrap();
    let order = MORE.wait_while(order, |order| order.len() < 500).unwrap();
    println!("\noutcome: {:?}", *order);
    let pid = std::process::id().to_string();
    let _ = std::process::Command::new("kill")
        .args(["-9", &pid])
        .status();
    unreachable!("killed");
}
