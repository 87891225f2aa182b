//! An initialization that runs once.

use std::fmt;

use ::parking_lot as raw;
use raw::OnceState;
use rr_channel_log::{Op, Outcome};

use crate::raw_locks::{log, once_states};
use rr_channel_core::engine::chaos;
use rr_channel_core::engine::replay::{Engine, OnceTurn};
use rr_channel_core::engine::session::{Session, session};
use rr_channel_core::once_calls;
use rr_channel_core::sync::Attempts;

/// A global initialization that runs once.
pub struct Once {
    attempts: Attempts,
    raw: raw::Once,
}

once_states!();

impl Once {
    /// Creates one that has not run.
    #[inline]
    #[expect(
        clippy::new_without_default,
        reason = "upstream's Default is derived here"
    )]
    pub const fn new() -> Self {
        Once {
            attempts: Attempts::new(),
            raw: raw::Once::new(),
        }
    }

    fn is_done(&self) -> bool {
        self.raw.state().done()
    }
}
