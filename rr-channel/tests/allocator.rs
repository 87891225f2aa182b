#![expect(unsafe_code, reason = "defines a memory allocator")]
//! A program whose memory allocator uses locks that are recorded.
//!
//! **Safety** rests on: memory is the system allocator's, whose arguments and results are passed
//! on as they are.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rr_channel::sync::{LazyLock, Mutex, Once, OnceLock, RwLock, mpsc};
use rr_channel::{parking_lot, thread};

/// Counts what is allocated, and takes every kind of lock for that.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static COUNT: Mutex<usize> = Mutex::new(0);
static BYTES: RwLock<usize> = RwLock::new(0);
static PARKING: parking_lot::Mutex<usize> = parking_lot::Mutex::new(0);
static START: Once = Once::new();
static LIMIT: OnceLock<usize> = OnceLock::new();
static LAZY: LazyLock<usize> = LazyLock::new(|| 1);
/// One for each thread, which no other thread takes.
static SHARDS: [Mutex<usize>; 16] = [const { Mutex::new(0) }; 16];
/// Whether the allocator asks for the calling thread, too.
static ASKS: AtomicBool = AtomicBool::new(false);

thread_local! {
    static SHARD: Cell<usize> = const { Cell::new(usize::MAX) };
}

fn shard() -> &'static Mutex<usize> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    if SHARD.get() == usize::MAX {
        SHARD.set(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    &SHARDS[SHARD.get() % SHARDS.len()]
}

fn note(size: usize) {
    let mut shard = shard().lock().unwrap();
    *shard += 1;
    if let Ok(mut tried) = PARKING.try_lock().ok_or(()) {
        *tried += size;
    }
    *COUNT.lock().unwrap() += 1;
    *BYTES.write().unwrap() += size * *LAZY;
    let _bytes = *BYTES.read().unwrap();
    START.call_once(|| {});
    assert!(START.is_completed());
    let limit = LIMIT.get().copied();
    assert_eq!(limit.unwrap_or_else(|| *LIMIT.get_or_init(|| 1)), 1);
    if ASKS.load(Ordering::Relaxed) {
        let _ = thread::current().id();
    }
}

// SAFETY: memory is the system allocator's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        note(0);
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(place, layout) }
    }
}

/// This executable, asked for this one test, is the program.
#[test]
fn run() {
    if std::env::var_os("RR_CHANNEL_TEST_PROGRAM").is_none() {
        return;
    }
    ASKS.store(true, Ordering::Relaxed);
    let order = Mutex::new(String::new());
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for who in 0..3 {
            let (order, sender) = (&order, sender.clone());
            scope.spawn(move || {
                for turn in 0..30 {
                    // Of all sizes.
                    sender.send(vec![who; 1 << (turn % 20)]).unwrap();
                    order.lock().unwrap().push_str(&who.to_string());
                    thread::yield_now();
                }
            });
        }
    });
    drop(sender);
    let received: String = receiver.iter().map(|who| who[0].to_string()).collect();
    println!("outcome: {} {received}", order.into_inner().unwrap());
    if let Some(report) = rr_channel::replay_report() {
        assert!(report.is_faithful(), "{report:?}");
    }
    ASKS.store(false, Ordering::Relaxed);
}

/// The output of the program, in this mode.
fn outcome(mode: &str, dir: &Path, variable: (&str, &str)) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "run", "--test-threads=1", "--nocapture"])
        .env("RR_CHANNEL_TEST_PROGRAM", "1")
        .env("RR_CHANNEL", mode)
        .env("RR_CHANNEL_LOG", dir)
        .env(variable.0, variable.1)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{mode}: {stderr}");
    assert_eq!(stderr, "", "{mode}");
    let stdout = String::from_utf8(output.stdout).unwrap();
    let line = stdout.lines().find_map(|line| line.split_once("outcome: "));
    line.unwrap().1.to_owned()
}

#[test]
fn an_allocator_may_use_what_is_recorded() {
    for variable in [
        ("RR_CHANNEL_PLACES", "0"),
        ("RR_CHANNEL_PLACES", "1"),
        ("RR_CHANNEL_CHAOS", "3"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        outcome("off", dir.path(), variable);
        let recorded = outcome("record", dir.path(), variable);
        for _ in 0..3 {
            assert_eq!(outcome("replay", dir.path(), variable), recorded);
        }
    }
}
