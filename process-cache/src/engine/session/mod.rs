//! One run under trace: its units, tasks, descriptions and changed files.

mod current_call;
mod descriptions;
mod offsets;
mod outputs;
mod places;
mod settings;
mod shared_files;
mod tasks;
mod write_watch;

use std::path::Path;
use std::sync::Arc;

use ptrace_async::event::{FileKind, OpenFile, Tid};
use ptrace_async::invocation::Invocation;
use ptrace_async::process::Processes;
use rustc_hash::FxHashMap;
use rustix::fs::Stat;
use smallvec::SmallVec;

use crate::engine::report::Report;
use crate::engine::unit::{Change, Unit};
use crate::key::{KeyMaker, Known, Limits, rights};
use crate::model::fact::Digest;
use crate::model::path::FilePath;
use crate::model::unit_id::UnitId;
use crate::platform::defect::{Defect, planted};
use crate::platform::fault::Fault;
use crate::platform::jobs::Jobs;
use crate::platform::surroundings::Surroundings;
use crate::policy::script::{Found, Scripts};
use crate::remote::Remote;
use crate::store::Store;
use crate::world::World;
use crate::world::locate::Locator;
use crate::world::lookup_cache::Lookups;
use crate::world::pending_digest::{PendingDigest, PendingDigests};

use self::current_call::CurrentCall;
use self::descriptions::Descriptions;
use self::outputs::Outputs;
pub(super) use self::outputs::{Compared, FileState, is_same};
pub use self::settings::Settings;
use self::shared_files::SharedFiles;
pub(super) use self::shared_files::names_in;
use self::tasks::Tasks;
pub(super) use self::tasks::{AwaitedCall, Kill, Task};

/// Smaller files are digested on the calling thread (bytes).
const AT_ONCE: i64 = 16 << 10;

/// Metadata of files before a call that changes them.
pub type Before = SmallVec<[(FilePath, Option<Box<Stat>>); 2]>;

/// The state of a run.
pub struct Session {
    pub(super) settings: Settings,
    /// The model of all processes.
    pub(super) model: Processes,
    /// All units, by id.
    pub(super) units: Vec<Unit>,
    /// Tasks and processes.
    pub(super) tasks: Tasks,
    /// Open file descriptions.
    pub(super) descriptions: Descriptions,
    /// Files that units changed.
    pub(super) shared_files: SharedFiles,
    /// The states in which units left files.
    pub(super) outputs: Outputs,
    /// The call whose events are applied.
    pub(super) call: CurrentCall,
    /// Paths.
    pub(super) locator: Locator,
    /// Lookups that need not be repeated.
    pub(super) lookups: Lookups,
    /// Digests in computation.
    pub(super) contents: PendingDigests,
    /// Properties of scripts by path and content.
    pub(super) scripts: FxHashMap<(FilePath, Digest, Scripts), Found>,
    /// Makes keys.
    pub(super) keys: Arc<KeyMaker>,
    /// Answers.
    pub(super) world: Arc<World>,
    /// Results.
    pub(super) store: Arc<Store>,
    /// Results of other machines.
    pub(super) remote: Option<Arc<Remote>>,
    /// Work in the background.
    pub(super) jobs: Jobs,
    /// The report at the end.
    pub(super) report: Report,
    /// The uid and gid of new files.
    pub(super) ids: (u32, u32),
    /// Reusable buffer for a path.
    pub(super) spelled: Vec<u8>,
    /// Whether every process has the original personality (personality(2), `setarch`).
    pub(super) one_personality: bool,
    /// Whether all traced processes are in pcache's own namespaces.
    pub(super) one_namespace: bool,
    /// Whether all traced processes have the surroundings and the rights of pcache.
    pub(super) one_surroundings: bool,
    /// The surroundings of pcache, once they were asked.
    surroundings: Option<Surroundings>,
    /// Whether the command's last thread is exiting.
    pub(super) command_left: bool,
    /// The front process, which holds what the command inherited.
    pub(super) front: Tid,
    /// The first process.
    pub(super) first: Tid,
    /// The signal that stopped the front process as the command was stopped, and whether the
    /// terminal sent it.
    pub(super) front_stop: Option<(i32, bool)>,
    /// SIGKILLs that traced processes sent.
    pub(super) kills: Vec<Kill>,
    /// Whether clone3(2) exists here, once a process has called it.
    pub(super) has_clone3: Option<bool>,
    /// The call that is to fail.
    pub(super) fault: Option<Fault>,
    /// Number of units skipped inside the run.
    skipped: u32,
    seq: u64,
}

