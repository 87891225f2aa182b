//! The state of the model: tasks, descriptor tables, working directories.

use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::arena::{Arena, Key};
use super::paths;
use super::proc::{self, Descriptor};
use super::table::Table;
use crate::event::{FileKind, IoEvent, OfdId, OpenFile, Tid};

/// Working directory, root and mask: what `CLONE_FS` shares.
#[derive(Debug, Clone)]
pub(super) struct Location {
    /// Empty where it is not known.
    pub(super) cwd: PathBuf,
    pub(super) root: PathBuf,
    pub(super) umask: u32,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Task {
    pub(super) tgid: Tid,
    pub(super) files: Key,
    pub(super) location: Key,
}

/// The model of a whole session. See the [module](super) documentation.
#[derive(Debug)]
pub struct Processes {
    pub(super) tasks: FxHashMap<Tid, Task>,
    pub(super) tables: Arena<Table>,
    pub(super) locations: Arena<Location>,
    next_file: u64,
    next_pipe: u64,
}

impl Default for Processes {
    fn default() -> Self {
        Self::new()
    }
}

/// The properties of a new description; see [`Processes::create`].
pub(super) struct NewDescription {
    pub(super) kind: FileKind,
    pub(super) path: Option<PathBuf>,
    pub(super) readable: bool,
    pub(super) writable: bool,
    pub(super) path_only: bool,
    pub(super) append: bool,
    pub(super) nonblocking: bool,
}

impl NewDescription {
    /// A description that can be read and written and has no path.
    pub(super) fn anonymous(kind: FileKind, nonblocking: bool) -> Self {
        Self {
            kind,
            path: None,
            readable: true,
            writable: true,
            path_only: false,
            append: false,
            nonblocking,
        }
    }
}

impl Processes {
    /// A model without processes.
    #[must_use]
    pub fn new() -> Self {
        Self {
            tasks: FxHashMap::default(),
            tables: Arena::new(),
            locations: Arena::new(),
            next_file: 0,
            next_pipe: 1 << 63,
        }
    }

    /// Adopts an existing task: the command right before its first exec, or one that was
    /// attached to. Reads `/proc/TID/{cwd,root,fd,fdinfo,status}` once. A further thread of
    /// a known process shares the state of that process.
    ///
    /// Descriptors with the same object, flags and position are assumed to share one
    /// description. Use [`adopt_comparing`](Self::adopt_comparing) where `kcmp(2)` can
    /// answer that.
    ///
    /// # Errors
    /// When `/proc` cannot be read, mostly because the task is gone. The task
    /// is then not known.
    pub fn adopt(&mut self, tid: Tid, tgid: Tid) -> io::Result<()> {
        self.adopt_comparing_with(tid, tgid, None)
    }

    /// As [`adopt`](Self::adopt), asking `same(fd, fd)` whether two descriptors
    /// of the task that look alike are one open file description.
    ///
    /// # Errors
    /// As [`adopt`](Self::adopt).
    pub fn adopt_comparing(
        &mut self,
        tid: Tid,
        tgid: Tid,
        same: &mut dyn FnMut(i32, i32) -> bool,
    ) -> io::Result<()> {
        self.adopt_comparing_with(tid, tgid, Some(same))
    }

    fn adopt_comparing_with(
        &mut self,
        tid: Tid,
        tgid: Tid,
        mut same: Option<&mut dyn FnMut(i32, i32) -> bool>,
    ) -> io::Result<()> {
        self.exited(tid);
        let sibling = self.tasks.values().find(|task| task.tgid == tgid).copied();
        if let Some(sibling) = sibling {
            self.share(tid, tgid, sibling);
            return Ok(());
        }
        let location = Location {
            cwd: proc::cwd(tid)?,
            root: proc::root(tid)?,
            umask: proc::umask(tid)?,
        };
        let mut table = Table::default();
        let mut seen: Vec<(i32, Descriptor, Rc<OpenFile>)> = Vec::new();
        for fd in proc::descriptors(tid)? {
            // A descriptor may be closed by another thread meanwhile.
            let Ok(found) = Descriptor::read(tid, fd) else {
                continue;
            };
            let shared = seen.iter().find(|(other_fd, other, _)| {
                found.resembles(other) && same.as_mut().is_none_or(|same| same(*other_fd, fd))
            });
            let file = match shared {
                Some((_, _, file)) => Rc::clone(file),
                None => Rc::new(found.clone().into_file(self.fresh_file())),
            };
            table.set(fd, Rc::clone(&file), found.cloexec);
            seen.push((fd, found, file));
        }
        let files = self.tables.insert(table);
        let location = self.locations.insert(location);
        let task = Task {
            tgid,
            files,
            location,
        };
        self.tasks.insert(tid, task);
        Ok(())
    }

