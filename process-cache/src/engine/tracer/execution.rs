//! Handles an execve: looks it up, and begins a unit on a miss.

use ptrace_async::event::{FileKind, Tid};
use ptrace_async::memory::Memory;
use ptrace_async::process::reads_unseen;
use ptrace_async::runtime::{Exec, Prehook, Running, Stop, Tracee};
use rustix::io::Errno;

use super::skip::{Applied, Skipped};
use super::{Notice, Tracer};
use crate::engine::session::Session;
use crate::engine::unit::Unit;
use crate::engine::unit::{INTERNAL, OUTSIDE};
use crate::journal::Begun;
use crate::key::exec_context::ExecContext;
use crate::key::{Descriptor, Execution, KeyError, Keyed, Known, Texts, allowed, jobserver};
use crate::model::miss::Missed;
use crate::model::path::FilePath;
use crate::model::path_kind::{Class, classify};
use crate::model::unit_id::UnitId;
use crate::policy::script::{Found, Scripts};
use crate::policy::shows_environment;
use crate::relocation::Relocation;
use crate::relocation::make_output::is_make;
use crate::relocation::path_use::path_use;
use crate::relocation::relocatable::Moved;
use crate::remote;
use crate::store::Lookup;
use crate::world::locate::{Located, is_regular};

/// A unit that begins when an execve succeeds.
pub(super) struct Next {
    keyed: Result<Keyed, KeyError>,
    /// Source of the limits in the key.
    limits: Option<Known>,
    argv: Vec<Vec<u8>>,
    path: FilePath,
    /// The resolved path of the program.
    real: FilePath,
    miss: Missed,
    temporary: bool,
    lookup: bool,
    /// Why paths do not lead to its files, if its directory is no longer at its path.
    misplaced: Option<String>,
}

impl Next {
    /// A unit about whose program pcache cannot ask anything.
    fn elsewhere(path: FilePath, argv: Vec<Vec<u8>>) -> Self {
        Self {
            keyed: Err(KeyError::Elsewhere(path.display().to_string())),
            limits: None,
            argv,
            real: path.clone(),
            path,
            miss: Missed::NotLookedUp,
            temporary: false,
            lookup: false,
            misplaced: None,
        }
    }
}

/// An execve that is about to happen.
struct Asked {
    execution: Execution,
    /// Source of the limits in the key.
    limits: Option<Known>,
    /// The unit that makes the call.
    unit: UnitId,
    /// Whether its result is to be looked up.
    lookup: bool,
    /// Whether an argument names a temporary file.
    temporary: bool,
    /// See [`Next::misplaced`].
    misplaced: Option<String>,
}

pub(super) enum Attempt {
    Run(Tracee<Prehook>, Option<Box<Next>>),
    /// It fails with this error.
    Fails(Tracee<Prehook>, i32),
    Instead(Stop),
    Detached,
}

