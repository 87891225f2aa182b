//! Operations and their outcomes.

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
    /// A blocking acquisition of a mutex.
    Lock = "lock",
    /// An acquisition of a mutex that does not block.
    TryLock = "try_lock",
    /// A blocking acquisition of a lock for reading.
    Read = "read",
    /// An acquisition of a lock for reading that does not block.
    TryRead = "try_read",
    /// A blocking acquisition of a lock for writing.
    Write = "write",
    /// An acquisition of a lock for writing that does not block.
    TryWrite = "try_write",
    /// A wait for a condition variable, without the mutex.
    Wait = "wait",
    /// A wait for a condition variable with a timeout, without the mutex.
    WaitTimeout = "wait_timeout",
    /// The acquisition of the mutex after a wait for a condition variable.
    Relock = "relock",
    /// The arrival at a barrier.
    Arrive = "arrive",
    /// An initialization that happens once, or was found done.
    CallOnce = "call_once",
    /// Whether an initialization was seen done.
    IsCompleted = "is_completed",
    /// Whether a lock was seen poisoned.
    IsPoisoned = "is_poisoned",
    /// A wait to be unparked.
    Park = "park",
    /// A wait to be unparked with a timeout.
    ParkTimeout = "park_timeout",
    /// Whether a thread was seen finished.
    IsFinished = "is_finished",
    /// An acquisition of a mutex with a timeout or deadline.
    LockDeadline = "lock_deadline",
    /// An acquisition of a lock for reading with a timeout or deadline.
    ReadDeadline = "read_deadline",
    /// An acquisition of a lock for writing with a timeout or deadline.
    WriteDeadline = "write_deadline",
    /// A blocking acquisition of a lock for reading that may become writing.
    Upgradable = "upgradable_read",
    /// The same without blocking.
    TryUpgradable = "try_upgradable_read",
    /// The same with a timeout or deadline.
    UpgradableDeadline = "upgradable_read_deadline",
    /// A blocking change from reading to writing.
    Upgrade = "upgrade",
    /// The same without blocking.
    TryUpgrade = "try_upgrade",
    /// The same with a timeout or deadline.
    UpgradeDeadline = "upgrade_deadline",
    /// Whether a lock was seen locked.
    IsLocked = "is_locked",
    /// How many threads a notification woke.
    Notify = "notify",
    /// A blocking selection of a receiver set.
    SetSelect = "select of set",
    /// A selection of a receiver set that does not block.
    TrySetSelect = "try_select of set",
    /// A selection of a receiver set with a timeout.
    SetSelectDeadline = "try_select_timeout of set",
    /// One of the results of a receiver set's selection.
    SetRecv = "recv by set",
    /// A server's acceptance of a connection, with its first message.
    Accept = "accept",
    /// A value that the program wanted fixed.
    Value = "value",
    /// Random bytes from the system.
    Random = "getrandom",
    /// The same, where they need not be secure, as for the seeds of hash maps.
    RandomSeed = "getrandom for seeds",
    /// The number of threads that a pool was made with.
    Threads = "threads of pool",
    /// The next step of a pool's thread: it took a job, or its wait was over.
    Job = "job",
    /// An asynchronous operation that was ready when it was polled first.
    Poll = "poll",
    /// An asynchronous operation that was ready when it was polled again.
    PollAgain = "later poll",
    /// An operation on an object of an executor that has its turn among others.
    InTurn = "step",
    /// The same, where the operation may be refused.
    TryInTurn = "try",
    /// A state of such an object, observed.
    Look = "look",
    /// A task of an executor was cancelled: before its first poll, or after that.
    Cancel = "cancellation",
}

impl Op {
    /// Whether it is an operation on a lock, or the like, and not on a channel.
    #[inline]
    pub const fn is_on_lock(self) -> bool {
        self as u8 >= Op::Lock as u8 && self as u8 <= Op::Notify as u8
    }

    /// Whether it is the poll of an asynchronous operation.
    #[inline]
    pub const fn is_poll(self) -> bool {
        matches!(self, Op::Poll | Op::PollAgain)
    }

    /// Whether it is an operation on an object of an executor.
    #[inline]
    pub const fn is_on_object(self) -> bool {
        self as u8 >= Op::Poll as u8 && self as u8 <= Op::Cancel as u8
    }

    /// Whether a replay gives its outcome at any time, and not in the order of the thread's other
    /// events. Some values are needed once for all threads, and operations that are not recorded
    /// may decide which thread needs one first.
    #[inline]
    pub const fn is_apart(self) -> bool {
        matches!(self, Op::Random | Op::RandomSeed)
    }

