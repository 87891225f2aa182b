//! Background jobs that are waited for at the end.

use crate::platform::lock::{lock, wait};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ptrace_async::runtime::HostThreads;

type Job = Box<dyn FnOnce() + Send>;

/// The identifier of a result that a job stores.
pub type Name = [u8; 32];

/// Number of [late](Later::submit) jobs that run together...
const TOGETHER: usize = 64;
/// ... or those present after this time.
const LATEST: Duration = Duration::from_secs(1);

/// A queue of jobs and the threads that run them. Jobs begin in the order of submission, so that
/// one may wait for an earlier one.
pub struct Jobs {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
    /// Jobs that wait for [`Jobs::release`].
    held: Option<Vec<Job>>,
    /// Registers threads while a program is traced.
    pub background: HostThreads,
    /// Maximal number of threads.
    wanted: usize,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    /// Signals a new job, or the end.
    more: Condvar,
    /// Signals that no job is outstanding.
    drained: Condvar,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    /// Postponed jobs, with the results that they store.
    late: Vec<(Name, Job)>,
    /// When the first of them has waited long enough.
    due: Option<Instant>,
    /// Whether they must not wait any longer.
    hurried: bool,
    /// Number of jobs that are not finished.
    outstanding: usize,
    /// Whether no more jobs will be submitted.
    closed: bool,
}

impl Waiting {
    /// Returns the next jobs, or the time until which to wait for more.
    fn next(&mut self) -> Result<Vec<Job>, Option<Instant>> {
        let is_due = self.due.is_some_and(|due| Instant::now() >= due);
        if is_due || self.late.len() >= TOGETHER {
            return Ok(self.take_late());
        }
        if let Some(job) = self.jobs.pop_front() {
            return Ok(vec![job]);
        }
        match (self.hurried || self.closed) && !self.late.is_empty() {
            true => Ok(self.take_late()),
            false => Err(self.due),
        }
    }

    fn take_late(&mut self) -> Vec<Job> {
        self.due = None;
        self.late.drain(..).map(|(_, job)| job).collect()
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        lock(&self.waiting)
    }

    /// Runs jobs until the queue is closed.
    fn work(&self) {
        let mut waiting = self.lock();
        loop {
            match waiting.next() {
                Ok(jobs) => {
                    drop(waiting);
                    self.run(jobs);
                    waiting = self.lock();
                }
                Err(_) if waiting.closed => return,
                Err(None) => {
                    waiting = wait(&self.more, waiting);
                }
                Err(Some(due)) => {
                    let left = due.saturating_duration_since(Instant::now());
                    let woken = self.more.wait_timeout(waiting, left);
                    waiting = woken.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }

    fn run(&self, jobs: Vec<Job>) {
        for job in jobs {
            // The count decreases also if the job panics: waiters miss its result, and other jobs
            // continue.
            let _ = catch_unwind(AssertUnwindSafe(job));
            let mut waiting = self.lock();
            waiting.outstanding -= 1;
            if waiting.outstanding == 0 {
                self.drained.notify_all();
            }
        }
    }
}

/// Accepts jobs that may be postponed.
#[derive(Clone)]
pub struct Later(Arc<Queue>);

impl Later {
    /// Submits a job that stores `result`. It runs together with others, which takes less time,
    /// after a while or when that result is [wanted](Jobs::want).
    pub fn submit(&self, result: Name, job: impl FnOnce() + Send + 'static) {
        let mut waiting = self.0.lock();
        waiting.outstanding += 1;
        waiting.late.push((result, Box::new(job)));
        if waiting.due.is_none() {
            waiting.due = Some(Instant::now() + LATEST);
            // The submitting thread may be busy when the job is due. Without other threads, the
            // job runs at the end.
            self.0.more.notify_one();
        }
    }
}

impl std::fmt::Debug for Jobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Jobs")
            .field("open", &self.queue.lock().outstanding)
            .finish_non_exhaustive()
    }
}

impl Default for Jobs {
    fn default() -> Self {
        Self::new()
    }
}

impl Jobs {
    /// Creates a queue; threads start when there are jobs for them.
    pub fn new() -> Self {
        Self {
            queue: Arc::default(),
            threads: Vec::new(),
            held: None,
            background: HostThreads::default(),
            wanted: HostThreads::available().clamp(2, 8),
        }
    }

    /// Submits a job.
    pub fn submit(&mut self, job: impl FnOnce() + Send + 'static) {
        let busy = {
            let waiting = self.queue.lock();
            waiting.outstanding - waiting.late.len()
        };
        let useful = self.background.cpus().unwrap_or(usize::MAX).max(1);
        if self.threads.len() < self.wanted.min(busy + 1).min(useful) {
            let queue = self.queue.clone();
            let background = self.background.clone();
            let thread = std::thread::Builder::new()
                .name("digest".to_owned())
                .spawn(move || {
                    let _working = background.enter();
                    queue.work();
                });
            if let Ok(thread) = thread {
                self.threads.push(thread);
            }
        }
        if self.threads.is_empty() {
            // No thread can be started: run the job here.
            job();
            return;
        }
        self.queue.lock().outstanding += 1;
        match &mut self.held {
            Some(held) => held.push(Box::new(job)),
            None => self.send(Box::new(job)),
        }
    }