impl Tracer {
    /// Handles an execve that is about to happen.
    pub(super) async fn execution(
        &self,
        tracee: Tracee<Prehook>,
        path: FilePath,
        argv: u64,
        envp: u64,
    ) -> Attempt {
        let tid = tracee.tid();
        // An execve of a missing file fails by itself, and the failure is a fact.
        if classify(&path) != Class::Ordinary {
            return Attempt::Run(tracee, None);
        }
        let elsewhere = self.session.borrow_mut().is_elsewhere(tid);
        if elsewhere {
            let [argv, _] = strings(&tracee, [argv, envp]);
            let next = Next::elsewhere(path, argv.to_vecs());
            return Attempt::Run(tracee, Some(Box::new(next)));
        }
        let program = self.session.borrow_mut().locator.locate(&path, true);
        match program.stat {
            Ok(_) => {}
            Err(error @ (Errno::NOENT | Errno::NOTDIR)) => {
                return Attempt::Fails(tracee, error.raw_os_error());
            }
            Err(_) => return Attempt::Run(tracee, None),
        }
        let mut seen = vec![program];
        let [argv, envp] = strings(&tracee, [argv, envp]);
        let argv = argv.to_vecs();
        let Some(asked) = self.describe(tid, &path, &argv, envp) else {
            return Attempt::Run(tracee, None);
        };
        if asked.unit == OUTSIDE {
            let (keyed, miss) = (*self.root).clone();
            let real = self.note_images(OUTSIDE, &keyed, &path, seen);
            self.warn_of_lost_rights(tid, &keyed);
            let next = Next {
                keyed,
                limits: None,
                argv,
                path,
                real,
                miss,
                temporary: asked.temporary,
                lookup: true,
                misplaced: asked.misplaced,
            };
            return Attempt::Run(tracee, Some(Box::new(next)));
        }
        let Asked {
            execution,
            limits,
            unit,
            lookup,
            temporary,
            misplaced,
        } = asked;
        let began = std::time::Instant::now();
        let (keyed, found) = self.look_up(execution, lookup, &mut seen).await;
        if let Ok(keyed) = &keyed {
            let inherited = keyed.inherited.iter();
            let devices = inherited.filter_map(|entry| Some((entry.file, entry.device?)));
            self.session.borrow_mut().descriptions.add_devices(devices);
        }
        let (keyed, found) = match (keyed, found) {
            (Ok(keyed), Some(Ok(Lookup::Hit(outcome)))) => {
                match keyed.images.iter().try_for_each(allowed) {
                    Ok(()) => (Ok(keyed), Some(Ok(Lookup::Hit(outcome)))),
                    Err(reason) => (Err(reason), None),
                }
            }
            others => others,
        };
        let real = self.note_images(unit, &keyed, &path, seen);
        let mut next = Box::new(Next {
            keyed,
            limits,
            argv,
            path,
            real,
            miss: Missed::NotLookedUp,
            temporary,
            lookup,
            misplaced,
        });
        match found {
            Some(Ok(Lookup::Hit(outcome))) => {
                let skipped = Skipped {
                    outcome: *outcome,
                    path: named_path(&tracee, &next.path),
                    argv: &next.argv,
                    keyed: next.keyed.as_ref().ok(),
                    asked: began,
                };
                match self.skip(tracee, unit, skipped).await {
                    Applied::Skipped(stop) => return Attempt::Instead(stop),
                    Applied::Refused(same, reason) => {
                        next.miss = Missed::Unusable(reason);
                        return Attempt::Run(same, Some(next));
                    }
                }
            }
            Some(Ok(Lookup::Miss(miss))) => next.miss = miss.into(),
            Some(Err(error)) => next.miss = Missed::Unusable(error.to_string()),
            None => {}
        }
        self.warn_of_lost_rights(tid, &next.keyed);
        if let Err(KeyError::Privileged(name)) = &next.keyed
            && !self.filtered
        {
            let reason = format!("runs {name} untraced (set-uid)");
            self.session
                .borrow_mut()
                .mark_uncacheable(unit, reason, true);
            let _ = tracee.detach();
            return Attempt::Detached;
        }
        Attempt::Run(tracee, Some(next))
    }

    /// Describes an execve that a task is about to make.
    fn describe(&self, tid: Tid, path: &FilePath, argv: &[Vec<u8>], envp: Texts) -> Option<Asked> {
        let mut session = self.session.borrow_mut();
        let unit = session.unit_of(tid)?;
        if shows_environment(path.as_bytes(), argv) {
            // The program's own key has all variables; keys of its ancestors do not.
            session.mark_uncacheable(
                unit,
                "prints its whole environment, with variables of the session",
                true,
            );
        }
        let tokens = jobserver(&envp, |fd| match session.model.file(tid, fd)?.kind {
            FileKind::Pipe { pipe } => Some(pipe),
            _ => None,
        });
        let descriptors = open_descriptors(&mut session, tid, &tokens);
        let temporary = argv.iter().any(|arg| {
            // A temporary file as an argument, or as the value of an option.
            let value = arg.rsplit(|byte| *byte == b'=').next();
            value.is_some_and(|value| session.shared_files.is_temporary(value))
        });
        let (limits, known_limits) = session.limits(tid);
        let execution = Execution {
            tid,
            path: path.clone(),
            argv: argv.to_vec(),
            envp,
            cwd: session
                .model
                .cwd(tid)
                .map(std::path::Path::to_path_buf)
                .unwrap_or_default(),
            descriptors,
            limits,
            machine: self.machine,
            strict: session.settings.strict,
        };
        session.inherited_directories(tid);
        let misplaced = session.check_working_directory(tid);
        let lookup = unit != OUTSIDE
            && misplaced.is_none()
            && !session.settings.refresh
            && !temporary
            && session.one_personality
            && !session.is_unseen(tid);
        Some(Asked {
            execution,
            limits: known_limits,
            unit,
            lookup,
            temporary,
            misplaced,
        })
    }