    fn share(&mut self, tid: Tid, tgid: Tid, with: Task) {
        let task = Task {
            tgid,
            files: self.tables.share(with.files),
            location: self.locations.share(with.location),
        };
        self.tasks.insert(tid, task);
    }

    /// A child was created (fork, vfork, clone, clone3) with these `CLONE_*` flags
    /// ([`clone_flags`](super::clone_flags)). Call this before the child's first syscall
    /// and before the exit of the parent's call are shown. Returns the event for tools that
    /// want it in their stream.
    ///
    /// If the parent is unknown, the child is adopted from `/proc`.
    pub fn spawned(&mut self, parent: Tid, child: Tid, flags: u64) -> IoEvent {
        let has = |flag: i32| flags & flag as u64 != 0;
        let thread = has(libc::CLONE_THREAD);
        self.exited(child);
        if let Some(parent) = self.task(parent) {
            let tgid = if thread { parent.tgid } else { child };
            self.share(child, tgid, parent);
            if !has(libc::CLONE_FILES) {
                self.unshare_files(child);
            }
            if !has(libc::CLONE_FS) {
                self.unshare_location(child);
            }
        } else {
            // A failure is not reported here: the child's first syscall tries again and
            // reports it.
            let _ = self.adopt(child, proc::tgid(child).unwrap_or(child));
        }
        IoEvent::Spawn {
            child,
            thread,
            vfork: has(libc::CLONE_VFORK),
        }
    }

    /// A successful execve, reported at the exec stop. The call's
    /// [`Pending`](super::Pending) can be dropped, or passed to [`exit`](Self::exit) as
    /// usual. `tid` is the task that remains (the thread group's leader), `former` the one
    /// that called. Other threads of the process end, the table becomes the process's own,
    /// and close-on-exec descriptors close.
    pub fn exec(&mut self, tid: Tid, former: Tid) {
        let Some(caller) = self.task(former).or_else(|| self.task(tid)) else {
            let _ = self.adopt(tid, tid);
            return;
        };
        let gone: Vec<Tid> = self
            .tasks
            .iter()
            .filter(|(other, task)| task.tgid == caller.tgid && **other != tid)
            .map(|(other, _)| *other)
            .collect();
        // The caller's table and directories survive under the leader's id.
        self.tables.share(caller.files);
        self.locations.share(caller.location);
        self.exited(tid);
        for other in gone {
            self.exited(other);
        }
        let task = Task {
            tgid: tid,
            ..caller
        };
        self.tasks.insert(tid, task);
        self.unshare_files(tid);
        if let Some(table) = self.table_mut(tid) {
            table.close_on_exec();
        }
    }

    /// A task ended.
    pub fn exited(&mut self, tid: Tid) {
        if let Some(task) = self.tasks.remove(&tid) {
            self.tables.release(task.files);
            self.locations.release(task.location);
        }
    }

    /// The working directory; `None` for an unknown task.
    #[must_use]
    pub fn cwd(&self, tid: Tid) -> Option<&Path> {
        let location = self.location(tid)?;
        (!location.cwd.as_os_str().is_empty()).then_some(&location.cwd)
    }

    /// The root directory, as seen from outside.
    #[must_use]
    pub fn root(&self, tid: Tid) -> Option<&Path> {
        self.location(tid).map(|location| location.root.as_path())
    }

    /// Resolves `given`, a path that is absolute or relative to the working directory, into
    /// `path`. Returns `false` if the base is unknown, if the spelling (a final `/` or `.`) demands
    /// a directory, or if the path begins with a link of a process.
    pub fn find(&self, tid: Tid, given: &[u8], path: &mut Vec<u8>) -> bool {
        let base = match given.first() {
            None => None,
            Some(b'/') => self.root(tid),
            Some(_) => self.cwd(tid),
        };
        let base = base.filter(|_| !paths::names_directory(given));
        if let Some(base) = base {
            paths::join_into(base, given, path);
        }
        base.is_some() && paths::process_link(path).is_none()
    }

    /// The file-creation mask; the usual `022` for an unknown task.
    #[must_use]
    pub fn umask(&self, tid: Tid) -> u32 {
        self.location(tid).map_or(0o022, |location| location.umask)
    }

    /// The open file description behind a descriptor.
    #[must_use]
    pub fn file(&self, tid: Tid, fd: i32) -> Option<&Rc<OpenFile>> {
        Some(&self.table(tid)?.get(fd)?.file)
    }

