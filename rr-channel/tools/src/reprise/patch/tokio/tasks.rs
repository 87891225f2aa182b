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
        to: r"    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
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
];