    /// Makes the key of an execve, and looks up a result if required. Files `seen` just now are
    /// not examined again. If that took long, `seen` is cleared.
    async fn look_up(
        &self,
        execution: Execution,
        lookup: bool,
        seen: &mut Vec<Located>,
    ) -> (
        Result<Keyed, KeyError>,
        Option<crate::store::Result<Lookup>>,
    ) {
        let (keys, world, results, remote, relocation) = {
            let session = self.session.borrow();
            let remote = session.remote.clone().filter(|remote| remote.reads());
            let (keys, relocation) = (session.keys.clone(), session.settings.relocation.clone());
            let (world, results) = (session.world.clone(), session.store.clone());
            (keys, world, results, remote, relocation)
        };
        // Most lookups take less time than waking another thread.
        let keyed = keys.key_at_once(&execution, &world, &mut |image| {
            let known = seen.iter().find(|known| known.given == *image);
            let real = |located: &Located| Some(located.resource.clone());
            if let Some(known) = known {
                return known.stat.map(|stat| (stat, real(known)));
            }
            let located = self.session.borrow_mut().locator.locate(image, true);
            let looked = located.stat.map(|stat| (stat, real(&located)));
            seen.push(located);
            looked
        });
        if let (Some(Ok(keyed)), true) = (&keyed, lookup) {
            self.session.borrow().jobs.want(&keyed.key.0.0);
        }
        let miss = match &keyed {
            Some(Ok(keyed)) if lookup && remote.is_none() => {
                let miss = results.miss_at_once(&keyed.key, &mut |query| world.ask(query));
                miss.filter(|_| {
                    relocation
                        .as_ref()
                        .is_none_or(|relocation| relocation.misses_at_once(&results, keyed, &world))
                })
            }
            _ => None,
        };
        match (keyed, miss) {
            (Some(keyed), Some(miss)) => (keyed, Some(Ok(Lookup::Miss(miss)))),
            (Some(keyed), None) if keyed.is_err() || !lookup => (keyed, None),
            (keyed, _) => {
                // This takes long enough for the files to change.
                seen.clear();
                let rest = move || {
                    let keyed = keyed.unwrap_or_else(|| keys.weak_key(&execution, &world));
                    let found = match &keyed {
                        Ok(keyed) if lookup => {
                            let begins = ExecContext::of(keyed);
                            let mut ask = |query: &_| begins.ask(&world, query);
                            let elsewhere = (remote.as_deref(), relocation.as_deref());
                            Some(remote::lookup(elsewhere, &results, keyed, &mut ask))
                        }
                        _ => None,
                    };
                    (keyed, found)
                };
                self.handle.blocking(rest).await
            }
        }
    }

    /// Warns about a set-uid program that loses its rights: an unprivileged process can install a
    /// filter only with no_new_privs.
    fn warn_of_lost_rights(&self, tid: Tid, keyed: &Result<Keyed, KeyError>) {
        let Err(KeyError::Privileged(name)) = keyed else {
            return;
        };
        let status = std::fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
        if self.filtered && status.lines().any(|line| line == "NoNewPrivs:\t1") {
            (self.notify)(Notice::Warning(format!(
                "{name} is set-uid and runs without its rights here; --no-seccomp lets it run"
            )));
        }
    }

    /// Notes the files from which a program is started as facts of the unit that starts it.
    /// Returns the resolved path of the program. Files `seen` just now are not examined again.
    fn note_images(
        &self,
        unit: UnitId,
        keyed: &Result<Keyed, KeyError>,
        path: &FilePath,
        mut seen: Vec<Located>,
    ) -> FilePath {
        let mut session = self.session.borrow_mut();
        let (images, program) = match keyed {
            Ok(keyed) => (keyed.images.clone(), &keyed.program),
            Err(_) => (vec![path.clone()], path),
        };
        let mut real = path.clone();
        for image in images {
            let known = seen.iter().position(|known| known.given == image);
            let located = match known {
                Some(index) => seen.swap_remove(index),
                None => session.locator.locate(&image, true),
            };
            let located = session.pass_links(unit, located, true);
            // A key exists only if these files may be executed.
            let granted = keyed.is_ok() && classify(&image) == Class::Ordinary;
            session.executable(unit, &located.given, &located, granted);
            if image == *program {
                real = located.resource;
            }
        }
        real
    }

