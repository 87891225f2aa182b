//! An initialization that runs once.

use std::fmt;

use ::parking_lot_13 as raw;
use raw::OnceState;
use rr_channel_log::{Op, Outcome};

use crate::acquire::log;
use crate::engine::chaos;
use crate::engine::replay::{Engine, OnceTurn};
use crate::engine::session::{Session, session};
use crate::sync::{Attempts, once_calls, once_waits};

/// A global initialization that runs once.
pub struct Once {
    attempts: Attempts,
    raw: raw::Once,
}

/// What is logged of a state: done is [`DONE`].
const STATES: [OnceState; 4] = [
    OnceState::New,
    OnceState::Done,
    OnceState::Poisoned,
    OnceState::InProgress,
];
const DONE: u64 = 1;

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

    /// What has become of it.
    #[track_caller]
    pub fn state(&self) -> OnceState {
        match session() {
            Session::Off => self.raw.state(),
            Session::Record(_) => {
                chaos::point();
                self.observed()
            }
            Session::Replay(engine) => {
                let is_done = || self.raw.is_completed();
                engine
                    .recall_once(Op::IsCompleted, &self.attempts.order, DONE, &is_done)
                    .and_then(|number| STATES.get(number as usize).copied())
                    .unwrap_or_else(|| self.observed())
            }
        }
    }

    fn observed(&self) -> OnceState {
        let state = self.raw.state();
        let number = STATES.iter().position(|known| *known == state);
        log(Op::IsCompleted, Outcome::Value(number.unwrap_or(0) as u64));
        state
    }

    once_calls!(OnceState);
    once_waits!();

    #[track_caller]
    fn turn(&self, engine: &Engine) -> OnceTurn {
        self.attempts.turn(engine, || self.raw.is_completed())
    }
}

impl Default for Once {
    #[inline]
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").finish_non_exhaustive()
    }
}
