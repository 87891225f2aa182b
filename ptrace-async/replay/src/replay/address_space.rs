//! Facts that the replayed tasks of one address space share.

use std::cell::Cell;

/// Facts that the tasks of an address space share.
#[derive(Debug, Default)]
pub(super) struct AddressSpace {
    pub(super) program_break: Cell<u64>,
    /// Up to where the log of calls that do not stop is filled.
    pub(super) loaded: Cell<u64>,
    /// Whether a fork may not copy all of it (madvise(2)).
    has_fork_advice: Cell<bool>,
}

impl AddressSpace {
    /// The facts of a copied address space.
    pub(super) fn copy(&self) -> Self {
        Self {
            program_break: self.program_break.clone(),
            loaded: self.loaded.clone(),
            has_fork_advice: self.has_fork_advice.clone(),
        }
    }

    /// Some of the memory was advised about.
    pub(super) fn advised(&self, args: &[u64; 6]) {
        if matches!(args[2] as i32, libc::MADV_DONTFORK | libc::MADV_WIPEONFORK) {
            self.has_fork_advice.set(true);
        }
    }

    pub(super) fn has_fork_advice(&self) -> bool {
        self.has_fork_advice.get()
    }
}
