//! An initialization that runs once.

use std::fmt;

use ::parking_lot_13 as raw;
use raw::OnceState;
use rr_channel_log::{Op, Outcome};

use crate::raw_locks::{log, once_states};
use rr_channel_core::engine::chaos;
use rr_channel_core::engine::replay::{Engine, OnceTurn};
use rr_channel_core::engine::session::{Session, session};
use rr_channel_core::sync::Attempts;
use rr_channel_core::{once_calls, once_waits};

/// A global initialization that runs once.
pub struct Once {
    attempts: Attempts,
    raw: raw::Once,
}

once_states!();

impl Once {
    /// Creates one that has not run.
    #[inline]
    pub const fn new() -> Self {
        Once {
            attempts: Attempts::new(),
            raw: raw::Once::new(),
        }
    }

    /// Creates one that counts as run.
    #[inline]
    pub const fn new_completed() -> Self {
        Once {
            attempts: Attempts::new(),
            raw: raw::Once::new_completed(),
        }
    }

    /// Whether something has run here to its end.
    #[inline]
    #[track_caller]
    pub fn is_completed(&self) -> bool {
        self.state().is_completed()
    }

    fn is_done(&self) -> bool {
        self.raw.is_completed()
    }

    once_waits!();
}

impl Default for Once {
    #[inline]
    fn default() -> Self {
        Self::new()
    }
}
