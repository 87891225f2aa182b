//! One run under trace: units, who belongs to which, and who owns what.

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use ptrace_async::event::{FileKind, OfdId, OpenFile, Tid};
use ptrace_async::invocation::Invocation;
use ptrace_async::process::{Pending, Processes};
use rustc_hash::FxHashMap;
use rustix::fs::Stat;
use smallvec::SmallVec;

use crate::engine::report::Report;
use crate::engine::unit::{Change, Unit};
use crate::key::{KeyMaker, Known, Limits};
use crate::model::fact::Digest;
use crate::model::path::FilePath;
use crate::model::unit_id::UnitId;
use crate::platform::jobs::Jobs;
use crate::policy::config::Config;
use crate::policy::script::{Found, SEAM, Scripts};
use crate::relocation::Relocation;
use crate::remote::Remote;
use crate::store::Store;
use crate::world::World;
use crate::world::locate::Locator;
use crate::world::lookup_cache::Lookups;
use crate::world::pending_digest::{Content, Contents};

/// Up to this size the digest of a file is made where it is asked for (bytes).
const AT_ONCE: i64 = 16 << 10;

/// How a session behaves.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Nothing is assumed about programs.
    pub strict: bool,
    /// Results are not looked up, only recorded.
    pub refresh: bool,
    /// They are compared with what is recorded.
    pub verify: bool,
    /// Results are looked up, not recorded.
    pub read_only: bool,
    /// Every lookup stops: none is performed and logged in the tracee.
    pub stops_only: bool,
    /// What the user has configured.
    pub config: Arc<Config>,
    /// Finds and stores results for other places, where there are base directories.
    pub relocation: Option<Arc<Relocation>>,
}

impl Settings {
    /// What makes keys with these settings.
    pub fn key_maker(&self) -> Arc<KeyMaker> {
        let base_dirs = self.relocation.as_ref().map(|it| it.base_dirs().clone());
        Arc::new(KeyMaker::new(self.config.clone(), base_dirs))
    }
}

/// What was there before a call that is about to change it.
pub type Before = SmallVec<[(FilePath, Option<Box<Stat>>); 2]>;

/// A traced task.
pub struct Task {
    /// The unit it works for.
    pub unit: UnitId,
    /// Its process.
    pub process: Tid,
    /// A call between its entry and its exit, and what was there before.
    pub pending: Option<(Pending, Before)>,
    /// It stands in for a program that was skipped: nothing is observed.
    pub skipped: bool,
    /// Its last exit stop was seen.
    pub left: bool,
    /// It is part of a stop by job control that was told already.
    pub stop_told: bool,
}

impl Task {
    /// A task that has done nothing yet.
    pub fn new(unit: UnitId, process: Tid) -> Self {
        Self {
            unit,
            process,
            pending: None,
            skipped: false,
            left: false,
            stop_told: false,
        }
    }
}

/// A traced process.
#[derive(Debug, Default)]
pub struct Process {
    /// Threads that have not ended.
    pub threads: u32,
    /// Wait statuses that threads left with: the first's (the process ends with
    /// it, or with that of who ended all), and one that is not 0 of another.
    pub statuses: (Option<i32>, Option<i32>),
    /// Units whose main process this is, outermost first.
    pub units: Vec<UnitId>,
    /// The last signal it got, if the kernel sent it.
    pub kernel_signal: Option<i32>,
    /// It, or what it comes from, made system calls that were not followed:
    /// its descriptors and directory are not what the model says.
    pub unseen: bool,
    /// Its limits.
    pub limits: Known,
}

