//! The tag of a message: its sender and its number, in 8 bytes.

use std::fmt;
use std::num::NonZeroU64;

use rr_channel_log::identity::ThreadId;

/// A message's sender (23 bits) and its position among the sender's messages (40
/// bits, on all channels together).
///
/// Never zero: upstream's channels return a [`Stamped`] word (the word and its tag) or none. That
/// result then goes through two registers, as the word alone does, and not through memory. That is
/// most of what recording costs a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tag(NonZeroU64);

impl Tag {
    const NUMBER_BITS: u32 = 40;
    const MARK: u64 = 1 << 63;

    #[inline]
    pub const fn new(sender: ThreadId, number: u64) -> Tag {
        Tag::from_bits(
            (sender.0 as u64) << Self::NUMBER_BITS | number & ((1 << Self::NUMBER_BITS) - 1),
        )
    }

    /// The tag of the sender's next message.
    #[inline]
    pub const fn next(self) -> Tag {
        Tag::new(self.sender(), self.number() + 1)
    }

    /// Restores a tag from its [`bits`](Tag::bits).
    #[inline]
    pub const fn from_bits(bits: u64) -> Tag {
        match NonZeroU64::new(bits | Self::MARK) {
            Some(bits) => Tag(bits),
            // Not without the mark.
            None => Tag(NonZeroU64::MIN),
        }
    }

    #[inline]
    pub const fn bits(self) -> u64 {
        self.0.get()
    }

    #[inline]
    pub const fn sender(self) -> ThreadId {
        ThreadId((self.0.get() << 1 >> (Self::NUMBER_BITS + 1)) as u32)
    }

    #[inline]
    pub const fn number(self) -> u64 {
        self.0.get() & ((1 << Self::NUMBER_BITS) - 1)
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message {} of {}", self.number(), self.sender())
    }
}

/// A message on its way through a recorded channel.
#[derive(Debug)]
pub struct Stamped<T> {
    pub tag: Tag,
    pub value: T,
}
