//! Reads of clocks, and where in the log of their thread they are.
//!
//! Reads are not events: there may be more or fewer of them in a replay, where code that is not
//! recorded waits in another way. They lie in a file of their own beside the thread's log, each
//! with the number of events before it.

/// A clock that `std` reads, with its number in the system: see clock_gettime(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Clock {
    /// `CLOCK_REALTIME`: the time of day, which can be set back.
    Realtime = 0,
    /// `CLOCK_MONOTONIC`.
    Monotonic = 1,
}

impl Clock {
    /// Each of them, at its number.
    pub const ALL: [Clock; 2] = [Clock::Realtime, Clock::Monotonic];
    /// How many clocks there are.
    pub const COUNT: usize = Self::ALL.len();

    /// The clock with this number; `None` if it is not recorded.
    #[inline]
    pub const fn new(number: i32) -> Option<Clock> {
        match number {
            0 => Some(Clock::Realtime),
            1 => Some(Clock::Monotonic),
            _ => None,
        }
    }

    /// Its number, less than [`COUNT`](Self::COUNT).
    #[inline]
    pub const fn number(self) -> usize {
        self as usize
    }
}

/// One read of a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClockRead {
    /// How many events the thread had logged before it, but those that are
    /// [apart](crate::Op::is_apart).
    pub position: u64,
    /// The clock.
    pub clock: Clock,
    /// Which code of the program read it; 0 if that is unknown.
    pub site: u64,
    /// The time that it showed, in nanoseconds.
    pub nanoseconds: i64,
}
