//! Stands in for `x86_64` where its functions cannot be, or are not to be, defined: clocks and
//! random bytes are not recorded.

pub mod clock {
    //! Clocks are the program's own.

    use std::time::Instant;

    use rr_channel_log::Clock;

    /// There is nothing to begin.
    pub const fn begin(_: [Option<i64>; Clock::COUNT]) {}

    /// There is nothing to log.
    pub const fn log_earlier() {}

    /// The same.
    pub const fn to_real(shown: Instant) -> Instant {
        shown
    }

    /// The same.
    pub const fn to_shown(real: Instant) -> Instant {
        real
    }
}

pub(crate) mod random {
    //! Random bytes are the program's own.

    /// There is nothing to log.
    pub(crate) const fn log_earlier() {}
}

pub(crate) mod system_calls {
    //! System calls are the program's own.

    use crate::engine::session::Session;

    /// There is nothing to link.
    pub(crate) const fn link() {}

    /// Nobody needs to know.
    pub(crate) const fn begun(_: &Session) {}
}
