//! parking_lot 0.12.

pub(super) use rr_channel::parking_lot as lot;
pub(super) use rr_channel::parking_lot::{
    RwLock as Recursive, const_mutex as mutex, const_rwlock as rwlock,
};

pub(super) fn read_again<T>(lock: &Recursive<T>) -> lot::RwLockReadGuard<'_, T> {
    lock.read_recursive()
}

#[path = "programs.rs"]
pub(crate) mod programs;
