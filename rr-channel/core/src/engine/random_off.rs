//! Stands in for `random.rs` where `getrandom` cannot be, or is not to be, defined: random
//! bytes are not recorded.

/// There is nothing to log.
pub const fn log_earlier() {}