impl Session {
    /// An empty session.
    pub fn new(settings: Settings, store: Arc<Store>, world: Arc<World>) -> Self {
        Self {
            keys: settings.key_maker(),
            settings,
            model: Processes::new(),
            units: Vec::new(),
            tasks: Tasks::default(),
            descriptions: Descriptions::default(),
            shared_files: SharedFiles::default(),
            outputs: Outputs::default(),
            call: CurrentCall::default(),
            locator: Locator::default(),
            lookups: Lookups::default(),
            contents: PendingDigests::default(),
            one_personality: true,
            scripts: FxHashMap::default(),
            world,
            store,
            remote: None,
            jobs: Jobs::new(),
            report: Report::default(),
            ids: (
                rustix::process::geteuid().as_raw(),
                rustix::process::getegid().as_raw(),
            ),
            spelled: Vec::new(),
            one_namespace: true,
            one_surroundings: true,
            surroundings: None,
            command_left: false,
            front: std::os::unix::process::parent_id() as Tid,
            first: 0,
            front_stop: None,
            kills: Vec::new(),
            has_clone3: None,
            fault: None,
            skipped: 0,
            seq: 1,
        }
    }

    /// Whether the process of a task is [unseen](tasks::Process::unseen).
    pub fn is_unseen(&self, tid: Tid) -> bool {
        self.tasks
            .process_of(tid)
            .is_some_and(|process| process.unseen)
    }

    /// Notes that a task has changed its namespaces, its root directory or its rights, or those of
    /// the processes that it will start.
    pub fn changes_surroundings(&mut self, tid: Tid, restricted: bool) {
        self.one_surroundings = false;
        if let Some(process) = self.tasks.process_of_mut(tid) {
            process.restricted |= restricted;
        }
    }

    /// Whether a task has other namespaces, another root directory or other rights than pcache.
    /// Then facts that pcache asks are no facts of the task, and a stand-in may be out of its
    /// reach. Unknown surroundings are other ones.
    pub fn is_elsewhere(&mut self, tid: Tid) -> bool {
        if self.one_surroundings || planted(Defect::ForeignNamespace) {
            return false;
        }
        let restricted = self.tasks.process_of(tid);
        if restricted.is_none_or(|process| process.restricted) || rights(tid) != rights(0) {
            return true;
        }
        if self.surroundings.is_none() {
            self.surroundings = Surroundings::of(None);
        }
        let its = Surroundings::of(Some(tid));
        its.is_none() || its != self.surroundings
    }

    /// The limits of a task's process; see [`Known::get`].
    pub fn limits(&self, tid: Tid) -> (Arc<Limits>, Option<Known>) {
        match self.tasks.process_of(tid) {
            Some(process) if self.one_namespace && !process.unseen => process.limits.get(tid),
            _ => (Limits::of(tid).into(), None),
        }
    }

    /// Handles a call that a task is about to make: if it sets limits, the known limits become
    /// invalid.
    pub fn may_set_limits(&mut self, tid: Tid, call: &Invocation) {
        let target = match call.nr.cast_signed() {
            libc::SYS_setrlimit => tid,
            libc::SYS_prlimit64 if call.args[2] == 0 => return,
            libc::SYS_prlimit64 => match call.args[0] as Tid {
                0 => tid,
                other => other,
            },
            _ => return,
        };
        let Some(process) = self.tasks.process_of_mut(target) else {
            return;
        };
        process.limits = Known::unsettled();
        for id in process.units.clone() {
            // The unit is uncacheable already.
            let _ = self.check_limits(id);
        }
    }

    /// Notes that a task has set a limit of its own process.
    pub fn has_set_limits(&mut self, tid: Tid) {
        if let Some(process) = self.tasks.process_of_mut(tid) {
            process.limits = Known::default();
        }
    }

