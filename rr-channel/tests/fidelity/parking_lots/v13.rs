//! parking_lot 0.13.

use std::time::Duration;

use rr_channel::thread;

pub(super) use rr_channel::parking_lot_13 as lot;
pub(super) use rr_channel::parking_lot_13::RecursiveRwLock as Recursive;

use crate::locks::{pause, threads};
use crate::programs::{Outcome, line};

pub(super) const fn mutex<T>(value: T) -> lot::Mutex<T> {
    lot::Mutex::new(value)
}

pub(super) const fn rwlock<T>(value: T) -> lot::RwLock<T> {
    lot::RwLock::new(value)
}

pub(super) fn read_again<T>(lock: &Recursive<T>) -> lot::RecursiveRwLockReadGuard<'_, T> {
    lock.read()
}

#[expect(
    clippy::duplicate_mod,
    reason = "the programs are those of the other version"
)]
#[path = "programs.rs"]
pub(crate) mod programs;

/// The threads that wait for an initialization, and its state by then.
pub(crate) fn once_wait() -> Outcome {
    let onces: Vec<_> = (0..40).map(|_| lot::Once::new()).collect();
    let made = lot::Once::new_completed();
    let calls = lot::Mutex::new(Vec::new());
    threads(3, move |who| {
        let mut seen = Vec::new();
        for (n, once) in onces.iter().enumerate() {
            made.call_once(|| unreachable!("it counts as run"));
            seen.push(u32::from(once.is_completed()));
            if (n + who).is_multiple_of(3) {
                once.wait_force();
                once.wait();
            } else {
                pause(who, n);
                once.call_once_force(|state| {
                    assert!(!state.is_poisoned());
                    calls.lock().push(who);
                });
            }
            assert!(once.is_completed() && made.is_completed());
        }
        thread::yield_now();
        line(&format!("thread {who}"), &(seen, calls.lock().clone()))
    })
}

/// Upgrades that race with their deadlines, of threads that let go in between.
pub(crate) fn upgrades_for() -> Outcome {
    use lot::{RwLockReadGuard, RwLockUpgradableReadGuard, RwLockWriteGuard};

    let count = lot::RwLock::new(0_u64);
    threads(3, move |who| {
        let mut seen = Vec::new();
        for n in 0..60 {
            let limit = Duration::from_micros(20);
            match (n + who) % 3 {
                0 => match count.try_upgradable_read_for(limit) {
                    None => seen.push(1000),
                    Some(mut guard) => {
                        RwLockUpgradableReadGuard::bump(&mut guard);
                        match RwLockUpgradableReadGuard::try_upgrade_for(guard, limit) {
                            Ok(mut guard) => *guard += 1,
                            Err(guard) => seen.push(*guard),
                        }
                    }
                },
                1 => {
                    let mut guard = count.write();
                    *guard += 1;
                    RwLockWriteGuard::bump(&mut guard);
                    seen.push(*guard);
                }
                _ => {
                    let mut guard = count.read();
                    pause(who, n);
                    RwLockReadGuard::bump(&mut guard);
                    seen.push(*guard);
                }
            }
        }
        line(&format!("thread {who}"), &seen)
    })
}
