//! The replacement of `tokio-util`: its source, in which the cancellation of tokens and the end of
//! tracked tasks are recorded.
//!
//! Both are flags, beside a `Notify` for those who wait. A wait is one operation, of which the flag
//! and the notification are parts. What sets the flag has no event: it makes others ready.

use super::copy::Edit;

/// In 0.7.10 and later ones.
pub(super) const OF_WAITS: &[(&str, &[Edit])] = &[("0.7.", EDITS)];

const EDITS: &[Edit] = &[
    Edit {
        file: "src/sync/cancellation_token/tree_node.rs",
        from: r"    waker: tokio::sync::Notify,
",
        to: r"    waker: tokio::sync::Notify,
    pub(crate) rr: rr_channel::objects::Object,
",
    },
    Edit {
        file: "src/sync/cancellation_token/tree_node.rs",
        from: r"
                is_cancelled: false,
                num_handles: 1,
            }),
            waker: tokio::sync::Notify::new(),
",
        to: r"
                is_cancelled: false,
                num_handles: 1,
            }),
            waker: tokio::sync::Notify::new(),
            rr: rr_channel::objects::Object::new(),
",
    },
    Edit {
        file: "src/sync/cancellation_token/tree_node.rs",
        from: r"
                is_cancelled: true,
                num_handles: 1,
            }),
            waker: tokio::sync::Notify::new(),
",
        to: r"
                is_cancelled: true,
                num_handles: 1,
            }),
            waker: tokio::sync::Notify::new(),
            rr: rr_channel::objects::Object::new(),
",
    },
    Edit {
        file: "src/sync/cancellation_token/tree_node.rs",
        from: r"
            is_cancelled: false,
            num_handles: 1,
        }),
        waker: tokio::sync::Notify::new(),
",
        to: r"
            is_cancelled: false,
            num_handles: 1,
        }),
        waker: tokio::sync::Notify::new(),
        rr: rr_channel::objects::Object::new(),
",
    },
    Edit {
        file: "src/sync/cancellation_token.rs",
        from: r"        tree_node::cancel(&self.inner);
",
        to: r"        rr_channel::executor::own(|| tree_node::cancel(&self.inner));
",
    },
    Edit {
        file: "src/sync/cancellation_token.rs",
        from: r"        tree_node::is_cancelled(&self.inner)
",
        to: r"        let is_cancelled = || u64::from(tree_node::is_cancelled(&self.inner));
        self.inner.rr.look(is_cancelled) != 0
",
    },
    Edit {
        file: "src/sync/cancellation_token.rs",
        from: r"        #[pin]
        future: tokio::sync::futures::Notified<'a>,
",
        to: r"        #[pin]
        future: tokio::sync::futures::Notified<'a>,
        rr: rr_channel::objects::Operation,
",
    },
    Edit {
        file: "src/sync/cancellation_token.rs",
        from: r"            cancellation_token: self,
",
        to: r"            cancellation_token: self,
            rr: rr_channel::objects::Operation::new(),
",
    },
    Edit {
        file: "src/sync/cancellation_token.rs",
        from: r"        future: MaybeDangling<tokio::sync::futures::Notified<'static>>,
        cancellation_token: CancellationToken,
",
        to: r"        future: MaybeDangling<tokio::sync::futures::Notified<'static>>,
        cancellation_token: CancellationToken,
        rr: rr_channel::objects::Operation,
",
    },
    Edit {
        file: "src/sync/cancellation_token.rs",
        from: r"{ Self::new_future(&cancellation_token) }),
            cancellation_token,
",
        to: r"{ Self::new_future(&cancellation_token) }),
            cancellation_token,
            rr: rr_channel::objects::Operation::new(),
",
    },
    Edit {
        file: "src/sync/cancellation_token.rs",
        from: r"        let mut this = self.project();
        loop {
",
        to: r"        let mut this = self.project();
        let node = &this.cancellation_token.inner;
        let is_cancelled = |cx: &mut Context<'_>| loop {
",
    },
    Edit {
        file: "src/sync/cancellation_token.rs",
        from: r"            this.future.set(this.cancellation_token.inner.notified());
        }
",
        to: r"            this.future.set(this.cancellation_token.inner.notified());
        };
        rr_channel::objects::poll_own(&node.rr, this.rr, cx, is_cancelled)
