//! Calls that need two files on one mount: rename, link, and copies between open files.

use std::path::Path;

use ptrace_async::event::Tid;
use ptrace_async::invocation::Invocation;

use crate::engine::session::{Session, named_file};
use crate::model::fact::{Answer, Query};
use crate::model::path::FilePath;
use crate::model::path_kind::{Class, classify};
use crate::model::unit_id::UnitId;

/// `FICLONE` of linux/fs.h.
const FICLONE: u64 = 0x4004_9409;
/// `FICLONERANGE` of linux/fs.h.
const FICLONERANGE: u64 = 0x4020_940d;

/// Whether the call copies between two open files, which fails with `EXDEV` on two devices.
pub(super) fn copies(call: &Invocation) -> bool {
    match call.nr.cast_signed() {
        libc::SYS_copy_file_range => true,
        libc::SYS_ioctl => matches!(call.args[1] & 0xffff_ffff, FICLONE | FICLONERANGE),
        _ => false,
    }
}

/// The directory of a name.
fn directory(name: &Path) -> FilePath {
    FilePath::from(name.parent().unwrap_or(name))
}

impl Session {
    /// Notes that a call depends on whether two names are on one mount. Returns whether the
    /// mounts explain its result: an error needs two mounts, a success needs one.
    pub(super) fn need_one_mount(
        &mut self,
        unit: UnitId,
        names: [&Path; 2],
        is_error: bool,
    ) -> bool {
        let places = names.map(directory);
        self.compare_mounts(unit, places, false, is_error)
    }

    /// Notes that a call could rename or link one name to another.
    pub(super) fn joined(&mut self, unit: UnitId, names: [&Path; 2]) {
        if !self.need_one_mount(unit, names, false) {
            self.mark_uncacheable(unit, "renames or links a file between two mounts", true);
        }
    }

    /// The same for a copy between open files: whether they are on one device explains an
    /// `EXDEV`.
    pub(super) fn need_one_device(&mut self, tid: Tid, call: &Invocation, is_error: bool) -> bool {
        let descriptors = match call.nr.cast_signed() {
            libc::SYS_copy_file_range => [call.args[0], call.args[2]],
            libc::SYS_ioctl if call.args[1] & 0xffff_ffff == FICLONE => {
                [call.args[2], call.args[0]]
            }
            _ => return false,
        };
        let Some(unit) = self.unit_of(tid) else {
            return true;
        };
        let mut places = Vec::with_capacity(2);
        for fd in descriptors {
            let file = self.model.file(tid, fd as i32);
            let Some(path) = file.and_then(|file| named_file(file)) else {
                return false;
            };
            match classify(path) {
                Class::Ordinary => {
                    let path = self.locator.name(path);
                    places.push(directory(&path));
                }
                // Files of the kernel are on a device of their own.
                _ => return true,
            }
        }
        match <[FilePath; 2]>::try_from(places) {
            Ok(places) => self.compare_mounts(unit, places, true, is_error),
            Err(_) => false,
        }
    }

    fn compare_mounts(
        &mut self,
        unit: UnitId,
        mut paths: [FilePath; 2],
        device: bool,
        is_error: bool,
    ) -> bool {
        if paths[0] == paths[1] {
            return !is_error;
        }
        paths.sort_unstable();
        let query = Query::OneMount { paths, device };
        let answer = match self.unit(unit).mounts.get(&query) {
            // A mount that comes or goes meanwhile is seen below.
            Some(known) if (*known == Answer::Granted) != is_error => known.clone(),
            _ => self.world.ask(&query),
        };
        let explains = match &answer {
            Answer::Granted => !is_error,
            Answer::Error(libc::EXDEV) => is_error || device,
            _ => return false,
        };
        self.unit(unit).note_mounts(query, answer);
        explains
    }
}
