//! A runtime of one thread for requests.
//!
//! A separate thread drives the runtime, so that answers are received and decompressed while the
//! caller continues. A process that is about to fork may have no other threads: the runtime ends
//! before.

use crate::platform::lock::lock;
use std::io;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ptrace_async::runtime::HostThreads;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// A runtime.
#[derive(Debug)]
pub(super) struct Engine {
    runtime: Option<Arc<Runtime>>,
    thread: Option<(Arc<Notify>, std::thread::JoinHandle<()>)>,
    /// Tells when its thread drives it. Before that, the first caller would drive it, and hand it
    /// over when it stops waiting.
    driven: Driven,
}

/// Receives a message after the thread has started; `None` after that.
type Driven = Mutex<Option<Receiver<()>>>;

impl Engine {
    /// Starts a runtime, on a thread registered in `background` if given.
    pub(super) fn start(background: Option<HostThreads>) -> io::Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(2)
            .build()?;
        let mut engine = Self {
            runtime: Some(Arc::new(runtime)),
            thread: None,
            driven: Mutex::default(),
        };
        let runtime = engine.runtime.clone();
        let end = Arc::new(Notify::new());
        let ending = end.clone();
        let (started, is_started) = sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("remote".to_owned())
            .spawn(move || {
                let _working = background.as_ref().map(HostThreads::enter);
                if let Some(runtime) = runtime {
                    runtime.block_on(async {
                        // The receiver may be gone.
                        let _ = started.send(());
                        ending.notified().await;
                    });
                }
            })?;
        engine.driven = Mutex::new(Some(is_started));
        engine.thread = Some((end, thread));
        Ok(engine)
    }

    /// Creates an object inside the runtime, which need not run for that.
    pub(super) fn make<T>(&self, make: impl FnOnce() -> T) -> Option<T> {
        let _inside = self.runtime.as_ref()?.enter();
        Some(make())
    }

    /// Waits for an answer.
    pub(super) fn block_on<F: Future>(&self, future: F) -> Option<F::Output> {
        let driven = lock(&self.driven).take();
        if let Some(driven) = driven {
            // If there is no message, the thread has panicked, and the caller drives the runtime.
            let _ = driven.recv();
        }
        self.runtime
            .as_ref()
            .map(|runtime| runtime.block_on(future))
    }

    /// Runs a future in the background.
    pub(super) fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Option<JoinHandle<T>> {
        self.runtime.as_ref().map(|runtime| runtime.spawn(future))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.thread.take() {
            end.notify_one();
            // If it panicked, the panic was reported.
            let _ = thread.join();
        }
        if let Some(runtime) = self.runtime.take().and_then(Arc::into_inner) {
            runtime.shutdown_timeout(Duration::from_millis(100));
        }
    }
}
