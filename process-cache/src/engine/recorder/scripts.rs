//! Scans programs for interpreters, in files that interpreters read and in data sent through
//! pipes.

use crate::engine::session::Session;
use crate::model::path::FilePath;
use crate::model::unit_id::UnitId;
use crate::policy::script::{self, Found, SEAM, Scripts};
use crate::world::locate::is_regular;
use ptrace_async::event::{FileKind, OpenFile};
use rustix::fs::Stat;
use std::fs::File;
use std::io::Read;

/// Longer files are not considered scripts (bytes).
const LONGEST_SCRIPT: i64 = 4 << 20;

/// Applies [`Scripts::look`] to a file, without holding the whole file in memory.
fn look_at_file(scripts: Scripts, path: &FilePath) -> Found {
    let mut found = Found::default();
    let Ok(mut file) = File::open(path) else {
        return found;
    };
    let mut part = Vec::new();
    loop {
        part.drain(..part.len().saturating_sub(SEAM));
        let read = (&mut file)
            .take(LONGEST_SCRIPT.cast_unsigned())
            .read_to_end(&mut part);
        if read.unwrap_or_default() == 0 {
            return found;
        }
        found = found.and(scripts.look(Some(path), &part));
    }
}

impl Session {
    /// Scans a file that a unit reads, if it may be a script.
    pub(super) fn look_through(&mut self, unit: UnitId, given: &FilePath, stat: &Stat) {
        let scripts = self.unit(unit).policy.scripts;
        if scripts != Scripts::Any
            && is_regular(stat)
            && (stat.st_size < LONGEST_SCRIPT || scripts.may_be_long())
        {
            let found = self.found_in(given, stat, scripts);
            self.unit(unit).found_in_script(found);
        }
    }

    /// Returns the properties of a script. A library that each shell opens is scanned once.
    fn found_in(&mut self, given: &FilePath, stat: &Stat, scripts: Scripts) -> Found {
        let known = self.world.known(given, stat);
        let key = known.map(|digest| (given.clone(), digest, scripts));
        if let Some(found) = key.as_ref().and_then(|key| self.scripts.get(key)) {
            return *found;
        }
        let found = look_at_file(scripts, given);
        if let Some(key) = key {
            self.scripts.insert(key, found);
        }
        found
    }

    /// Notes that a unit has read data that was not scanned: its program, if that is there.
    pub(super) fn program_unseen(&mut self, unit: UnitId) {
        if self.unit(unit).policy.from_input {
            self.mark_uncacheable(unit, "reads its program from its standard input", true);
        }
    }

    /// Whether a program read from this description has been scanned, or is scanned now.
    pub(super) fn is_looked_through(&self, unit: UnitId, file: &OpenFile) -> bool {
        let scripts = |unit: UnitId| self.units[unit.0 as usize].policy.scripts;
        match file.kind {
            FileKind::Opened | FileKind::Regular => file.path.is_some(),
            FileKind::CharDevice(_) | FileKind::Directory => true,
            // Shells write text from their scripts. Data that other programs write into the pipe
            // of a shell is scanned in case a bash reads it.
            _ => {
                let owner = self.descriptions.owner(file.id).map(scripts);
                scripts(unit) == Scripts::Bash
                    && matches!(owner, Some(Scripts::Bash | Scripts::Shell))
            }
        }
    }

    /// Notes that unknown bytes were written to a description.
    pub(super) fn wrote_unseen(&mut self, unit: UnitId, file: &OpenFile, reason: &str) {
        self.mark_uncacheable_outside(unit, file, reason);
        if let Some(owner) = self.descriptions.owner(file.id) {
            self.unit(owner).names_chance = true;
        }
    }

    /// Handles a write to a description that an ancestor opened. Files are scanned when a program
    /// opens them. Data sent through a pipe is scanned here, since a bash may run it.
    pub(crate) fn hand_on(&mut self, file: &OpenFile, bytes: &[u8]) {
        let Some(owner) = self.descriptions.owner(file.id) else {
            return;
        };
        if matches!(file.kind, FileKind::Opened | FileKind::Regular) {
            return;
        }
        // A name may be split between two writes.
        let mut seam = self.descriptions.take_tail(file.id);
        let (head, rest) = bytes.split_at(bytes.len().min(SEAM));
        seam.extend_from_slice(head);
        let found = script::names_chance(&seam) || script::names_chance(bytes);
        self.unit(owner).names_chance |= found;
        if bytes.last().is_some_and(|&last| last != b'\n') {
            seam.extend_from_slice(&rest[rest.len().saturating_sub(SEAM)..]);
            seam.drain(..seam.len().saturating_sub(SEAM));
            self.descriptions.set_tail(file.id, seam);
        }
    }

    /// Whether a unit at its end is a bash that may have received `$RANDOM` through a pipe, or
    /// contains one. A write is reported after the kernel has made it. So a bash may have run the
    /// text, and ended, before the write was reported; then the unit that made the pipe knows both.
    pub(crate) fn may_be_handed_chance(&mut self, id: UnitId) -> bool {
        let unit = self.unit(id);
        let is_bash = unit.policy.scripts == Scripts::Bash;
        unit.ran_bash |= is_bash;
        if unit.ran_bash && unit.names_chance {
            return true;
        }
        let unit = &self.units[id.0 as usize];
        is_bash
            && std::iter::successors(Some(unit), |unit| {
                Some(&self.units[unit.parent?.0 as usize])
            })
            .any(|unit| unit.names_chance)
    }
}