    /// All descriptors in ascending order: number, description, close-on-exec.
    pub fn descriptors(&self, tid: Tid) -> impl Iterator<Item = (i32, &Rc<OpenFile>, bool)> {
        let slots = self.table(tid).into_iter().flat_map(Table::iter);
        slots.map(|(fd, slot)| (fd, &slot.file, slot.cloexec))
    }

    /// The thread group (process) of a task.
    #[must_use]
    pub fn tgid(&self, tid: Tid) -> Option<Tid> {
        Some(self.task(tid)?.tgid)
    }

    /// The tasks known at present, in no particular order.
    pub fn tasks(&self) -> impl Iterator<Item = Tid> {
        self.tasks.keys().copied()
    }
}

// The operations that decoders use.
impl Processes {
    pub(super) fn task(&self, tid: Tid) -> Option<Task> {
        self.tasks.get(&tid).copied()
    }

    pub(super) fn table(&self, tid: Tid) -> Option<&Table> {
        self.tables.get(self.task(tid)?.files)
    }

    pub(super) fn table_mut(&mut self, tid: Tid) -> Option<&mut Table> {
        let task = self.task(tid)?;
        self.tables.get_mut(task.files)
    }

    pub(super) fn location(&self, tid: Tid) -> Option<&Location> {
        self.locations.get(self.task(tid)?.location)
    }

    pub(super) fn location_mut(&mut self, tid: Tid) -> Option<&mut Location> {
        let task = self.task(tid)?;
        self.locations.get_mut(task.location)
    }

    /// Makes sure that a task is known; an unknown one is adopted.
    pub(super) fn ensure(&mut self, tid: Tid) -> bool {
        self.tasks.contains_key(&tid)
            || proc::tgid(tid).is_some_and(|tgid| self.adopt(tid, tgid).is_ok())
    }

    pub(super) fn unshare_files(&mut self, tid: Tid) {
        if let Some(task) = self.tasks.get_mut(&tid) {
            task.files = self.tables.unshare(task.files);
        }
    }

    pub(super) fn unshare_location(&mut self, tid: Tid) {
        if let Some(task) = self.tasks.get_mut(&tid) {
            task.location = self.locations.unshare(task.location);
        }
    }

    pub(super) fn fresh_file(&mut self) -> OfdId {
        self.next_file += 1;
        OfdId(self.next_file)
    }

    /// A number for a pipe made in the session.
    pub(super) fn fresh_pipe(&mut self) -> u64 {
        self.next_pipe += 1;
        self.next_pipe
    }

    /// Makes a description and puts it at `fd`.
    pub(super) fn create(
        &mut self,
        tid: Tid,
        fd: i32,
        new: NewDescription,
        cloexec: bool,
    ) -> Rc<OpenFile> {
        let file = Rc::new(OpenFile {
            id: self.fresh_file(),
            kind: new.kind,
            path: new.path,
            readable: new.readable,
            writable: new.writable,
            path_only: new.path_only,
            append: Cell::new(new.append),
            nonblocking: Cell::new(new.nonblocking),
            creator: Some(tid),
        });
        if let Some(table) = self.table_mut(tid) {
            table.set(fd, Rc::clone(&file), cloexec);
        }
        file
    }

    /// Adopts a descriptor from `/proc` that the model did not see being created.
    pub(super) fn adopt_descriptor(&mut self, tid: Tid, fd: i32) -> Option<Rc<OpenFile>> {
        if fd < 0 {
            return None;
        }
        let found = Descriptor::read(tid, fd).ok()?;
        let cloexec = found.cloexec;
        let file = Rc::new(found.into_file(self.fresh_file()));
        self.table_mut(tid)?.set(fd, Rc::clone(&file), cloexec);
        Some(file)
    }

    /// Reads working directory and root of all tasks anew, after `pivot_root`.
    pub(super) fn refresh_locations(&mut self) {
        let tids: Vec<Tid> = self.tasks().collect();
        for tid in tids {
            self.refresh_location(tid);
        }
    }

    /// Reads working directory and root of a task anew.
    pub(super) fn refresh_location(&mut self, tid: Tid) {
        let (cwd, root) = (proc::cwd(tid), proc::root(tid));
        if let Some(location) = self.location_mut(tid) {
            location.cwd = cwd.unwrap_or_else(|_| std::mem::take(&mut location.cwd));
            location.root = root.unwrap_or_else(|_| std::mem::take(&mut location.root));
        }
    }
}
