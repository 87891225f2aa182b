//! The replacement of `rayon-core`: its source, with hooks for `rr_channel::pool`.
//!
//! A job gets its name where it is made, and runs under that name. In a replay, jobs do not
//! enter the queues of the pool. They wait for the thread that took them in the recording, and
//! a thread that waits follows its log instead of looking for work.
//!
//! Each edit names the text that it expects, exactly once. A version with another text is an
//! error.

use super::copy::Edit;

/// The edits of rayon-core 1.12 and 1.13.
pub(super) const EDITS: &[Edit] = &[
    Edit {
        file: "src/job.rs",
        from: "    execute_fn: unsafe fn(*const ()),\n}\n\nunsafe impl Send for JobRef",
        to: "    execute_fn: unsafe fn(*const ()),\n    \
             pub(super) rr: rr_channel::pool::Job,\n}\n\nunsafe impl Send for JobRef",
    },
    Edit {
        file: "src/job.rs",
        from: "            execute_fn: <T as Job>::execute,\n",
        to: "            execute_fn: <T as Job>::execute,\n            \
             rr: rr_channel::pool::Job::new(),\n",
    },
    Edit {
        file: "src/job.rs",
        from: "        (self.execute_fn)(self.pointer)\n",
        to: "        self.rr.run(|| (self.execute_fn)(self.pointer))\n",
    },
    Edit {
        file: "src/join/mod.rs",
        from: "        let job_b_id = job_b_ref.id();\n",
        to: "        let job_b_id = job_b_ref.id();\n        \
             let job_b_rr = job_b_ref.rr.clone();\n",
    },
    Edit {
        file: "src/join/mod.rs",
        from: "        while !job_b.latch.probe() {\n",
        to: "        \
             if rr_channel::pool::is_on() {\n            \
                 let is_b = |job: &crate::job::JobRef| job_b_id == job.id();\n            \
                 if worker_thread.rr_takes_back(&job_b_rr, is_b, &job_b.latch) {\n                \
                     let result_b = job_b_rr.run(|| job_b.run_inline(injected));\n                \
                     return (result_a, result_b);\n            \
                 }\n            \
                 return (result_a, job_b.into_result());\n        \
             }\n        \
             while !job_b.latch.probe() {\n",
    },
    Edit {
        file: "src/scope/mod.rs",
        from: "        match self.base.registry.current_thread() {\n",
        to: "        \
             let in_pool = self.base.registry.current_thread();\n        \
             // See `push_fifo`.\n        \
             match in_pool.filter(|_| !rr_channel::pool::is_on()) {\n",
    },
    Edit {
        file: "src/latch.rs",
        from: "    pub(super) fn wait_and_reset(&self) {\n",
        to: "    pub(super) fn wait_and_reset(&self) {\n        \
             rr_channel::executor::block(|| self.rr_wait_and_reset());\n    \
             }\n\n    \
             fn rr_wait_and_reset(&self) {\n",
    },
    Edit {
        file: "src/latch.rs",
        from: "    pub(super) fn wait(&self) {\n",
        to: "    pub(super) fn wait(&self) {\n        \
             rr_channel::executor::block(|| self.rr_wait());\n    \
             }\n\n    \
             fn rr_wait(&self) {\n",
    },
    Edit {
        file: "src/registry.rs",
        from: "pub(super) struct Registry {\n",
        to: "pub(super) struct Registry {\n    rr: rr_channel::pool::Pool<JobRef>,\n",
    },
    Edit {
        file: "src/registry.rs",
        from: "        result = registry()",
        to: "        result = rr_channel::pool::global(registry)",
    },
    Edit {
        file: "src/registry.rs",
        from: "        let breadth_first = builder.get_breadth_first();\n",
        to: "        let rr = rr_channel::pool::Pool::new(n_threads);\n        \
             let n_threads = rr.threads();\n\n        \
             let breadth_first = builder.get_breadth_first();\n",
    },
    Edit {
        file: "src/registry.rs",
        from: "        let registry = Arc::new(Registry {\n",
        to: "        let registry = Arc::new(Registry {\n            rr,\n",
    },
    Edit {
        file: "src/registry.rs",
        from: "        let queue_was_empty = self.injected_jobs.is_empty();\n",
        to: "        \
             let Some(injected_job) = self.rr_post(injected_job) else {\n            \
                 return;\n        \
             };\n        \
             let queue_was_empty = self.injected_jobs.is_empty();\n",
    },
    Edit {
        file: "src/registry.rs",
        from: "    fn has_injected_job(&self) -> bool {\n        !self.injected_jobs.is_empty()\n",
        to: "    \
             fn rr_post(&self, job: JobRef) -> Option<JobRef> {\n        \
                 let job = self.rr.post(&job.rr.clone(), job);\n        \
                 if job.is_none() {\n            \
                     self.sleep.new_injected_jobs(1, true);\n        \
                 }\n        \
                 job\n    \
             }\n\n    \
             fn has_injected_job(&self) -> bool {\n        \
                 !self.injected_jobs.is_empty() || self.rr.has_any()\n",
    },
    Edit {
        file: "src/registry.rs",
        from: "    fn pop_injected_job(&self) -> Option<JobRef> {\n",
        to: "    fn pop_injected_job(&self) -> Option<JobRef> {\n        \
                 if let Some(job) = self.rr.take_any() {\n            \
                     return Some(job);\n        \
                 }\n",
    },
    Edit {
        file: "src/registry.rs",
        from: "                worker.push(job_ref);\n",
        to: "                \
             if let Some(job_ref) = self.rr_post(job_ref) {\n                    \
                 worker.push(job_ref);\n                \
             }\n",
    },
    Edit {
        file: "src/registry.rs",
        from: "        let queue_was_empty = self.worker.is_empty();\n",
        to: "        \
             let Some(job) = self.registry.rr_post(job) else {\n            \
                 return;\n        \
             };\n        \
             let queue_was_empty = self.worker.is_empty();\n",
    },
    Edit {
        file: "src/registry.rs",
        from: "        self.push(self.fifo.push(job));\n",
        to: "        \
             // The pool's own queue is one of this kind, and has no jobs that stand for\n        \
             // whichever comes first.\n        \
             if rr_channel::pool::is_on() {\n            \
                 return self.registry.inject(job);\n        \
             }\n        \
             self.push(self.fifo.push(job));\n",
    },
    Edit {
        file: "src/registry.rs",
        from: "        let latch = latch.as_core_latch();\n",
        to: "        let latch = latch.as_core_latch();\n        \
             if rr_channel::pool::is_on() {\n            \
                 return self.rr_wait_until(latch);\n        \
             }\n",
    },
    Edit {
        file: "src/registry.rs",
        from: "    pub(super) fn yield_now(&self) -> Yield {\n        match self.find_work() {\n",
        to: "    pub(super) fn yield_now(&self) -> Yield {\n        \
             if rr_channel::pool::is_on() {\n            \
                 return self.rr_yield(Self::find_work);\n        \
             }\n        \
             match self.find_work() {\n",
    },
    Edit {
        file: "src/registry.rs",
        from: "    pub(super) fn yield_local(&self) -> Yield {\n        \
               match self.take_local_job() {\n",
        to: "    pub(super) fn yield_local(&self) -> Yield {\n        \
             if rr_channel::pool::is_on() {\n            \
                 return self.rr_yield(Self::take_local_job);\n        \
             }\n        \
             match self.take_local_job() {\n",
    },
    Edit {
        file: "src/registry.rs",
        from: "    pub(super) unsafe fn execute(&self, job: JobRef) {\n",
        to: "    pub(super) unsafe fn execute(&self, job: JobRef) {\n        \
             self.registry.rr.took(&job.rr);\n",
    },
    Edit {
        file: "src/registry.rs",
        from: "    /// Try to steal a single job and return it.\n",
        to: WORKER,
    },
    Edit {
        file: "src/registry.rs",
        from: "    WorkerThread::set_current(worker_thread);\n    let registry",
        to: "    WorkerThread::set_current(worker_thread);\n    \
             worker_thread.registry.rr.enter(worker_thread.index);\n    \
             let registry",
    },
];

