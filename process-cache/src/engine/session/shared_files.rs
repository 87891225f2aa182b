//! Files that several units of a session may use: which unit changed them, and when.

use std::collections::HashSet;
use std::path::Path;

use rustc_hash::FxHashMap;
use rustix::fs::Stat;
use smallvec::SmallVec;

use crate::model::path::FilePath;
use crate::model::unit_id::UnitId;

/// The units that changed a name, with the sequence number of their last change.
type Changes = SmallVec<[(u64, UnitId); 2]>;

/// Files that were changed in a session.
#[derive(Debug, Default)]
pub(crate) struct SharedFiles {
    /// Changes by canonical path; those of the names in a directory are under a key of the
    /// directory.
    changed: FxHashMap<FilePath, Changes>,
    /// Files (device, inode) of which a name was made or removed. This changes their change time.
    relinked: HashSet<(u64, u64)>,
    /// Files (device, inode) that were mapped shared and writable, and the units that mapped them.
    mapped: FxHashMap<(u64, u64), SmallVec<[UnitId; 1]>>,
    /// Temporary files with random names, as the program that made them spells them.
    temporary: HashSet<Vec<u8>>,
}

impl SharedFiles {
    /// Records that a unit has changed a name.
    pub(crate) fn change(&mut self, unit: UnitId, seq: u64, path: FilePath) {
        let list = self.changed.entry(path).or_default();
        match list.iter_mut().find(|(_, who)| *who == unit) {
            Some(entry) => entry.0 = seq,
            None => list.push((seq, unit)),
        }
    }

    /// Whether no name was changed.
    pub(crate) fn is_unchanged(&self) -> bool {
        self.changed.is_empty()
    }

    /// Whether a name was changed.
    pub(crate) fn is_changed(&self, path: &FilePath) -> bool {
        self.changed.contains_key(path)
    }

    /// Returns the changes of a name: sequence numbers and units.
    pub(crate) fn changes(&self, path: &FilePath) -> &[(u64, UnitId)] {
        self.changed.get(path).map_or(&[], |list| list)
    }

    /// Returns all changed names.
    pub(crate) fn all_changes(&self) -> impl Iterator<Item = (&FilePath, &[(u64, UnitId)])> {
        self.changed.iter().map(|(path, list)| (path, &list[..]))
    }

    /// Records that a name of a file was made or removed.
    pub(crate) fn relink(&mut self, stat: &Stat) {
        self.relinked.insert((stat.st_dev, stat.st_ino));
    }

    /// Whether a name of a file (device, inode) was made or removed.
    pub(crate) fn is_relinked(&self, inode: (u64, u64)) -> bool {
        self.relinked.contains(&inode)
    }

    /// Records that a unit has mapped a file (device, inode) shared and writable.
    pub(crate) fn map(&mut self, inode: (u64, u64), unit: UnitId) {
        let units = self.mapped.entry(inode).or_default();
        if !units.contains(&unit) {
            units.push(unit);
        }
    }

    /// Returns the units that mapped a file (device, inode) shared and writable.
    pub(crate) fn mapped_by(&self, inode: (u64, u64)) -> &[UnitId] {
        self.mapped.get(&inode).map_or(&[], |units| units)
    }

    /// Records that a program made a temporary file with a random name.
    pub(crate) fn add_temporary(&mut self, spelled: Vec<u8>) {
        self.temporary.insert(spelled);
    }

    /// Whether a text is the name of a temporary file.
    pub(crate) fn is_temporary(&self, text: &[u8]) -> bool {
        self.temporary.contains(text)
    }
}

/// Returns a key for the names in a directory among the changed files. A listing conflicts with
/// changes of names, and a file with changes of content.
pub(crate) fn names_in(directory: &Path) -> FilePath {
    use std::os::unix::ffi::OsStrExt;
    let key = [directory.as_os_str().as_bytes(), b"/."].concat();
    FilePath::from(key.as_slice())
}
