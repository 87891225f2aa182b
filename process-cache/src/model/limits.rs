//! Limits of a store.

use std::time::Duration;

/// Default size of a store: 10 GiB.
pub const DEFAULT_MAX_BYTES: u64 = 10 << 30;
/// Default time after which unused data is removed.
pub const DEFAULT_MAX_AGE: Duration = Duration::from_secs(60 * 24 * 60 * 60);

/// Limits of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximal size of all results and contents in bytes.
    pub max_bytes: u64,
    /// Time after which unused data is removed; `None` for never.
    pub max_age: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_bytes: DEFAULT_MAX_BYTES,
            max_age: Some(DEFAULT_MAX_AGE),
        }
    }
}
