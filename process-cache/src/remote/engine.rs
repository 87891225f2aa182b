//! Where requests are made: a runtime of one thread, and who drives it.
//!
//! Before a command is traced, who asks drives the runtime, since a process that is
//! about to fork may have no other threads. Under trace a thread of its own does so:
//! several workers ask, and results are put while nobody waits for them.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use ptrace_async::runtime::Background;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

/// A runtime.
#[derive(Debug)]
pub(super) struct Engine {
    runtime: Option<Arc<Runtime>>,
    thread: Option<(Arc<Notify>, JoinHandle<()>)>,
}

impl Engine {
    /// One that runs while somebody asks.
    pub(super) fn here() -> io::Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(2)
            .build()?;
        Ok(Self {
            runtime: Some(Arc::new(runtime)),
            thread: None,
        })
    }

    /// One that runs always, on a thread which is one of `background`.
    pub(super) fn on_thread(background: Background) -> io::Result<Self> {
        let mut engine = Self::here()?;
        let runtime = engine.runtime.clone();
        let end = Arc::new(Notify::new());
        let ending = end.clone();
        let thread = std::thread::Builder::new()
            .name("remote".to_owned())
            .spawn(move || {
                let _working = background.enter();
                if let Some(runtime) = runtime {
                    runtime.block_on(ending.notified());
                }
            })?;
        engine.thread = Some((end, thread));
        Ok(engine)
    }

    /// Waits for an answer.
    pub(super) fn block_on<F: Future>(&self, future: F) -> Option<F::Output> {
        self.runtime
            .as_ref()
            .map(|runtime| runtime.block_on(future))
    }

    /// Has something done while nobody waits.
    pub(super) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            runtime.spawn(future);
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.thread.take() {
            end.notify_one();
            // It panicked, if it did, in what has said so itself.
            let _ = thread.join();
        }
        if let Some(runtime) = self.runtime.take().and_then(Arc::into_inner) {
            runtime.shutdown_timeout(Duration::from_millis(100));
        }
    }
}
