//! A thread that periodically wakes the functions of long-running tasks.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::Waker;
use std::time::Duration;

use crate::trace::Task;

#[derive(Default)]
struct Watches {
    watched: Vec<(Task, Waker, Duration)>,
    over: bool,
}

/// A thread that wakes the functions of tasks.
pub(crate) struct Ticker {
    shared: Arc<(Mutex<Watches>, Condvar)>,
}

impl Ticker {
    pub(crate) fn start(in_thread: impl FnOnce() + Send + 'static) -> std::io::Result<Self> {
        let shared = Arc::new((Mutex::new(Watches::default()), Condvar::new()));
        let theirs = shared.clone();
        std::thread::Builder::new()
            .name("ticker".to_owned())
            .spawn(move || {
                in_thread();
                let (state, wanted) = &*theirs;
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                while !state.over {
                    if state.watched.is_empty() {
                        state = wanted.wait(state).unwrap_or_else(PoisonError::into_inner);
                        continue;
                    }
                    let shortest = state.watched.iter().map(|(_, _, after)| *after).min();
                    drop(state);
                    std::thread::sleep(shortest.unwrap_or_default());
                    state = theirs.0.lock().unwrap_or_else(PoisonError::into_inner);
                    for (_, waker, _) in &state.watched {
                        waker.wake_by_ref();
                    }
                }
            })?;
        Ok(Self { shared })
    }

    /// Wakes the function of a task after a time, and again and again.
    pub(crate) fn watch(&self, task: Task, waker: &Waker, after: Duration) {
        let mut state = self.state();
        if !state.watched.iter().any(|(watched, ..)| *watched == task) {
            state.watched.push((task, waker.clone(), after));
            if state.watched.len() == 1 {
                self.shared.1.notify_one();
            }
        }
    }

    pub(crate) fn forget(&self, task: Task) {
        self.state()
            .watched
            .retain(|(watched, ..)| *watched != task);
    }

    fn state(&self) -> std::sync::MutexGuard<'_, Watches> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.state().over = true;
        self.shared.1.notify_one();
    }
}