    #[inline]
    pub(crate) fn from_byte(byte: u8) -> Option<Op> {
        Op::ALL.get(usize::from(byte)).copied()
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The outcome of an operation.
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
    /// A lock was acquired that no thread had acquired before.
    First,
    /// A lock was acquired that the same thread had acquired last.
    Again,
    /// A lock was acquired that another thread had acquired last.
    Turn {
        /// How many acquisitions of it came before.
        ticket: u64,
    },
    /// A lock was not free.
    Busy,
    /// A thread was woken.
    Woken {
        /// The last thread that had notified or unparked it by then.
        sender: ThreadId,
        /// Its position among all notifications of that thread, from 1; 0 if there
        /// had been none.
        number: u64,
    },
    /// An initialization was done by another thread, or earlier.
    Done,
    /// An initialization had panicked.
    Poisoned,
    /// The system refused something.
    Failed {
        /// Its error number; 0 if there was none.
        code: u64,
    },
    /// Bytes that were given to the program, at most eight in one event.
    Bytes {
        /// How many there are.
        len: u8,
        /// Whether these are the last ones; if not, there are eight, and the next event
        /// has more.
        last: bool,
        /// The first one in the lowest bits, zero where there are fewer than eight.
        bytes: u64,
    },
}

impl Outcome {
    /// The events' outcomes that stand for `bytes`, of which there may be none.
    #[inline]
    pub fn pieces(bytes: &[u8]) -> impl Iterator<Item = Outcome> {
        let count = bytes.len().div_ceil(8).max(1);
        (0..count).map(move |n| {
            let piece = &bytes[8 * n..bytes.len().min(8 * n + 8)];
            let mut word = [0; 8];
            word[..piece.len()].copy_from_slice(piece);
            Outcome::Bytes {
                len: piece.len() as u8,
                last: n + 1 == count,
                bytes: u64::from_le_bytes(word),
            }
        })
    }
}

/// One logged outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Event {
    /// The operation.
    pub op: Op,
    /// The channel it was on, or the lock; `None` for selections, and for locks
    /// where nothing is to be told apart.
    pub channel: Option<ChannelId>,
    /// The outcome of the operation.
    pub outcome: Outcome,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_operation(f, self.op, self.channel)?;
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
            Outcome::First => f.write_str(": first"),
            Outcome::Again => f.write_str(": again"),
            Outcome::Turn { ticket } => write!(f, ": after {ticket} others"),
            Outcome::Busy => f.write_str(": not free"),
            Outcome::Woken { number: 0, .. } => f.write_str(": woken by nobody"),
            Outcome::Woken { sender, number } => {
                write!(f, ": woken by notification {number} of {sender}")
            }
            Outcome::Done => f.write_str(": done"),
            Outcome::Poisoned => f.write_str(": poisoned"),
            Outcome::Failed { code } => write!(f, ": failed with error {code}"),
            Outcome::Bytes { len, last, bytes } => {
                f.write_str(": bytes")?;
                let bytes = bytes.to_le_bytes();
                let bytes = bytes.iter().take(len.into());
                bytes
                    .into_iter()
                    .try_for_each(|byte| write!(f, " {byte:02x}"))?;
                f.write_str(match (len, last) {
                    (0, _) => " none",
                    (_, true) => "",
                    (_, false) => " ...",
                })
            }
        }
    }
}

/// Writes an operation and its object.
pub fn fmt_operation(
    f: &mut fmt::Formatter<'_>,
    op: Op,
    channel: Option<ChannelId>,
) -> fmt::Result {
    match channel {
        None => write!(f, "{op}"),
        Some(lock) if op.is_on_lock() => write!(f, "{op} on {}.l{}", lock.creator, lock.number),
        Some(channel) => write!(f, "{op} on {channel}"),
    }
}

/// An event without its number: the predictor counts equal ones as repetitions. Packed, since it
/// is compared for each event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Symbol {
    /// Operation (8 bits), kind (8), whether there is a channel (1), from bit 32 on the
    /// sender or arm.
    pub(crate) code: u64,
    /// The channel's creator (32 bits) and number (32).
    pub(crate) object: u64,
}

pub(crate) const MESSAGE: u8 = 0;
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
const FIRST: u8 = 11;
const AGAIN: u8 = 12;
const TURN: u8 = 13;
const BUSY: u8 = 14;
const WOKEN: u8 = 15;
const DONE: u8 = 16;
const POISONED: u8 = 17;
const FAILED: u8 = 18;
const BYTES: u8 = 19;
/// In the parameter, whether bytes are the last ones.
const LAST: u32 = 1 << 8;

impl Symbol {
    const CHANNEL: u64 = 1 << 16;

    #[inline(always)]
    pub(crate) const fn new(op: Op, kind: u8, channel: Option<ChannelId>, param: u32) -> Symbol {
        let code = op as u64 | (kind as u64) << 8 | (param as u64) << 32;
        match channel {
            None => Symbol { code, object: 0 },
            Some(channel) => Symbol {
                code: code | Self::CHANNEL,
                object: (channel.creator.0 as u64) << 32 | channel.number as u64,
            },
        }
    }

