//! Offsets of inherited files whose changes no call shows.
//!
//! `lseek` stops on descriptors 0, 1 and 2 only. A unit that has another one can ask where an output
//! file of others ends, which is no fact. That leaves an offset that the unit's writes do not
//! explain.

use ptrace_async::event::Tid;

use super::Session;
use crate::platform::proc_files::position;

/// The first descriptor whose `lseek` passes ([`watch`](ptrace_async::process::watch)).
const UNSEEN: i32 = 3;

impl Session {
    /// Marks the unit of a process that ends, and those above, if the process has an inherited file
    /// that is not read and not written, and whose offset changed.
    pub(crate) fn check_offsets_at_end(&mut self, tid: Tid) {
        let Some(unit) = self.unit_of(tid) else {
            return;
        };
        let of_unit = &self.units[unit.0 as usize];
        let is_moved = of_unit.inherited.iter().any(|inherited| {
            let Some(start) = inherited.position.filter(|_| inherited.fd >= UNSEEN) else {
                return false;
            };
            let is_still_open = self
                .model
                .file(tid, inherited.fd)
                .is_some_and(|file| file.id == inherited.file && !file.readable);
            let wrote = || {
                let mut written = of_unit.written.iter();
                written.any(|written| written.file == inherited.file)
            };
            is_still_open && position(tid, inherited.fd).is_some_and(|end| end != start) && !wrote()
        });
        if is_moved {
            self.mark_uncacheable(unit, "changes the offset of an inherited file", true);
        }
    }
}
