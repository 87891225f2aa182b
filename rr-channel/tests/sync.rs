#![expect(unsafe_code, reason = "spawns a thread that borrows")]
//! The guarantees of `std::sync`, held by the drop-ins in every mode.
//!
//! The tests run as they are, and once more by [`in_every_mode`], which records this
//! executable and replays the recording.
//!
//! **Safety** rests on: the one thread that borrows is joined in the function that spawned it.

use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rr_channel::crossbeam_channel::{bounded, unbounded};
use rr_channel::sync::{
    Arc, Barrier, Condvar, LazyLock, Mutex, MutexGuard, Once, OnceLock, RwLock, TryLockError, Weak,
    mpsc,
};
use rr_channel::thread;

/// Panics as planned, without a word.
fn fail() -> ! {
    std::panic::resume_unwind(Box::new("as planned"))
}

/// Runs what panics as planned.
fn panicking(f: impl FnOnce()) {
    let result = catch_unwind(AssertUnwindSafe(f));
    assert_eq!(
        result.unwrap_err().downcast_ref::<&str>(),
        Some(&"as planned")
    );
}

#[test]
fn everything_is_send_sync_and_unwind_safe_as_in_std() {
    fn shared<T: Send + Sync + UnwindSafe + RefUnwindSafe>() {}
    fn sync<T: Sync>() {}
    shared::<Mutex<i32>>();
    shared::<RwLock<i32>>();
    shared::<Condvar>();
    shared::<Barrier>();
    shared::<Once>();
    shared::<OnceLock<i32>>();
    shared::<LazyLock<i32>>();
    shared::<thread::Thread>();
    // Sendable content makes a mutex shareable, also if it is not so itself.
    sync::<Mutex<std::cell::Cell<i32>>>();
    sync::<MutexGuard<'_, i32>>();
}

#[test]
fn a_locked_value_may_be_unsized() {
    let lock: &Mutex<[i32]> = &Mutex::new([1, 2, 3]);
    lock.lock().unwrap()[1] = 5;
    assert_eq!(&*lock.lock().unwrap(), &[1, 5, 3]);
    let lock: Box<RwLock<dyn Fn() -> i32 + Send + Sync>> = Box::new(RwLock::new(|| 7));
    assert_eq!((lock.read().unwrap())(), 7);
}

#[test]
fn locks_print_as_std_does() {
    assert_eq!(
        format!("{:?}", Mutex::new(1)),
        format!("{:?}", std::sync::Mutex::new(1))
    );
    assert_eq!(
        format!("{:?}", RwLock::new(1)),
        format!("{:?}", std::sync::RwLock::new(1))
    );
    assert_eq!(
        format!("{:?}", OnceLock::from(1)),
        format!("{:?}", std::sync::OnceLock::from(1))
    );
    let lazy = LazyLock::new(|| 1);
    assert_eq!(format!("{lazy:?}"), "LazyLock(<uninit>)");
    assert_eq!(*lazy, 1);
    assert_eq!(format!("{lazy:?}"), "LazyLock(1)");
    assert_eq!(
        format!("{:?}", Barrier::new(1).wait()),
        "BarrierWaitResult { is_leader: true }"
    );
    assert_eq!(
        format!("{} {0:?}", Mutex::new("x").lock().unwrap()),
        "x \"x\""
    );
}

#[test]
fn a_mutex_excludes() {
    let count = Arc::new(Mutex::new(0));
    thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                for _ in 0..300 {
                    let before = *count.lock().unwrap();
                    let mut guard = count.lock().unwrap();
                    assert!(*guard >= before);
                    *guard += 1;
                }
            });
        }
    });
    let count = Arc::try_unwrap(count).unwrap();
    assert_eq!(count.into_inner().unwrap(), 900);
}

#[test]
fn a_held_mutex_refuses_try_lock() {
    let lock = Mutex::new(1);
    let guard = lock.lock().unwrap();
    assert!(matches!(lock.try_lock(), Err(TryLockError::WouldBlock)));
    drop(guard);
    assert_eq!(*lock.try_lock().unwrap(), 1);
}

