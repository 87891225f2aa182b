//! Notifications, and channels whose values go to all receivers.

use super::super::copy::Edit;

/// In all versions.
pub(super) const COMMON: &[Edit] = &[
    Edit {
        file: "src/sync/notify.rs",
        from: r"    state: AtomicUsize,
    waiters: Mutex<LinkedList<Waiter>>,
",
        to: r"    state: AtomicUsize,
    rr: rr_channel::objects::Notified,
    waiters: Mutex<LinkedList<Waiter>>,
",
    },
    Edit {
        file: "src/sync/notify.rs",
        from: r"            waiters: Mutex::new(LinkedList::new()),
",
        to: r"            rr: rr_channel::objects::Notified::new(),
            waiters: Mutex::new(LinkedList::new()),
",
    },
    Edit {
        file: "src/sync/notify.rs",
        from: r"            waiters: Mutex::const_new(LinkedList::new()),
",
        to: r"            rr: rr_channel::objects::Notified::lazy(),
            waiters: Mutex::const_new(LinkedList::new()),
",
    },
    Edit {
        file: "src/sync/notify.rs",
        from: r"    fn notify_with_strategy(&self, strategy: NotifyOneStrategy) {
",
        to: r"    /// One whose operations are part of others.
    pub(crate) const fn rr_unrecorded() -> Notify {
        let mut notify = Notify::const_new();
        let unrecorded = rr_channel::objects::Notified::unrecorded();
        std::mem::forget(std::mem::replace(&mut notify.rr, unrecorded));
        notify
    }

    fn notify_with_strategy(&self, strategy: NotifyOneStrategy) {
        self.rr.notifies();
",
    },
    Edit {
        file: "src/sync/notify.rs",
        from: r"    /// Intrusive linked-list pointers.
    pointers: linked_list::Pointers<Waiter>,

    /// Waiting task's waker. Depending",
        to: r"    rr: rr_channel::objects::Operation,

    /// Intrusive linked-list pointers.
    pointers: linked_list::Pointers<Waiter>,

    /// Waiting task's waker. Depending",
    },
    Edit {
        file: "src/sync/notify.rs",
        from: r"        Waiter {
            pointers",
        to: r"        Waiter {
            rr: rr_channel::objects::Operation::new(),
            pointers",
    },
    Edit {
        file: "src/sync/notify.rs",
        from: r"        self.lock_waiter_list().notify_waiters();
",
        to: r"        self.rr.notifies();
        self.lock_waiter_list().notify_waiters();
",
    },
    Edit {
        file: "src/sync/watch.rs",
        from: r"                inner: Default::default(),
",
        to: r"                inner: [const { Notify::rr_unrecorded() }; 8],
",
    },
    Edit {
        file: "src/sync/watch.rs",
        from: r"    /// The most recent value.
    value: RwLock<T>,
",
        to: r"    rr: rr_channel::objects::Object,

    /// The most recent value.
    value: RwLock<T>,
",
    },
    Edit {
        file: "src/sync/watch.rs",
        from: r"        value: RwLock::new(init),
",
        to: r"        rr: rr_channel::objects::Object::new(),
        value: RwLock::new(init),
",
    },
    Edit {
        file: "src/sync/watch.rs",
        from: r"        notify_tx: Notify::new(),
",
        to: r"        notify_tx: Notify::rr_unrecorded(),
",
    },
    Edit {
        file: "src/sync/watch.rs",
        from: r"    pub fn borrow(&self) -> Ref<'_, T> {
        let inner = self.shared.value.read();

        // After",
        to: r"    pub fn borrow(&self) -> Ref<'_, T> {
        let inner = self.shared.rr_read();

        // After",
    },
    Edit {
        file: "src/sync/watch.rs",
        from: r"    pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
        let inner = self.shared.value.read();
",
        to: r"    pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
        let inner = self.shared.rr_read();
",
    },
    Edit {
        file: "src/sync/watch.rs",
        from: r"                let inner = self.shared.value.read();

                let new_version",
        to: r"                let inner = self.shared.rr_read();

                let new_version",
    },
    Edit {
        file: "src/sync/watch.rs",
        from: r"        let inner = self.shared.value.read();

        // The sender",
        to: r"        let inner = self.shared.rr_read();

        // The sender",
    },
    Edit {
        file: "src/sync/watch.rs",
        from: r"            let mut lock = self.shared.value.write();
",
        to: r"            let mut lock = self.shared.rr.acquire(|| self.shared.value.write());
",
    },
    Edit {
        file: "src/sync/watch.rs",
        from: r"impl<T: fmt::Debug> fmt::Debug for Shared<T> {
",
        to: r"impl<T> Shared<T> {
    fn rr_read(&self) -> RwLockReadGuard<'_, T> {
        self.rr.share(|| self.value.read())
    }

    /// The state, in its turn.
    fn rr_state(&self) -> state::StateSnapshot {
        let _value = rr_channel::objects::is_on().then(|| self.rr_read());
        self.state.load()
    }

    fn rr_receiver_count(&self) -> usize {
        self.ref_count_rx.load(Relaxed)
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
",
    },
    Edit {
        file: "src/sync/watch.rs",
        from: r"    pub fn has_changed(&self) -> Result<bool, error::RecvError> {
",
        to: r"    pub fn has_changed(&self) -> Result<bool, error::RecvError> {
        let seen = self.shared.rr.look(|| match self.rr_has_changed() {
            Ok(has_changed) => u64::from(has_changed),
            Err(_) => 2,
        });
        match seen {
            0 | 1 => Ok(seen == 1),
            _ => Err(error::RecvError(())),
        }
    }

    fn rr_has_changed(&self) -> Result<bool, error::RecvError> {
",
    },
    Edit {
        file: "src/sync/watch.rs",
        from: r"        let current_version = self.shared.state.load().version();
",
        to: r"        let current_version = self.shared.rr_state().version();
",
    },
    Edit {
        file: "src/sync/watch.rs",
        from: r"        let version = shared.state.load().version();
",
        to: r"        let version = shared.rr_state().version();
",
    },
    Edit {
        file: "src/sync/watch.rs",
        from: r"async fn changed_impl<T>(
",
        to: r"async fn changed_impl<T>(
    shared: &Shared<T>,
    version: &mut Version,
) -> Result<(), error::RecvError> {
    let pended = rr_channel::objects::Operation::new();
    let mut future = std::pin::pin!(rr_changed_impl(shared, version));
    std::future::poll_fn(|cx| {
        shared.rr.poll_one(
            &pended,
            cx,
            |cx| {
                if !rr_channel::objects::is_on() {
                    return future.as_mut().poll(cx);
                }
                // The value cannot be changed between the look at it and its turn.
                let _value = shared.value.read();
                let polled = future.as_mut().poll(cx);
                if let std::task::Poll::Ready(Ok(())) = polled {
                    shared.rr.draw();
                }
                polled
            },
            |result| match result {
                Ok(()) => rr_channel::objects::Ready::InTurn,
                Err(_) => rr_channel::objects::Ready::Closed,
            },
            || None,
        )
    })
    .await
}

async fn rr_changed_impl<T>(
",
    },
    Edit {
        file: "src/sync/watch.rs",
        from: r"use std::fmt;
use std::mem;
",
        to: r"use std::fmt;
use std::future::Future as _;
use std::mem;
",
    },
    Edit {
        file: "src/sync/watch.rs",
        from: r"    pub fn receiver_count(&self) -> usize {
        self.shared.ref_count_rx.load(Relaxed)
",
        to: r"    pub fn receiver_count(&self) -> usize {
        self.shared.rr.look(|| self.shared.rr_receiver_count() as u64) as usize
",
    },
    Edit {
        file: "src/sync/watch.rs",
        from: r"    pub async fn closed(&self) {
        cooperative(async {
",
        to: r"    pub async fn closed(&self) {
        rr_channel::objects::operation(&self.shared.rr, self.rr_closed()).await;
    }

    async fn rr_closed(&self) {
        cooperative(async {
",
    },
    Edit {
        file: "src/sync/watch.rs",
        from: r"            while self.receiver_count() > 0 {
",
        to: r"            while self.shared.rr_receiver_count() > 0 {
",
    },
    Edit {
        file: "src/sync/watch.rs",
        from: r"                if self.receiver_count() == 0 {
",
        to: r"                if self.shared.rr_receiver_count() == 0 {
",
    },
    Edit {
        file: "src/signal/registry.rs",
        from: r"        let (tx, _rx) = watch::channel(());
",
        to: r"        let (tx, _rx) = rr_channel::executor::nameless(|| watch::channel(()));
",
    },
    Edit {
        file: "src/sync/broadcast.rs",
        from: r"struct Shared<T> {
    /// slots in the channel.
",
        to: r"struct Shared<T> {
    rr: rr_channel::objects::Object,

    /// slots in the channel.
",
    },
    Edit {
        file: "src/sync/broadcast.rs",
        from: r"            notify_last_rx_drop: Notify::new(),
",
        to: r"            rr: rr_channel::objects::Object::new(),
            notify_last_rx_drop: Notify::rr_unrecorded(),
",
    },
    Edit {
        file: "src/sync/broadcast.rs",
        from: r"    pub fn send(&self, value: T) -> Result<usize, SendError<T>> {
",
        to: r"    pub fn send(&self, value: T) -> Result<usize, SendError<T>> {
        let rr = &self.shared.rr;
        let sent = rr.offer(value, |value| self.rr_send(value).map_err(|error| error.0), || 0);
        let receivers = sent.map_err(SendError)?;
        Ok(rr.look(|| receivers as u64) as usize)
    }

    fn rr_send(&self, value: T) -> Result<usize, SendError<T>> {
",
    },
    Edit {
        file: "src/sync/broadcast.rs",
        from: r"        // Write the value
        slot.val = Some(value);
",
        to: r"        // Write the value
        slot.val = Some(value);
        self.shared.rr.draw();
",
    },
    Edit {
        file: "src/sync/broadcast.rs",
        from: r#"    let mut tail = shared.tail.lock();

    assert!(tail.rx_cnt != MAX_RECEIVERS, "max receivers");
"#,
        to: r#"    let next = shared.rr.in_turn(|| rr_new_receiver(&shared));

    Receiver { shared, next }
}

fn rr_new_receiver<T>(shared: &Shared<T>) -> u64 {
    let mut tail = shared.tail.lock();

    assert!(tail.rx_cnt != MAX_RECEIVERS, "max receivers");
"#,
    },
    Edit {
        file: "src/sync/broadcast.rs",
        from: r"    let next = tail.pos;

    drop(tail);

    Receiver { shared, next }
",
        to: r"    let next = tail.pos;
    shared.rr.draw();

    drop(tail);

    next
",
    },
    Edit {
        file: "src/sync/broadcast.rs",
        from: r"    pub fn len(&self) -> usize {
        let tail = self.shared.tail.lock();
",
        to: r"    pub fn len(&self) -> usize {
        self.shared.rr.look(|| self.rr_len() as u64) as usize
    }

    fn rr_len(&self) -> usize {
        let tail = self.shared.tail.lock();
",
    },
    Edit {
        file: "src/sync/broadcast.rs",
        from: r"    pub fn is_empty(&self) -> bool {
        let tail = self.shared.tail.lock();
",
        to: r"    pub fn is_empty(&self) -> bool {
        self.shared.rr.look(|| u64::from(self.rr_is_empty())) != 0
    }

    fn rr_is_empty(&self) -> bool {
        let tail = self.shared.tail.lock();
",
    },
    Edit {
        file: "src/sync/broadcast.rs",
        from: r"    pub fn receiver_count(&self) -> usize {
        let tail = self.shared.tail.lock();
        tail.rx_cnt
",
        to: r"    pub fn receiver_count(&self) -> usize {
        self.shared.rr.look(|| self.shared.tail.lock().rx_cnt as u64) as usize
",
    },
    Edit {
        file: "src/sync/broadcast.rs",
        from: r"    pub async fn closed(&self) {
        loop {
",
        to: r"    pub async fn closed(&self) {
        rr_channel::objects::operation(&self.shared.rr, self.rr_closed()).await;
    }

    async fn rr_closed(&self) {
        loop {
",
    },
    Edit {
        file: "src/sync/broadcast.rs",
        from: r"        let next_send_pos = self.shared.tail.lock().pos;
        (next_send_pos - self.next) as usize
",
        to: r"        let len = || self.shared.tail.lock().pos - self.next;
        self.shared.rr.look(len) as usize
",
    },
    Edit {
        file: "src/sync/broadcast.rs",
        from: r"                let missed = next.wrapping_sub(self.next);

                drop(tail);
",
        to: r"                let missed = next.wrapping_sub(self.next);
                self.shared.rr.draw();

                drop(tail);
",
    },
    Edit {
        file: "src/sync/broadcast.rs",
        from: r"        self.next = self.next.wrapping_add(1);

        Ok(RecvGuard { slot })
    }
",
        to: r"        self.next = self.next.wrapping_add(1);
        self.shared.rr.draw();

        Ok(RecvGuard { slot })
    }
",
    },
    Edit {
        file: "src/sync/broadcast.rs",
        from: r"        let guard = self.recv_ref(None)?;
        guard.clone_value().ok_or(TryRecvError::Closed)
",
        to: r"        let shared = self.shared.clone();
        let received = shared.rr.attempt(
            || match self.recv_ref(None) {
                Ok(guard) => Ok(guard.clone_value().ok_or(TryRecvError::Closed)),
                // It is another place in the channel.
                Err(TryRecvError::Lagged(missed)) => Ok(Err(TryRecvError::Lagged(missed))),
                Err(error) => Err(error),
            },
            |error| u64::from(*error == TryRecvError::Closed),
            |code| match code {
                0 => TryRecvError::Empty,
                _ => TryRecvError::Closed,
            },
            rr_channel::objects::at_once(),
        );
        received.and_then(|received| received)
",
    },
    Edit {
        file: "src/sync/broadcast.rs",
        from: r"    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, RecvError>> {
",
        to: r"    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, RecvError>> {
        if !rr_channel::objects::is_on() {
            return self.rr_poll(cx);
        }
        let shared = self.as_mut().project().0.shared.clone();
        // Safety: nothing is moved.
        let pended = unsafe { std::mem::take(&mut self.as_mut().get_unchecked_mut().rr) };
        let polled = shared.rr.poll_one(
            &pended,
            cx,
            |cx| self.as_mut().rr_poll(cx),
            |result| match result {
                Err(RecvError::Closed) => rr_channel::objects::Ready::Closed,
                _ => rr_channel::objects::Ready::InTurn,
            },
            || None,
        );
        // Safety: nothing is moved.
        unsafe { self.get_unchecked_mut().rr = pended };
        polled
    }
}

impl<'a, T> Recv<'a, T>
where
    T: Clone,
{
    fn rr_poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, RecvError>> {
",
    },
    Edit {
        file: "src/sync/broadcast.rs",
        from: r"        Recv {
            receiver,
",
        to: r"        Recv {
            rr: rr_channel::objects::Operation::new(),
            receiver,
",
    },
    Edit {
        file: "src/sync/broadcast.rs",
        from: r"struct Recv<'a, T> {
    /// Receiver being waited on.
",
        to: r"struct Recv<'a, T> {
    rr: rr_channel::objects::Operation,

    /// Receiver being waited on.
",
    },
    Edit {
        file: "src/sync/broadcast.rs",
        from: r"        // Channel is closed when there are no strong senders left active
        self.shared.num_tx.load(Acquire) == 0
",
        to: r"        // Channel is closed when there are no strong senders left active
        let is_closed = || u64::from(self.shared.num_tx.load(Acquire) == 0);
        self.shared.rr.look(is_closed) != 0
",
    },
    Edit {
        file: "src/sync/watch.rs",
        from: r"        self.shared.ref_count_tx.load(Relaxed)
    }

    /// Returns `true` if senders",
        to: r"        self.shared
            .rr
            .look(|| self.shared.ref_count_tx.load(Relaxed) as u64) as usize
    }

    /// Returns `true` if senders",
    },
    Edit {
        file: "src/sync/notify.rs",
        from: r"impl Future for Notified<'_> {
    type Output = ();

    fn poll(",
        to: r"impl Future for Notified<'_> {
    type Output = ();

    #[track_caller]
    fn poll(",
    },
    Edit {
        file: "src/sync/notify.rs",
        from: r"impl Future for OwnedNotified {
    type Output = ();

    fn poll(",
        to: r"impl Future for OwnedNotified {
    type Output = ();

    #[track_caller]
    fn poll(",
    },
];

/// In 1.53.
pub(super) const OF_1_53: &[Edit] = &[Edit {
    file: "src/sync/notify.rs",
    from: r"    fn poll_notified(self, waker: Option<&Waker>) -> Poll<()> {
",
    to: r"    #[track_caller]
    fn poll_notified(self, waker: Option<&Waker>) -> Poll<()> {
        let NotifiedProject {
            notify,
            state,
            notify_waiters_calls,
            waiter,
        } = self;
        let rr_waker = waker;
        notify.rr.poll(&waiter.rr, rr_waker, |notice| match notice {
            rr_channel::objects::Notice::Poll => NotifiedProject {
                notify,
                state: &mut *state,
                notify_waiters_calls,
                waiter,
            }
            .rr_poll_notified(waker),
            rr_channel::objects::Notice::Came => {
                if matches!(*state, State::Init) {
                    *state = State::Done;
                }
                Poll::Ready(())
            }
        })
    }

    fn rr_poll_notified(self, waker: Option<&Waker>) -> Poll<()> {
",
}];

/// In 1.54.
pub(super) const OF_1_54: &[Edit] = &[
    Edit {
        file: "src/sync/watch.rs",
        from: r"    pub fn is_closed(&self) -> bool {
        self.shared.state.load().is_closed()
",
        to: r"    pub fn is_closed(&self) -> bool {
        let is_closed = || u64::from(self.shared.state.load().is_closed());
        self.shared.rr.look(is_closed) != 0
",
    },
    Edit {
        file: "src/sync/notify.rs",
        from: r"    fn poll_notified(self, mut ctx: Option<&mut Context<'_>>) -> Poll<()> {
",
        to: r"    #[track_caller]
    fn poll_notified(self, mut ctx: Option<&mut Context<'_>>) -> Poll<()> {
        let NotifiedProject {
            notify,
            state,
            notify_waiters_calls,
            waiter,
        } = self;
        let rr_waker = ctx.as_ref().map(|ctx| ctx.waker());
        notify.rr.poll(&waiter.rr, rr_waker, |notice| match notice {
            rr_channel::objects::Notice::Poll => NotifiedProject {
                notify,
                state: &mut *state,
                notify_waiters_calls,
                waiter,
            }
            .rr_poll_notified(ctx.as_deref_mut()),
            rr_channel::objects::Notice::Came => {
                if matches!(*state, State::Init) {
                    *state = State::Done;
                }
                Poll::Ready(())
            }
        })
    }

    fn rr_poll_notified(self, mut ctx: Option<&mut Context<'_>>) -> Poll<()> {
",
    },
];
