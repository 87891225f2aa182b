//! Bounds of a store.

use std::time::Duration;

/// How much a store holds unless the user says otherwise: 10 GiB.
pub const DEFAULT_MAX_BYTES: u64 = 10 << 30;
/// How long something stays that nobody uses, unless the user says otherwise.
pub const DEFAULT_MAX_AGE: Duration = Duration::from_secs(60 * 24 * 60 * 60);

/// How much a store may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all results and contents.
    pub max_bytes: u64,
    /// How long something stays that nobody uses; for ever without.
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