#[test]
fn a_panic_with_a_guard_poisons_until_it_is_cleared() {
    let mut lock = Mutex::new(1);
    panicking(|| {
        let mut guard = lock.lock().unwrap();
        *guard = 2;
        fail();
    });
    assert!(lock.is_poisoned());
    assert_eq!(*lock.lock().unwrap_err().into_inner(), 2);
    assert!(matches!(lock.try_lock(), Err(TryLockError::Poisoned(_))));
    assert_eq!(**lock.get_mut().unwrap_err().get_ref(), 2);
    lock.clear_poison();
    assert!(!lock.is_poisoned());
    assert_eq!(lock.into_inner().unwrap(), 2);
}

#[test]
fn into_inner_reports_poison() {
    let lock = Mutex::new(1);
    panicking(|| {
        let _guard = lock.lock().unwrap();
        fail();
    });
    assert_eq!(lock.into_inner().unwrap_err().into_inner(), 1);
}

#[test]
fn writers_poison_and_readers_do_not() {
    let lock = RwLock::new(1);
    panicking(|| {
        let _read = lock.read().unwrap();
        fail();
    });
    assert!(lock.read().is_ok() && !lock.is_poisoned());
    panicking(|| {
        let _write = lock.write().unwrap();
        fail();
    });
    assert!(lock.read().is_err() && lock.write().is_err() && lock.is_poisoned());
    assert!(matches!(lock.try_read(), Err(TryLockError::Poisoned(_))));
    lock.clear_poison();
    assert!(lock.write().is_ok());
}

#[test]
fn readers_share_and_writers_do_not() {
    let lock = RwLock::new(1);
    let first = lock.read().unwrap();
    assert_eq!(*lock.try_read().unwrap() + *first, 2);
    assert!(matches!(lock.try_write(), Err(TryLockError::WouldBlock)));
    drop(first);
    let write = lock.write().unwrap();
    assert!(matches!(lock.try_read(), Err(TryLockError::WouldBlock)));
    assert!(matches!(lock.try_write(), Err(TryLockError::WouldBlock)));
    drop(write);
}

/// All readers are in before one of them leaves.
#[test]
fn readers_are_in_together() {
    let (lock, all) = (RwLock::new(1), Barrier::new(3));
    thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                let guard = lock.read().unwrap();
                all.wait();
                drop(guard);
            });
        }
    });
    assert!(lock.try_write().is_ok());
}

#[test]
fn a_writer_becomes_a_reader_without_others_in_between() {
    use rr_channel::sync::RwLockWriteGuard;
    let lock = RwLock::new(1);
    let mut write = lock.write().unwrap();
    *write = 2;
    let read = RwLockWriteGuard::downgrade(write);
    assert_eq!((*read, *lock.try_read().unwrap()), (2, 2));
}

#[test]
fn a_wait_gives_the_mutex_up_and_gets_it_back() {
    let (lock, changed) = (Mutex::new(0), Condvar::new());
    thread::scope(|s| {
        let mut guard = lock.lock().unwrap();
        s.spawn(|| {
            *lock.lock().unwrap() = 1;
            changed.notify_one();
        });
        while *guard == 0 {
            guard = changed.wait(guard).unwrap();
        }
        assert!(matches!(lock.try_lock(), Err(TryLockError::WouldBlock)));
        *guard = 2;
    });
    assert_eq!(lock.into_inner().unwrap(), 2);
}

#[test]
fn a_wait_sees_poison_that_came_meanwhile() {
    let (lock, changed) = (Mutex::new(false), Condvar::new());
    thread::scope(|s| {
        let guard = lock.lock().unwrap();
        s.spawn(|| {
            panicking(|| {
                let mut guard = lock.lock().unwrap();
                *guard = true;
                changed.notify_all();
                fail();
            });
        });
        let result = changed.wait_while(guard, |done| !*done);
        assert!(*result.unwrap_err().into_inner());
    });
}