    /// Whether `kind` exists.
    pub(crate) const fn is_kind(kind: u8) -> bool {
        kind <= BYTES
    }

    /// The operation, by its position.
    pub(crate) const fn op(&self) -> u8 {
        self.code as u8
    }

    pub(crate) const fn kind(&self) -> u8 {
        (self.code >> 8) as u8
    }

    pub(crate) const fn param(&self) -> u32 {
        (self.code >> 32) as u32
    }

    pub(crate) const fn channel(&self) -> Option<ChannelId> {
        if self.code & Self::CHANNEL == 0 {
            return None;
        }
        Some(ChannelId {
            creator: ThreadId((self.object >> 32) as u32),
            number: self.object as u32,
        })
    }

    /// Whether events of this symbol carry a number.
    pub(crate) const fn has_number(&self) -> bool {
        matches!(
            self.kind(),
            MESSAGE | SENT | REFUSED | VALUE | TURN | WOKEN | FAILED | BYTES
        )
    }

    /// Whether definitions of this symbol carry a parameter.
    pub(crate) const fn has_param(&self) -> bool {
        matches!(self.kind(), MESSAGE | ARM | WOKEN | BYTES)
    }

    /// Whether the parameter is a thread's number.
    pub(crate) const fn names_thread(&self) -> bool {
        matches!(self.kind(), MESSAGE | WOKEN)
    }

    /// The event's symbol and number. If the compiler knows the kind of outcome, as in every
    /// caller that counts, this is a few instructions.
    #[inline(always)]
    pub const fn split(event: &Event) -> (Symbol, u64) {
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
            Outcome::First => (FIRST, 0, 0),
            Outcome::Again => (AGAIN, 0, 0),
            Outcome::Turn { ticket } => (TURN, 0, ticket),
            Outcome::Busy => (BUSY, 0, 0),
            Outcome::Woken { sender, number } => (WOKEN, sender.0, number),
            Outcome::Done => (DONE, 0, 0),
            Outcome::Poisoned => (POISONED, 0, 0),
            Outcome::Failed { code } => (FAILED, 0, code),
            Outcome::Bytes { len, last, bytes } => {
                (BYTES, len as u32 | if last { LAST } else { 0 }, bytes)
            }
        };
        (Symbol::new(event.op, kind, event.channel, param), number)
    }

    /// The event; `None` if there is no such operation, or it has no such outcome.
    #[inline]
    pub(crate) fn join(self, number: u64) -> Option<Event> {
        let param = self.param();
        let sender = ThreadId(param);
        let outcome = match self.kind() {
            MESSAGE => Outcome::Message { sender, number },
            TICK => Outcome::Tick,
            SENT => Outcome::Sent { slot: number },
            REFUSED => Outcome::Refused { number },
            DISCONNECTED => Outcome::Disconnected,
            EMPTY => Outcome::Empty,
            FULL => Outcome::Full,
            TIMEOUT => Outcome::Timeout,
            ARM => Outcome::Arm(param),
            NO_ARM => Outcome::NoArm,
            FIRST => Outcome::First,
            AGAIN => Outcome::Again,
            TURN => Outcome::Turn { ticket: number },
            BUSY => Outcome::Busy,
            WOKEN => Outcome::Woken { sender, number },
            DONE => Outcome::Done,
            POISONED => Outcome::Poisoned,
            FAILED => Outcome::Failed { code: number },
            BYTES => {
                let (len, last) = (param & !LAST, param & LAST != 0);
                let is_known = len == 8 || (len < 8 && last && number >> (8 * len) == 0);
                if !is_known {
                    return None;
                }
                Outcome::Bytes {
                    len: len as u8,
                    last,
                    bytes: number,
                }
            }
            _ => Outcome::Value(number),
        };
        Some(Event {
            op: Op::from_byte(self.op())?,
            channel: self.channel(),
            outcome,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_eight_at_a_time() {
        let shown = |bytes: &[u8]| -> Vec<String> {
            let event = |outcome| Event {
                op: Op::Random,
                channel: None,
                outcome,
            };
            let pieces = Outcome::pieces(bytes);
            pieces.map(|piece| event(piece).to_string()).collect()
        };
        assert_eq!(shown(&[]), ["getrandom: bytes none"]);
        assert_eq!(shown(&[1; 8]), ["getrandom: bytes 01 01 01 01 01 01 01 01"]);
        assert_eq!(
            shown(&[255, 0, 2, 3, 4, 5, 6, 7, 8]),
            [
                "getrandom: bytes ff 00 02 03 04 05 06 07 ...",
                "getrandom: bytes 08"
            ]
        );
    }

    #[test]
    fn bytes_name_operations_by_position() {
        for (i, op) in Op::ALL.iter().enumerate() {
            assert_eq!(*op as usize, i);
            assert_eq!(Op::from_byte(i as u8), Some(*op));
        }
        assert_eq!(Op::from_byte(Op::ALL.len() as u8), None);
    }
}
