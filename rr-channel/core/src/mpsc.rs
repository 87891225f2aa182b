//! A drop-in for [`std::sync::mpsc`]: its names and error types, over the channels
//! of [`crossbeam_channel`](crate::crossbeam_channel).
//!
//! `std`'s channels are themselves a port of crossbeam's, so there is one engine for both faces.
//! They differ in one thing: a receiver of `std`'s takes the messages in its channel with it when
//! it goes; one of crossbeam's leaves those of a channel with a bound. Where nothing is recorded,
//! channels with a bound are `std`'s own. Not there: the unstable `Receiver::recv_deadline` and
//! `SyncSender::send_timeout`.
//!
//! ```
//! use rr_channel::mpsc;
//! use rr_channel::thread;
//!
//! let (tx, rx) = mpsc::channel();
//! thread::spawn(move || tx.send(10).unwrap());
//! assert_eq!(rx.recv(), Ok(10));
//! ```

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::mpsc;
use std::time::Duration;

pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};

use crate::crossbeam_channel as cb;
use crate::engine::replay::Leftover;
use crate::engine::session::{Session, session};

/// The sending half of [`channel`].
pub struct Sender<T>(cb::Sender<T>);

/// The sending half of [`sync_channel`].
pub struct SyncSender<T>(SyncSenderKind<T>);

enum SyncSenderKind<T> {
    Plain(mpsc::SyncSender<T>),
    Ours(cb::Sender<T>),
}

/// The receiving half of [`channel`] and [`sync_channel`]; one thread's at a time.
pub struct Receiver<T> {
    inner: ReceiverKind<T>,
    /// `Send`, and not `Sync`.
    one_thread: PhantomData<Cell<()>>,
}

enum ReceiverKind<T> {
    Plain(mpsc::Receiver<T>),
    Ours(cb::Receiver<T>),
}

/// Creates a channel that never blocks its senders.
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let (s, r) = cb::unbounded();
    (Sender(s), Receiver::new(ReceiverKind::Ours(r)))
}

/// Creates a channel that holds `bound` messages and blocks senders when it is full;
/// zero makes each send wait for its receive.
///
/// ```
/// use rr_channel::mpsc::{TrySendError, sync_channel};
///
/// let (tx, rx) = sync_channel(1);
/// tx.send(1).unwrap();
/// assert_eq!(tx.try_send(2), Err(TrySendError::Full(2)));
/// assert_eq!(rx.recv(), Ok(1));
/// ```
pub fn sync_channel<T>(bound: usize) -> (SyncSender<T>, Receiver<T>) {
    if let Session::Off = session() {
        let (s, r) = mpsc::sync_channel(bound);
        let receiver = Receiver::new(ReceiverKind::Plain(r));
        return (SyncSender(SyncSenderKind::Plain(s)), receiver);
    }
    let (s, r) = cb::bounded_with(bound, Leftover::Goes);
    let receiver = Receiver::new(ReceiverKind::Ours(r));
    (SyncSender(SyncSenderKind::Ours(s)), receiver)
}

impl<T> Sender<T> {
    /// Sends a message; does not block.
    ///
    /// # Errors
    /// If the receiver is gone; the error holds the message.
    #[track_caller]
    pub fn send(&self, t: T) -> Result<(), SendError<T>> {
        self.0
            .send(t)
            .map_err(|error| SendError(error.into_inner()))
    }
}

impl<T> SyncSender<T> {
    /// Sends a message; blocks until there is room.
    ///
    /// # Errors
    /// If the receiver is gone; the error holds the message.
    #[track_caller]
    pub fn send(&self, t: T) -> Result<(), SendError<T>> {
        match &self.0 {
            SyncSenderKind::Plain(sender) => sender.send(t),
            SyncSenderKind::Ours(sender) => sender
                .send(t)
                .map_err(|error| SendError(error.into_inner())),
        }
    }

    /// Attempts to send a message without blocking.
    ///
    /// # Errors
    /// If there is no room or the receiver is gone; the error holds the message.
    #[track_caller]
    pub fn try_send(&self, t: T) -> Result<(), TrySendError<T>> {
        match &self.0 {
            SyncSenderKind::Plain(sender) => sender.try_send(t),
            SyncSenderKind::Ours(sender) => sender.try_send(t).map_err(|error| match error {
                cb::TrySendError::Full(t) => TrySendError::Full(t),
                cb::TrySendError::Disconnected(t) => TrySendError::Disconnected(t),
            }),
        }
    }
}

impl<T> Receiver<T> {
    const fn new(inner: ReceiverKind<T>) -> Self {
        Receiver {
            inner,
            one_thread: PhantomData,
        }
    }

