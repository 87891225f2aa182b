//! The cost of a message and of a lock: the raw ones and this crate's, side by side.
//!
//! One run measures one mode, for a process has only one:
//!
//! ```text
//! cargo bench -p rr-channel
//! RR_CHANNEL=record RR_CHANNEL_LOG=$(mktemp -d)/log cargo bench -p rr-channel
//! ```
//!
//! Each iteration sends [`MESSAGES`] messages through a new channel, with threads of
//! its own; divide by that.

#![expect(
    missing_docs,
    reason = "criterion_group! makes an undocumented function"
)]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// Enough that threads and channels cost little of it.
const MESSAGES: usize = 200_000;

macro_rules! pass {
    ($new:expr, $senders:expr) => {{
        let (s, r) = $new;
        std::thread::scope(|scope| {
            for _ in 0..$senders {
                let s = s.clone();
                scope.spawn(move || {
                    for n in 0..MESSAGES / $senders {
                        s.send(black_box(n)).unwrap();
                    }
                });
            }
            drop(s);
            r.iter().map(black_box).count()
        })
    }};
}

fn messages(criterion: &mut Criterion) {
    use crossbeam_channel as raw;
    use rr_channel::crossbeam_channel as ours;

    let mode = format!("{:?}", rr_channel::mode()).to_lowercase();
    macro_rules! group {
        ($name:literal, $senders:literal, $function:ident($($capacity:literal)?)) => {
            let mut group = criterion.benchmark_group($name);
            group.throughput(Throughput::Elements(MESSAGES as u64)).sample_size(20);
            group.bench_function("raw", |b| b.iter(|| pass!(raw::$function($($capacity)?), $senders)));
            group.bench_function(&mode, |b| b.iter(|| pass!(ours::$function($($capacity)?), $senders)));
            group.bench_function("raw again", |b| {
                b.iter(|| pass!(raw::$function($($capacity)?), $senders));
            });
            group.finish();
        };
    }
    group!("unbounded 1-1", 1, unbounded());
    group!("unbounded 4-1", 4, unbounded());
    group!("bounded(64) 1-1", 1, bounded(64));

    // Without a second thread, the cost of the code alone.
    let mut group = criterion.benchmark_group("send and receive in one thread");
    let (s, r) = raw::unbounded();
    group.bench_function("raw", |b| {
        b.iter(|| {
            s.send(black_box(1)).unwrap();
            r.recv().unwrap()
        });
    });
    let (s, r) = ours::unbounded();
    group.bench_function(&mode, |b| {
        b.iter(|| {
            s.send(black_box(1)).unwrap();
            r.recv().unwrap()
        });
    });
    group.finish();
}

/// Locks without contention.
fn locks(criterion: &mut Criterion) {
    let mode = format!("{:?}", rr_channel::mode()).to_lowercase();
    macro_rules! group {
        ($name:literal, $lock:ident, $raw:expr, $ours:expr) => {
            let mut group = criterion.benchmark_group($name);
            let (raw, ours) = ($raw, $ours);
            group.bench_function("raw", |b| b.iter(|| *black_box(&raw).$lock().unwrap() += 1));
            group.bench_function(&mode, |b| {
                b.iter(|| *black_box(&ours).$lock().unwrap() += 1)
            });
            group.bench_function("raw again", |b| {
                b.iter(|| *black_box(&raw).$lock().unwrap() += 1)
            });
            group.finish();
        };
    }
    use rr_channel::sync as ours;
    use std::sync as raw;
    group!("Mutex", lock, raw::Mutex::new(0), ours::Mutex::new(0));
    group!(
        "RwLock, write",
        write,
        raw::RwLock::new(0),
        ours::RwLock::new(0)
    );
}

criterion_group!(benches, messages, locks);
criterion_main!(benches);
