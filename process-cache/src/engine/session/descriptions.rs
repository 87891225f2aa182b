//! Open file descriptions: the units that opened them, and their files.

use std::collections::HashSet;

use ptrace_async::event::OfdId;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::model::path::FilePath;
use crate::model::unit_id::UnitId;
use crate::policy::script::SEAM;

/// The end of an unfinished line.
pub(crate) type Tail = SmallVec<[u8; 2 * SEAM]>;

/// Properties of open file descriptions.
#[derive(Debug, Default)]
pub(crate) struct Descriptions {
    /// The units that opened them; descriptions older than the session are absent.
    owners: Owners,
    jobserver: HashSet<OfdId>,
    /// The pipes of a jobserver.
    jobserver_pipes: HashSet<u64>,
    /// The resource of each description opened for writing.
    resources: FxHashMap<OfdId, FilePath>,
    /// Numbers of character devices, as found for keys.
    devices: FxHashMap<OfdId, u64>,
    /// Directories that were opened: device and inode.
    directories: FxHashMap<OfdId, (u64, u64)>,
    /// Whether the descriptions that are older than the session were examined.
    has_examined_inherited: bool,
    /// Descriptions of directories that were listed.
    listed: HashSet<OfdId>,
    /// The last bytes sent through a pipe, if a line continues after them.
    tails: FxHashMap<OfdId, Tail>,
}

impl Descriptions {
    /// Returns the unit that opened it, if it belongs to the session.
    pub(crate) fn owner(&self, file: OfdId) -> Option<UnitId> {
        self.owners.get(file)
    }

    /// Sets the unit that opened it.
    pub(crate) fn set_owner(&mut self, file: OfdId, unit: UnitId) {
        self.owners.insert(file, unit);
    }

    /// Whether it belongs to a jobserver.
    pub(crate) fn is_jobserver(&self, file: OfdId) -> bool {
        self.jobserver.contains(&file)
    }

    /// Whether a pipe belongs to a jobserver.
    pub(crate) fn is_jobserver_pipe(&self, pipe: u64) -> bool {
        self.jobserver_pipes.contains(&pipe)
    }

    /// Marks it as part of a jobserver with this pipe.
    pub(crate) fn add_jobserver(&mut self, file: OfdId, pipe: u64) {
        self.jobserver.insert(file);
        self.jobserver_pipes.insert(pipe);
    }

    /// Returns the resource, if it was opened for writing.
    pub(crate) fn resource(&self, file: OfdId) -> Option<&FilePath> {
        self.resources.get(&file)
    }

    /// Sets the resource of a description opened for writing.
    pub(crate) fn set_resource(&mut self, file: OfdId, resource: FilePath) {
        self.resources.insert(file, resource);
    }

    /// Returns the number of the character device, if it is known to be one.
    pub(crate) fn device(&self, file: OfdId) -> Option<u64> {
        self.devices.get(&file).copied()
    }

    /// Adds character devices with their numbers.
    pub(crate) fn add_devices(&mut self, devices: impl Iterator<Item = (OfdId, u64)>) {
        self.devices.extend(devices);
    }

    /// Returns device and inode, if it is a directory.
    pub(crate) fn directory(&self, file: OfdId) -> Option<(u64, u64)> {
        self.directories.get(&file).copied()
    }

    /// Stores device and inode of a directory.
    pub(crate) fn set_directory(&mut self, file: OfdId, identity: (u64, u64)) {
        self.directories.insert(file, identity);
    }

    /// Whether the descriptions that are older than the session are to be examined, which is done
    /// once.
    pub(crate) fn examines_inherited(&mut self) -> bool {
        !std::mem::replace(&mut self.has_examined_inherited, true)
    }

    /// Whether a directory was opened, or is older than the session.
    pub(crate) fn has_directories(&self) -> bool {
        !self.directories.is_empty()
    }

    /// Whether this is the first listing of a directory through it.
    pub(crate) fn is_listed_first(&mut self, file: OfdId) -> bool {
        self.listed.insert(file)
    }

    /// Takes the end of the unfinished line.
    pub(crate) fn take_tail(&mut self, file: OfdId) -> Tail {
        self.tails.remove(&file).unwrap_or_default()
    }

    /// Stores the end of an unfinished line.
    pub(crate) fn set_tail(&mut self, file: OfdId, tail: Tail) {
        self.tails.insert(file, tail);
    }
}

/// Maps open file descriptions to units. The model numbers descriptions consecutively, so this is
/// a vector: a build opens hundreds of thousands.
#[derive(Debug, Default)]
struct Owners(Vec<Option<UnitId>>);

impl Owners {
    /// Sets the unit that opened it.
    fn insert(&mut self, OfdId(file): OfdId, unit: UnitId) {
        let Ok(at) = usize::try_from(file) else {
            return;
        };
        if self.0.len() <= at {
            self.0.resize(at + 1, None);
        }
        self.0[at] = Some(unit);
    }

    /// Returns the unit that opened it, if known.
    fn get(&self, OfdId(file): OfdId) -> Option<UnitId> {
        let at = usize::try_from(file).ok()?;
        self.0.get(at).copied().flatten()
    }
}