    /// Attempts to receive a message without blocking.
    ///
    /// # Errors
    /// If there is none, or none and no sender.
    #[track_caller]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        match &self.inner {
            ReceiverKind::Plain(receiver) => receiver.try_recv(),
            ReceiverKind::Ours(receiver) => receiver.try_recv().map_err(|error| match error {
                cb::TryRecvError::Empty => TryRecvError::Empty,
                cb::TryRecvError::Disconnected => TryRecvError::Disconnected,
            }),
        }
    }

    /// Waits for a message.
    ///
    /// # Errors
    /// If there is none and no sender.
    #[track_caller]
    pub fn recv(&self) -> Result<T, RecvError> {
        match &self.inner {
            ReceiverKind::Plain(receiver) => receiver.recv(),
            ReceiverKind::Ours(receiver) => receiver.recv().map_err(|cb::RecvError| RecvError),
        }
    }

    /// Waits for a message for a limited time.
    ///
    /// # Errors
    /// If the time is up, or there is no message and no sender.
    #[track_caller]
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        match &self.inner {
            ReceiverKind::Plain(receiver) => receiver.recv_timeout(timeout),
            ReceiverKind::Ours(receiver) => {
                receiver.recv_timeout(timeout).map_err(|error| match error {
                    cb::RecvTimeoutError::Timeout => RecvTimeoutError::Timeout,
                    cb::RecvTimeoutError::Disconnected => RecvTimeoutError::Disconnected,
                })
            }
        }
    }

    /// A blocking iterator, which ends when all senders are gone.
    pub const fn iter(&self) -> Iter<'_, T> {
        Iter { rx: self }
    }

    /// A non-blocking iterator, which ends when there is no message.
    pub const fn try_iter(&self) -> TryIter<'_, T> {
        TryIter { rx: self }
    }
}

/// A blocking iterator over messages; made by [`Receiver::iter`].
#[derive(Debug)]
pub struct Iter<'a, T> {
    rx: &'a Receiver<T>,
}

/// A non-blocking iterator over messages; made by [`Receiver::try_iter`].
#[derive(Debug)]
pub struct TryIter<'a, T> {
    rx: &'a Receiver<T>,
}

/// A blocking iterator over messages that owns its receiver.
#[derive(Debug)]
pub struct IntoIter<T> {
    rx: Receiver<T>,
}

impl<T> Iterator for Iter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.rx.recv().ok()
    }
}

impl<T> Iterator for TryIter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.rx.try_recv().ok()
    }
}

impl<T> Iterator for IntoIter<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.rx.recv().ok()
    }
}

impl<'a, T> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter { rx: self }
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Sender(self.0.clone())
    }
}

impl<T> Clone for SyncSender<T> {
    fn clone(&self) -> Self {
        SyncSender(match &self.0 {
            SyncSenderKind::Plain(sender) => SyncSenderKind::Plain(sender.clone()),
            SyncSenderKind::Ours(sender) => SyncSenderKind::Ours(sender.clone()),
        })
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        if let ReceiverKind::Ours(receiver) = &mut self.inner {
            receiver.discard();
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for SyncSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SyncSender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}

impl<T> UnwindSafe for Receiver<T> {}
impl<T> RefUnwindSafe for Receiver<T> {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc as std_mpsc;

    #[test]
    fn handles_have_the_auto_traits_of_stds() {
        fn send<T: Send>() {}
        fn sync<T: Sync>() {}
        fn unwind<T: UnwindSafe + RefUnwindSafe>() {}
        send::<Sender<Cell<i32>>>();
        send::<SyncSender<Cell<i32>>>();
        send::<Receiver<Cell<i32>>>();
        sync::<Sender<Cell<i32>>>();
        sync::<SyncSender<Cell<i32>>>();
        unwind::<Sender<Cell<i32>>>();
        unwind::<Receiver<Cell<i32>>>();
        // The same of std's own: this would not compile otherwise.
        sync::<std_mpsc::Sender<Cell<i32>>>();
        unwind::<std_mpsc::Receiver<Cell<i32>>>();
    }

    #[test]
    fn handles_print_as_stds_do() {
        let (ours, theirs) = (channel::<i32>(), std_mpsc::channel::<i32>());
        assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
        let (ours, theirs) = (sync_channel::<i32>(1), std_mpsc::sync_channel::<i32>(1));
        assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
    }

    #[test]
    fn errors_hold_the_message() {
        let (tx, rx) = channel();
        drop(rx);
        assert_eq!(tx.send(3), Err(SendError(3)));
        let (tx, rx) = sync_channel(0);
        assert_eq!(tx.try_send(4), Err(TrySendError::Full(4)));
        drop(rx);
        assert_eq!(tx.try_send(5), Err(TrySendError::Disconnected(5)));
        assert_eq!(tx.send(6), Err(SendError(6)));
    }

    #[test]
    fn receiving_without_senders_ends() {
        let (tx, rx) = channel();
        tx.send(1).unwrap();
        assert_eq!(rx.recv_timeout(Duration::ZERO), Ok(1));
        assert_eq!(
            rx.recv_timeout(Duration::ZERO),
            Err(RecvTimeoutError::Timeout)
        );
        assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
        tx.send(2).unwrap();
        drop(tx);
        assert_eq!(rx.try_iter().collect::<Vec<_>>(), [2]);
        assert_eq!(rx.try_recv(), Err(TryRecvError::Disconnected));
        assert_eq!(rx.recv(), Err(RecvError));
        assert_eq!(rx.into_iter().next(), None);
    }
}
