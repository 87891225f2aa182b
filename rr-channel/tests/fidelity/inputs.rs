//! Programs whose nondeterminism comes from outside: chance, time, any value that a program asks
//! for.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant, SystemTime};

use rand::Rng as _;

use rr_channel::crossbeam_channel::{Receiver, after, at, bounded, select, unbounded};
use rr_channel::thread;

use crate::locks::threads;
use crate::programs::{Outcome, line};

pub(crate) fn run(program: &str) -> Outcome {
    match program {
        "value" => value(),
        "hash_maps" => hash_maps(),
        "thread_rng" => thread_rng(),
        "getrandom" => getrandom(),
        "clocks" => clocks(),
        "deadlines" => deadlines(),
        "unrecorded_deadlines" => unrecorded_deadlines(),
        "many_values" => many_values(),
        "diverging_value" => diverging_value(),
        other => panic!("no program called {other}"),
    }
}

/// Times, sizes and texts that differ from run to run; one that cannot be serialized as
/// it is made, and one whose source panics.
fn value() -> Outcome {
    threads(3, |who| {
        let now = rr_channel::value(SystemTime::now);
        let (id, text) = rr_channel::value(|| (std::process::id(), format!("{who} {now:?}")));
        let long: Vec<u8> = rr_channel::value(|| rand::random::<[u8; 32]>().to_vec());
        rr_channel::value(|| ());
        let panicked =
            std::panic::catch_unwind(|| rr_channel::value(|| -> u8 { panic!("expected") }));
        line(
            &format!("thread {who}"),
            &(now, id, text, long, panicked.is_err()),
        )
    })
}

/// More than the first page of a log has room for.
fn many_values() -> Outcome {
    let values: Vec<_> = (0..300)
        .map(|_| rr_channel::value(rand::random::<[u8; 32]>))
        .collect();
    vec![line("main", &values)]
}

/// The order in maps and sets, of several threads.
fn hash_maps() -> Outcome {
    threads(3, |who| {
        let map: HashMap<_, _> = (0..20).map(|n| (n, n * who)).collect();
        let set: HashSet<_> = (0..20).map(|n| n.to_string()).collect();
        let map: Vec<_> = map.into_iter().collect();
        let set: Vec<_> = set.into_iter().collect();
        line(
            &format!("thread {who}"),
            &(map, set, RandomState::new().hash_one(who)),
        )
    })
}

/// A generator that is seeded by the kernel, asked through `syscall`.
fn thread_rng() -> Outcome {
    threads(3, |who| {
        let mut rng = rand::thread_rng();
        let numbers: Vec<u64> = (0..10).map(|_| rng.r#gen()).collect();
        line(&format!("thread {who}"), &numbers)
    })
}

/// Amounts of bytes of all sizes, through the function of the C library.
fn getrandom() -> Outcome {
    threads(3, |who| {
        let mut all = Vec::new();
        for len in [0, 1, 7, 8, 9, 100, 1000] {
            let mut bytes = vec![0; len];
            getrandom::fill(&mut bytes).unwrap();
            all.extend(bytes);
        }
        line(&format!("thread {who}"), &all)
    })
}

/// Reads of the clocks of `std`, between messages and without any.
fn clocks() -> Outcome {
    let (s, r) = unbounded();
    let mut seen = threads(3, move |who| {
        let mut seen = Vec::new();
        let start = Instant::now();
        for n in 0..40 {
            let now = SystemTime::now();
            seen.push((format!("{:?} {now:?}", start.elapsed()), r.try_recv().ok()));
            if n % 5 == who {
                s.send((who, Instant::now())).unwrap();
                thread::yield_now();
            }
        }
        line(&format!("thread {who}"), &seen)
    });
    seen.push(line("main", &SystemTime::now()));
    seen
}

/// Loops until a time, and waits until instants that the program computes.
fn deadlines() -> Outcome {
    let (s, r) = bounded(4);
    let sender = thread::spawn(move || {
        let start = Instant::now();
        let mut sent = 0;
        while start.elapsed() < Duration::from_millis(5) {
            sent += u32::from(s.try_send(sent).is_ok());
            if sent % 3 == 0 {
                thread::sleep(Duration::from_micros(100));
            }
        }
        line("sender", &(sent, start.elapsed()))
    });
    let start = Instant::now();
    let mut seen = Vec::new();
    let end: Receiver<Instant> = after(Duration::from_secs(10));
    loop {
        let until = Instant::now() + Duration::from_micros(150);
        let received = r.recv_deadline(until);
        seen.push((received, start.elapsed()));
        if received.is_err_and(|error| error.is_disconnected()) {
            break;
        }
        select! {
            recv(at(until)) -> _ => seen.push((Ok(1000), start.elapsed())),
            recv(end) -> _ => break,
            recv(r) -> message => seen.push((message.map_err(Into::into), start.elapsed())),
        }
    }
    vec![sender.join().unwrap(), line("main", &seen)]
}

/// Waits with deadlines for conditions of the original `std`, none of which comes about: only the
/// clock is recorded.
fn unrecorded_deadlines() -> Outcome {
    threads(2, |who| {
        let (lock, changed) = (Mutex::new(false), Condvar::new());
        let start = Instant::now();
        let mut guard = lock.lock().unwrap();
        let mut waits = Vec::new();
        for millis in 1..6 {
            let until = Instant::now() + Duration::from_millis(millis);
            while let Some(left) = until.checked_duration_since(Instant::now()) {
                guard = changed.wait_timeout(guard, left).unwrap().0;
            }
            waits.push(start.elapsed());
            std::thread::park_timeout(Duration::from_millis(1));
            // Not shorter than it is.
            assert!(start.elapsed() >= Duration::from_millis(millis));
        }
        line(&format!("thread {who}"), &waits)
    })
}

/// A value of another type than was recorded.
fn diverging_value() -> Outcome {
    if std::env::var_os("DIVERGE").is_some() {
        return vec![line("long", &rr_channel::value(|| [7_u64; 2]))];
    }
    vec![line("short", &rr_channel::value(|| 7_u8))]
}
