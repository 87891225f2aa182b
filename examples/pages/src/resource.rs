//! The resources: a thread that gives each fetch a thread of its own.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::sync::Arc;
use std::thread;

use crossbeam_channel::{Sender, unbounded};
use ipc_channel::ipc::{self, IpcSender};
use ipc_channel::router::ROUTER;
use parking_lot::Mutex;

use crate::address::Address;
use crate::messages::{Fetch, Fetched};
use crate::network::Network;

/// Where things can be fetched.
#[derive(Debug)]
pub(crate) struct Resources(Sender<Fetch>);

type Cache = Arc<Mutex<HashMap<Address, Vec<u8>>>>;

impl Resources {
    /// Starts the thread, and that of the network.
    pub(crate) fn start() -> io::Result<Resources> {
        let (asks, asked) = unbounded::<Fetch>();
        let network = Network::start()?;
        let cache = Cache::default();
        let run = move || {
            for fetch in asked {
                let (network, cache) = (network.clone(), Arc::clone(&cache));
                let run = move || perform(fetch, &network, &cache);
                // Without one, who asked waits, as for a server that does not answer.
                let _ = thread::Builder::new().name("fetch".into()).spawn(run);
            }
        };
        thread::Builder::new().name("resources".into()).spawn(run)?;
        Ok(Resources(asks))
    }

    /// A way to them, for one page.
    pub(crate) fn connect(&self) -> io::Result<IpcSender<Fetch>> {
        let (ours, theirs) = ipc::channel()?;
        ROUTER.route_ipc_receiver_to_crossbeam_sender(theirs, self.0.clone());
        Ok(ours)
    }
}

fn perform(fetch: Fetch, network: &Network, cache: &Mutex<HashMap<Address, Vec<u8>>>) {
    let address = fetch.address;
    let known = cache.lock().get(&address).cloned();
    let is_cached = known.is_some();
    let body = known.or_else(|| match address.host {
        Some(_) => network.get(address.clone()),
        None => read(&address.path).ok(),
    });
    // Two may have fetched the same; what comes from programs is another thing each time.
    if let Some(body) = &body
        && !is_cached
        && address.path.contains('.')
    {
        cache.lock().insert(address, body.clone());
    }
    let number = fetch.number;
    // The page may be gone.
    let _ = fetch.reply.send(Fetched {
        number,
        body,
        is_cached,
    });
}

/// A file, or the contents of a directory's files, as the file system lists them.
fn read(path: &str) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_dir() {
        return fs::read(path);
    }
    let mut all = Vec::new();
    for entry in fs::read_dir(path)? {
        all.extend(fs::read(entry?.path())?);
        all.push(b'\n');
    }
    Ok(all)
}
