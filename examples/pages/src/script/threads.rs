//! The threads of a script: workers and timers, which post to its page.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Sender, after};
use ipc_channel::ipc::IpcSender;
use parking_lot::Mutex;

use crate::messages::Keep;
use crate::storage;

/// Memory that threads of a page share.
pub(super) type Shared = Arc<Mutex<i64>>;

fn start(run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name("worker".into()).spawn(run)?;
    Ok(())
}

/// Posts a name some times.
pub(super) fn worker(posts: Sender<String>, name: String, count: u32) -> io::Result<()> {
    start(move || {
        for _ in 0..count {
            // The page may be gone.
            let _ = posts.send(name.clone());
        }
    })
}

/// Adds one to what is stored, some times.
pub(super) fn counter(
    posts: Sender<String>,
    name: String,
    storage: IpcSender<Keep>,
    key: String,
    count: u32,
) -> io::Result<()> {
    start(move || {
        for _ in 0..count {
            let Some(value) = storage::get(&storage, &key) else {
                return;
            };
            let _ = storage.send(Keep::Put(key.clone(), value + 1));
        }
        let _ = posts.send(name);
    })
}

/// Adds one to what is shared, some times.
pub(super) fn adder(
    posts: Sender<String>,
    name: String,
    shared: Shared,
    count: u32,
) -> io::Result<()> {
    start(move || {
        for _ in 0..count {
            let value = *shared.lock();
            *shared.lock() = value + 1;
        }
        let _ = posts.send(name);
    })
}

/// Holds what is shared, some times, if nobody else does.
pub(super) fn holder(
    posts: Sender<String>,
    name: String,
    shared: Shared,
    count: u32,
) -> io::Result<()> {
    start(move || {
        for _ in 0..count {
            if let Some(mut value) = shared.try_lock() {
                // As long as it takes to look at some things.
                *value += (0..2000)
                    .filter(|n| std::hint::black_box(n) % 2000 == 0)
                    .count() as i64;
                let _ = posts.send(name.clone());
            }
        }
    })
}

/// Posts a name in a while.
pub(super) fn timer(posts: Sender<String>, name: String, time: u64) -> io::Result<()> {
    start(move || {
        let _ = after(Duration::from_millis(time)).recv();
        let _ = posts.send(name);
    })
}
