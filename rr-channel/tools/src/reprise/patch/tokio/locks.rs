//! Semaphores, and what is made of them: locks, `OnceCell`, barriers.

use super::super::copy::Edit;

/// In all versions.
pub(super) const COMMON: &[Edit] = &[
    Edit {
        file: "src/sync/batch_semaphore.rs",
        from: r"    /// The current number of available permits in the semaphore.
    permits: AtomicUsize,
",
        to: r"    /// The current number of available permits in the semaphore.
    permits: AtomicUsize,
    pub(super) rr: rr_channel::objects::Object,
",
    },
    Edit {
        file: "src/sync/batch_semaphore.rs",
        from: r"            permits: AtomicUsize::new(permits << Self::PERMIT_SHIFT),
            waiters: Mutex::new(Waitlist {
",
        to: r"            permits: AtomicUsize::new(permits << Self::PERMIT_SHIFT),
            rr: rr_channel::objects::Object::new(),
            waiters: Mutex::new(Waitlist {
",
    },
    Edit {
        file: "src/sync/batch_semaphore.rs",
        from: r"            permits: AtomicUsize::new(permits << Self::PERMIT_SHIFT),
            waiters: Mutex::const_new(Waitlist {
",
        to: r"            permits: AtomicUsize::new(permits << Self::PERMIT_SHIFT),
            rr: rr_channel::objects::Object::lazy(),
            waiters: Mutex::const_new(Waitlist {
",
    },
    Edit {
        file: "src/sync/batch_semaphore.rs",
        from: r"            permits: AtomicUsize::new(Self::CLOSED),
            waiters: Mutex::new(Waitlist {
",
        to: r"            permits: AtomicUsize::new(Self::CLOSED),
            rr: rr_channel::objects::Object::new(),
            waiters: Mutex::new(Waitlist {
",
    },
    Edit {
        file: "src/sync/batch_semaphore.rs",
        from: r"            permits: AtomicUsize::new(Self::CLOSED),
            waiters: Mutex::const_new(Waitlist {
",
        to: r"            permits: AtomicUsize::new(Self::CLOSED),
            rr: rr_channel::objects::Object::lazy(),
            waiters: Mutex::const_new(Waitlist {
",
    },
    Edit {
        file: "src/sync/batch_semaphore.rs",
        from: r"    pub(crate) fn try_acquire(&self, num_permits: usize) -> Result<(), TryAcquireError> {
",
        to: r"    pub(crate) fn try_acquire(&self, num_permits: usize) -> Result<(), TryAcquireError> {
        let mut later: Option<Pin<Box<Acquire<'_>>>> = None;
        self.rr.attempt(
            || self.rr_try_acquire(num_permits),
            |error| u64::from(*error == TryAcquireError::Closed),
            |code| match code {
                0 => TryAcquireError::NoPermits,
                _ => TryAcquireError::Closed,
            },
            Some(|cx: &mut Context<'_>| {
                let later = later.get_or_insert_with(|| Box::pin(self.acquire(num_permits)));
                // A semaphore that is closed too early lets everyone in.
                crate::task::coop::rr_poll(|| later.as_mut().rr_poll(cx)).map(|_| Ok(()))
            }),
        )
    }

    fn rr_try_acquire(&self, num_permits: usize) -> Result<(), TryAcquireError> {
",
    },
    Edit {
        file: "src/sync/batch_semaphore.rs",
        from: r"impl Future for Acquire<'_> {
    type Output = Result<(), AcquireError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
",
        to: r"impl Future for Acquire<'_> {
    type Output = Result<(), AcquireError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let semaphore = self.semaphore;
        let pended = std::mem::take(self.as_mut().project().4);
        let polled = semaphore.rr.poll_entry(
            &pended,
            cx,
            |cx| crate::task::coop::rr_poll(|| self.as_mut().rr_poll(cx)),
            |result| match result {
                Ok(()) => rr_channel::objects::Ready::InTurn,
                Err(_) => rr_channel::objects::Ready::Closed,
            },
            || Some(Ok(())),
        );
        *self.project().4 = pended;
        polled
    }
}

impl Acquire<'_> {
    fn rr_poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), AcquireError>> {
",
    },
    Edit {
        file: "src/sync/batch_semaphore.rs",
        from: r"        let (node, semaphore, needed, queued) = self.project();
",
        to: r"        let (node, semaphore, needed, queued, _) = self.project();
",
    },
    Edit {
        file: "src/sync/batch_semaphore.rs",
        from: r"    fn project(self: Pin<&mut Self>) -> (Pin<&mut Waiter>, &Semaphore, usize, &mut bool) {
",
        to: r"    fn project(
        self: Pin<&mut Self>,
    ) -> (
        Pin<&mut Waiter>,
        &Semaphore,
        usize,
        &mut bool,
        &mut rr_channel::objects::Operation,
    ) {
",
    },
    Edit {
        file: "src/sync/batch_semaphore.rs",
        from: r"                this.num_permits,
                &mut this.queued,
",
        to: r"                this.num_permits,
                &mut this.queued,
                &mut this.rr,
",
    },
    Edit {
        file: "src/sync/batch_semaphore.rs",
        from: r"        return Self {
            node: Waiter::new(num_permits),
",
        to: r"        return Self {
            rr: rr_channel::objects::Operation::new(),
            node: Waiter::new(num_permits),
",
    },
    Edit {
        file: "src/sync/batch_semaphore.rs",
        from: r"            Self {
                node: Waiter::new(num_permits, ctx),
",
        to: r"            Self {
                rr: rr_channel::objects::Operation::new(),
                node: Waiter::new(num_permits, ctx),
",
    },
    Edit {
        file: "src/sync/batch_semaphore.rs",
        from: r"pub(crate) struct Acquire<'a> {
    node: Waiter,
",
        to: r"pub(crate) struct Acquire<'a> {
    rr: rr_channel::objects::Operation,
    node: Waiter,
",
    },
    Edit {
        file: "src/task/coop/mod.rs",
        from: r"/// Runs the given closure with an unconstrained task budget.",
        to: r"/// Polls an operation by `f`. In a replay, the budget is no reason to poll it again.
#[inline(always)]
pub(crate) fn rr_poll<R>(f: impl FnOnce() -> R) -> R {
    if rr_channel::objects::is_replayed() {
        with_unconstrained(f)
    } else {
        f()
    }
}

/// Runs the given closure with an unconstrained task budget.",
    },
    Edit {
        file: "src/sync/semaphore.rs",
        from: r"        self.ll_sem.available_permits()
",
        to: r"        self.ll_sem.rr.look(|| self.ll_sem.available_permits() as u64) as usize
",
    },
    Edit {
        file: "src/sync/semaphore.rs",
        from: r"        self.ll_sem.is_closed()
",
        to: r"        self.ll_sem.rr.look(|| u64::from(self.ll_sem.is_closed())) != 0
",
    },
    Edit {
        file: "src/sync/semaphore.rs",
        from: r"    /// Returns the current number of available permits.
    pub fn available_permits",
        to: r"    /// The same one, whose operations are part of others.
    pub(crate) const fn rr_unrecorded(mut self) -> Self {
        self.ll_sem.rr = rr_channel::objects::Object::unrecorded();
        self
    }

    /// Returns the current number of available permits.
    pub fn available_permits",
    },
    Edit {
        file: "src/sync/once_cell.rs",
        from: r"            semaphore: Semaphore::new_closed(),
",
        to: r"            semaphore: Semaphore::new_closed().rr_unrecorded(),
",
    },
    Edit {
        file: "src/sync/once_cell.rs",
        from: r"            semaphore: Semaphore::new(1),
",
        to: r"            semaphore: Semaphore::new(1).rr_unrecorded(),
",
    },
    Edit {
        file: "src/sync/once_cell.rs",
        from: r"            semaphore: Semaphore::const_new(1),
",
        to: r"            semaphore: Semaphore::const_new(1).rr_unrecorded(),
",
    },
    Edit {
        file: "src/sync/once_cell.rs",
        from: r"            semaphore: Semaphore::const_new_closed(),
",
        to: r"            semaphore: Semaphore::const_new_closed().rr_unrecorded(),
",
    },
    Edit {
        file: "src/sync/set_once.rs",
        from: r"            value: UnsafeCell::new(MaybeUninit::new(value)),
            notify: Notify::new(),
",
        to: r"            value: UnsafeCell::new(MaybeUninit::new(value)),
            notify: Notify::rr_unrecorded(),
",
    },
    Edit {
        file: "src/sync/set_once.rs",
        from: r"            value: UnsafeCell::new(MaybeUninit::new(value)),
            notify: Notify::const_new(),
",
        to: r"            value: UnsafeCell::new(MaybeUninit::new(value)),
            notify: Notify::rr_unrecorded(),
",
    },
    Edit {
        file: "src/sync/set_once.rs",
        from: r"            value: UnsafeCell::new(MaybeUninit::uninit()),
            notify: Notify::new(),
",
        to: r"            value: UnsafeCell::new(MaybeUninit::uninit()),
            notify: Notify::rr_unrecorded(),
",
    },
    Edit {
        file: "src/sync/set_once.rs",
        from: r"            value: UnsafeCell::new(MaybeUninit::uninit()),
            notify: Notify::const_new(),
",
        to: r"            value: UnsafeCell::new(MaybeUninit::uninit()),
            notify: Notify::rr_unrecorded(),
",
    },
    Edit {
        file: "src/sync/barrier.rs",
        from: r"pub struct Barrier {
",
        to: r"pub struct Barrier {
    rr: rr_channel::objects::Object,
",
    },
    Edit {
        file: "src/sync/barrier.rs",
        from: r"            n,
            wait,
",
        to: r"            rr: rr_channel::objects::Object::new(),
            n,
            wait,
",
    },
    Edit {
        file: "src/sync/barrier.rs",
        from: r"            let mut state = self.state.lock();
            let generation",
        to: r"            let mut state = self.rr.acquire(|| self.state.lock());
            let generation",
    },
    Edit {
        file: "src/sync/batch_semaphore.rs",
        from: r"    pub(crate) fn close(&self) {
",
        to: r"    pub(crate) fn close(&self) {
        self.rr.close(|| self.rr_close());
    }

    pub(crate) fn rr_close(&self) {
",
    },
    Edit {
        file: "src/sync/semaphore.rs",
        from: r"        self.ll_sem.forget_permits(n)
",
        to: r"        let forgotten = self.ll_sem.forget_permits(n);
        self.ll_sem.rr.look(|| forgotten as u64) as usize
",
    },
];
