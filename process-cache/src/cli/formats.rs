//! The versions of the formats that pcache stores or prints.
//!
//! `cargo xtask docs` generates a page from them.

use super::history;
use crate::remote::{bundle, codec};
use crate::{key, store};

/// The name of each format and its version.
pub fn formats() -> Vec<(&'static str, u32)> {
    let mut formats = store::formats().to_vec();
    formats.extend([
        ("weak key", key::VERSION),
        ("movable weak key", key::MOVED_VERSION),
        ("remote path sets and results", codec::VERSION.into()),
        ("remote bundles", bundle::VERSION.into()),
        ("JSON", history::VERSION),
    ]);
    formats
}