    /// Handles a successful execve.
    pub(super) fn executed(
        &self,
        tracee: Tracee<Exec>,
        tid: Tid,
        next: Option<Next>,
    ) -> Tracee<Running> {
        let (former, now) = (tracee.former(), tracee.tid());
        // Applies calls of a thread that is not the leader, and changes by others before the unit
        // begins.
        self.catch_up(now);
        self.catch_up_all();
        let mut session = self.session.borrow_mut();
        let session = &mut *session;
        session.model.exec(now, former);
        let former = if former == 0 { tid } else { former };
        if former != now
            && let Some(task) = session.tasks.remove(former)
        {
            session.tasks.insert(now, task);
        }
        let Some(task) = session.tasks.get_mut(now) else {
            return tracee.resume();
        };
        task.pending = None;
        let (process, above, skipped) = (task.process, task.unit, task.skipped);
        session.tasks.keep_only(process, now);
        let entry = session.tasks.process_or_new(process);
        (entry.threads, entry.statuses) = (1, (None, None));
        if skipped {
            if std::mem::replace(&mut entry.runs_stand_in, true) {
                session.mark_uncacheable_upwards(
                    above,
                    "the output of a skipped program could not be written, so it ran untraced",
                );
            }
            return tracee.resume();
        }
        let clock_reads_are_logged = !session.settings.stops_only && tracee.perform_in_process();
        if !clock_reads_are_logged {
            tracee.hide_vdso();
        }
        let id = UnitId(session.units.len() as u32);
        let started = session.tick();
        let mut unit = Unit::new(id, Some(above), process, started);
        unit.open_elsewhere = session.open_elsewhere(now);
        match next {
            Some(next) => session.begin_unit(&mut unit, next, now, above),
            None => {
                unit.mark_uncacheable("was executed with arguments that could not be read", true)
            }
        }
        session.use_for(now, above, &unit.policy);
        if session.is_unseen(now) {
            unit.mark_uncacheable(
                "was started by a program that makes 32-bit system calls",
                true,
            );
        }
        // If reads are not observed, every readable file counts as read.
        let mut read = Vec::new();
        for (fd, file, _) in session.model.descriptors(now) {
            if fd < 3 || !file.readable || session.descriptions.is_jobserver(file.id) {
                continue;
            }
            match file.kind {
                FileKind::Pipe { .. } | FileKind::Terminal | FileKind::Socket(_)
                    if reads_unseen(fd) =>
                {
                    unit.mark_uncacheable(
                        format!("inherits a pipe or terminal as descriptor {fd}"),
                        false,
                    );
                }
                // By their position, or mapped.
                FileKind::Opened | FileKind::Regular => read.push(file.clone()),
                _ => {}
            }
        }
        let entry = session.tasks.process_or_new(process);
        entry.units.push(id);
        // A program with changed credentials gets another stack limit (execve(2)).
        if !unit.ids.are_single() {
            entry.limits = Known::default();
        }
        session.units.push(unit);
        if let Some(task) = session.tasks.get_mut(now) {
            task.unit = id;
        }
        for file in read {
            let stat = file.path.as_deref().map(rustix::fs::stat);
            // Where nothing is at its path, what is read is no fact.
            if stat.is_some_and(|stat| stat.as_ref().map_or(true, is_regular)) {
                session.read_from(id, &file);
            }
        }
        tracee.resume()
    }
}

impl Session {
    /// Fills in the known properties of a unit at its beginning.
    fn begin_unit(&mut self, unit: &mut Unit, next: Next, now: Tid, above: UnitId) {
        unit.argv = next.argv;
        unit.miss = next.miss;
        if !next.lookup {
            unit.miss = Missed::NotLookedUp;
        }
        let started_by = self.units[above.0 as usize].record;
        let begun = Begun {
            path: Some(&next.path),
            keyed: next.keyed.as_ref().ok(),
        };
        let miss = unit.miss.clone();
        let mut journal = self.report.journal();
        unit.record = journal.begin(started_by, &unit.argv, begun, miss);
        drop(journal);
        match next.keyed {
            Ok(keyed) => {
                unit.limits = next.limits;
                self.begin_keyed(unit, keyed, &next.real, now);
                if above == OUTSIDE {
                    // The key was computed before the session knew these descriptions.
                    for inherited in &mut unit.inherited {
                        if let Some(file) = self.model.file(now, inherited.fd) {
                            inherited.file = file.id;
                        }
                    }
                }
            }
            Err(reason) => {
                unit.program = next.path;
                unit.mark_uncacheable(reason.to_string(), true);
            }
        }
        if let Some(reason) = next.misplaced {
            unit.mark_uncacheable(reason, true);
        }
        if next.temporary {
            unit.mark_uncacheable(INTERNAL, false);
        }
        if !self.one_personality {
            unit.mark_uncacheable("may run under another personality (setarch)", true);
        }
    }

