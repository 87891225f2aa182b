//! What an operation was and what came of it.

use std::fmt;

use crate::identity::{ChannelId, ThreadId};

macro_rules! ops {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// An operation whose outcome is logged.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Op { $($(#[$doc])* $name,)* }

        impl Op {
            const ALL: &'static [Op] = &[$(Op::$name,)*];

            /// The word used in reports.
            pub const fn as_str(self) -> &'static str {
                match self { $(Op::$name => $text,)* }
            }
        }
    };
}

// Written to logs by position: append only, or raise the format's version.
ops! {
    /// A blocking send.
    Send = "send",
    /// A send that does not block.
    TrySend = "try_send",
    /// A send with a timeout or deadline.
    SendDeadline = "send_deadline",
    /// A blocking receive.
    Recv = "recv",
    /// A receive that does not block.
    TryRecv = "try_recv",
    /// A receive with a timeout or deadline.
    RecvDeadline = "recv_deadline",
    /// A blocking selection.
    Select = "select",
    /// A selection that does not block.
    TrySelect = "try_select",
    /// A selection with a timeout or deadline.
    SelectDeadline = "select_deadline",
    /// A blocking wait for readiness.
    Ready = "ready",
    /// A check for readiness.
    TryReady = "try_ready",
    /// A wait for readiness with a timeout or deadline.
    ReadyDeadline = "ready_deadline",
    /// The send that completes a selection.
    SelectedSend = "selected send",
    /// The receive that completes a selection.
    SelectedRecv = "selected recv",
    /// The number of messages in a channel, observed.
    Len = "len",
    /// Whether a channel was seen empty.
    IsEmpty = "is_empty",
    /// Whether a channel was seen full.
    IsFull = "is_full",
}

impl Op {
    pub(super) fn from_byte(byte: u8) -> Option<Op> {
        Op::ALL.get(usize::from(byte)).copied()
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What came of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// A message arrived: its sender, and which of the sender's messages it was.
    Message {
        /// The thread that sent it.
        sender: ThreadId,
        /// Its position among all messages of that thread.
        number: u64,
    },
    /// A timer fired.
    Tick,
    /// A message was put into a bounded channel.
    Sent {
        /// Its position among all messages of the channel; 0 for a channel
        /// without capacity, whose receiver's log fixes the order.
        slot: u64,
    },
    /// A message was refused, for no receiver was left.
    Refused {
        /// Its position among all messages of the sending thread.
        number: u64,
    },
    /// A receive found the channel empty and without senders.
    Disconnected,
    /// A receive found nothing.
    Empty,
    /// A send found no room.
    Full,
    /// The deadline passed.
    Timeout,
    /// A selection's operation, by position.
    Arm(u32),
    /// A selection found no operation that would not block.
    NoArm,
    /// An observed number or truth value.
    Value(u64),
}

/// One logged outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Event {
    /// The operation.
    pub op: Op,
    /// The channel it was on; `None` for selections.
    pub channel: Option<ChannelId>,
    /// What came of it.
    pub outcome: Outcome,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.op)?;
        if let Some(channel) = self.channel {
            write!(f, " on {channel}")?;
        }
        match self.outcome {
            Outcome::Message { sender, number } => write!(f, ": message {number} of {sender}"),
            Outcome::Tick => f.write_str(": tick"),
            Outcome::Sent { slot } => write!(f, ": sent as {slot}"),
            Outcome::Refused { number } => write!(f, ": message {number} refused"),
            Outcome::Disconnected => f.write_str(": disconnected"),
            Outcome::Empty => f.write_str(": empty"),
            Outcome::Full => f.write_str(": full"),
            Outcome::Timeout => f.write_str(": timeout"),
            Outcome::Arm(arm) => write!(f, ": arm {arm}"),
            Outcome::NoArm => f.write_str(": none"),
            Outcome::Value(value) => write!(f, ": {value}"),
        }
    }
}

/// An event without its number: what the predictor counts as "the same again".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Symbol {
    pub(super) op: Op,
    pub(super) kind: u8,
    pub(super) channel: Option<ChannelId>,
    pub(super) param: u32,
}

pub(super) const MESSAGE: u8 = 0;
const TICK: u8 = 1;
const SENT: u8 = 2;
const REFUSED: u8 = 3;
const DISCONNECTED: u8 = 4;
const EMPTY: u8 = 5;
const FULL: u8 = 6;
const TIMEOUT: u8 = 7;
const ARM: u8 = 8;
const NO_ARM: u8 = 9;
const VALUE: u8 = 10;

impl Symbol {
    /// Whether `kind` exists.
    pub(super) const fn is_kind(kind: u8) -> bool {
        kind <= VALUE
    }

    /// Whether events of this symbol carry a number.
    pub(super) const fn has_number(&self) -> bool {
        matches!(self.kind, MESSAGE | SENT | REFUSED | VALUE)
    }

    /// Whether definitions of this symbol carry a parameter.
    pub(super) const fn has_param(&self) -> bool {
        matches!(self.kind, MESSAGE | ARM)
    }

    #[inline]
    pub(super) const fn split(event: &Event) -> (Symbol, u64) {
        let (kind, param, number) = match event.outcome {
            Outcome::Message { sender, number } => (MESSAGE, sender.0, number),
            Outcome::Tick => (TICK, 0, 0),
            Outcome::Sent { slot } => (SENT, 0, slot),
            Outcome::Refused { number } => (REFUSED, 0, number),
            Outcome::Disconnected => (DISCONNECTED, 0, 0),
            Outcome::Empty => (EMPTY, 0, 0),
            Outcome::Full => (FULL, 0, 0),
            Outcome::Timeout => (TIMEOUT, 0, 0),
            Outcome::Arm(arm) => (ARM, arm, 0),
            Outcome::NoArm => (NO_ARM, 0, 0),
            Outcome::Value(value) => (VALUE, 0, value),
        };
        (
            Symbol {
                op: event.op,
                kind,
                channel: event.channel,
                param,
            },
            number,
        )
    }

    pub(super) const fn join(self, number: u64) -> Event {
        let outcome = match self.kind {
            MESSAGE => Outcome::Message {
                sender: ThreadId(self.param),
                number,
            },
            TICK => Outcome::Tick,
            SENT => Outcome::Sent { slot: number },
            REFUSED => Outcome::Refused { number },
            DISCONNECTED => Outcome::Disconnected,
            EMPTY => Outcome::Empty,
            FULL => Outcome::Full,
            TIMEOUT => Outcome::Timeout,
            ARM => Outcome::Arm(self.param),
            NO_ARM => Outcome::NoArm,
            _ => Outcome::Value(number),
        };
        Event {
            op: self.op,
            channel: self.channel,
            outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_name_operations_by_position() {
        for (i, op) in Op::ALL.iter().enumerate() {
            assert_eq!(*op as usize, i);
            assert_eq!(Op::from_byte(i as u8), Some(*op));
        }
        assert_eq!(Op::from_byte(Op::ALL.len() as u8), None);
    }
}
