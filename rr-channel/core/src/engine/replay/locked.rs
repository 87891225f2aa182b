//! The world, locked.
//!
//! A woken thread locks the world first. So threads that are notified while the world is locked
//! are woken after it is unlocked. Woken earlier, they would fall asleep again at its lock.
//!
//! **Invariant:** a notified thread is woken before the notifying thread does anything else, and
//! before that thread sleeps itself.

use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::polls;
use super::world::World;
use crate::platform::apart::apart;
use crate::platform::lock::lock;

/// See the module.
#[derive(Debug)]
pub(super) struct Locked<'a> {
    world: &'a Mutex<World>,
    guard: Option<MutexGuard<'a, World>>,
}

impl<'a> Locked<'a> {
    pub(super) fn new(world: &'a Mutex<World>) -> Self {
        polls::locks();
        Locked {
            world,
            guard: Some(lock(world)),
        }
    }

    /// Sleeps until `wake` is notified, or for so long, or for no reason; the world is
    /// unlocked meanwhile.
    pub(super) fn sleep(mut self, wake: &Condvar, long: Option<Duration>) -> Self {
        for told in self.take_told() {
            told.notify_one();
        }
        let world = self.world;
        if self.has_woken() {
            // They are woken by code that may lock the world. The caller looks again.
            drop(self);
            return Locked::new(world);
        }
        let guard = self.guard.take().map(|guard| match long {
            None => wake.wait(guard).unwrap_or_else(PoisonError::into_inner),
            Some(long) => {
                let slept = apart(|| wake.wait_timeout(guard, long));
                slept.unwrap_or_else(PoisonError::into_inner).0
            }
        });
        self.guard = guard;
        self
    }
}

impl Deref for Locked<'_> {
    type Target = World;

    fn deref(&self) -> &World {
        match &self.guard {
            Some(world) => world,
            None => unreachable!("it is there until it is dropped"),
        }
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut World {
        match &mut self.guard {
            Some(world) => world,
            None => unreachable!("it is there until it is dropped"),
        }
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let Some(mut world) = self.guard.take() else {
            return;
        };
        let (told, woken) = (world.take_told(), world.take_woken());
        drop(world);
        for told in told {
            told.notify_one();
        }
        polls::unlocked(woken);
    }
}
