//! Programs whose nondeterminism comes from outside: chance, time, any value that a program asks
//! for.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::time::SystemTime;

use rand::Rng as _;

use crate::locks::threads;
use crate::programs::{Outcome, line};

pub(crate) fn run(program: &str) -> Outcome {
    match program {
        "value" => value(),
        "hash_maps" => hash_maps(),
        "thread_rng" => thread_rng(),
        "getrandom" => getrandom(),
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

/// A value of another type than was recorded.
fn diverging_value() -> Outcome {
    if std::env::var_os("DIVERGE").is_some() {
        return vec![line("long", &rr_channel::value(|| [7_u64; 2]))];
    }
    vec![line("short", &rr_channel::value(|| 7_u8))]
}