#[test]
fn a_wait_with_a_timeout_lasts_that_long() {
    let (lock, changed) = (Mutex::new(()), Condvar::new());
    let timeout = Duration::from_millis(5);
    let start = Instant::now();
    let mut guard = lock.lock().unwrap();
    loop {
        let result;
        (guard, result) = changed.wait_timeout(guard, timeout).unwrap();
        if result.timed_out() {
            break;
        }
    }
    assert!(start.elapsed() >= timeout);
    let (guard, result) = changed
        .wait_timeout_while(guard, timeout, |()| true)
        .unwrap();
    assert!(result.timed_out());
    let (_, result) = changed
        .wait_timeout_while(guard, Duration::MAX, |()| false)
        .unwrap();
    assert!(!result.timed_out());
}

#[test]
fn a_barrier_has_one_leader_each_time() {
    let barrier = Barrier::new(4);
    let leaders = AtomicUsize::new(0);
    thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                for round in 1..=10 {
                    let leads = barrier.wait().is_leader();
                    leaders.fetch_add(leads.into(), Ordering::SeqCst);
                    barrier.wait();
                    assert_eq!(leaders.load(Ordering::SeqCst), round);
                    barrier.wait();
                }
            });
        }
    });
}

#[test]
fn a_barrier_for_zero_threads_blocks_no_thread() {
    assert!(Barrier::new(0).wait().is_leader());
}

#[test]
fn no_call_returns_before_the_once_is_done() {
    let (once, done) = (Once::new(), AtomicUsize::new(0));
    thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                once.call_once(|| {
                    thread::yield_now();
                    done.fetch_add(1, Ordering::SeqCst);
                });
                assert_eq!(done.load(Ordering::SeqCst), 1);
                assert!(once.is_completed());
                once.wait();
            });
        }
    });
}

#[test]
fn a_once_that_panicked_is_poisoned_until_it_is_forced() {
    let once = Once::new();
    panicking(|| once.call_once(|| fail()));
    assert!(!once.is_completed());
    assert!(catch_unwind(|| once.call_once(|| ())).is_err());
    once.call_once_force(|state| assert!(state.is_poisoned()));
    assert!(once.is_completed());
    once.call_once(|| unreachable!("it is done"));
    once.wait_force();
}

#[test]
fn a_cell_is_written_once() {
    let cell = OnceLock::new();
    assert_eq!(cell.get(), None);
    panicking(|| {
        cell.get_or_init(|| fail());
    });
    assert_eq!(cell.set(1), Ok(()));
    assert_eq!(
        (cell.set(2), cell.get_or_init(|| 3), cell.wait()),
        (Err(2), &1, &1)
    );
    let mut copy = cell.clone();
    assert_eq!(copy, cell);
    assert_eq!(
        (copy.take(), copy.get(), cell.into_inner()),
        (Some(1), None, Some(1))
    );
}

#[test]
fn waiting_for_a_cell_ends_when_it_is_written() {
    let cell = OnceLock::new();
    thread::scope(|s| {
        let waiter = s.spawn(|| *cell.wait());
        cell.set(5).unwrap();
        assert_eq!(waiter.join().unwrap(), 5);
    });
}

#[test]
fn a_lazy_value_that_panicked_is_poisoned() {
    let lazy: LazyLock<i32> = LazyLock::new(|| fail());
    panicking(|| assert_eq!(*lazy, 0));
    assert!(catch_unwind(AssertUnwindSafe(|| *lazy)).is_err());
    assert_eq!(LazyLock::get(&lazy), None);
}

#[test]
fn a_lazy_value_can_be_changed_by_its_owner() {
    let mut lazy = LazyLock::new(|| 1);
    assert_eq!(LazyLock::get_mut(&mut lazy), None);
    *lazy += 1;
    assert_eq!(*LazyLock::force(&lazy), 2);
}

#[test]
fn an_unpark_that_comes_first_is_kept() {
    thread::current().unpark();
    thread::park();
    let start = Instant::now();
    let timeout = Duration::from_millis(5);
    // May return early for no reason, and then is asked again.
    while start.elapsed() < timeout {
        thread::park_timeout(timeout);
    }
}

#[test]
fn a_timed_park_that_a_token_ended_ends_as_soon_in_a_replay() {
    // Not through a handle of ours: nothing says that it came.
    std::thread::current().unpark();
    thread::park_timeout(Duration::from_secs(600));
}