/// The state of a run.
pub struct Session {
    /// Settings.
    pub settings: Settings,
    /// The model of all processes.
    pub model: Processes,
    /// All units, by id.
    pub units: Vec<Unit>,
    /// Tasks by id.
    pub tasks: FxHashMap<Tid, Task>,
    /// Processes by id.
    pub processes: FxHashMap<Tid, Process>,
    /// Which unit made an open file description; those that are older than
    /// the session are absent.
    pub owners: Owners,
    /// Descriptions of a jobserver.
    pub jobserver: HashSet<OfdId>,
    /// The pipes of a jobserver.
    pub jobserver_pipes: HashSet<u64>,
    /// The resource behind a description opened for writing.
    pub resources: FxHashMap<OfdId, FilePath>,
    /// Descriptions that are of character devices, as keys have found, with their numbers.
    pub devices: FxHashMap<OfdId, u64>,
    /// Directories already listed through a description.
    pub listed: HashSet<OfdId>,
    /// Temporary files with random names, as the program that made them
    /// spells them.
    pub temporary: HashSet<Vec<u8>>,
    /// Who changed a name, and when last; by canonical path, and for the
    /// names in a directory by the directory.
    pub touched: FxHashMap<FilePath, SmallVec<[(u64, UnitId); 2]>>,
    /// Files (device, inode) of which a name was made or removed, which leaves them
    /// another change time.
    pub relinked: HashSet<(u64, u64)>,
    /// Files (device, inode) that were mapped shared and writable, and the units that
    /// did that.
    pub mapped: FxHashMap<(u64, u64), SmallVec<[UnitId; 1]>>,
    /// Paths.
    pub locator: Locator,
    /// Lookups that need not be repeated.
    pub lookups: Lookups,
    /// Digests in the making.
    pub contents: Contents,
    /// The last bytes that went through a pipe, if a line goes on after them.
    pub tails: FxHashMap<OfdId, SmallVec<[u8; 2 * SEAM]>>,
    /// Nobody has changed its personality (personality(2), `setarch`).
    pub one_personality: bool,
    /// What was found in scripts of this path and content.
    pub scripts: FxHashMap<(FilePath, Digest, Scripts), Found>,
    /// Makes keys.
    pub keys: Arc<KeyMaker>,
    /// Answers.
    pub world: Arc<World>,
    /// Results.
    pub store: Arc<Store>,
    /// Results of others.
    pub remote: Option<Arc<Remote>>,
    /// Work in the background.
    pub jobs: Jobs,
    /// What is told at the end.
    pub report: Report,
    /// The uid and gid files are made with.
    pub ids: (u32, u32),
    /// The last path that a task asked metadata of, and the sequence number
    /// before.
    pub looked_at: Option<(Tid, std::path::PathBuf, u64)>,
    /// The task whose event is applied.
    pub acting: Tid,
    /// Room for a path.
    pub spelled: Vec<u8>,
    /// What the lookup that is being applied returned, if it was logged.
    pub told: Option<i64>,
    /// The sequence number of the lookup that is being applied, if it may be
    /// older than the last changes.
    pub looking_back: Option<u64>,
    /// When the change that is being applied began.
    pub began: Option<u64>,
    /// Whether all that is traced is in our own namespaces.
    pub one_namespace: bool,
    /// The command's last thread is on its way out.
    pub command_left: bool,
    /// The process that the user started: it holds what the command inherited.
    pub front: Tid,
    /// The first process.
    pub first: Tid,
    /// Units that were skipped inside the run.
    pub skipped: u32,
    /// The file-creation mask of the task whose event is applied.
    pub umask: u32,
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
            tasks: FxHashMap::default(),
            processes: FxHashMap::default(),
            owners: Owners::default(),
            jobserver: HashSet::new(),
            jobserver_pipes: HashSet::new(),
            resources: FxHashMap::default(),
            devices: FxHashMap::default(),
            listed: HashSet::new(),
            temporary: HashSet::new(),
            touched: FxHashMap::default(),
            relinked: HashSet::new(),
            mapped: FxHashMap::default(),
            locator: Locator::default(),
            lookups: Lookups::default(),
            contents: Contents::default(),
            tails: FxHashMap::default(),
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
            looked_at: None,
            acting: 0,
            spelled: Vec::new(),
            told: None,
            looking_back: None,
            began: None,
            one_namespace: true,
            command_left: false,
            front: std::os::unix::process::parent_id() as Tid,
            first: 0,
            skipped: 0,
            umask: 0o022,
            seq: 1,
        }
    }

    /// Whether the process of a task is [unseen](Process::unseen).
    pub fn is_unseen(&self, tid: Tid) -> bool {
        let process = self.tasks.get(&tid).map(|task| task.process);
        process
            .and_then(|process| self.processes.get(&process))
            .is_some_and(|process| process.unseen)
    }

    /// The limits of a task's process; see [`Known::get`].
    pub fn limits(&self, tid: Tid) -> (Arc<Limits>, Option<Known>) {
        let process = self.tasks.get(&tid);
        let process = process.and_then(|task| self.processes.get(&task.process));
        match process {
            Some(process) if self.one_namespace && !process.unseen => process.limits.get(tid),
            _ => (Limits::of(tid).into(), None),
        }
    }

    /// A task is about to make a call: if that sets limits, what is known of them is not so
    /// any more.
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
        let process = self.tasks.get(&target).map(|task| task.process);
        let Some(process) = process.and_then(|process| self.processes.get_mut(&process)) else {
            return;
        };
        process.limits = Known::unsettled();
        for id in process.units.clone() {
            // It has the doubt.
            let _ = self.check_limits(id);
        }
    }

    /// A task has set a limit of its own process.
    pub fn has_set_limits(&mut self, tid: Tid) {
        let process = self.tasks.get(&tid).map(|task| task.process);
        if let Some(process) = process.and_then(|process| self.processes.get_mut(&process)) {
            process.limits = Known::default();
        }
    }

    /// Doubts a unit whose process, which has set none, has other limits than those that the
    /// unit's key was made of. After that nobody asks again.
    ///
    /// # Errors
    /// The doubt.
    pub fn check_limits(&mut self, id: UnitId) -> Result<(), String> {
        const OTHERS: &str = "has resource limits that another process set while it ran";
        let unit = self.unit(id);
        let process = unit.process;
        if let Some(limits) = unit.limits.take()
            && !limits.hold(process)
        {
            self.doubt(id, OTHERS, true);
            return Err(OTHERS.to_owned());
        }
        Ok(())
    }

    /// The next sequence number.
    pub fn tick(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    /// The last sequence number.
    pub fn now(&self) -> u64 {
        self.seq
    }

    /// The unit with this id.
    pub fn unit(&mut self, id: UnitId) -> &mut Unit {
        &mut self.units[id.0 as usize]
    }

    /// The number of what is noted as it was when the change that is being
    /// applied began.
    pub fn at_beginning(&mut self) -> u64 {
        match self.began {
            Some(began) => began,
            None => self.tick(),
        }
    }

    /// A unit's change of a name by the call that is being applied, done at
    /// `seq`; `initial` is what was there before.
    pub fn change(
        &mut self,
        unit: UnitId,
        seq: u64,
        path: &FilePath,
        initial: Option<Box<Stat>>,
    ) -> &mut Change {
        let began = self.began.unwrap_or(seq);
        let change = self.unit(unit).change(seq, path, initial);
        change.begun = change.begun.min(began);
        change
    }

    /// Counts processes of a unit and of all above it.
    pub fn count_alive(&mut self, unit: UnitId, by: i32) {
        let mut at = Some(unit);
        while let Some(id) = at {
            let unit = self.unit(id);
            unit.alive = unit.alive.saturating_add_signed(by);
            at = unit.parent;
        }
    }

    /// How deep a unit is below the command.
    pub fn depth(&self, unit: UnitId) -> u32 {
        let mut depth: u32 = 0;
        let mut at = self.units[unit.0 as usize].parent;
        while let Some(id) = at {
            depth += 1;
            at = self.units[id.0 as usize].parent;
        }
        depth.saturating_sub(1)
    }

    /// A number for a skipped unit in reports: it comes after the unit that
    /// began last.
    pub fn skipped_id(&mut self) -> u32 {
        self.skipped += 1;
        self.units.len() as u32
    }

    /// The unit a task works for.
    pub fn unit_of(&self, tid: Tid) -> Option<UnitId> {
        self.tasks.get(&tid).map(|task| task.unit)
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

    /// A doubt about a unit; with `leaks`, about all above it too (once they
    /// take the unit in).
    pub fn doubt(&mut self, unit: UnitId, reason: impl Into<String>, leaks: bool) {
        self.unit(unit).doubt(reason, leaks);
    }

    /// A doubt about a unit and all above it, which have it at once: what it brings about
    /// later is a reason as well, and not the first one.
    pub fn doubt_all(&mut self, unit: UnitId, reason: &str) {
        self.doubt_below(unit, None, reason, true);
    }

    /// A doubt about a unit and those above it up to the one that made
    /// `file`, for which the matter is internal.
    pub fn doubt_outside(&mut self, unit: UnitId, file: &OpenFile, reason: &str) {
        let owner = self.owners.get(file.id);
        self.doubt_below(unit, owner, reason, false);
    }

    /// A doubt about a unit and those above it, below `end`.
    fn doubt_below(&mut self, unit: UnitId, end: Option<UnitId>, reason: &str, leaks: bool) {
        let mut at = Some(unit);
        while let Some(id) = at.filter(|_| at != end) {
            self.unit(id).doubt(reason, leaks);
            at = self.unit(id).parent;
        }
    }

    /// Whether a description was made by the unit itself.
    pub fn is_own(&self, unit: UnitId, file: &OpenFile) -> bool {
        self.owners.get(file.id) == Some(unit)
    }

    /// The content of a regular file, being digested from now on if need be.
    pub fn content(&mut self, path: &Path, stat: &Stat) -> Arc<Content> {
        let (content, fresh) = self.contents.get(&self.world, path, stat);
        if fresh && stat.st_size <= AT_ONCE {
            // Takes no longer than to wake a thread.
            content.compute(&self.world);
        } else if fresh {
            let (job, world) = (content.clone(), self.world.clone());
            self.jobs.submit(move || job.compute(&world));
        }
        content
    }

    /// Tells the journal who changed which names.
    pub fn write_outputs(&self) {
        let mut journal = self.report.journal();
        for (path, list) in &self.touched {
            // Names in a directory have keys of their own.
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

    /// Tells the journal which files a unit wrote that somebody else had opened
    /// for it (`program > file`).
    pub fn note_redirected(&self, id: UnitId) {
        let Some(unit) = self.units.get(id.0 as usize) else {
            return;
        };
        let mut last = None;
        for written in &unit.written {
            if last.replace(written.file) != Some(written.file)
                && let Some(path) = self.resources.get(&written.file)
            {
                self.report.journal().output(unit.record, path);
            }
        }
    }

    /// Notes that somebody has written to a description that another unit opened.
    pub fn touch_inherited(&mut self, unit: UnitId, seq: u64, file: &OpenFile) {
        let path = match self.resources.get(&file.id) {
            Some(resource) => resource.clone(),
            None => match named_file(file) {
                Some(path) => self.locator.name(path),
                None => return,
            },
        };
        self.touch(unit, seq, &path, false);
    }

    /// Notes that a file got another name.
    pub fn relink(&mut self, path: &Path) {
        if let Ok(stat) = rustix::fs::lstat(path) {
            self.relinked.insert((stat.st_dev, stat.st_ino));
            self.locator.disbelieve_all();
        }
    }

    /// Notes who changed a name.
    pub fn touch(&mut self, unit: UnitId, seq: u64, path: &FilePath, shape: bool) {
        self.note_toucher(unit, seq, path.clone());
        if shape && let Some(parent) = path.parent() {
            self.touch_names(unit, seq, parent);
        }
    }

    /// Notes who changed the names in a directory.
    pub fn touch_names(&mut self, unit: UnitId, seq: u64, directory: &Path) {
        self.note_toucher(unit, seq, names_in(directory));
    }

    fn note_toucher(&mut self, unit: UnitId, seq: u64, path: FilePath) {
        let list = self.touched.entry(path).or_default();
        match list.iter_mut().find(|(_, who)| *who == unit) {
            Some(entry) => entry.0 = seq,
            None => list.push((seq, unit)),
        }
    }
}

/// Which unit made which open file description. The model counts descriptions, so it is a
/// list: a build opens hundreds of thousands.
#[derive(Debug, Default)]
pub struct Owners(Vec<Option<UnitId>>);

impl Owners {
    /// A unit made it.
    pub fn insert(&mut self, OfdId(file): OfdId, unit: UnitId) {
        let Ok(at) = usize::try_from(file) else {
            return;
        };
        if self.0.len() <= at {
            self.0.resize(at + 1, None);
        }
        self.0[at] = Some(unit);
    }

    /// Who made it, if that is known.
    pub fn get(&self, OfdId(file): OfdId) -> Option<UnitId> {
        let at = usize::try_from(file).ok()?;
        self.0.get(at).copied().flatten()
    }
}

/// What stands for the names in a directory among what is touched: a key of its own, so that a
/// listing conflicts with changes of names and a file with changes of content.
pub fn names_in(directory: &Path) -> FilePath {
    let key = [directory.as_os_str().as_bytes(), b"/."].concat();
    FilePath::from(key.as_slice())
}

/// The path of an open file, if it can be a regular one.
pub fn named_file(file: &OpenFile) -> Option<&Path> {
    let regular = matches!(file.kind, FileKind::Opened | FileKind::Regular);
    file.path.as_deref().filter(|_| regular)
}
