//! The storage: a thread that keeps numbers for pages.

use std::collections::HashMap;
use std::io;
use std::thread;

use crossbeam_channel::{Sender, unbounded};
use ipc_channel::ipc::{self, IpcSender};
use ipc_channel::router::ROUTER;

use crate::messages::Keep;

/// Where things are kept.
#[derive(Debug)]
pub(crate) struct Storage(Sender<Keep>);

impl Storage {
    /// Starts the thread.
    pub(crate) fn start() -> io::Result<Storage> {
        let (asks, asked) = unbounded();
        let run = move || {
            let mut kept = HashMap::new();
            for request in asked {
                match request {
                    Keep::Get(key, reply) => {
                        // The page may be gone.
                        let _ = reply.send(kept.get(&key).copied().unwrap_or(0));
                    }
                    Keep::Put(key, value) => {
                        kept.insert(key, value);
                    }
                }
            }
        };
        thread::Builder::new().name("storage".into()).spawn(run)?;
        Ok(Storage(asks))
    }

    /// A way to it, for one page.
    pub(crate) fn connect(&self) -> io::Result<IpcSender<Keep>> {
        let (ours, theirs) = ipc::channel()?;
        ROUTER.route_ipc_receiver_to_crossbeam_sender(theirs, self.0.clone());
        Ok(ours)
    }
}

/// The value under a key.
pub(crate) fn get(storage: &IpcSender<Keep>, key: &str) -> Option<i64> {
    let (reply, answer) = ipc::channel().ok()?;
    storage.send(Keep::Get(key.to_owned(), reply)).ok()?;
    answer.recv().ok()
}