#[test]
fn a_parked_thread_is_woken_through_any_handle() {
    let (s, r) = mpsc::channel();
    let parked = thread::spawn(move || {
        s.send(thread::current()).unwrap();
        thread::park();
    });
    let handle = r.recv().unwrap();
    assert_eq!(handle.id(), parked.thread().id());
    handle.unpark();
    parked.join().unwrap();
}

#[test]
fn a_thread_without_a_checked_lifetime_may_borrow() {
    let text = String::from("borrowed");
    let (s, r) = mpsc::channel();
    let builder = thread::Builder::new().name("borrower".to_owned());
    // SAFETY: it is joined before what it borrows goes.
    let thread = unsafe { builder.spawn_unchecked(|| s.send(text.as_str()).map(|()| text.len())) };
    assert_eq!(r.recv(), Ok("borrowed"));
    let thread = thread.unwrap();
    assert_eq!(thread.thread().name(), Some("borrower"));
    assert_eq!(thread.join().unwrap(), Ok(8));
}

#[test]
fn queued_messages_go_with_the_receiver() {
    let (answer, answers) = mpsc::channel::<()>();
    for (tx, rx) in [mpsc::sync_channel(1), mpsc::sync_channel(40)] {
        tx.send(answer.clone()).unwrap();
        drop(rx);
        assert!(tx.send(answer.clone()).is_err());
        assert!(matches!(answers.try_recv(), Err(mpsc::TryRecvError::Empty)));
        // The sender, and with it the channel, is still there.
        std::mem::forget(tx);
    }
    drop(answer);
    assert_eq!(answers.recv(), Err(mpsc::RecvError));
}

#[test]
fn a_send_that_waits_gets_its_message_back_when_the_receiver_goes() {
    for capacity in [0, 1] {
        let (tx, rx) = mpsc::sync_channel(capacity);
        if capacity > 0 {
            tx.send(1).unwrap();
        }
        let sender = thread::spawn(move || tx.send(2));
        thread::yield_now();
        drop(rx);
        assert_eq!(sender.join().unwrap(), Err(mpsc::SendError(2)));
    }
}

#[test]
fn queued_messages_stay_in_a_bounded_channel_of_crossbeam() {
    let value = Arc::new(());
    for (capacity, stays) in [(Some(1), true), (None, false)] {
        let (s, r) = capacity.map_or_else(unbounded, bounded);
        s.send(Arc::clone(&value)).unwrap();
        drop(r);
        assert_eq!(Arc::strong_count(&value) == 2, stays);
        assert!(s.send(Arc::clone(&value)).is_err());
        drop(s);
        assert_eq!(Arc::strong_count(&value), 1);
    }
}

#[test]
fn content_is_dropped_once_and_without_the_lock() {
    struct Reentrant(Weak<Mutex<Option<Reentrant>>>);
    impl Drop for Reentrant {
        fn drop(&mut self) {
            // The content is replaced outside of the lock, so this does not wait.
            assert!(self.0.upgrade().is_none_or(|lock| lock.try_lock().is_ok()));
        }
    }
    let lock = Arc::new(Mutex::new(None));
    *lock.lock().unwrap() = Some(Reentrant(Arc::downgrade(&lock)));
    let old = lock.lock().unwrap().take();
    drop(old);
}

/// Runs all other tests in `mode`; returns how many passed, and the output.
fn run(mode: &str, log: &std::path::Path) -> (String, String) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--skip", "in_every_mode", "--test-threads=2"])
        .env("RR_CHANNEL", mode)
        .env("RR_CHANNEL_LOG", log)
        .output()
        .unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let summary = stdout
        .lines()
        .filter_map(|line| line.strip_prefix("test result: "))
        .map(|line| line.split(';').next().unwrap_or_default().to_owned())
        .next_back();
    let summary = summary.unwrap_or_default();
    assert!(output.status.success(), "{mode}: {stdout}{stderr}");
    (summary, stdout + &stderr)
}

#[test]
fn in_every_mode() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let (recorded, _) = run("record", &log);
    assert!(recorded.starts_with("ok. ") && !recorded.starts_with("ok. 0 "));
    for _ in 0..3 {
        let (replayed, said) = run("replay", &log);
        assert_eq!(replayed, recorded);
        assert!(!said.contains("desynchronised"), "{said}");
    }
}
