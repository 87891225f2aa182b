//! Timers, the ends of tasks, and random choices.

use super::super::copy::Edit;

/// In all versions.
pub(super) const COMMON: &[Edit] = &[
    Edit {
        file: "src/runtime/task/join.rs",
        from: r"    pub struct JoinHandle<T> {
        raw: RawTask,
",
        to: r"    pub struct JoinHandle<T> {
        rr: rr_channel::objects::Object,
        raw: RawTask,
",
    },
    Edit {
        file: "src/runtime/task/join.rs",
        from: r"        JoinHandle {
            raw,
            _p: PhantomData,
        }
",
        to: r"        JoinHandle {
            rr: rr_channel::objects::Object::new(),
            raw,
            _p: PhantomData,
        }
",
    },
    Edit {
        file: "src/runtime/task/join.rs",
        from: r"        let state = self.raw.header().state.load();
        state.is_complete()
    }

    /// Set",
        to: r"        let is_complete = || u64::from(self.raw.header().state.load().is_complete());
        self.rr.look(is_complete) != 0
    }

    /// Set",
    },
    Edit {
        file: "src/runtime/task/join.rs",
        from: r"    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
",
        to: r"    #[track_caller]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.rr.poll(
            self.rr.pended(),
            cx,
            |cx| crate::task::coop::rr_poll(|| self.rr_poll(cx)),
            |_| rr_channel::objects::Ready::Done,
            || None,
        )
    }
}

impl<T> JoinHandle<T> {
    fn rr_poll(&self, cx: &mut Context<'_>) -> Poll<super::Result<T>> {
",
    },
    Edit {
        file: "src/macros/support.rs",
        from: r"        crate::runtime::context::thread_rng_n(n)
",
        to: r"        rr_channel::objects::choose(n, crate::runtime::context::thread_rng_n)
",
    },
    Edit {
        file: "src/time/sleep.rs",
        from: r"        match ready!(self.poll_elapsed(cx)) {
",
        to: r"        let mut this = self;
        let unrecorded = rr_channel::objects::Timer::unrecorded();
        let rr = std::mem::replace(this.as_mut().project().rr, unrecorded);
        let polled = rr.poll(cx, |cx| {
            crate::task::coop::rr_poll(|| this.as_mut().poll_elapsed(cx))
        });
        *this.project().rr = rr;
        match ready!(polled) {
",
    },
    Edit {
        file: "src/time/sleep.rs",
        from: r"    pub struct Sleep {
",
        to: r"    pub struct Sleep {
        rr: rr_channel::objects::Timer,
",
    },
    Edit {
        file: "src/time/sleep.rs",
        from: r"        Sleep {
            deadline,
",
        to: r"        Sleep {
            rr: rr_channel::objects::Timer::new(),
            deadline,
",
    },
    Edit {
        file: "src/runtime/time/source.rs",
        from: r"        self.instant_to_tick(clock.now())
",
        to: r"        self.instant_to_tick(rr_channel::executor::own(|| clock.now()))
",
    },
    Edit {
        file: "src/runtime/task/abort.rs",
        from: r"        let state = self.raw.state().load();
        state.is_complete()
",
        to: r"        let is_complete = || u64::from(self.raw.state().load().is_complete());
        rr_channel::objects::look(is_complete) != 0
",
    },
    Edit {
        file: "src/time/sleep.rs",
        from: r"        self.timer.as_ref().is_some_and(Timer::is_elapsed)
    }

",
        to: r"        let is_elapsed = || u64::from(self.timer.as_ref().is_some_and(Timer::is_elapsed));
        rr_channel::objects::look(is_elapsed) != 0
    }

",
    },
    Edit {
        file: "src/time/sleep.rs",
        from: r"    type Output = ();

    // `poll_elapsed`",
        to: r"    type Output = ();

    #[track_caller]
    // `poll_elapsed`",
    },
    Edit {
        file: "src/runtime/task/core.rs",
        from: r"    pub(super) scheduled_at: UnsafeCell<ScheduleLatencyInstant>,
}
",
        to: r"    pub(super) scheduled_at: UnsafeCell<ScheduleLatencyInstant>,

    pub(super) rr: rr_channel::executor::Task,
}
",
    },
    Edit {
        file: "src/runtime/task/core.rs",
        from: r"                scheduled_at: UnsafeCell::new(ScheduleLatencyInstant::new(None)),
",
        to: r"                scheduled_at: UnsafeCell::new(ScheduleLatencyInstant::new(None)),
                rr: rr_channel::executor::Task::nameless(),
",
    },
    Edit {
        file: "src/runtime/task/core.rs",
        from: r"        let result = Box::new(Cell {
",
        to: r"        let mut result = Box::new(Cell {
",
    },
    Edit {
        file: "src/runtime/task/core.rs",
        from: r"        #[cfg(debug_assertions)]
        {
            // Using a separate",
        to: r"        result.header.rr = result.core.rr.clone();

        #[cfg(debug_assertions)]
        {
            // Using a separate",
    },
    Edit {
        file: "src/runtime/scheduler/current_thread/mod.rs",
        from: r"            notify: Notify::new(),
",
        to: r"            notify: Notify::rr_unrecorded(),
",
    },
    Edit {
        file: "src/runtime/task/list.rs",
        from: r"        let shard = self.list.lock_shard(&task);
        // Check",
        to: r"        task.header().rr.join(&self.rr);
        let shard = self.list.lock_shard(&task);
        // Check",
    },
    Edit {
        file: "src/runtime/task/harness.rs",
        from: r"    pub(super) fn remote_abort(&self) {
",
        to: r"    pub(super) fn remote_abort(&self) {
        if !self.header().rr.ask() {
            return;
        }
",
    },
    Edit {
        file: "src/runtime/task/harness.rs",
        from: r"                let res = poll_future(self.core(), cx);
",
        to: r"                let is_due = self.core().rr.is_due_unbegun();
                let res = if is_due {
                    Poll::Pending
                } else {
                    poll_future(self.core(), cx)
                };
                if res.is_ready() && self.core().rr.is_due() {
                    // The recorded one was cancelled after its last event.
                    cancel_task(self.core());
                }
",
    },
    Edit {
        file: "src/runtime/task/harness.rs",
        from: r"                let transition_res = self.state().transition_to_idle();
",
        to: r"                let is_cancelled = self.core().rr.must_end() || is_due && S::RR_BLOCKS;
                if is_cancelled {
                    cancel_task(self.core());
                    return PollFuture::Complete;
                }

                let transition_res = self.state().transition_to_idle();
",
    },
    Edit {
        file: "src/runtime/task/harness.rs",
        from: r"fn cancel_task<T: Future, S: Schedule>(core: &Core<T, S>) {
",
        to: r"fn cancel_task<T: Future, S: Schedule>(core: &Core<T, S>) {
    core.rr.cancel();
",
    },
    Edit {
        file: "src/runtime/task/mod.rs",
        from: r"pub(crate) trait Schedule: Sync + Sized + 'static {
",
        to: r"pub(crate) trait Schedule: Sync + Sized + 'static {
    /// Whether its tasks are polled once, and block.
    const RR_BLOCKS: bool = false;

",
    },
    Edit {
        file: "src/runtime/blocking/schedule.rs",
        from: r"impl task::Schedule for BlockingSchedule {
",
        to: r"impl task::Schedule for BlockingSchedule {
    const RR_BLOCKS: bool = true;

",
    },
    Edit {
        file: "src/task/join_set.rs",
        from: r"pub struct JoinSet<T> {
    inner: IdleNotifiedSet<JoinHandle<T>>,
}
",
        to: r"pub struct JoinSet<T> {
    inner: IdleNotifiedSet<JoinHandle<T>>,
    rr: rr_channel::objects::Object,
}
",
    },
    Edit {
        file: "src/task/join_set.rs",
        from: r"            inner: IdleNotifiedSet::new(),
        }
