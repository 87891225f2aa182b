//! Streams of messages. See
//! [`ipc_channel::asynch`](https://docs.rs/ipc-channel/0.23/ipc_channel/asynch/).
//!
//! As upstream's, they are fed by a thread that they share. The result of a poll is recorded: it
//! is an attempt to receive from a channel between that thread and the stream. In a replay a poll
//! may find no message although there is one, as it did when it was recorded. It then has its task
//! woken, so that the task polls again as it did then.

use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use futures_core::Stream;
use futures_core::stream::FusedStream;
use serde::{Deserialize, Serialize};

use super::SerDeError;
use super::ipc::{IpcMessage, IpcReceiver};
use super::router::{Handler, RouterProxy};
use rr_channel_core::crossbeam_channel::{Receiver, Sender, TryRecvError, unbounded};
use rr_channel_core::platform::lock::lock;

/// Feeds all streams of the process.
static ROUTER: LazyLock<RouterProxy> =
    LazyLock::new(|| RouterProxy::of_process("ipc-channel streams"));

/// The messages of a receiver, as a stream.
pub struct IpcStream<T> {
    messages: Receiver<IpcMessage>,
    /// How many of them were taken.
    taken: u64,
    is_terminated: bool,
    line: Arc<Line>,
    of: PhantomData<T>,
}

impl<T> Unpin for IpcStream<T> {}

/// The state shared by the thread that feeds a stream and the thread that polls it.
#[derive(Debug, Default)]
struct Line(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    sent: u64,
    is_closed: bool,
    waker: Option<Waker>,
}

impl Line {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// Something happened in the channel; `note` says what.
    fn happened(&self, note: impl FnOnce(&mut State)) {
        let waker = {
            let mut state = self.lock();
            note(&mut state);
            state.waker.take()
        };
        // It is the program's code.
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Has `waker` woken when something happens. Whether there is something already, where
    /// `taken` messages were taken.
    fn register(&self, waker: Waker, taken: u64) -> bool {
        let (before, is_there) = {
            let mut state = self.lock();
            let is_there = state.sent > taken || state.is_closed;
            (state.waker.replace(waker), is_there)
        };
        drop(before);
        is_there
    }

    fn unregister(&self) {
        let waker = self.lock().waker.take();
        drop(waker);
    }
}

/// The end of a stream that its messages come from.
struct Feed {
    /// `None` once the stream is closed.
    messages: Option<Sender<IpcMessage>>,
    line: Arc<Line>,
}

impl Feed {
    fn feed(&mut self, message: IpcMessage) {
        let sent = self.messages.as_ref().map(|channel| channel.send(message));
        if let Some(Ok(())) = sent {
            self.line.happened(|state| state.sent += 1);
        }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.messages = None;
        self.line.happened(|state| state.is_closed = true);
    }
}

impl<T> IpcReceiver<T>
where
    T: for<'de> Deserialize<'de> + Serialize,
{
    /// Converts the receiver into a stream.
    pub fn to_stream(self) -> IpcStream<T> {
        let (s, messages) = unbounded();
        let line = Arc::new(Line::default());
        let mut feed = Feed {
            messages: Some(s),
            line: Arc::clone(&line),
        };
        let handler = Handler::Multi(Box::new(move |message| feed.feed(message)));
        ROUTER.add_route(self.to_opaque(), handler);
        IpcStream {
            messages,
            taken: 0,
            is_terminated: false,
            line,
            of: PhantomData,
        }
    }
}

impl<T> Stream for IpcStream<T>
where
    T: for<'de> Deserialize<'de> + Serialize,
{
    type Item = Result<T, SerDeError>;

    fn poll_next(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_terminated {
            return Poll::Ready(None);
        }
        // Before looking, so that nothing happens in between unnoticed.
        let is_there = self.line.register(ctx.waker().clone(), self.taken);
        match self.messages.try_recv() {
            Ok(message) => {
                self.line.unregister();
                self.taken += 1;
                Poll::Ready(Some(message.to()))
            }
            Err(TryRecvError::Disconnected) => {
                self.line.unregister();
                self.is_terminated = true;
                Poll::Ready(None)
            }
            Err(TryRecvError::Empty) => {
                if is_there {
                    ctx.waker().wake_by_ref();
                }
                Poll::Pending
            }
        }
    }
}

impl<T> FusedStream for IpcStream<T>
where
    T: for<'de> Deserialize<'de> + Serialize,
{
    fn is_terminated(&self) -> bool {
        self.is_terminated
    }
}
