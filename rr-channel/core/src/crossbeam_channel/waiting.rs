//! The three ways to wait, as types.
//!
//! With types, the compiler instantiates only those of upstream's functions that the program
//! itself calls. A function of upstream's with one caller is inlined, one with several is not,
//! and that costs a message as much as recording does.

use std::time::{Duration, Instant};

use ::crossbeam_channel as raw;
use raw::{RecvError, RecvTimeoutError, SendTimeoutError, TryRecvError, TrySendError};
use rr_channel_log::Outcome;

use super::record::NotSent;
use crate::engine::replay::Native;
use crate::platform::apart::apart;
use crate::platform::clock as real_clock;

/// Why there is no message, and what of that is logged.
pub(super) type NoMessage = (TryRecvError, Outcome);

const EMPTY: NoMessage = (TryRecvError::Empty, Outcome::Empty);
const TIMEOUT: NoMessage = (TryRecvError::Empty, Outcome::Timeout);
const DISCONNECTED: NoMessage = (TryRecvError::Disconnected, Outcome::Disconnected);

/// How long an operation waits.
pub(super) trait Waiting: Copy {
    /// The same, as a value.
    fn native(self) -> Native;

    /// Upstream's send that waits so long.
    fn send<M>(self, raw: &raw::Sender<M>, msg: M) -> Result<(), NotSent<M>>;

    /// Upstream's receive that waits so long.
    fn recv<M>(self, raw: &raw::Receiver<M>) -> Result<M, NoMessage>;
}

/// As long as it takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block;

/// Not at all.
#[derive(Debug, Clone, Copy)]
pub(super) struct Try;

/// Until then; without an instant, as long as it takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Until(pub(super) Option<Instant>);

impl Until {
    /// For so long. As upstream has it, an instant that cannot be represented never comes.
    pub(super) fn after(timeout: Duration) -> Until {
        Until(real_clock::now().checked_add(timeout))
    }
}

impl Waiting for Block {
    fn native(self) -> Native {
        Native::Block
    }

    #[inline(always)]
    fn send<M>(self, raw: &raw::Sender<M>, msg: M) -> Result<(), NotSent<M>> {
        raw.send(msg)
            .map_err(|error| NotSent::Refused(error.into_inner()))
    }

    #[inline(always)]
    fn recv<M>(self, raw: &raw::Receiver<M>) -> Result<M, NoMessage> {
        raw.recv().map_err(|RecvError| DISCONNECTED)
    }
}

impl Waiting for Try {
    fn native(self) -> Native {
        Native::Try
    }

    #[inline(always)]
    fn send<M>(self, raw: &raw::Sender<M>, msg: M) -> Result<(), NotSent<M>> {
        raw.try_send(msg).map_err(|error| match error {
            TrySendError::Full(msg) => NotSent::NoRoom(msg),
            TrySendError::Disconnected(msg) => NotSent::Refused(msg),
        })
    }

    #[inline(always)]
    fn recv<M>(self, raw: &raw::Receiver<M>) -> Result<M, NoMessage> {
        raw.try_recv().map_err(|error| match error {
            TryRecvError::Empty => EMPTY,
            TryRecvError::Disconnected => DISCONNECTED,
        })
    }
}

impl Waiting for Until {
    fn native(self) -> Native {
        self.0.map_or(Native::Block, Native::Until)
    }

    fn send<M>(self, raw: &raw::Sender<M>, msg: M) -> Result<(), NotSent<M>> {
        let Some(deadline) = self.0 else {
            return Block.send(raw, msg);
        };
        apart(|| raw.send_deadline(msg, deadline)).map_err(|error| match error {
            SendTimeoutError::Timeout(msg) => NotSent::NoRoom(msg),
            SendTimeoutError::Disconnected(msg) => NotSent::Refused(msg),
        })
    }

    fn recv<M>(self, raw: &raw::Receiver<M>) -> Result<M, NoMessage> {
        let Some(deadline) = self.0 else {
            return Block.recv(raw);
        };
        apart(|| raw.recv_deadline(deadline)).map_err(|error| match error {
            RecvTimeoutError::Timeout => TIMEOUT,
            RecvTimeoutError::Disconnected => DISCONNECTED,
        })
    }
}