    /// Fills in the properties from a unit's key; `real` is the resolved path of its program.
    fn begin_keyed(&mut self, unit: &mut Unit, keyed: Keyed, real: &FilePath, now: Tid) {
        unit.policy = keyed.policy;
        unit.left_out = keyed.left_out;
        unit.found_in_script(found_in_arguments(unit, &keyed));
        if unit.policy.waits {
            unit.mark_uncacheable("only waits", false);
        }
        if let Some(reason) = unit.policy.unknown {
            unit.mark_uncacheable(reason, true);
        }
        // dd prints its speed on descriptor 2, which matters only if a process reads that.
        let unheard = self.model.file(now, 2).is_none_or(|file| {
            matches!(file.kind, FileKind::CharDevice(0x103))
                || file
                    .path
                    .as_deref()
                    .is_some_and(|p| p.as_os_str() == "/dev/null")
        });
        if unheard && keyed.program.ends_with("dd") {
            unit.policy.clock = true;
        }
        if !self.settings.strict && self.settings.config.runs_always(&keyed.program) {
            unit.mark_uncacheable("is listed under `uncacheable` in the configuration", true);
        }
        if let Some(relocation) = &self.settings.relocation {
            unit.moved = moved(relocation, unit, &keyed, real);
        }
        unit.program = keyed.program;
        unit.key = Some(keyed.key);
        unit.ids = keyed.ids;
        unit.inherited = keyed.inherited;
    }
}

/// Returns the properties of the scripts in a program's arguments, and in a bash's environment.
fn found_in_arguments(unit: &Unit, keyed: &Keyed) -> Found {
    // A bash imports functions from its environment.
    let scripts = unit.policy.scripts;
    let environment = &keyed.key_parts.environment;
    let environment = environment.iter().filter(|_| scripts == Scripts::Bash);
    let given = unit.argv.iter().skip(1).chain(environment);
    let found = given.map(|text| scripts.look(None, text));
    found.fold(Found::default(), Found::and)
}

/// Returns properties of a unit that decide whether its result can move to another directory.
fn moved(relocation: &Relocation, unit: &Unit, keyed: &Keyed, real: &FilePath) -> Moved {
    let environment = &keyed.key_parts.environment;
    let read = keyed.read();
    Moved {
        key: keyed.moved,
        images: read.map(|(path, digest)| (path.clone(), digest)).collect(),
        path_use: path_use(
            real.as_bytes(),
            &unit.argv,
            environment,
            relocation.base_dirs(),
        ),
        conditions: Vec::new(),
        maps: match is_make(real.as_bytes()) {
            true => {
                let given = unit.argv.iter().chain(environment.iter());
                relocation.maps_given(given.map(Vec::as_slice))
            }
            false => Vec::new(),
        },
    }
}

/// Returns the descriptors that stay open over an execve, and notes those of a jobserver.
fn open_descriptors(session: &mut Session, tid: Tid, tokens: &[i32]) -> Vec<Descriptor> {
    let mut found = Vec::new();
    let descriptors = session
        .model
        .descriptors(tid)
        .filter(|(_, _, cloexec)| !cloexec)
        .map(|(fd, file, _)| {
            let is_token = tokens.contains(&fd) && matches!(file.kind, FileKind::Pipe { .. });
            if let (true, FileKind::Pipe { pipe }) = (is_token, &file.kind) {
                found.push((file.id, *pipe));
            }
            let device = session.descriptions.device(file.id);
            Descriptor {
                fd,
                file: file.id,
                kind: device.map_or_else(|| file.kind.clone(), FileKind::CharDevice),
                path: file.path.clone(),
                modes: [
                    file.readable,
                    file.writable,
                    file.append.get(),
                    file.nonblocking.get(),
                ],
                jobserver: is_token,
            }
        })
        .collect();
    for (file, pipe) in found {
        session.descriptions.add_jobserver(file, pipe);
    }
    descriptors
}

