//! Records reads and writes through descriptors that a unit inherited.

use super::{MAX_STREAM, Reader};
use crate::engine::session::{Before, Session};
use crate::engine::unit::UNHEARD;
use crate::engine::unit::{Observed, TimeState, Unit, Written};
use crate::model::fact::{Part, Query};
use crate::model::path_kind::{Class, classify, descriptor, leads_through};
use crate::model::unit_id::UnitId;
use crate::platform::defect::{Defect, planted};
use crate::platform::proc_files::position;
use crate::policy::{Policy, Streams};
use crate::relocation::make_output;
use crate::world::locate::is_regular;
use ptrace_async::event::{FileKind, IoEvent, OfdId, OpenFile, Tid};
use ptrace_async::invocation::Invocation;
use ptrace_async::memory::Memory;
use ptrace_async::process::Pending;
use rustix::fs::Stat;
use smallvec::SmallVec;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

/// Most bytes that the kernel writes in one call (write(2), "NOTES").
const MOST_AT_ONCE: u64 = 0x7fff_f000;

impl Session {
    /// Records that a position was queried or set.
    pub(super) fn sought(&mut self, unit: UnitId, fd: i32, file: &OpenFile, measures: bool) {
        if measures {
            self.measured_inherited(unit, file);
        } else {
            self.stat_inherited(unit, file);
        }
        // Other kinds have no position; programs that close their standard input query it all the
        // same.
        let has_position = !matches!(
            file.kind,
            FileKind::Pipe { .. } | FileKind::Terminal | FileKind::Socket(_)
        );
        if has_position && !self.is_own(unit, file) {
            let of_unit = self.unit(unit);
            let seeks = usize::try_from(fd)
                .ok()
                .and_then(|fd| of_unit.seeks.get_mut(fd));
            let starting = seeks.is_some_and(|seeks| {
                *seeks = seeks.saturating_add(1);
                *seeks <= of_unit.policy.seeks_at_start
            });
            if file.readable {
                self.use_part(unit, file, Part::Input);
            }
            if file.writable {
                self.use_part(unit, file, Part::Output);
                if !starting {
                    self.unit(unit).sought.push(file.id);
                }
            }
        }
    }

    /// Records a shared writable mapping of a file.
    pub(super) fn mapped(&mut self, unit: UnitId, file: &OpenFile) {
        let stat = file.path.as_deref().map(rustix::fs::stat);
        if let Some(Ok(stat)) = stat {
            self.shared_files.map((stat.st_dev, stat.st_ino), unit);
        }
        if !self.is_own(unit, file) {
            self.mark_uncacheable(unit, "maps an inherited file into writable memory", true);
        }
    }

    /// Whether a call has opened, for its unit to write, a plain file without other names.
    pub(crate) fn has_made_output(
        &self,
        tid: Tid,
        call: &Invocation,
        value: i64,
        before: &Before,
    ) -> bool {
        let opens = matches!(
            call.nr.cast_signed(),
            libc::SYS_open | libc::SYS_creat | libc::SYS_openat | libc::SYS_openat2
        );
        let Some((resource, initial)) = before.first().filter(|_| opens && value >= 0) else {
            return false;
        };
        let is_plain = |stat: &Stat| is_regular(stat) && stat.st_nlink == 1;
        let unit = self.unit_of(tid);
        let file = i32::try_from(value).ok();
        let file = file.and_then(|fd| self.model.file(tid, fd));
        initial.as_deref().is_none_or(is_plain)
            && unit.zip(file).is_some_and(|(unit, file)| {
                file.writable
                    && self.is_own(unit, file)
                    && self.descriptions.resource(file.id) == Some(resource)
            })
    }

    /// Returns the file that a write goes to, if the unit opened it itself.
    pub fn written_own(
        &self,
        tid: Tid,
        call: &Invocation,
        pending: Option<&Pending>,
    ) -> Option<Rc<OpenFile>> {
        let file = pending
            .filter(|_| call.nr == libc::SYS_write as u64)?
            .writes_to()?;
        let unit = self.unit_of(tid)?;
        self.is_own(unit, &file).then_some(file)
    }

