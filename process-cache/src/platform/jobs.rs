//! Work in the background that somebody waits for at the end.

use crate::platform::lock::{lock, wait};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ptrace_async::runtime::HostThreads;

type Job = Box<dyn FnOnce() + Send>;

/// The name of a result that a job stores.
pub type Name = [u8; 32];

/// So many [late](Later::submit) jobs are done together...
const TOGETHER: usize = 64;
/// ... or those that there are after this time.
const LATEST: Duration = Duration::from_secs(1);

/// A queue of jobs and the threads that do them. Jobs begin in the order of
/// submission, so that one may wait for an earlier one.
pub struct Jobs {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
    /// Jobs that wait for [`Jobs::drop_pending_contents`].
    held: Option<Vec<Job>>,
    /// Where threads enter themselves, once something is traced.
    pub background: HostThreads,
    /// How many threads there may be.
    wanted: usize,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    /// There is something to do, or nothing more will be.
    more: Condvar,
    /// Nothing is outstanding.
    drained: Condvar,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    /// Jobs that can wait, with the results that they store.
    late: Vec<(Name, Job)>,
    /// When the first of them has waited long enough.
    due: Option<Instant>,
    /// They are not to wait any longer.
    hurried: bool,
    /// How many jobs are not done.
    outstanding: usize,
    /// Nothing will be submitted any more.
    closed: bool,
}

impl Waiting {
    /// The next jobs, or the time until which to wait for more.
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

    /// Does jobs until nothing will be submitted any more.
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
            // Counted down also when the job panics: whoever needs the result misses it, the
            // others go on.
            let _ = catch_unwind(AssertUnwindSafe(job));
            let mut waiting = self.lock();
            waiting.outstanding -= 1;
            if waiting.outstanding == 0 {
                self.drained.notify_all();
            }
        }
    }
}

/// Takes jobs that can wait for a while.
#[derive(Clone)]
pub struct Later(Arc<Queue>);

impl Later {
    /// Has a job done that stores `result`, together with others, for which it
    /// takes less time; soon, or when that result is [wanted](Jobs::want).
    pub fn submit(&self, result: Name, job: impl FnOnce() + Send + 'static) {
        let mut waiting = self.0.lock();
        waiting.outstanding += 1;
        waiting.late.push((result, Box::new(job)));
        if waiting.due.is_none() {
            waiting.due = Some(Instant::now() + LATEST);
            // Who submits may be busy when it is due. Where there is no thread, it is done at
            // the end.
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
    /// A queue; threads start when there are jobs for them.
    pub fn new() -> Self {
        Self {
            queue: Arc::default(),
            threads: Vec::new(),
            held: None,
            background: HostThreads::default(),
            wanted: HostThreads::available().clamp(2, 8),
        }
    }

    /// Has `job` done.
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
            // No thread can be had: late is better than never.
            job();
            return;
        }
        self.queue.lock().outstanding += 1;
        match &mut self.held {
            Some(held) => held.push(Box::new(job)),
            None => self.send(Box::new(job)),
        }
    }

    /// Where jobs submit others.
    pub fn later(&self) -> Later {
        Later(self.queue.clone())
    }

    /// `result` is looked for: jobs that wait to be stored are stored first.
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

    /// Has all done that waits for others.
    pub fn hurry(&self) {
        let late = self.queue.lock().take_late();
        self.queue.run(late);
    }

    fn send(&self, job: Job) {
        self.queue.lock().jobs.push_back(job);
        self.queue.more.notify_one();
    }

    /// Holds back what is submitted until [`Jobs::drop_pending_contents`]: waking a thread for each
    /// of many short jobs takes longer than they do. Nobody may wait for them
    /// meanwhile.
    pub fn hold(&mut self) {
        self.held.get_or_insert_default();
    }

    /// Ends [`Jobs::hold`].
    pub fn drop_pending_contents(&mut self) {
        for job in self.held.take().unwrap_or_default() {
            self.send(job);
        }
    }

    /// Something that waits (elsewhere) until no job is left, and helps with
    /// them, if there is one. Nothing else is to be done meanwhile.
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
                    // What others do may submit more, which they do then.
                    Err(_) => {
                        waiting = wait(&queue.drained, waiting);
                    }
                }
            }
            waiting.hurried = false;
        })
    }

    /// Waits until all jobs are done, and ends the threads.
    pub fn finish(&mut self) {
        self.queue.lock().closed = true;
        self.queue.more.notify_all();
        for thread in self.threads.drain(..) {
            // A job that panicked has already said so.
            let _ = thread.join();
        }
        // Where there was no thread.
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

    /// Waits until all is done.
    fn drain(jobs: &Jobs) {
        let wait = jobs.drained();
        wait.into_iter().for_each(|wait| wait());
        assert_eq!(jobs.queue.lock().outstanding, 0);
    }

    #[test]
    fn jobs_held_back_count_as_pending_and_run_after_release() {
        let mut jobs = Jobs::new();
        // They begin in order; two threads could end them in another one.
        jobs.wanted = 1;
        let (sender, done) = channel();
        jobs.hold();
        for n in 0..3 {
            let sender = sender.clone();
            jobs.submit(move || sender.send(n).unwrap());
        }
        assert_eq!(jobs.queue.lock().outstanding, 3);
        jobs.drop_pending_contents();
        assert_eq!(done.iter().take(3).collect::<Vec<_>>(), [0, 1, 2]);
        drain(&jobs);
    }

    #[test]
    fn late_jobs_are_done_when_they_are_wanted_and_at_the_end() {
        // There is no thread, as nothing else was submitted.
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
