//! Turns of threads whose messages leave this process.
//!
//! For other channels, the order of several messages is found where they arrive. But the messages
//! that another process receives are not recorded. So the threads that send to other processes
//! send one after the other, and their order is recorded as that of a lock. It is one order for
//! all channels that lead out of this process: a sender that comes in a message has another
//! descriptor each time, so senders of one channel cannot be recognised.
//!
//! A channel is known to lead out if its sender came from another process, or was connected
//! to a server by name. (A channel of this process's own whose receiver was sent away is not.)
//!
//! A message that is large, or whose receiver is slow, may wait for its receiver, which may wait
//! for a third party's message. So a thread waits for its turn only for a limited time
//! ([`PATIENCE`]). A turn that was given up is in the recording as well.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

use rr_channel_log::identity::ChannelId;
use rustc_hash::FxHashSet;

use super::now::{Now, new_id, now};
use rr_channel_core::platform::lock::lock;
use rr_channel_core::sync;

/// How long a thread waits for another one's send.
const PATIENCE: Duration = Duration::from_millis(50);

static TURN: sync::Mutex<()> = sync::Mutex::new(());

/// The channels that lead out; most programs have none, and need not look.
static CHANNELS: Mutex<Option<FxHashSet<ChannelId>>> = Mutex::new(None);
static ARE_THERE: AtomicBool = AtomicBool::new(false);

fn channels<R>(f: impl FnOnce(&mut FxHashSet<ChannelId>) -> R) -> R {
    let mut channels = lock(&CHANNELS);
    f(channels.get_or_insert_default())
}

/// A name for a channel whose sender came from another process.
pub(super) fn new_name() -> ChannelId {
    let id = new_id();
    leads_out(id);
    id
}

/// The channel leads out.
pub(super) fn leads_out(id: ChannelId) {
    if !matches!(now(), Now::Off) {
        channels(|channels| channels.insert(id));
        ARE_THERE.store(true, Release);
    }
}

/// Sends into the channel `id`: in this thread's turn, if it leads out.
pub(super) fn in_turn<R>(id: ChannelId, send: impl FnOnce() -> R) -> R {
    let leads_out = ARE_THERE.load(Acquire) && channels(|channels| channels.contains(&id));
    let _turn = leads_out.then(|| TURN.try_lock_for(PATIENCE));
    send()
}
