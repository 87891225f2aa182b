//! Reads of clocks, and where in the log of their thread they are.
//!
//! Reads are not events: there may be more or fewer of them in a replay, where code that is not
//! recorded waits in another way. They lie in a file of their own beside the thread's log, each
//! with the number of events before it.

/// A clock of the system, by its number: see `clockid_t` in clock_gettime(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Clock(u8);

impl Clock {
    /// How many clocks there are.
    pub const COUNT: usize = 12;

    /// The clock with this number; `None` if it is none of the system's own, as those of processes
    /// and devices.
    #[inline]
    pub const fn new(number: i32) -> Option<Clock> {
        if number >= 0 && number < Self::COUNT as i32 {
            Some(Clock(number as u8))
        } else {
            None
        }
    }

    /// Its number, less than [`COUNT`](Self::COUNT).
    #[inline]
    pub const fn number(self) -> usize {
        self.0 as usize
    }

    /// Whether it is the time of day, which can be set back.
    #[inline]
    pub const fn is_of_day(self) -> bool {
        // CLOCK_REALTIME, CLOCK_REALTIME_COARSE, CLOCK_REALTIME_ALARM, CLOCK_TAI.
        matches!(self.0, 0 | 5 | 8 | 11)
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
