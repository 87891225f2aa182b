//! The additional cost of recording for a message and for a lock, in nanoseconds.
//!
//! Rounds of the raw operation and of this crate's alternate, so that other load on the machine
//! affects both. The table has medians over the rounds with their 95 % intervals, and the
//! difference between two raw rounds, which is the noise.
//!
//! ```text
//! cargo bench -p rr-channel --bench paired
//! export RR_CHANNEL_LOG=$(mktemp -d)/log
//! RR_CHANNEL=record cargo bench -p rr-channel --bench paired
//! RR_CHANNEL=replay cargo bench -p rr-channel --bench paired
//! ```
//!
//! Memory that a round has freed serves the next one. Memory that is given back to the system and
//! asked for again costs a page fault of about a microsecond for each 4096 bytes. With tags of 8
//! bytes beside messages of 8 there are half as many faults again. `--trim` leaves that as it is
//! by default.
//!
//! The threads of a pair keep to a processor each. Where both are on one, a round takes three
//! times as long, and the scheduler would choose between the two cases.
//!
//! The position of a program's code makes a loop that threads contend for faster or slower by a
//! third, the raw one too. `cargo xtask cost` therefore builds this several times, each time with
//! other padding before the code, and takes the median of all.

use std::hint::black_box;
use std::time::Instant;

use rustix::thread::{CpuSet, sched_setaffinity};

const ROUNDS: usize = 41;
const MESSAGES: usize = 100_000;
const LOCKS: usize = 200_000;

/// Moves the code of the program by some bytes.
mod padding {
    #![expect(
        unsafe_code,
        reason = "assembly that only fills a section that nobody enters"
    )]

    const BYTES: usize = match option_env!("RR_CHANNEL_BENCH_PADDING") {
        Some(bytes) => match usize::from_str_radix(bytes, 10) {
            Ok(bytes) => bytes,
            Err(_) => panic!("RR_CHANNEL_BENCH_PADDING is no number"),
        },
        None => 0,
    };

    // Linkers put sections of this name before the others, and R has them kept.
    std::arch::global_asm!(
        ".pushsection .text.unlikely.padding,\"axR\",@progbits",
        ".skip {bytes}",
        ".popsection",
        bytes = const BYTES,
    );
}

/// Nanoseconds for each of `count` operations that `f` performs.
fn time(count: usize, f: &mut dyn FnMut()) -> f64 {
    let start = Instant::now();
    f();
    start.elapsed().as_secs_f64() * 1e9 / count as f64
}

/// The median, and between which values it lies with 95 % certainty (by order statistics).
fn median(mut values: Vec<f64>) -> (f64, [f64; 2]) {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    let off = 0.98 * (n as f64).sqrt();
    let low = (n as f64 / 2.0 - off).floor().max(1.0) as usize - 1;
    (values[n / 2], [values[low], values[n - 1 - low]])
}

/// Whether each round is to be shown, for a program that reads them.
fn samples() -> bool {
    std::env::args().any(|argument| argument == "--samples")
}

fn compare(name: &str, count: usize, raw: &mut dyn FnMut(), ours: &mut dyn FnMut()) {
    if std::env::args()
        .nth(1)
        .is_some_and(|filter| !filter.starts_with('-') && !name.contains(&filter))
    {
        return;
    }
    let mut rounds = Vec::new();
    for round in 0..=ROUNDS {
        let times = [time(count, raw), time(count, ours), time(count, raw)];
        // The first one warms up.
        if round > 0 {
            rounds.push(times);
        }
    }
    let of = |f: fn(&[f64; 3]) -> f64| median(rounds.iter().map(f).collect());
    let (added, [least, most]) = of(|times| times[1] - (times[0] + times[2]) / 2.0);
    let (ratio, [low, high]) = of(|times| times[1] / ((times[0] + times[2]) / 2.0));
    if samples() {
        for [first, ours, second] in rounds {
            println!("{name}\t{first}\t{ours}\t{second}");
        }
        return;
    }
    println!(
        "{name:24} raw {:6.1} ns  ours {:6.1} ns  added {added:+6.1} ns ({least:+.1} to {most:+.1})  \
         ratio {ratio:.2} ({low:.2} to {high:.2})  raw to raw {:.2}",
        of(|times| (times[0] + times[2]) / 2.0).0,
        of(|times| times[1]).0,
        of(|times| times[2] / times[0]).0,
    );
}