    /// Returns a handle with which jobs submit others.
    pub fn later(&self) -> Later {
        Later(self.queue.clone())
    }

    /// Notes that `result` is looked up: postponed jobs that store it run first.
    pub fn want(&self, result: &Name) {
        let wanted = {
            let mut waiting = self.queue.lock();
            let wanted = waiting.late.extract_if(.., |(stored, _)| stored == result);
            let wanted: Vec<Job> = wanted.map(|(_, job)| job).collect();
            if waiting.late.is_empty() {
                waiting.due = None;
            }
            wanted
        };
        self.queue.run(wanted);
    }

    /// Runs all postponed jobs.
    pub fn hurry(&self) {
        let late = self.queue.lock().take_late();
        self.queue.run(late);
    }

    fn send(&self, job: Job) {
        self.queue.lock().jobs.push_back(job);
        self.queue.more.notify_one();
    }

    /// Holds back submitted jobs until [`Jobs::release`]: waking a thread for each
    /// of many short jobs takes longer than the jobs. No thread may wait for them meanwhile.
    pub fn hold(&mut self) {
        self.held.get_or_insert_default();
    }

    /// Ends [`Jobs::hold`].
    pub fn release(&mut self) {
        for job in self.held.take().unwrap_or_default() {
            self.send(job);
        }
    }

    /// Returns a function that waits (on another thread) until no job is left, and helps to run
    /// them; `None` if there are no jobs. Nothing else may be submitted meanwhile.
    pub fn drained(&self) -> Option<impl FnOnce() + Send + 'static> {
        let mut waiting = self.queue.lock();
        if waiting.outstanding == 0 {
            return None;
        }
        waiting.hurried = true;
        drop(waiting);
        self.background.anywhere();
        let queue = self.queue.clone();
        Some(move || {
            let mut waiting = queue.lock();
            while waiting.outstanding > 0 {
                match waiting.next() {
                    Ok(jobs) => {
                        drop(waiting);
                        queue.run(jobs);
                        waiting = queue.lock();
                    }
                    // Running jobs may submit more, which their threads run.
                    Err(_) => {
                        waiting = wait(&queue.drained, waiting);
                    }
                }
            }
            waiting.hurried = false;
        })
    }

    /// Waits until all jobs are finished, and ends the threads.
    pub fn finish(&mut self) {
        self.queue.lock().closed = true;
        self.queue.more.notify_all();
        for thread in self.threads.drain(..) {
            // A job that panicked has reported it.
            let _ = thread.join();
        }
        // Jobs without a thread.
        loop {
            let next = self.queue.lock().next();
            match next {
                Ok(jobs) => self.queue.run(jobs),
                Err(_) => break,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    fn key(number: u8) -> Name {
        [number; 32]
    }

    /// Waits until all jobs are finished.
    fn drain(jobs: &Jobs) {
        let wait = jobs.drained();
        wait.into_iter().for_each(|wait| wait());
        assert_eq!(jobs.queue.lock().outstanding, 0);
    }

    #[test]
    fn jobs_held_back_count_as_pending_and_run_after_release() {
        let mut jobs = Jobs::new();
        // They begin in order, but two threads could end them in another order.
        jobs.wanted = 1;
        let (sender, done) = channel();
        jobs.hold();
        for n in 0..3 {
            let sender = sender.clone();
            jobs.submit(move || sender.send(n).unwrap());
        }
        assert_eq!(jobs.queue.lock().outstanding, 3);
        jobs.release();
        assert_eq!(done.iter().take(3).collect::<Vec<_>>(), [0, 1, 2]);
        drain(&jobs);
    }

    #[test]
    fn late_jobs_are_done_when_they_are_wanted_and_at_the_end() {
        // No thread exists, as no other job was submitted.
        let mut jobs = Jobs::new();
        let (sender, done) = channel();
        let submit = |jobs: &Jobs, number: u8| {
            let sender = sender.clone();
            let job = move || sender.send(number).unwrap();
            jobs.later().submit(key(number), job);
        };
        submit(&jobs, 1);
        jobs.want(&key(2));
        assert!(done.try_recv().is_err());
        jobs.want(&key(1));
        assert_eq!(done.try_recv(), Ok(1));
        submit(&jobs, 2);
        drain(&jobs);
        assert_eq!(done.try_recv(), Ok(2));
        submit(&jobs, 3);
        jobs.finish();
        assert_eq!(done.try_recv(), Ok(3));
    }

    #[test]
    fn late_jobs_are_done_after_a_while() {
        let mut jobs = Jobs::new();
        let (sender, done) = channel();
        let later = jobs.later();
        jobs.submit(move || later.submit(key(0), move || sender.send(()).unwrap()));
        done.recv().unwrap();
    }

    #[test]
    fn a_job_that_panics_is_done() {
        let mut jobs = Jobs::new();
        jobs.submit(|| panic!("on purpose"));
        jobs.later().submit(key(0), || panic!("on purpose"));
        drain(&jobs);
    }
}
