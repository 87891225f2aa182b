//! Channels with one receiver.

use super::super::copy::Edit;

/// In all versions.
pub(super) const COMMON: &[Edit] = &[
    Edit {
        file: "src/sync/mpsc/chan.rs",
        from: r"    /// Notifies all tasks listening for the receiver being dropped.
    notify_rx_closed: Notify,
",
        to: r"    rr: rr_channel::objects::Object,
    /// How many messages an operation has got that is to get several.
    rr_got: AtomicUsize,

    /// Notifies all tasks listening for the receiver being dropped.
    notify_rx_closed: Notify,
",
    },
    Edit {
        file: "src/sync/mpsc/chan.rs",
        from: r"        notify_rx_closed: Notify::new(),
",
        to: r"        rr: rr_channel::objects::Object::new(),
        rr_got: AtomicUsize::new(0),
        notify_rx_closed: Notify::rr_unrecorded(),
",
    },
    Edit {
        file: "src/sync/mpsc/chan.rs",
        from: r"        // Push the value
        self.tx.push(value);
",
        to: r"        // Push the value
        self.rr.put(value, |value| self.tx.push(value));
",
    },
    Edit {
        file: "src/sync/mpsc/chan.rs",
        from: r"    /// Send a message and notify the receiver.
    pub(crate) fn send",
        to: r"    /// Sends a message if `enter` says that the channel is open.
    pub(super) fn rr_send_if(&self, value: T, enter: impl FnOnce() -> bool) -> Result<(), T> {
        let inner = &self.inner;
        inner.rr.offer_in_place(
            value,
            |value| {
                if !enter() {
                    return Err(value);
                }
                inner.tx.push(value);
                Ok(())
            },
            || (),
        )?;
        self.wake_rx();
        Ok(())
    }

    /// Send a message and notify the receiver.
    pub(crate) fn send",
    },
    Edit {
        file: "src/sync/mpsc/chan.rs",
        from: r"impl<T, S: Semaphore> Tx<T, S> {
    pub(crate) fn is_closed(&self) -> bool {
        self.inner.semaphore.is_closed()
    }

    pub(crate) async fn closed(&self) {
",
        to: r"impl<T, S: Semaphore> Tx<T, S> {
    pub(crate) fn is_closed(&self) -> bool {
        let is_closed = || u64::from(self.inner.semaphore.is_closed());
        self.inner.rr.look(is_closed) != 0
    }

    pub(crate) async fn closed(&self) {
        rr_channel::objects::operation(&self.inner.rr, self.rr_closed()).await;
    }

    async fn rr_closed(&self) {
",
    },
    Edit {
        file: "src/sync/mpsc/chan.rs",
        from: r"    pub(crate) fn is_closed(&self) -> bool {
        // There two internal states",
        to: r"    pub(crate) fn is_closed(&self) -> bool {
        self.inner.rr.look(|| u64::from(self.rr_is_closed())) != 0
    }

    fn rr_is_closed(&self) -> bool {
        // There two internal states",
    },
    Edit {
        file: "src/sync/mpsc/chan.rs",
        from: r"    pub(crate) fn is_empty(&self) -> bool {
",
        to: r"    pub(crate) fn is_empty(&self) -> bool {
        self.inner.rr.look(|| u64::from(self.rr_is_empty())) != 0
    }

    fn rr_is_empty(&self) -> bool {
",
    },
    Edit {
        file: "src/sync/mpsc/chan.rs",
        from: r"    pub(crate) fn len(&self) -> usize {
",
        to: r"    pub(crate) fn len(&self) -> usize {
        self.inner.rr.look(|| self.rr_len() as u64) as usize
    }

    fn rr_len(&self) -> usize {
",
    },
    Edit {
        file: "src/sync/mpsc/chan.rs",
        from: r"    pub(crate) fn recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
",
        to: r"    pub(crate) fn recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let rr = &self.inner.rr;
        rr.poll(
            rr.pended(),
            cx,
            |cx| crate::task::coop::rr_poll(|| self.rr_recv(cx)),
            |message| match message {
                Some(_) => rr_channel::objects::Ready::Done,
                None => rr_channel::objects::Ready::Closed,
            },
            || None,
        )
    }

    fn rr_recv(&self, cx: &mut Context<'_>) -> Poll<Option<T>> {
",
    },
    Edit {
        file: "src/sync/mpsc/chan.rs",
        from: r"    pub(crate) fn recv_many(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut Vec<T>,
        limit: usize,
    ) -> Poll<usize> {
",
        to: r"    pub(crate) fn recv_many(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut Vec<T>,
        limit: usize,
    ) -> Poll<usize> {
        let rr = &self.inner.rr;
        rr.poll(
            rr.pended(),
            cx,
            |cx| {
                let Some(wanted) = rr.several() else {
                    return self.rr_recv_many(cx, buffer, limit);
                };
                // As many as in the recorded run, which may come one by one.
                let mut got = self.inner.rr_got.load(Relaxed);
                while got < wanted as usize {
                    let left = wanted as usize - got;
                    match crate::task::coop::rr_poll(|| self.rr_recv_many(cx, buffer, left)) {
                        Ready(0) => break,
                        Ready(more) => got += more,
                        Pending => {
                            self.inner.rr_got.store(got, Relaxed);
                            return Pending;
                        }
                    }
                }
                self.inner.rr_got.store(0, Relaxed);
                Ready(got)
            },
            |count| rr_channel::objects::Ready::Several(*count as u64),
            || None,
        )
    }

    fn rr_recv_many(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut Vec<T>,
        limit: usize,
    ) -> Poll<usize> {
",
    },
    Edit {
        file: "src/sync/mpsc/chan.rs",
        from: r"    pub(crate) fn try_recv(&mut self) -> Result<T, TryRecvError> {
",
        to: r"    pub(crate) fn try_recv(&mut self) -> Result<T, TryRecvError> {
        self.inner.rr.attempt(
            || self.rr_try_recv(),
            |error| u64::from(*error == TryRecvError::Disconnected),
            |code| match code {
                0 => TryRecvError::Empty,
                _ => TryRecvError::Disconnected,
            },
            Some(|cx: &mut Context<'_>| {
                let polled = crate::task::coop::rr_poll(|| self.rr_recv(cx));
                polled.map(|message| message.ok_or(TryRecvError::Disconnected))
            }),
        )
    }

    fn rr_try_recv(&self) -> Result<T, TryRecvError> {
",
    },
    Edit {
        file: "src/sync/mpsc/chan.rs",
        from: r"                        TryPopResult::Ok(value) => {
",
        to: r"                        TryPopResult::Ok(value) => {
                            // Before others can have its room.
                            self.inner.rr.draw();
",
    },
    Edit {
        file: "src/sync/mpsc/unbounded.rs",
        from: r"        if !self.inc_num_messages() {
            return Err(SendError(message));
        }

        self.chan.send(message);
        Ok(())
",
        to: r"        let sent = self.chan.rr_send_if(message, || self.inc_num_messages());
        sent.map_err(SendError)
",
    },
    Edit {
        file: "src/sync/oneshot.rs",
        from: r"pub struct Sender<T> {
    inner: Option<Arc<Inner<T>>>,
",
        to: r"pub struct Sender<T> {
    rr: rr_channel::objects::Object,
    inner: Option<Arc<Inner<T>>>,
",
    },
    Edit {
        file: "src/sync/oneshot.rs",
        from: r"pub struct Receiver<T> {
    inner: Option<Arc<Inner<T>>>,
",
        to: r"pub struct Receiver<T> {
    rr: rr_channel::objects::Object,
    inner: Option<Arc<Inner<T>>>,
",
    },
    Edit {
        file: "src/sync/oneshot.rs",
        from: r"    let tx = Sender {
        inner: Some(inner.clone()),
",
        to: r"    let tx = Sender {
        rr: rr_channel::objects::Object::new(),
        inner: Some(inner.clone()),
",
    },
    Edit {
        file: "src/sync/oneshot.rs",
        from: r"    let rx = Receiver {
        inner: Some(inner),
",
        to: r"    let rx = Receiver {
        rr: rr_channel::objects::Object::new(),
        inner: Some(inner),
",
    },
    Edit {
        file: "src/sync/oneshot.rs",
        from: r"    pub fn send(mut self, t: T) -> Result<(), T> {
",
        to: r"    pub fn send(mut self, t: T) -> Result<(), T> {
        let rr = std::mem::replace(&mut self.rr, rr_channel::objects::Object::unrecorded());
        rr.offer(t, |t| self.rr_send(t), || ())
    }

    fn rr_send(&mut self, t: T) -> Result<(), T> {
",
    },
    Edit {
        file: "src/sync/oneshot.rs",
        from: r"    pub fn is_closed(&self) -> bool {
",
        to: r"    pub fn is_closed(&self) -> bool {
        self.rr.look(|| u64::from(self.rr_is_closed())) != 0
    }

    fn rr_is_closed(&self) -> bool {
",
    },
    Edit {
        file: "src/sync/oneshot.rs",
        from: r"    pub fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
",
        to: r"    pub fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.rr.poll(
            self.rr.pended(),
            cx,
            |cx| crate::task::coop::rr_poll(|| self.rr_poll_closed(cx)),
            |()| rr_channel::objects::Ready::Done,
            || None,
        )
    }

    fn rr_poll_closed(&self, cx: &mut Context<'_>) -> Poll<()> {
",
    },
    Edit {
        file: "src/sync/oneshot.rs",
        from: r"    pub fn is_empty(&self) -> bool {
",
        to: r"    pub fn is_empty(&self) -> bool {
        self.rr.look(|| u64::from(self.rr_is_empty())) != 0
    }

    fn rr_is_empty(&self) -> bool {
",
    },
    Edit {
        file: "src/sync/oneshot.rs",
        from: r"    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
",
        to: r"    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        let rr = std::mem::replace(&mut self.rr, rr_channel::objects::Object::unrecorded());
        let inner = self
            .inner
            .clone()
            .filter(|_| rr_channel::objects::is_replayed());
        let result = rr.attempt(
            || self.rr_try_recv(),
            |error| u64::from(*error == TryRecvError::Closed),
            |code| match code {
                0 => TryRecvError::Empty,
                _ => TryRecvError::Closed,
            },
            Some(|cx: &mut Context<'_>| match &inner {
                Some(inner) => {
                    let polled = crate::task::coop::rr_poll(|| inner.poll_recv(cx));
                    polled.map(|result| result.map_err(|_| TryRecvError::Closed))
                }
                None => Ready(Err(TryRecvError::Closed)),
            }),
        );
        if !matches!(result, Err(TryRecvError::Empty)) {
            self.inner = None;
        }
        self.rr = rr;
        result
    }

    fn rr_try_recv(&mut self) -> Result<T, TryRecvError> {
",
    },
    Edit {
        file: "src/sync/oneshot.rs",
        from: r"            let res = ready!(inner.poll_recv(cx));
",
        to: r"            let res = ready!(this.rr.poll(
                this.rr.pended(),
                cx,
                |cx| crate::task::coop::rr_poll(|| inner.poll_recv(cx)),
                |result| match result {
                    Ok(_) => rr_channel::objects::Ready::Done,
                    Err(_) => rr_channel::objects::Ready::Closed,
                },
                || None,
            ));
