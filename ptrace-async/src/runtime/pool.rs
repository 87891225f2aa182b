//! Worker threads for work that blocks.
//!
//! **Invariant:** every job answers exactly once, a job that panics with its
//! panic, so that nobody waits for ever and no worker is lost.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

type Job = Box<dyn FnOnce() + Send>;

/// A few threads that take jobs from one queue; they end with the pool.
pub(super) struct Pool {
    jobs: Sender<Job>,
}

impl Pool {
    pub(super) fn new() -> Self {
        let (jobs, queue) = channel::<Job>();
        let queue = Arc::new(Mutex::new(queue));
        let count = std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 8));
        for index in 0..count {
            let queue: Arc<Mutex<Receiver<Job>>> = queue.clone();
            let spawned = std::thread::Builder::new()
                .name(format!("worker-{index}"))
                .spawn(move || {
                    super::placement::widen_self();
                    loop {
                        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
                        match job {
                            Ok(job) => job(),
                            Err(_) => break,
                        }
                    }
                });
            // One worker is enough to make progress.
            if let Err(error) = spawned {
                assert!(index > 0, "cannot start a worker thread: {error}");
                break;
            }
        }
        Self { jobs }
    }

    pub(super) fn submit<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Answer<T> {
        let state = Arc::new(Mutex::new(AnswerState {
            value: None,
            waker: None,
        }));
        let shared = state.clone();
        let job = Box::new(move || {
            // What the job captured is gone with it, whether it panicked or not.
            let value = catch_unwind(AssertUnwindSafe(work));
            let mut state = shared.lock().unwrap_or_else(PoisonError::into_inner);
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

/// Resolves to what a job returned, or goes on with its panic.
pub(super) struct Answer<T> {
    state: Arc<Mutex<AnswerState<T>>>,
}

impl<T> Future for Answer<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
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
