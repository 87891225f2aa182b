//! Work in the background that somebody waits for at the end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use ptrace_async::runtime::Background;

type Job = Box<dyn FnOnce() + Send>;

/// A queue of jobs and the threads that do them. Jobs begin in the order of
/// submission, so that one may wait for an earlier one.
pub struct Jobs {
    sender: Option<Sender<Job>>,
    receiver: Arc<Mutex<Receiver<Job>>>,
    threads: Vec<JoinHandle<()>>,
    outstanding: Arc<(Mutex<usize>, Condvar)>,
    /// Jobs that wait for [`Jobs::let_go`].
    held: Option<Vec<Job>>,
    /// Where threads enter themselves, once something is traced.
    pub background: Background,
    /// How many threads there may be.
    wanted: usize,
}

impl std::fmt::Debug for Jobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Jobs")
            .field("open", &*self.open())
            .finish_non_exhaustive()
    }
}

impl Default for Jobs {
    fn default() -> Self {
        Self::new()
    }
}

impl Jobs {
    /// A queue; threads start when there are jobs for them.
    pub fn new() -> Self {
        let (sender, receiver) = channel();
        Self {
            sender: Some(sender),
            receiver: Arc::new(Mutex::new(receiver)),
            threads: Vec::new(),
            outstanding: Arc::default(),
            held: None,
            background: Background::default(),
            wanted: Background::available().clamp(2, 8),
        }
    }

    /// Has `job` done.
    pub fn submit(&mut self, job: impl FnOnce() + Send + 'static) {
        let busy = *self.open();
        let useful = self.background.cpus().unwrap_or(usize::MAX).max(1);
        if self.threads.len() < self.wanted.min(busy + 1).min(useful) {
            let receiver = self.receiver.clone();
            let background = self.background.clone();
            let thread = std::thread::Builder::new()
                .name("digest".to_owned())
                .spawn(move || {
                    let _working = background.enter();
                    loop {
                        let job = receiver
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .recv();
                        match job {
                            Ok(job) => job(),
                            Err(_) => break,
                        }
                    }
                });
            if let Ok(thread) = thread {
                self.threads.push(thread);
            }
        }
        if self.threads.is_empty() {
            // No thread can be had: late is better than never.
            job();
            return;
        }
        *self.open() += 1;
        let outstanding = self.outstanding.clone();
        let job = move || {
            // Counted down also when the job panics.
            let _done = Done(outstanding);
            // Whoever needs the result misses it; the others go on.
            let _ = catch_unwind(AssertUnwindSafe(job));
        };
        match &mut self.held {
            Some(held) => held.push(Box::new(job)),
            None => self.send(Box::new(job)),
        }
    }

    fn send(&self, job: Job) {
        if let Some(sender) = &self.sender {
            // The receiver lives as long as `self`.
            let _ = sender.send(job);
        }
    }

    /// Holds back what is submitted until [`Jobs::let_go`]: waking a thread for each
    /// of many short jobs takes longer than they do. Nobody may wait for them
    /// meanwhile.
    pub fn hold(&mut self) {
        self.held.get_or_insert_default();
    }

    /// Ends [`Jobs::hold`].
    pub fn let_go(&mut self) {
        for job in self.held.take().unwrap_or_default() {
            self.send(job);
        }
    }

    /// How many jobs are not done.
    fn open(&self) -> MutexGuard<'_, usize> {
        let (count, _) = &*self.outstanding;
        count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something that waits (elsewhere) until no job is left, and helps with
    /// them, if there is one. Nothing else is to be done meanwhile.
    pub fn drained(&self) -> Option<impl FnOnce() + Send + 'static> {
        if *self.open() == 0 {
            return None;
        }
        self.background.anywhere();
        let outstanding = self.outstanding.clone();
        let receiver = self.receiver.clone();
        Some(move || {
            // Whoever holds the receiver waits for jobs: there are none then.
            let next = || receiver.try_lock().ok()?.try_recv().ok();
            while let Some(job) = next() {
                job();
            }
            let (count, changed) = &*outstanding;
            let mut count = count.lock().unwrap_or_else(PoisonError::into_inner);
            while *count > 0 {
                count = changed.wait(count).unwrap_or_else(PoisonError::into_inner);
            }
        })
    }

    /// Waits until all jobs are done, and ends the threads.
    pub fn finish(&mut self) {
        self.sender = None;
        for thread in self.threads.drain(..) {
            // A job that panicked has already said so.
            let _ = thread.join();
        }
    }
}

/// Counts a job down when it is dropped.
struct Done(Arc<(Mutex<usize>, Condvar)>);

impl Drop for Done {
    fn drop(&mut self) {
        let (count, drained) = &*self.0;
        let mut count = count.lock().unwrap_or_else(PoisonError::into_inner);
        *count -= 1;
        if *count == 0 {
            drained.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_back_is_done_when_it_is_let_go_and_counts_until_then() {
        let mut jobs = Jobs::new();
        let (sender, done) = channel();
        jobs.hold();
        for n in 0..3 {
            let sender = sender.clone();
            jobs.submit(move || sender.send(n).unwrap());
        }
        assert_eq!(*jobs.open(), 3);
        jobs.let_go();
        assert_eq!(done.iter().take(3).collect::<Vec<_>>(), [0, 1, 2]);
        let wait = jobs.drained();
        wait.into_iter().for_each(|wait| wait());
        assert_eq!(*jobs.open(), 0);
    }
}