/// The size of a page (bytes).
const PAGE: u64 = 4096;

/// Reads NULL-terminated arrays of strings.
fn strings(tracee: &Tracee<Prehook>, arrays: [u64; 2]) -> [Texts; 2] {
    /// Bytes of each string that are read at first: most are shorter.
    const START: u64 = 128;
    let pointers = pointers(tracee, arrays);
    // Reads all in one call, each up to the end of its page. Strings in one page and the next
    // pages are one range, since the kernel pins the pages of each range.
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    let mut sorted = pointers.concat();
    sorted.sort_unstable();
    for pointer in sorted {
        let end = pointer.saturating_add(START.min(PAGE - pointer % PAGE));
        match ranges.last_mut() {
            Some((from, len)) if pointer / PAGE - (*from + *len - 1) / PAGE <= 1 => {
                *len = end.max(*from + *len) - *from
            }
            _ => ranges.push((pointer, end - pointer)),
        }
    }
    let bytes = tracee.read_ranges(&ranges);
    // Offset of each range among the bytes.
    let mut places = Vec::with_capacity(ranges.len());
    let mut before = 0;
    for (from, len) in ranges {
        places.push((from, before));
        before += len as usize;
    }
    let add = |texts: &mut Texts, pointer: u64| {
        let place = places.partition_point(|(from, _)| *from <= pointer);
        let (from, before) = places[..place].last().copied().unwrap_or_default();
        let start = before + (pointer - from) as usize;
        let end = places.get(place).map_or(bytes.len(), |(_, before)| *before);
        let rest = bytes.get(start..end.min(bytes.len())).unwrap_or_default();
        match memchr::memchr(0, rest) {
            Some(end) => texts.push(&rest[..end]),
            None => texts.push(&tracee.read_c_string(pointer, 1 << 20).unwrap_or_default()),
        }
    };
    pointers.map(|pointers| {
        let mut texts = Texts::default();
        pointers
            .into_iter()
            .for_each(|pointer| add(&mut texts, pointer));
        texts
    })
}

/// Reads NULL-terminated arrays of pointers; an array at address 0 is empty.
fn pointers(tracee: &Tracee<Prehook>, arrays: [u64; 2]) -> [Vec<u64>; 2] {
    /// Bytes per read.
    const CHUNK: u64 = 1024;
    // Reads the beginnings of both in one call.
    let starts = arrays.map(|at| (at, CHUNK.min(PAGE - at % PAGE)));
    let both = match arrays {
        [0, _] | [_, 0] => Vec::new(),
        _ => tracee.read_ranges(&starts),
    };
    let whole = both.len() as u64 == starts[0].1 + starts[1].1;
    let (first, second) = both.split_at(if whole { starts[0].1 as usize } else { 0 });
    let known = [first, if whole { second } else { &[] }];
    let read = |index: usize| {
        let (mut found, mut at) = (Vec::new(), arrays[index]);
        let mut words = known[index].to_vec();
        while at != 0 {
            if words.len() < 8 {
                words.resize(CHUNK as usize, 0);
                let got = tracee.read(at, &mut words);
                words.truncate(got);
            }
            let (all, _) = words.as_chunks::<8>();
            for word in all {
                match u64::from_le_bytes(*word) {
                    0 => return found,
                    pointer => found.push(pointer),
                }
            }
            if all.is_empty() {
                break;
            }
            at += 8 * all.len() as u64;
            words.clear();
        }
        found
    };
    [read(0), read(1)]
}

/// Returns the path of a program as its execve names it, which a script sees as its `$0`.
fn named_path(tracee: &Tracee<Prehook>, resolved: &FilePath) -> Vec<u8> {
    let call = tracee.invocation();
    let named = match call.nr.cast_signed() {
        libc::SYS_execve => tracee.read_c_string(call.args[0], libc::PATH_MAX as usize),
        // The path may be relative to a descriptor that the execve closes.
        _ => return resolved.as_os_str().as_encoded_bytes().to_vec(),
    };
    named.unwrap_or_else(|_| resolved.as_os_str().as_encoded_bytes().to_vec())
}