macro_rules! pass {
    ($new:expr, $message:ident, $senders:expr) => {
        || {
            let (s, r) = $new;
            if $senders == 1 {
                keep_to(&[0]);
            }
            std::thread::scope(|scope| {
                for _ in 0..$senders {
                    let s = s.clone();
                    scope.spawn(move || {
                        if $senders == 1 {
                            keep_to(&[1]);
                        }
                        for n in 0..MESSAGES / $senders {
                            s.send($message(black_box(n)))
                                .unwrap_or_else(|_| unreachable!());
                        }
                    });
                }
                drop(s);
                assert_eq!(r.iter().map(black_box).count(), MESSAGES);
            });
            keep_to(&Vec::from_iter(0..CpuSet::MAX_CPU));
        }
    };
}

macro_rules! ping {
    ($new:expr, $message:ident) => {{
        let (s, r) = $new;
        move || {
            for n in 0..MESSAGES {
                s.send($message(black_box(n)))
                    .unwrap_or_else(|_| unreachable!());
                black_box(r.recv().unwrap());
            }
        }
    }};
}

macro_rules! locked {
    ($lock:expr, $method:ident) => {{
        let lock = $lock;
        move || {
            for _ in 0..LOCKS {
                let _guard = black_box(black_box(&lock).$method().unwrap());
            }
        }
    }};
}

/// Has the calling thread run on these processors only, if there are any of them.
fn keep_to(processors: &[usize]) {
    let mut set = CpuSet::new();
    processors.iter().for_each(|&processor| set.set(processor));
    // Otherwise it runs where it likes.
    let _ = sched_setaffinity(None, &set);
}

/// Has the allocator keep freed memory, as glibc's does once something large was freed.
fn keep_memory() {
    drop(black_box(Vec::<u8>::with_capacity(16 << 20)));
}

fn main() {
    use crossbeam_channel as raw;
    use rr_channel::crossbeam_channel as ours;
    use rr_channel::sync;
    use std::sync as std_sync;

    if !std::env::args().any(|argument| argument == "--trim") {
        keep_memory();
    }
    if !samples() {
        println!("mode: {:?}", rr_channel::mode());
    }
    // Messages of a type for each side of each benchmark. The compiler's code for upstream's
    // channels depends on the number of callers of their functions, and a program that uses the
    // raw channels does not have ours as callers.
    macro_rules! messages {
        ($name:literal, $pass:ident, $function:ident($($capacity:literal)?) $(, $senders:literal)?) => {{
            struct Raw(#[expect(dead_code, reason = "travels")] usize);
            struct Ours(#[expect(dead_code, reason = "travels")] usize);
            compare(
                $name,
                MESSAGES,
                &mut $pass!(raw::$function($($capacity)?), Raw $(, $senders)?),
                &mut $pass!(ours::$function($($capacity)?), Ours $(, $senders)?),
            );
        }};
    }
    messages!("unbounded, 1 to 1", pass, unbounded(), 1);
    messages!("unbounded, 4 to 1", pass, unbounded(), 4);
    messages!("bounded(64), 1 to 1", pass, bounded(64), 1);
    messages!("unbounded, one thread", ping, unbounded());
    messages!("bounded(64), one thread", ping, bounded(64));
    macro_rules! locks {
        ($name:literal, $lock:ident, $method:ident) => {
            compare(
                $name,
                LOCKS,
                &mut locked!(std_sync::$lock::new(1), $method),
                &mut locked!(sync::$lock::new(1), $method),
            );
        };
    }
    locks!("Mutex, lock", Mutex, lock);
    locks!("RwLock, read", RwLock, read);
    locks!("RwLock, write", RwLock, write);
}