",
    },
    Edit {
        file: "src/runtime/blocking/shutdown.rs",
        from: r"    let (tx, rx) = oneshot::channel();
",
        to: r"    let (tx, rx) = rr_channel::executor::nameless(oneshot::channel);
",
    },
    Edit {
        file: "src/sync/mpsc/chan.rs",
        from: r"    fn close(&self);
",
        to: r"    fn close(&self);

    /// Closes it, as an operation of the program on the channel of `rr`.
    fn rr_close(&self, rr: &rr_channel::objects::Object);
",
    },
    Edit {
        file: "src/sync/mpsc/chan.rs",
        from: r"    fn close(&self) {
        self.semaphore.close();
    }
",
        to: r"    fn close(&self) {
        self.semaphore.rr.close_at_end(|| self.semaphore.rr_close());
    }

    fn rr_close(&self, _rr: &rr_channel::objects::Object) {
        self.semaphore.close();
    }
",
    },
    Edit {
        file: "src/sync/mpsc/chan.rs",
        from: r"    fn close(&self) {
        self.0.fetch_or(1, Release);
    }
",
        to: r"    fn close(&self) {
        self.0.fetch_or(1, Release);
    }

    fn rr_close(&self, rr: &rr_channel::objects::Object) {
        rr.close_in_place(|| self.close());
    }
