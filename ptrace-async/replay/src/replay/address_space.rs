//! What the tasks of a replay know that share memory.

use std::cell::Cell;

/// What the tasks know that share memory.
#[derive(Debug, Default)]
pub(super) struct Space {
    pub(super) program_break: Cell<u64>,
    /// Up to where the log of calls that do not stop is filled.
    pub(super) loaded: Cell<u64>,
    /// Whether a fork may not copy all of it (madvise(2)).
    is_odd: Cell<bool>,
}

impl Space {
    /// What a copy of the memory has.
    pub(super) fn copy(&self) -> Self {
        Self {
            program_break: self.program_break.clone(),
            loaded: self.loaded.clone(),
            is_odd: self.is_odd.clone(),
        }
    }

    /// Some of the memory was advised about.
    pub(super) fn advised(&self, args: &[u64; 6]) {
        if matches!(args[2] as i32, libc::MADV_DONTFORK | libc::MADV_WIPEONFORK) {
            self.is_odd.set(true);
        }
    }

    pub(super) fn is_odd(&self) -> bool {
        self.is_odd.get()
    }
}