",
    },
    Edit {
        file: "src/sync/cancellation_token.rs",
        from: r"        let mut this = self.project();

        loop {
",
        to: r"        let mut this = self.project();
        let node = &this.cancellation_token.inner;
        let is_cancelled = |cx: &mut Context<'_>| loop {
",
    },
    Edit {
        file: "src/sync/cancellation_token.rs",
        from: r"            this.future.set(MaybeDangling::new(unsafe {
                Self::new_future(this.cancellation_token)
            }));
        }
",
        to: r"            this.future.set(MaybeDangling::new(unsafe {
                Self::new_future(this.cancellation_token)
            }));
        };
        rr_channel::objects::poll_own(&node.rr, this.rr, cx, is_cancelled)
",
    },
    Edit {
        file: "src/task/task_tracker.rs",
        from: r"    on_last_exit: Notify,
",
        to: r"    on_last_exit: Notify,
    rr: rr_channel::objects::Object,
",
    },
    Edit {
        file: "src/task/task_tracker.rs",
        from: r"            on_last_exit: Notify::new(),
",
        to: r"            on_last_exit: Notify::new(),
            rr: rr_channel::objects::Object::new(),
",
    },
    Edit {
        file: "src/task/task_tracker.rs",
        from: r"        self.on_last_exit.notify_waiters();
",
        to: r"        rr_channel::executor::own(|| self.on_last_exit.notify_waiters());
",
    },
    Edit {
        file: "src/task/task_tracker.rs",
        from: r"            inner: if self.inner.is_closed_and_empty() {
                None
            } else {
                Some(&self.inner)
            },
",
        to: r"            inner: Some(&self.inner),
            rr: rr_channel::objects::Operation::new(),
",
    },
    Edit {
        file: "src/task/task_tracker.rs",
        from: r"        inner: Option<&'a TaskTrackerInner>,
",
        to: r"        inner: Option<&'a TaskTrackerInner>,
        rr: rr_channel::objects::Operation,
",
    },
    Edit {
        file: "src/task/task_tracker.rs",
        from: r"        let me = self.project();
",
        to: r"        let mut me = self.project();
",
    },
    Edit {
        file: "src/task/task_tracker.rs",
        from: r"        let ready = inner.is_closed_and_empty() || me.future.poll(cx).is_ready();
        if ready {
",
        to: r"        let is_done = |cx: &mut Context<'_>| {
            if inner.is_closed_and_empty() {
                return Poll::Ready(());
            }
            me.future.as_mut().poll(cx)
        };
        if rr_channel::objects::poll_own(&inner.rr, me.rr, cx, is_done).is_ready() {
",
    },
    Edit {
        file: "src/task/task_tracker.rs",
        from: r"        (self.inner.state.load(Ordering::Acquire) & 1) != 0
",
        to: r"        let state = || self.inner.state.load(Ordering::Acquire) as u64;
        self.inner.rr.look(|| state() & 1) != 0
",
    },
    Edit {
        file: "src/task/task_tracker.rs",
        from: r"        self.inner.state.load(Ordering::Acquire) >> 1
",
        to: r"        let state = || self.inner.state.load(Ordering::Acquire) as u64;
        self.inner.rr.look(|| state() >> 1) as usize
",
    },
    Edit {
        file: "src/task/task_tracker.rs",
        from: r"        self.inner.state.load(Ordering::Acquire) <= 1
",
        to: r"        let state = || self.inner.state.load(Ordering::Acquire) as u64;
        self.inner.rr.look(|| u64::from(state() <= 1)) != 0
",
    },
];
