//! Digests that a run is going to need, computed before it asks.
//!
//! A command whose recorded results do not fit looks at much the same files as
//! when they were recorded. What has changed since has no known digest, and
//! while the first program starts there is a CPU to spare.

use std::sync::Arc;

use ptrace_async::runtime::Background;

use crate::jobs::Jobs;
use crate::store::{Store, WeakKey};
use crate::world::World;

/// Larger files wait until they are asked for: hashing one cannot be broken off.
const LONGEST: u64 = 16 << 20;

/// Has the digests computed of what results under `key` depend on, until there is
/// something else to do.
pub fn digest(jobs: &mut Jobs, store: &Arc<Store>, world: &Arc<World>, key: WeakKey) {
    if Background::available() == 1 {
        return;
    }
    let (store, world) = (store.clone(), world.clone());
    let ending = jobs.ending();
    jobs.submit(move || {
        for path in store.inputs(&key) {
            if ending.is_set() {
                break;
            }
            world.digest_ahead(&path, LONGEST);
            // A child that was just born on this CPU would wait for the slice to
            // end, with another CPU idle.
            std::thread::yield_now();
        }
    });
}
