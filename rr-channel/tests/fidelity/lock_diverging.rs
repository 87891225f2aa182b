//! Programs that do other things with their locks than they did, if `DIVERGE` is set.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rr_channel::crossbeam_channel::unbounded;
use rr_channel::sync::{Arc, Barrier, Condvar, Mutex};
use rr_channel::thread;

use crate::locks::{pause, threads};
use crate::programs::{Outcome, joined, line};

pub(crate) fn run(program: &str) -> Outcome {
    match program {
        "acquisitions" => acquisitions(),
        "overtaken" => overtaken(),
        "unnotified" => unnotified(),
        "barrier" => barrier(),
        other => panic!("no program called {other}"),
    }
}

fn diverge() -> bool {
    std::env::var_os("DIVERGE").is_some()
}

/// With `DIVERGE`, a thread locks less often than in the recording, and another tries first; the
/// other threads' operations at their own lock stay.
fn acquisitions() -> Outcome {
    let own = Arc::new(Mutex::new(Vec::new()));
    let shared = Arc::new(Mutex::new(Vec::new()));
    let mut handles = Vec::new();
    for who in 0..3 {
        let own = Arc::clone(&own);
        handles.push(thread::spawn(move || {
            for n in 0..50 {
                own.lock().unwrap().push(who);
                pause(who, n);
            }
            String::new()
        }));
    }
    for who in 0..3 {
        let shared = Arc::clone(&shared);
        handles.push(thread::spawn(move || {
            for n in 0..50 {
                if diverge() && who == 0 && n == 10 {
                    break;
                }
                if diverge() && who == 1 && n == 0 {
                    while shared.try_lock().is_err() {}
                }
                shared.lock().unwrap().push(who);
                pause(who, n);
            }
            String::new()
        }));
    }
    joined(handles);
    let shared = shared.lock().unwrap().len();
    vec![
        line("faithful", &own.lock().unwrap()),
        line("shared", &shared),
    ]
}

/// With `DIVERGE`, a thread whose turn at a lock has come is overtaken by one that holds the
/// lock, and takes it again and again.
fn overtaken() -> Outcome {
    let order = Arc::new(Mutex::new(Vec::new()));
    let second_is_at: Arc<OnceLock<PathBuf>> = Arc::default();
    let (s, r) = unbounded();
    let first = {
        let (order, second_is_at) = (Arc::clone(&order), Arc::clone(&second_is_at));
        thread::spawn(move || {
            if !diverge() {
                order.lock().unwrap().push(1);
                s.send(()).unwrap();
                return String::new();
            }
            let held = order.try_lock().unwrap();
            s.send(()).unwrap();
            await_sleep(second_is_at.wait());
            drop(held);
            for _ in 0..10 {
                order.lock().unwrap().push(1);
            }
            String::new()
        })
    };
    let second = {
        let order = Arc::clone(&order);
        thread::spawn(move || {
            r.recv().unwrap();
            let here = fs::read_link("/proc/thread-self").unwrap();
            second_is_at.set(Path::new("/proc").join(here)).unwrap();
            order.lock().unwrap().push(2);
            String::new()
        })
    };
    joined(vec![first, second]);
    vec![line("order", &order.lock().unwrap())]
}

/// Waits until the thread that `/proc` has at `thread` sleeps.
fn await_sleep(thread: &Path) {
    loop {
        let stat = fs::read_to_string(thread.join("stat")).unwrap();
        if stat.rsplit_once(") ").unwrap().1.starts_with('S') {
            return;
        }
        thread::yield_now();
    }
}

/// With `DIVERGE`, another thread notifies than in the recording, and no thread is parked any more
/// when it happens.
fn unnotified() -> Outcome {
    let state = Arc::new((Mutex::new(false), Condvar::new()));
    let (s, r) = unbounded();
    let waiter = {
        let state = Arc::clone(&state);
        thread::spawn(move || {
            let guard = state.0.lock().unwrap();
            // The receiver of this message gets the mutex only when this thread waits.
            s.send(()).unwrap();
            drop(state.1.wait_while(guard, |done| !*done).unwrap());
            thread::park();
            "woken".to_owned()
        })
    };
    let announce = |state: &(Mutex<bool>, Condvar), waiter: &thread::Thread| {
        *state.0.lock().unwrap() = true;
        state.1.notify_all();
        waiter.unpark();
    };
    let notifier = {
        let state = Arc::clone(&state);
        let waiter = waiter.thread().clone();
        thread::spawn(move || {
            r.recv().unwrap();
            if !diverge() {
                announce(&state, &waiter);
            }
            String::new()
        })
    };
    joined(vec![notifier]);
    if diverge() {
        announce(&state, waiter.thread());
    }
    joined(vec![waiter])
}

/// With `DIVERGE`, one of the threads that meet leaves its log.
fn barrier() -> Outcome {
    let barrier = Barrier::new(2);
    let lock = Mutex::new(());
    threads(2, move |who| {
        for _ in 0..10 {
            if diverge() && who == 0 {
                drop(lock.lock().unwrap());
            }
            barrier.wait();
        }
        "through".to_owned()
    })
}