",
        to: r"            inner: IdleNotifiedSet::new(),
            rr: rr_channel::objects::Object::new(),
        }
",
    },
    Edit {
        file: "src/task/join_set.rs",
        from: r"    pub fn try_join_next(&mut self) -> Option<Result<T, JoinError>> {
",
        to: r"    #[track_caller]
    pub fn try_join_next(&mut self) -> Option<Result<T, JoinError>> {
        if self.is_empty() {
            return None;
        }
        let unrecorded = rr_channel::objects::Object::unrecorded();
        let rr = std::mem::replace(&mut self.rr, unrecorded);
        let joined = rr.attempt_polled(
            self,
            |set| set.rr_try_join_next(),
            |set, cx| set.poll_join_next(cx),
        );
        self.rr = rr;
        joined
    }

    fn rr_try_join_next(&mut self) -> Option<Result<T, JoinError>> {
",
    },
    Edit {
        file: "src/task/join_set.rs",
        from: r"    pub fn try_join_next_with_id(&mut self) -> Option<Result<(Id, T), JoinError>> {
",
        to: r"    #[track_caller]
    pub fn try_join_next_with_id(&mut self) -> Option<Result<(Id, T), JoinError>> {
        if self.is_empty() {
            return None;
        }
        let unrecorded = rr_channel::objects::Object::unrecorded();
        let rr = std::mem::replace(&mut self.rr, unrecorded);
        let joined = rr.attempt_polled(
            self,
            |set| set.rr_try_join_next_with_id(),
            |set, cx| set.poll_join_next_with_id(cx),
        );
        self.rr = rr;
        joined
    }

    fn rr_try_join_next_with_id(&mut self) -> Option<Result<(Id, T), JoinError>> {
",
    },
];
