//! Open file descriptions: which unit made them, and what stands behind them.

use std::collections::HashSet;

use ptrace_async::event::OfdId;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::model::path::FilePath;
use crate::model::unit_id::UnitId;
use crate::policy::script::SEAM;

/// The end of a line that goes on.
pub(crate) type Tail = SmallVec<[u8; 2 * SEAM]>;

/// Properties of open file descriptions.
#[derive(Debug, Default)]
pub(crate) struct Descriptions {
    /// Which unit made them; those that are older than the session are absent.
    owners: Owners,
    jobserver: HashSet<OfdId>,
    /// The pipes of a jobserver.
    jobserver_pipes: HashSet<u64>,
    /// The resource behind a description opened for writing.
    resources: FxHashMap<OfdId, FilePath>,
    /// Those of character devices, as keys have found, with their numbers.
    devices: FxHashMap<OfdId, u64>,
    /// Directories already listed.
    listed: HashSet<OfdId>,
    /// The last bytes that went through a pipe, if a line goes on after them.
    tails: FxHashMap<OfdId, Tail>,
}

impl Descriptions {
    /// The unit that made it, if one of the session did.
    pub(crate) fn owner(&self, file: OfdId) -> Option<UnitId> {
        self.owners.get(file)
    }

    /// A unit made it.
    pub(crate) fn set_owner(&mut self, file: OfdId, unit: UnitId) {
        self.owners.insert(file, unit);
    }

    /// Whether it belongs to a jobserver.
    pub(crate) fn is_jobserver(&self, file: OfdId) -> bool {
        self.jobserver.contains(&file)
    }

    /// Whether a pipe is a jobserver's.
    pub(crate) fn is_jobserver_pipe(&self, pipe: u64) -> bool {
        self.jobserver_pipes.contains(&pipe)
    }

    /// It belongs to a jobserver with this pipe.
    pub(crate) fn add_jobserver(&mut self, file: OfdId, pipe: u64) {
        self.jobserver.insert(file);
        self.jobserver_pipes.insert(pipe);
    }

    /// The resource behind it, if it was opened for writing.
    pub(crate) fn resource(&self, file: OfdId) -> Option<&FilePath> {
        self.resources.get(&file)
    }

    /// It was opened for writing to this resource.
    pub(crate) fn set_resource(&mut self, file: OfdId, resource: FilePath) {
        self.resources.insert(file, resource);
    }

    /// The number of the character device, if it is known to be one.
    pub(crate) fn device(&self, file: OfdId) -> Option<u64> {
        self.devices.get(&file).copied()
    }

    /// These are character devices with these numbers.
    pub(crate) fn add_devices(&mut self, devices: impl Iterator<Item = (OfdId, u64)>) {
        self.devices.extend(devices);
    }

    /// Whether a directory is listed through it for the first time.
    pub(crate) fn is_listed_first(&mut self, file: OfdId) -> bool {
        self.listed.insert(file)
    }

    /// Takes the end of the line that goes on.
    pub(crate) fn take_tail(&mut self, file: OfdId) -> Tail {
        self.tails.remove(&file).unwrap_or_default()
    }

    /// A line goes on after these bytes.
    pub(crate) fn set_tail(&mut self, file: OfdId, tail: Tail) {
        self.tails.insert(file, tail);
    }
}

/// Which unit made which open file description. The model counts descriptions, so it is a
/// list: a build opens hundreds of thousands.
#[derive(Debug, Default)]
struct Owners(Vec<Option<UnitId>>);

impl Owners {
    /// A unit made it.
    fn insert(&mut self, OfdId(file): OfdId, unit: UnitId) {
        let Ok(at) = usize::try_from(file) else {
            return;
        };
        if self.0.len() <= at {
            self.0.resize(at + 1, None);
        }
        self.0[at] = Some(unit);
    }

    /// The unit that made it, if that is known.
    fn get(&self, OfdId(file): OfdId) -> Option<UnitId> {
        let at = usize::try_from(file).ok()?;
        self.0.get(at).copied().flatten()
    }
}
