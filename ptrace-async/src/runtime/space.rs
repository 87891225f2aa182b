//! One address space of tracees: its scratch mappings and its log of calls.

use std::cell::RefCell;

use super::in_process::InProcess;
use crate::event::Tid;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Area {
    pub(super) address: u64,
    pub(super) len: u64,
    busy: bool,
}

/// An address space. Tasks that share memory share this value.
#[derive(Debug, Default)]
pub(super) struct Space {
    areas: RefCell<Vec<Area>>,
    pub(super) in_process: InProcess,
}

impl Space {
    /// The space of a forked child, which is in its first stop.
    pub(super) fn copy(&self, child: Tid) -> Self {
        let areas = self.areas.borrow();
        let free = areas.iter().map(|&area| Area {
            busy: false,
            ..area
        });
        Self {
            areas: RefCell::new(free.collect()),
            in_process: self.in_process.fork(child),
        }
    }

    pub(super) fn take(&self, len: u64) -> Option<u64> {
        let mut areas = self.areas.borrow_mut();
        let area = areas
            .iter_mut()
            .find(|area| !area.busy && area.len >= len)?;
        area.busy = true;
        Some(area.address)
    }

    pub(super) fn add(&self, address: u64, len: u64) {
        let busy = true;
        self.areas.borrow_mut().push(Area { address, len, busy });
    }

    pub(super) fn give_back(&self, address: u64) {
        let mut areas = self.areas.borrow_mut();
        if let Some(area) = areas.iter_mut().find(|area| area.address == address) {
            area.busy = false;
        }
    }

    pub(super) fn remove_free(&self) -> Option<Area> {
        let mut areas = self.areas.borrow_mut();
        let index = areas.iter().position(|area| !area.busy)?;
        Some(areas.swap_remove(index))
    }
}