",
    },
    Edit {
        file: "src/sync/mpsc/chan.rs",
        from: r"    pub(crate) fn close(&mut self) {
        self.inner",
        to: r"    pub(crate) fn close(&mut self) {
        let inner = self.inner.clone();
        self.rr_close_by(|| inner.semaphore.rr_close(&inner.rr));
    }

    fn rr_close_by(&mut self, close: impl FnOnce()) {
        self.inner",
    },
    Edit {
        file: "src/sync/mpsc/chan.rs",
        from: r"        self.inner.semaphore.close();
        self.inner.notify_rx_closed",
        to: r"        close();
        self.inner.notify_rx_closed",
    },
    Edit {
        file: "src/sync/mpsc/chan.rs",
        from: r"        self.close();

        self.inner.rx_fields",
        to: r"        let inner = self.inner.clone();
        self.rr_close_by(|| inner.rr.close_at_end(|| inner.semaphore.close()));

        self.inner.rx_fields",
    },
    Edit {
        file: "src/sync/mpsc/chan.rs",
        from: r"    pub(super) fn strong_count(&self) -> usize {
        self.inner.tx_count.load(Acquire)
",
        to: r"    pub(super) fn strong_count(&self) -> usize {
        self.inner
            .rr
            .look(|| self.inner.tx_count.load(Acquire) as u64) as usize
",
    },
    Edit {
        file: "src/sync/mpsc/chan.rs",
        from: r"    pub(super) fn sender_strong_count(&self) -> usize {
        self.inner.tx_count.load(Acquire)
",
        to: r"    pub(super) fn sender_strong_count(&self) -> usize {
        self.inner
            .rr
            .look(|| self.inner.tx_count.load(Acquire) as u64) as usize
",
    },
    Edit {
        file: "src/sync/mpsc/chan.rs",
        from: r"    pub(super) fn weak_count(&self) -> usize {
        self.inner.tx_weak_count.load(Relaxed)
",
        to: r"    pub(super) fn weak_count(&self) -> usize {
        self.inner
            .rr
            .look(|| self.inner.tx_weak_count.load(Relaxed) as u64) as usize
",
    },
    Edit {
        file: "src/sync/mpsc/chan.rs",
        from: r"    pub(super) fn sender_weak_count(&self) -> usize {
        self.inner.tx_weak_count.load(Relaxed)
",
        to: r"    pub(super) fn sender_weak_count(&self) -> usize {
        self.inner
            .rr
            .look(|| self.inner.tx_weak_count.load(Relaxed) as u64) as usize
",
    },
    Edit {
        file: "src/sync/mpsc/chan.rs",
        from: r"    pub(super) fn strong_count(&self) -> usize {
        self.tx_count.load(Acquire)
",
        to: r"    pub(super) fn strong_count(&self) -> usize {
        self.rr.look(|| self.tx_count.load(Acquire) as u64) as usize
",
    },
    Edit {
        file: "src/sync/mpsc/chan.rs",
        from: r"    pub(super) fn weak_count(&self) -> usize {
        self.tx_weak_count.load(Relaxed)
",
        to: r"    pub(super) fn weak_count(&self) -> usize {
        self.rr.look(|| self.tx_weak_count.load(Relaxed) as u64) as usize
",
    },
    Edit {
        file: "src/sync/mpsc/bounded.rs",
        from: r"        self.chan.semaphore().semaphore.available_permits()
    }

    /// Returns the maximum buffer capacity of the channel.",
        to: r"        let semaphore = &self.chan.semaphore().semaphore;
        semaphore
            .rr
            .look(|| semaphore.available_permits() as u64) as usize
    }

    /// Returns the maximum buffer capacity of the channel.",
    },
    Edit {
        file: "src/sync/mpsc/bounded.rs",
        from: r"        self.chan.semaphore().semaphore.available_permits()
    }

    /// Converts the `Sender` to a",
        to: r"        let semaphore = &self.chan.semaphore().semaphore;
        semaphore
            .rr
            .look(|| semaphore.available_permits() as u64) as usize
    }

    /// Converts the `Sender` to a",
    },
    Edit {
        file: "src/sync/oneshot.rs",
        from: r"    type Output = Result<T, RecvError>;

    fn poll(",
        to: r"    type Output = Result<T, RecvError>;

    #[track_caller]
    fn poll(",
    },
];
