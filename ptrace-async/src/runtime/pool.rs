//! Worker threads for work that blocks.
//!
//! **Invariant:** every job answers exactly once, and a job that panics answers with its
//! panic. So no caller waits for ever and no worker is lost.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use super::lock::lock;
use super::placement::{HostThreads, widen_self};

type Job = Box<dyn FnOnce() + Send>;

/// A few threads that take jobs from one queue; they start when there are jobs
/// for them, and end with the pool.
pub(super) struct Pool {
    jobs: Sender<Job>,
    queue: Arc<Mutex<Receiver<Job>>>,
    threads: usize,
    most: usize,
    /// Jobs that are not done.
    open: Arc<AtomicUsize>,
}

impl Pool {
    pub(super) fn new() -> Self {
        let (jobs, queue) = channel::<Job>();
        Self {
            jobs,
            queue: Arc::new(Mutex::new(queue)),
            threads: 0,
            most: HostThreads::available().clamp(2, 8),
            open: Arc::default(),
        }
    }

    fn start(&mut self) {
        let queue = self.queue.clone();
        let spawned = std::thread::Builder::new()
            .name(format!("worker-{}", self.threads))
            .spawn(move || {
                widen_self();
                loop {
                    let job = lock(&queue).recv();
                    match job {
                        Ok(job) => job(),
                        Err(_) => break,
                    }
                }
            });
        match spawned {
            Ok(_) => self.threads += 1,
            // One worker is enough to make progress.
            Err(error) => {
                assert!(self.threads > 0, "cannot start a worker thread: {error}");
                self.most = self.threads;
            }
        }
    }

    pub(super) fn submit<T: Send + 'static>(
        &mut self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Answer<T> {
        let others = self.open.fetch_add(1, Ordering::Relaxed);
        if self.threads <= others && self.threads < self.most {
            self.start();
        }
        let open = self.open.clone();
        let state = Arc::new(Mutex::new(AnswerState {
            value: None,
            waker: None,
        }));
        let shared = state.clone();
        let job = Box::new(move || {
            // The job and everything it captured are dropped here, even if it panicked.
            let value = catch_unwind(AssertUnwindSafe(work));
            open.fetch_sub(1, Ordering::Relaxed);
            let mut state = lock(&shared);
            state.value = Some(value);
            if let Some(waker) = state.waker.take() {
                drop(state);
                waker.wake();
            }
        });
        // The workers live as long as the sender, so this cannot fail.
        let _ = self.jobs.send(job);
        Answer { state }
    }
}

struct AnswerState<T> {
    value: Option<std::thread::Result<T>>,
    waker: Option<Waker>,
}

/// Resolves to the result of a job, or resumes its panic.
pub(super) struct Answer<T> {
    state: Arc<Mutex<AnswerState<T>>>,
}

impl<T> Future for Answer<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut state = lock(&self.state);
        match state.value.take() {
            Some(Ok(value)) => Poll::Ready(value),
            Some(Err(panic)) => {
                drop(state);
                resume_unwind(panic)
            }
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}