    /// Handles a write to a file that the unit opened itself. Only the write matters, not the
    /// number of bytes. Returns the remaining work for the syscall exit.
    pub fn write_own(
        &mut self,
        tid: Tid,
        call: &Invocation,
        pending: Option<Pending>,
        memory: &dyn Memory,
    ) -> Option<Pending> {
        if self.written_own(tid, call, pending.as_ref()).is_none() {
            return pending;
        }
        let pending = pending?;
        let length = call.args[2].min(MOST_AT_ONCE).cast_signed();
        let mut events = SmallVec::new();
        self.model.exit(tid, pending, length, memory, &mut events);
        for event in events {
            if let IoEvent::Write { file, .. } = &event
                && let Some(path) = self.descriptions.resource(file.id)
            {
                self.outputs.begin_write(tid, path.clone());
            }
            self.apply(tid, &Before::new(), event, &|_| Vec::new());
        }
        None
    }

    /// Notes a write to a description: the unit that opened it goes on with its change.
    pub(crate) fn go_on_writing(&mut self, file: OfdId, seq: u64) {
        if let Some(owner) = self.descriptions.owner(file)
            && let Some(resource) = self.descriptions.resource(file).cloned()
            && let Some(change) = self.unit(owner).changes.get_mut(&resource)
        {
            change.last = seq;
            change.time = TimeState::Present;
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one event")]
    pub(super) fn wrote(
        &mut self,
        tid: Tid,
        unit: UnitId,
        fd: i32,
        file: &OpenFile,
        length: u64,
        positioned: bool,
        source: Option<&OpenFile>,
        buffers: &[(u64, u64)],
        read: Reader<'_>,
    ) {
        if self.descriptions.is_jobserver(file.id) {
            return;
        }
        if self.is_own(unit, file) {
            if let Some(resource) = self.descriptions.resource(file.id).cloned() {
                let seq = self.tick();
                self.go_on_writing(file.id, seq);
                self.touch_written(unit, seq, &resource);
            }
            return;
        }
        self.use_part(unit, file, Part::Output);
        if fd == 0 {
            // The key does not contain which kind of file it is.
            self.mark_uncacheable_outside(unit, file, "writes to its standard input");
        }
        let seq = self.tick();
        self.touch_inherited(unit, seq, file);
        self.go_on_writing(file.id, seq);
        match &file.kind {
            FileKind::CharDevice(_) => return,
            FileKind::Anon(what) => {
                self.mark_uncacheable_outside(
                    unit,
                    file,
                    &format!("writes to an inherited {what}"),
                );
                return;
            }
            _ => {}
        }
        if file
            .path
            .as_deref()
            .is_some_and(|path| classify(path) == Class::Determined)
        {
            return;
        }
        if positioned {
            self.mark_uncacheable_outside(
                unit,
                file,
                "writes at an offset of its own in an inherited file",
            );
            return;
        }
        if !self
            .unit(unit)
            .inherited
            .iter()
            .any(|inherited| inherited.file == file.id)
        {
            // A unit without a key has no list of what it inherited, for a reason of its own.
            let of_unit = self.unit(unit);
            let doubt = of_unit.uncacheable_reasons.first();
            let doubt = doubt.filter(|_| of_unit.key.is_none());
            let reason = doubt.map_or_else(
                || "writes to a descriptor that it got in some other way".to_owned(),
                |doubt| doubt.reason.clone(),
            );
            self.wrote_unseen(unit, file, &reason);
            return;
        }
        let bytes = match source {
            None => read(buffers),
            Some(_) => match self.copied(tid, fd, length) {
                Some(bytes) => bytes,
                None => {
                    self.wrote_unseen(unit, file, "copies into a pipe inside the kernel");
                    return;
                }
            },
        };
        if bytes.len() as u64 != length {
            self.wrote_unseen(unit, file, "writes bytes that could not be read");
            return;
        }
        let total = &mut self.unit(unit).written_bytes;
        *total += length;
        if *total > MAX_STREAM {
            self.wrote_unseen(
                unit,
                file,
                "writes more than 256 MiB to inherited descriptors",
            );
            self.unit(unit).written.clear();
            return;
        }
        self.hand_on(file, &bytes);
        let of_place = self.is_of_place(tid, unit, &bytes);
        self.unit(unit).written.push(Written {
            seq,
            file: file.id,
            bytes: bytes.into(),
            of_place,
        });
    }

    /// Notes that a unit has used a description, or tried to. The properties of the description
    /// count for the unit and its ancestors, up to the one that opened it.
    pub(super) fn use_part(&mut self, unit: UnitId, file: &OpenFile, part: Part) {
        let owner = self.descriptions.owner(file.id);
        if owner == Some(unit) {
            return;
        }
        self.use_below(unit, owner, part);
        // The program may know the width of its terminal, or that there is none. Compilers write
        // into their own pipes for other compilers.
        let is_compiler = |unit: &Unit| unit.policy.streams == Streams::Used;
        let among_them = owner.is_some_and(|owner| is_compiler(self.unit(owner)));
        let may_know = self.unit(unit).policy.streams != Streams::Observed;
        if part == Part::Output && may_know && !among_them {
            self.use_anywhere(unit, Part::Size);
        }
    }

    /// Notes that a unit has used, or may have used, something inherited from its ancestors.
    pub(crate) fn use_anywhere(&mut self, unit: UnitId, part: Part) {
        self.use_below(unit, None, part);
    }

    fn use_below(&mut self, unit: UnitId, end: Option<UnitId>, part: Part) {
        let mut at = Some(unit);
        while let Some(id) = at.filter(|_| at != end) {
            let unit = self.unit(id);
            unit.uses.insert(part);
            at = unit.parent;
        }
    }

    /// Handles a program whose key contains parts that the keys of its ancestors omit: the
    /// ancestors depend on these parts as well.
    pub(crate) fn use_for(&mut self, tid: Tid, unit: UnitId, policy: &Policy) {
        if policy.streams == Streams::Observed {
            self.use_part_of(tid, unit, Part::Output);
        }
        if policy.streams != Streams::Used {
            self.use_part_of(tid, unit, Part::Input);
        }
        if !policy.ignores_nesting {
            self.use_anywhere(unit, Part::Nesting);
        }
    }

    /// Notes that a unit depends on the task's descriptors of this part.
    pub(crate) fn use_part_of(&mut self, tid: Tid, unit: UnitId, part: Part) {
        let descriptors: &[i32] = match part {
            Part::Input => &[0],
            Part::Output => &[1, 2],
            Part::Nesting | Part::Size => {
                self.use_anywhere(unit, part);
                return;
            }
        };
        for fd in descriptors {
            if let Some(file) = self.model.file(tid, *fd).cloned() {
                let owner = self.descriptions.owner(file.id);
                self.use_below(unit, owner, part);
            }
        }
    }

    /// Notes that a unit has looked at a path that has another meaning in each process. The target
    /// of a descriptor's name counts.
    pub(super) fn looked_past(&mut self, unit: UnitId, path: &Path) {
        if classify(path) != Class::Volatile {
            return;
        }
        self.use_anywhere(unit, Part::Input);
        self.use_anywhere(unit, Part::Output);
        let Some(fd) = descriptor(path) else {
            if self.is_of_other(path) || leads_through(path) {
                self.mark_uncacheable(unit, "asks about another process", true);
            }
            return;
        };
        let Some(file) = self.model.file(self.call.task(), fd).cloned() else {
            return;
        };
        let is_file = matches!(file.kind, FileKind::Opened | FileKind::Regular);
        let named = file.path.as_deref();
        if !is_file || named.is_some_and(|path| classify(path) != Class::Ordinary) {
            return;
        }
        if named.is_some() && file.readable {
            self.stat_inherited(unit, &file);
        } else {
            let reason = format!("looks at {}, which is a file", path.display());
            self.mark_uncacheable(unit, reason, true);
        }
    }

    /// Whether a path describes an untraced process, or none. Its later state is unknown.
    pub(super) fn is_of_other(&self, path: &Path) -> bool {
        let mut parts = path.strip_prefix("/proc").ok().into_iter().flatten();
        let process = parts
            .next()
            .and_then(|name| name.to_str()?.parse::<Tid>().ok());
        process.is_some_and(|process| !self.tasks.contains(process))
    }

    /// Notes that a write to a description failed.
    pub fn could_not_write(&mut self, unit: UnitId, file: &OpenFile, error: i64) {
        self.use_part(unit, file, Part::Output);
        if error == -i64::from(libc::EPIPE) {
            self.mark_uncacheable_outside(unit, file, UNHEARD);
        }
    }

    /// Whether these bytes, written in one call, are a directory message of make.
    fn is_of_place(&self, tid: Tid, unit: UnitId, bytes: &[u8]) -> bool {
        let unit = &self.units[unit.0 as usize];
        if !make_output::is_make(unit.program.as_bytes()) {
            return false;
        }
        let cwd = self.model.cwd(tid).map(|cwd| cwd.as_os_str().as_bytes());
        cwd.is_some_and(|cwd| make_output::names_directory(cwd, bytes))
            || (self.settings.relocation.as_ref())
                .is_some_and(|relocation| relocation.repeats_arguments(&unit.moved.maps, bytes))
    }

    /// Returns the last `length` bytes that an in-kernel copy put into a regular file.
    pub(super) fn copied(&self, tid: Tid, fd: i32, length: u64) -> Option<Vec<u8>> {
        use std::os::unix::fs::FileExt;
        let position = position(tid, fd)?;
        let file = std::fs::File::open(format!("/proc/{tid}/fd/{fd}")).ok()?;
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        file.read_exact_at(&mut bytes, position.checked_sub(length)?)
            .ok()?;
        Some(bytes)
    }

    pub(crate) fn read_from(&mut self, unit: UnitId, file: &OpenFile) {
        if self.is_own(unit, file) || self.descriptions.is_jobserver(file.id) {
            return;
        }
        self.use_part(unit, file, Part::Input);
        if !self.is_looked_through(unit, file) {
            self.program_unseen(unit);
        }
        match &file.kind {
            FileKind::Opened | FileKind::Regular | FileKind::Directory => {
                let Some(path) = file.path.clone() else {
                    self.mark_uncacheable_outside(
                        unit,
                        file,
                        "reads an inherited file without a name",
                    );
                    return;
                };
                if classify(&path) != Class::Ordinary {
                    // Facts about a process do not hold for the process that opened the file.
                    if classify(&path) != Class::Determined || path.starts_with("/proc") {
                        self.mark_uncacheable_outside(unit, file, "reads an inherited device");
                    }
                    return;
                }
                if self.unit(unit).consumed.contains(&file.id) {
                    return;
                }
                self.unit(unit).consumed.push(file.id);
                let located = self.look(unit, &path, true);
                let given = located.given.clone();
                match &located.stat {
                    Ok(stat) if is_regular(stat) => {
                        self.compare_inherited(unit, file, Some(stat));
                        self.look_through(unit, &given, stat);
                        let content = Observed::Content(self.content(&given, stat));
                        if !planted(Defect::StdinFact) {
                            self.note(unit, Query::Content(given), content, located.resource);
                        }
                    }
                    _ => {
                        self.program_unseen(unit);
                        self.mark_uncacheable_outside(
                            unit,
                            file,
                            "reads an inherited file that was renamed or removed",
                        );
                    }
                }
            }
            FileKind::CharDevice(number) => {
                // /dev/null (1:3) and /dev/zero (1:5) always give the same data.
                if !matches!(number, 0x103 | 0x105) {
                    self.mark_uncacheable_outside(unit, file, "reads an inherited device");
                }
            }
            FileKind::Pipe { .. } => {
                self.mark_uncacheable_outside(
                    unit,
                    file,
                    "reads from a pipe that other processes write to",
                );
            }
            FileKind::Terminal => {
                self.mark_uncacheable_outside(unit, file, "reads from the terminal")
            }
            FileKind::Socket(_) => {
                self.mark_uncacheable_outside(unit, file, "reads from an inherited socket")
            }
            FileKind::MemFd | FileKind::Anon(_) | FileKind::Other(_) => {
                self.mark_uncacheable_outside(unit, file, "reads from an inherited descriptor");
            }
        }
    }

    pub(super) fn control(&mut self, unit: UnitId, file: &OpenFile, request: u64) {
        const TCGETS: u64 = libc::TCGETS;
        const TCGETS2: u64 = 0x802c_542a;
        const TIOCGWINSZ: u64 = libc::TIOCGWINSZ;
        const FIONREAD: u64 = libc::FIONREAD;
        const TIOCGPGRP: u64 = libc::TIOCGPGRP;
        match request {
            // The key contains whether it is a terminal.
            TCGETS | TCGETS2 => {}
            TIOCGWINSZ => {
                let is_terminal = matches!(file.kind, FileKind::Terminal);
                // For other programs the terminal counts when they write.
                if is_terminal && self.unit(unit).policy.streams == Streams::Observed {
                    self.use_anywhere(unit, Part::Size);
                }
            }
            TIOCGPGRP if !matches!(file.kind, FileKind::Terminal) => {}
            FIONREAD if self.is_own(unit, file) => {}
            _ => self.mark_uncacheable(
                unit,
                format!("controls a device (ioctl {request:#x})"),
                true,
            ),
        }
    }
}