/// The work of a pool's thread where jobs have names.
const WORKER: &str = r"
    /// Waits for the latch, and performs the jobs that are to be performed meanwhile.
    unsafe fn rr_wait_until(&self, latch: &CoreLatch) {
        let abort_guard = unwind::AbortIfPanic;
        loop {
            match self.registry.rr.next_waiting() {
                rr_channel::pool::Next::Job(job) => job.execute(),
                rr_channel::pool::Next::Done => {
                    if self.rr_idle_until(latch) {
                        break;
                    }
                }
                _ => {
                    if !latch.probe() {
                        self.wait_until_cold(latch);
                    }
                    self.registry.rr.done();
                    break;
                }
            }
        }
        mem::forget(abort_guard);
    }

    /// Waits for the latch, and does nothing else; not for ever: `false` if the thread has
    /// left its log.
    fn rr_idle_until(&self, latch: &CoreLatch) -> bool {
        let (registry, index) = (Arc::clone(&self.registry), self.index);
        let wake = move || registry.sleep.notify_worker_latch_is_set(index);
        self.registry.rr.await_done(wake, |is_released| {
            let sleep = &self.registry.sleep;
            let mut idle_state = sleep.start_looking(self.index);
            while !latch.probe() && !is_released() {
                sleep.no_work_found(&mut idle_state, latch, is_released);
            }
            sleep.work_found();
            latch.probe()
        })
    }

    /// Whether the half of a fork is to be performed by the thread that put it aside; if
    /// not, waits until somebody else has.
    pub(super) unsafe fn rr_takes_back(
        &self,
        name: &rr_channel::pool::Job,
        is_it: impl Fn(&JobRef) -> bool,
        latch: &SpinLatch<'_>,
    ) -> bool {
        let rr = &self.registry.rr;
        loop {
            match rr.next_joining(name) {
                rr_channel::pool::Next::Job(job) => job.execute(),
                rr_channel::pool::Next::Own => return true,
                rr_channel::pool::Next::Done => {
                    if self.rr_idle_until(latch.as_core_latch()) {
                        return false;
                    }
                }
                _ => break,
            }
        }
        while !latch.probe() {
            if rr.reclaim(name).is_some() {
                rr.own();
                return true;
            }
            match self.take_local_job() {
                Some(job) if is_it(&job) => {
                    rr.own();
                    return true;
                }
                Some(job) => self.execute(job),
                None => {
                    self.wait_until_cold(latch.as_core_latch());
                    break;
                }
            }
        }
        rr.done();
        false
    }

    fn rr_yield(&self, find: impl FnOnce(&Self) -> Option<JobRef>) -> Yield {
        match self.registry.rr.next_yielding() {
            rr_channel::pool::Next::Job(job) => {
                unsafe { job.execute() };
                Yield::Executed
            }
            rr_channel::pool::Next::Unknown => match find(self) {
                Some(job) => {
                    unsafe { self.execute(job) };
                    Yield::Executed
                }
                None => {
                    self.registry.rr.nothing();
                    Yield::Idle
                }
            },
            _ => Yield::Idle,
        }
    }

    /// Try to steal a single job and return it.
";
