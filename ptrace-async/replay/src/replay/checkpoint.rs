//! The state of a whole replay, to come back to.

use std::rc::Rc;

use super::session::record_queue::Place;
use super::session::{Counts, Player};
use super::snapshot::{Files, Memories, Shared};

/// The state of a replay at some moment, to which it can be brought again
/// ([`Replayer::restore`](super::Replayer::restore)) any number of times.
///
/// It costs a process for each that was there, and the pages that are written after it; it is
/// given up by dropping it.
pub struct Checkpoint {
    pub(super) player: Rc<Player>,
    pub(super) place: Place,
    pub(super) counts: Counts,
    pub(super) spaces: Vec<Memories>,
    pub(super) files: Rc<Files>,
    pub(super) shared: Vec<Shared>,
    pub(super) position: u64,
}

impl Checkpoint {
    /// The record that comes next there, counted from 0.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// How many processes it keeps.
    pub fn processes(&self) -> usize {
        self.spaces.len()
    }
}

impl std::fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checkpoint")
            .field("position", &self.position)
            .field("processes", &self.spaces.len())
            .finish_non_exhaustive()
    }
}
