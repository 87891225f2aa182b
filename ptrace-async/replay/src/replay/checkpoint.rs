//! Checkpoints: the state of a whole replay, which it can be restored to.

use std::rc::Rc;

use super::session::record_queue::QueuePosition;
use super::session::{ReplaySession, SessionState};
use super::snapshot::{FileSnapshots, SharedMemory, SpaceSnapshot};

/// The state of a replay at some moment, to which it can be brought again
/// ([`Replayer::restore`](super::Replayer::restore)) any number of times.
///
/// It costs a process for each that was there, and the pages that are written after it; it is
/// given up by dropping it.
pub struct Checkpoint {
    pub(super) session: Rc<ReplaySession>,
    pub(super) records: QueuePosition,
    pub(super) state: SessionState,
    pub(super) spaces: Vec<SpaceSnapshot>,
    pub(super) files: Rc<FileSnapshots>,
    pub(super) shared: Vec<SharedMemory>,
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