    /// Marks a unit as uncacheable if its process has other limits than those in the unit's key,
    /// although it has set none. Afterwards no further check is needed.
    ///
    /// # Errors
    /// The reason.
    pub fn check_limits(&mut self, id: UnitId) -> Result<(), String> {
        const OTHERS: &str = "has resource limits that another process set while it ran";
        let unit = self.unit(id);
        let process = unit.process;
        if let Some(limits) = unit.limits.take()
            && !limits.hold(process)
        {
            self.mark_uncacheable(id, OTHERS, true);
            return Err(OTHERS.to_owned());
        }
        Ok(())
    }

    /// Returns the next sequence number.
    pub fn tick(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    /// Returns the last sequence number.
    pub fn now(&self) -> u64 {
        self.seq
    }

    /// Returns the unit with this id.
    pub fn unit(&mut self, id: UnitId) -> &mut Unit {
        &mut self.units[id.0 as usize]
    }

    /// Returns the sequence number for facts about the state before the change that is being
    /// applied.
    pub fn at_beginning(&mut self) -> u64 {
        match self.call.began() {
            Some(began) => began,
            None => self.tick(),
        }
    }

    /// Returns a unit's change of a name by the call that is being applied, at `seq`; `initial` is
    /// the metadata before.
    pub fn change(
        &mut self,
        unit: UnitId,
        seq: u64,
        path: &FilePath,
        initial: Option<Box<Stat>>,
    ) -> &mut Change {
        let began = self.call.began().unwrap_or(seq);
        let change = self.unit(unit).change(seq, path, initial);
        change.begun = change.begun.min(began);
        change
    }

    /// Adds `by` to the number of living processes of a unit and its ancestors.
    pub fn count_alive(&mut self, unit: UnitId, by: i32) {
        let mut at = Some(unit);
        while let Some(id) = at {
            let unit = self.unit(id);
            unit.alive = unit.alive.saturating_add_signed(by);
            at = unit.parent;
        }
    }

    /// Returns the depth of a unit below the command.
    pub fn depth(&self, unit: UnitId) -> u32 {
        let mut depth: u32 = 0;
        let mut at = self.units[unit.0 as usize].parent;
        while let Some(id) = at {
            depth += 1;
            at = self.units[id.0 as usize].parent;
        }
        depth.saturating_sub(1)
    }

    /// Returns the process of the command.
    pub(super) fn command_process(&self) -> Tid {
        let command = self.units.get(1);
        command.map_or(self.first, |unit| unit.process)
    }

    /// Returns a number for a skipped unit in reports: it follows the unit that began last.
    pub fn skipped_id(&mut self) -> u32 {
        self.skipped += 1;
        self.units.len() as u32
    }

    /// Returns the unit of a task.
    pub fn unit_of(&self, tid: Tid) -> Option<UnitId> {
        self.tasks.get(tid).map(|task| task.unit)
    }

    /// Whether `unit` is `above` or below it.
    pub fn is_within(&self, unit: UnitId, above: UnitId) -> bool {
        let mut at = Some(unit);
        while let Some(id) = at {
            if id == above {
                return true;
            }
            at = self.units[id.0 as usize].parent;
        }
        false
    }

    /// Whether neither the unit nor one above it can be stored. A doubt that leaks makes those above
    /// uncacheable when they absorb the unit.
    pub fn is_lost(&self, unit: UnitId) -> bool {
        let mut at = Some(unit);
        while let Some(id) = at {
            let unit = &self.units[id.0 as usize];
            if unit.uncacheable_reasons.iter().any(|doubt| doubt.leaks) {
                return true;
            }
            if !unit.is_doubtful() {
                return false;
            }
            at = unit.parent;
        }
        true
    }

    /// Marks a unit as uncacheable; with `leaks`, also its ancestors as they absorb it.
    pub fn mark_uncacheable(&mut self, unit: UnitId, reason: impl Into<String>, leaks: bool) {
        self.unit(unit).mark_uncacheable(reason, leaks);
    }

    /// Marks a unit and all its ancestors as uncacheable at once. Effects that follow may add
    /// further reasons, but this one is first.
    pub fn mark_uncacheable_upwards(&mut self, unit: UnitId, reason: &str) {
        self.mark_uncacheable_below(unit, None, reason, true);
    }

    /// Marks a unit as uncacheable, and its ancestors up to the one that opened `file`, for which
    /// the reason is internal.
    pub fn mark_uncacheable_outside(&mut self, unit: UnitId, file: &OpenFile, reason: &str) {
        let owner = self.descriptions.owner(file.id);
        self.mark_uncacheable_below(unit, owner, reason, false);
    }

    /// Marks a unit and its ancestors below `end` as uncacheable.
    fn mark_uncacheable_below(
        &mut self,
        unit: UnitId,
        end: Option<UnitId>,
        reason: &str,
        leaks: bool,
    ) {
        let mut at = Some(unit);
        while let Some(id) = at.filter(|_| at != end) {
            self.unit(id).mark_uncacheable(reason, leaks);
            at = self.unit(id).parent;
        }
    }

    /// Whether the unit itself opened a description.
    pub fn is_own(&self, unit: UnitId, file: &OpenFile) -> bool {
        self.descriptions.owner(file.id) == Some(unit)
    }

    /// Returns the content of a regular file; starts its digest if needed.
    pub fn content(&mut self, path: &Path, stat: &Stat) -> Arc<PendingDigest> {
        let (content, fresh) = self.contents.get(&self.world, path, stat);
        if fresh && stat.st_size <= AT_ONCE {
            // This takes no longer than waking a thread.
            content.compute(&self.world);
        } else if fresh {
            let (job, world) = (content.clone(), self.world.clone());
            self.jobs.submit(move || job.compute(&world));
        }
        content
    }

    /// Adds to the journal which units changed which names.
    pub fn write_outputs(&self) {
        let mut journal = self.report.journal();
        for (path, list) in self.shared_files.all_changes() {
            // Names in a directory have their own keys.
            if path.as_bytes().ends_with(b"/.") {
                continue;
            }
            for (_, unit) in list {
                if let Some(unit) = self.units.get(unit.0 as usize) {
                    journal.output(unit.record, path);
                }
            }
        }
    }

    /// Adds to the journal the files that a unit wrote through a descriptor of another unit
    /// (`program > file`).
    pub fn note_redirected(&self, id: UnitId) {
        let Some(unit) = self.units.get(id.0 as usize) else {
            return;
        };
        let mut last = None;
        for written in &unit.written {
            if last.replace(written.file) != Some(written.file)
                && let Some(path) = self.descriptions.resource(written.file)
            {
                self.report.journal().output(unit.record, path);
            }
        }
    }

    /// Notes a write to a description that another unit opened.
    pub fn touch_inherited(&mut self, unit: UnitId, seq: u64, file: &OpenFile) {
        let path = match self.descriptions.resource(file.id) {
            Some(resource) => resource.clone(),
            None => match named_file(file) {
                Some(path) => self.locator.name(path),
                None => return,
            },
        };
        self.touch_written(unit, seq, &path);
    }

    /// Notes that a file got another name.
    pub fn relink(&mut self, path: &Path) {
        if let Ok(stat) = rustix::fs::lstat(path) {
            self.shared_files.relink(&stat);
            self.locator.forget_contents();
        }
    }

    /// Notes the unit that wrote to a file through an open description.
    pub fn touch_written(&mut self, unit: UnitId, seq: u64, path: &FilePath) {
        self.shared_files.change(unit, seq, path.clone());
        let mark = self.call.looking_back();
        self.outputs.touch(path, true, mark);
    }

    /// Notes the unit that changed a name.
    pub fn touch(&mut self, unit: UnitId, seq: u64, path: &FilePath, shape: bool) {
        self.shared_files.change(unit, seq, path.clone());
        self.outputs.touch(path, false, None);
        if shape && let Some(parent) = path.parent() {
            self.touch_names(unit, seq, parent);
        }
    }

    /// Notes the unit that changed the names in a directory.
    pub fn touch_names(&mut self, unit: UnitId, seq: u64, directory: &Path) {
        self.shared_files.change(unit, seq, names_in(directory));
    }
}

/// Returns the path of an open file, if it can be a regular one.
pub fn named_file(file: &OpenFile) -> Option<&Path> {
    let regular = matches!(file.kind, FileKind::Opened | FileKind::Regular);
    file.path.as_deref().filter(|_| regular)
}
