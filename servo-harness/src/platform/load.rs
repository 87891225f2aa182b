//! Keeps processors busy while tests run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// How many processors there are.
pub(crate) fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Threads that compute until it is dropped.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    /// The load of this many threads, or of as many as the machine allows.
    pub(crate) fn of(count: usize) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..count).map(|_| {
            let stop = Arc::clone(&stop);
            let compute = move || {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            };
            let named = thread::Builder::new().name("load".to_owned());
            named.spawn(compute)
        });
        Load {
            threads: threads.flatten().collect(),
            stop,
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
