//! The weak key of a unit.

use crate::model::fact::Digest;

/// Identifies a unit before it has observed anything: the digest of its program, arguments,
/// environment and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WeakKey(pub Digest);
