//! A machine that is busy with other things.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// Threads that keep all processors busy, until this is dropped.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    /// One thread for each processor.
    pub(crate) fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let count = thread::available_parallelism().map_or(1, usize::from);
        let busy = || {
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        let threads = (0..count).map(|_| busy()).collect();
        Load { stop, threads }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It does nothing that could panic.
            let _ = thread.join();
        }
    }
}
