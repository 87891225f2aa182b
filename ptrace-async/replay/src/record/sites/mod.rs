//! Syscall sites of recorded programs, and the patches that make their calls unstopped
//! ([`crate::buffer`]).

pub(super) mod hints;
pub(super) mod known;
pub(super) mod random;

use std::cell::{Cell, RefCell};
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;

use ptrace_async::event::Tid;
use ptrace_async::memory::Memory;
use ptrace_async::runtime::{Prehook, Stop, Stopped, Tracee};
use ptrace_async::syscall::{Invocation, error_of};
use rustc_hash::{FxHashMap, FxHashSet};

use self::known::{KnownSites, MappedCode, MappedCodes};
use self::random::RandomInstructions;
use super::descriptors::FileKey;
use super::scratch::Scratch;
use crate::buffer::{self, Site, Stub};
use crate::memory::{maps, task_position};
use crate::trace::event::{Buffered, FileNumber, Patched, Write};

/// A site is patched when a process has come by so often: less, and it is not worth it.
const OFTEN: u32 = 3;
/// How far from a site jumps into it are looked for.
const NEAR: u64 = 4096;
/// The library words of the stub when no library is being mapped.
const NO_LIBRARY: [u64; 3] = [0, 0, u64::MAX];
/// A site that cannot be patched.
const NEVER: u32 = u32::MAX;
const PAGE: u64 = 4096;

/// The sites of one address space.
#[derive(Debug, Default, Clone)]
pub(super) struct Sites {
    /// Whether the stub and its log are mapped.
    mapped: Cell<bool>,
    /// How often calls have ended at these addresses.
    visits: RefCell<FxHashMap<u64, u32>>,
    /// Pages of trampolines, and how much of them is used.
    trampolines: RefCell<Vec<(u64, u64)>>,
    /// Calls that the stub does not perform at the moment.
    disabled: Cell<u64>,
    /// Tasks in this memory may have different descriptors.
    tables: Cell<bool>,
    /// How often calls on descriptors stopped because they may wait.
    wait_stops: RefCell<FxHashMap<u64, u32>>,
    /// Where programs are that do not run at the moment, and may return to.
    suspended_at: RefCell<Vec<u64>>,
    /// How many handlers of signals have begun and not returned: they, too, return to where
    /// programs were.
    handlers: Cell<u32>,
    codes: MappedCodes,
    library: Cell<Option<Library>>,
    /// Where instructions were that give random numbers ([`RandomInstructions`]).
    randoms: RefCell<FxHashSet<u64>>,
    /// Where calls write that may wait.
    pub(super) scratch: Rc<Scratch>,
}

/// The library that was mapped last, of which the loader is going to map parts again.
#[derive(Debug, Clone, Copy)]
struct Library {
    start: u64,
    end: u64,
    fd: u64,
    file: FileNumber,
    key: Option<FileKey>,
}

fn call(number: i64, args: [u64; 6]) -> Invocation {
    Invocation {
        nr: number.cast_unsigned(),
        args,
    }
}

impl Sites {
    /// The sites of a forked child, which has the same memory except for its scratch memory.
    pub(super) fn copy(&self) -> Self {
        let copy = Self {
            scratch: Rc::new(self.scratch.copy()),
            ..self.clone()
        };
        copy.suspended_at.borrow_mut().clear();
        copy
    }

    /// There is a task in this memory that has descriptors of its own (a child of vfork).
    pub(super) fn note_table(&self) {
        self.tables.set(true);
    }

    /// Whether all tasks in this memory have the same descriptors; `is_shared` says whether
    /// there are several.
    pub(super) fn has_one_table(&self, is_shared: bool) -> bool {
        if !is_shared {
            self.tables.set(false);
        }
        !self.tables.get()
    }

    /// A task does not run, and is here.
    pub(super) fn add_suspended(&self, ip: u64) {
        self.suspended_at.borrow_mut().push(ip);
    }

    /// A suspended task runs again.
    pub(super) fn remove_suspended(&self, ip: u64) {
        let mut suspended_at = self.suspended_at.borrow_mut();
        if let Some(at) = suspended_at.iter().position(|other| *other == ip) {
            suspended_at.swap_remove(at);
        }
    }

    pub(super) fn handler_began(&self) {
        self.handlers.set(self.handlers.get() + 1);
    }

    pub(super) fn handler_returned(&self) {
        self.handlers.set(self.handlers.get().saturating_sub(1));
    }

    /// Whether only the stopped task can return into the bytes of a site that change.
    fn is_left(&self, site: Site) -> bool {
        let inside = site.inside();
        inside.is_empty()
            || self.handlers.get() == 0
                && !self
                    .suspended_at
                    .borrow()
                    .iter()
                    .any(|ip| inside.contains(ip))
    }

    /// Counts a visit; patches the site when it is time to, and those that are known in code
    /// that is new.
    ///
    /// # Errors
    /// The stop that came instead.
    pub(super) async fn visit(
        &self,
        tracee: Tracee<Prehook>,
        known: &KnownSites,
        stub: Option<&Stub>,
    ) -> Result<(Tracee<Prehook>, Option<Patched>), Stop> {
        let end = tracee.instruction_pointer();
        let mut wanted = self.codes.new_sites(known, end);
        if self.is_due(&tracee, known) {
            wanted.push(end);
        }
        if wanted.is_empty() {
            return Ok((tracee, None));
        }
        wanted.sort_unstable();
        wanted.dedup();
        let code = CachedMemory::of(&tracee);
        let number = tracee.invocation().nr;
        let sites: Vec<Site> = wanted
            .into_iter()
            .filter_map(|wanted| {
                let number = (wanted == end).then_some(number);
                self.site(&code, wanted, number)
            })
            .collect();
        if sites.is_empty() {
            return Ok((tracee, None));
        }
        let (tracee, is_first) = match self.prepare(tracee, stub).await? {
            (tracee, Some(is_first)) => (tracee, is_first),
            (tracee, None) => return Ok((tracee, None)),
        };
        let mut patched = Patched {
            is_first,
            pages: Vec::new(),
            end: None,
            sites: 0,
            writes: Vec::new(),
        };
        let mut tracee = tracee;
        let mut areas = None;
        for site in sites {
            let room;
            (tracee, room) = self.trampoline(tracee, &mut areas, site.at()).await?;
            let Some((trampoline, page)) = room else {
                continue;
            };
            patched.pages.extend(page);
            let (code, jump) = site.patch(trampoline);
            patched.writes.push(Write {
                address: trampoline,
                bytes: code,
            });
            patched.writes.push(Write {
                address: site.at(),
                bytes: jump,
            });
            patched.sites += 1;
            if site.ends_at(end) {
                patched.end = Some(site.end(trampoline));
            }
        }
        if patched.sites == 0 {
            // What has been made is not used; a replay does without it.
            self.mapped.set(self.mapped.get() && !is_first);
            return Ok((tracee, None));
        }
        patched.writes = joined(&CachedMemory::of(&tracee), patched.writes);
        let writes = patched.writes.iter();
        // An error means that the task is gone.
        let _ = tracee.write_protected(writes.map(|write| (write.address, &write.bytes[..])));
        if let (Some(end), Ok(mut regs)) = (patched.end, tracee.registers()) {
            regs.rip = end;
            let _ = tracee.set_registers(&regs);
        }
        Ok((tracee, Some(patched)))
    }

    /// Whether the site of the current call has been visited often enough. Code that is no
    /// file's may be made again.
    fn is_due(&self, tracee: &Tracee<Prehook>, known: &KnownSites) -> bool {
        let end = tracee.instruction_pointer();
        if !buffer::performs(tracee.invocation().nr) {
            return false;
        }
        let Some(place) = self.codes.locate(end) else {
            return false;
        };
        known.visit(place, || is_free(tracee, end));
        let mut visits = self.visits.borrow_mut();
        let count = visits.entry(end).or_default();
        *count = count.saturating_add(1);
        *count == OFTEN && known.has(place)
    }

    /// The site of calls that end at `end`, if it can be patched now.
    fn site(&self, memory: &dyn Memory, end: u64, number: Option<u64>) -> Option<Site> {
        let mut code = [0; buffer::BEFORE + buffer::BEHIND];
        let start = end.wrapping_sub(buffer::BEFORE as u64);
        memory.read_exact(start, &mut code).ok()?;
        self.visits.borrow_mut().insert(end, NEVER);
        let site = Site::of(&code, number, end)?;
        if !self.is_left(site) {
            self.visits.borrow_mut().remove(&end);
            return None;
        }
        Some(site)
    }

    /// Makes the stub and the log; whether they are new, or nothing where it is impossible.
    async fn prepare(
        &self,
        tracee: Tracee<Prehook>,
        stub: Option<&Stub>,
    ) -> Result<(Tracee<Prehook>, Option<bool>), Stop> {
        if self.mapped.get() {
            return Ok((tracee, Some(false)));
        }
        let Some(stub) = stub else {
            return Ok((tracee, None));
        };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let (tracee, mapped) = tracee
            .inject(call(
                libc::SYS_mmap,
                [
                    buffer::BASE,
                    buffer::LENGTH,
                    prot as u64,
                    flags as u64,
                    u64::MAX,
                    0,
                ],
            ))
            .await?;
        if error_of(mapped).is_some() {
            return Ok((tracee, None));
        }
        let _ = tracee.write(buffer::BASE, &stub.code);
        let prot = libc::PROT_READ | libc::PROT_EXEC;
        let (tracee, _) = tracee
            .inject(call(
                libc::SYS_mprotect,
                [buffer::BASE, buffer::CODE_LENGTH, prot as u64, 0, 0, 0],
            ))
            .await?;
        let _ = tracee.write(buffer::cursor(), &buffer::LOG.to_le_bytes());
        self.disabled.set(0);
        self.mapped.set(true);
        self.tell_stub_library(&tracee, NO_LIBRARY);
        Ok((tracee, Some(true)))
    }

    /// Room for a trampoline near a site, and the page if it is a new one.
    async fn trampoline(
        &self,
        tracee: Tracee<Prehook>,
        areas: &mut Option<Vec<maps::Area>>,
        site: u64,
    ) -> Result<(Tracee<Prehook>, Option<(u64, Option<u64>)>), Stop> {
        let free = {
            let mut pages = self.trampolines.borrow_mut();
            let free = pages.iter_mut().find(|(page, used)| {
                buffer::reaches(*page, site) && used + buffer::TRAMPOLINE <= PAGE
            });
            free.map(|(page, used)| {
                *used += buffer::TRAMPOLINE;
                *page + *used - buffer::TRAMPOLINE
            })
        };
        if let Some(address) = free {
            return Ok((tracee, Some((address, None))));
        }
        let areas = match areas {
            Some(areas) => areas,
            None => areas.insert(maps::read(tracee.tgid()).unwrap_or_default()),
        };
        let Some(page) = maps::gap(areas, site, PAGE) else {
            return Ok((tracee, None));
        };
        if !buffer::reaches(page, site) {
            return Ok((tracee, None));
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let prot = libc::PROT_READ | libc::PROT_EXEC;
        let (tracee, mapped) = tracee
            .inject(call(
                libc::SYS_mmap,
                [page, PAGE, prot as u64, flags as u64, u64::MAX, 0],
            ))
            .await?;
        if error_of(mapped).is_some() {
            return Ok((tracee, None));
        }
        self.trampolines
            .borrow_mut()
            .push((page, buffer::TRAMPOLINE));
        areas.push(maps::Area {
            start: page,
            end: page + PAGE,
            ..maps::Area::default()
        });
        Ok((tracee, Some((page, Some(page)))))
    }

    /// Whether there is a stub, which performs calls.
    pub(super) fn has_stub(&self) -> bool {
        self.mapped.get()
    }

    /// Takes what has been logged since the last stop; also the changes of mappings that are
    /// among it, in order. The task is not in the stub. `write` writes to its `memory`.
    ///
    /// # Errors
    /// When a file was mapped that is not known.
    pub(super) fn drain(
        &self,
        memory: &impl Memory,
        write: impl FnOnce(u64, &[u8]) -> io::Result<()>,
    ) -> Result<Option<(Buffered, Vec<MappingChange>)>, UnknownFile> {
        let Some(log) = self.log(memory, write) else {
            return Ok(None);
        };
        let mut files = Vec::new();
        let mut changes = Vec::new();
        for entry in buffer::entries(&log) {
            match entry.number.map(u64::cast_signed) {
                Some(libc::SYS_mmap) if error_of(entry.result).is_none() => {
                    let args = entry.args.unwrap_or_default();
                    let (start, length) = (entry.result.cast_unsigned(), args[1]);
                    self.forget(start, length);
                    let mut key = None;
                    if args[3] as i32 & libc::MAP_ANONYMOUS == 0 {
                        let library = self.mapped_part(start, &args)?;
                        files.push(library.file);
                        key = library.key;
                    }
                    changes.push(MappingChange { start, length, key });
                }
                Some(libc::SYS_munmap) if entry.result == 0 => {
                    let [start, length, ..] = entry.args.unwrap_or_default();
                    self.forget(start, length);
                    let key = None;
                    changes.push(MappingChange { start, length, key });
                }
                _ => {}
            }
        }
        Ok(Some((Buffered { log, files }, changes)))
    }

    /// Takes the bytes that have been logged.
    fn log(
        &self,
        memory: &impl Memory,
        write: impl FnOnce(u64, &[u8]) -> io::Result<()>,
    ) -> Option<Vec<u8>> {
        if !self.mapped.get() {
            return None;
        }
        let cursor = memory.read_u64(buffer::cursor()).ok()?;
        let length = cursor.checked_sub(buffer::LOG)?;
        if length == 0 || length > buffer::LENGTH {
            return None;
        }
        let mut log = vec![0; length as usize];
        memory.read_exact(buffer::LOG, &mut log).ok()?;
        write(buffer::cursor(), &buffer::LOG.to_le_bytes()).ok()?;
        Some(log)
    }

    /// The loader has mapped a part of a library, whose file it maps part by part.
    fn mapped_part(&self, start: u64, args: &[u64; 6]) -> Result<Library, UnknownFile> {
        let part = start..start.saturating_add(args[1]);
        let library = self
            .library
            .get()
            .filter(|library| library.fd == args[4])
            .filter(|library| library.start <= part.start && part.end <= library.end)
            .ok_or(UnknownFile)?;
        self.note_code(library.file, start, args);
        Ok(library)
    }

    /// A file was mapped: its code, if it is that.
    pub(super) fn note_code(
        &self,
        file: FileNumber,
        start: u64,
        args: &[u64; 6],
    ) -> Option<MappedCode> {
        let [_, length, prot, _, _, offset] = *args;
        if prot as i32 & libc::PROT_EXEC == 0 {
            return None;
        }
        let code = MappedCode {
            start,
            end: start.saturating_add(length),
            offset,
            file,
        };
        self.codes.add(code);
        Some(code)
    }

    /// Whether an instruction that gives random numbers was there.
    pub(super) fn is_random(&self, address: u64) -> bool {
        self.randoms.borrow().contains(&address)
    }

    /// Replaces the instructions that give random numbers in code that has just been mapped;
    /// what was written for that.
    pub(super) fn replace_randoms<S: Stopped>(
        &self,
        tracee: &Tracee<S>,
        random_instructions: &RandomInstructions,
        code: &MappedCode,
    ) -> Option<Patched> {
        let found = random_instructions.within(code.file, code.offset, code.start, code.end);
        let mut writes = Vec::new();
        for (address, opcode) in found {
            self.randoms.borrow_mut().insert(address);
            writes.push(Write {
                address: opcode,
                bytes: random::INSTEAD.to_vec(),
            });
        }
        if writes.is_empty() {
            return None;
        }
        let pieces = writes.iter().map(|write| (write.address, &write.bytes[..]));
        // An error means that the task is gone.
        let _ = tracee.write_protected(pieces);
        Some(Patched {
            is_first: false,
            pages: Vec::new(),
            end: None,
            sites: 0,
            writes,
        })
    }

    /// A program has begun with this code in memory; `loader` is where it starts.
    pub(super) fn begin(
        &self,
        known: &KnownSites,
        code: MappedCode,
        loader: u64,
        memory: &dyn Memory,
    ) {
        if (code.start..code.end).contains(&loader) {
            known.look_through(&code, memory);
        }
        self.codes.add(code);
    }

    /// A file was mapped that may be a library, by a call that stopped: parts of it are going
    /// to be mapped over it by calls that do not. The stub leaves them to a stop until then.
    pub(super) fn note_library<S: Stopped>(
        &self,
        tracee: &Tracee<S>,
        (file, key): (FileNumber, Option<FileKey>),
        start: u64,
        args: &[u64; 6],
    ) {
        let end = start.saturating_add(args[1]).next_multiple_of(PAGE);
        let fd = args[4];
        self.library.set(Some(Library {
            start,
            end,
            fd,
            file,
            key,
        }));
        self.tell_stub_library(tracee, [start, end, fd]);
    }

    fn tell_stub_library<S: Stopped>(&self, tracee: &Tracee<S>, words: [u64; 3]) {
        if self.mapped.get() {
            let bytes = words.map(u64::to_le_bytes);
            let _ = tracee.write(buffer::library(), bytes.as_flattened());
        }
    }

    /// Its descriptor may be another file's from now on.
    pub(super) fn forget_library<S: Stopped>(&self, tracee: &Tracee<S>) {
        if self.library.take().is_some() {
            self.tell_stub_library(tracee, NO_LIBRARY);
        }
    }

    /// Says what the stub is not to perform.
    pub(super) fn set_disabled<S: Stopped>(&self, tracee: &Tracee<S>, disabled: u64) {
        if self.mapped.get() && self.disabled.get() != disabled {
            let _ = tracee.write(buffer::closed(), &disabled.to_le_bytes());
            self.disabled.set(disabled);
        }
    }

    /// Disables calls that may wait, of a task that runs. Whether the task is in the stub.
    pub(super) fn disable_waiting_calls(&self, tid: Tid) -> bool {
        if !self.mapped.get() {
            return false;
        }
        let disabled = self.disabled.get() | buffer::WAITS;
        if disabled != self.disabled.get() {
            let memory = fs::File::options()
                .write(true)
                .open(format!("/proc/{tid}/mem"));
            let written = memory
                .and_then(|memory| memory.write_all_at(&disabled.to_le_bytes(), buffer::closed()));
            // An error means that it is gone.
            if written.is_ok() {
                self.disabled.set(disabled);
            }
        }
        let position = task_position::of(Path::new(&format!("/proc/{tid}")));
        position.is_some_and(|position| buffer::contains(position.ip))
    }

    /// A descriptor is another file from now on, or behaves in another way (or any of them,
    /// if it is not known which): nothing is known of it.
    pub(super) fn forget_descriptor<S: Stopped>(&self, tracee: &Tracee<S>, fd: Option<u64>) {
        let _ = match fd {
            _ if !self.mapped.get() => return,
            Some(fd) if fd >= buffer::DESCRIPTORS => return,
            Some(fd) => tracee.write(buffer::descriptors() + fd, &[0]),
            None => {
                let nothing = [0; buffer::DESCRIPTORS as usize];
                tracee.write(buffer::descriptors(), &nothing)
            }
        };
    }

    /// Something is known of a descriptor, in all of the tasks that have the log.
    pub(super) fn mark_descriptor<S: Stopped>(&self, tracee: &Tracee<S>, fd: u64, what: u8) {
        if !self.mapped.get() || fd >= buffer::DESCRIPTORS {
            return;
        }
        let address = buffer::descriptors() + fd;
        if let Ok(known) = tracee.read_value::<u8>(address)
            && known & what == 0
        {
            let _ = tracee.write(address, &[known | what]);
        }
    }

    /// Whether it is time to see whether calls on a descriptor wait: less and less often.
    pub(super) fn should_probe_descriptor(&self, fd: u64) -> bool {
        let mut wait_stops = self.wait_stops.borrow_mut();
        let wait_stops = wait_stops.entry(fd).or_default();
        *wait_stops = wait_stops.saturating_add(1);
        self.mapped.get() && wait_stops.is_power_of_two()
    }

    /// Memory was unmapped, or something else is mapped there.
    pub(super) fn forget(&self, start: u64, length: u64) {
        let end = start.saturating_add(length);
        self.visits
            .borrow_mut()
            .retain(|site, _| !(start..=end).contains(site));
        self.trampolines
            .borrow_mut()
            .retain(|(page, _)| !(start..end).contains(page));
        self.randoms
            .borrow_mut()
            .retain(|address| !(start..end).contains(address));
        self.codes.forget(start, end);
    }
}

/// Something else is mapped in a range than before.
#[derive(Debug, Clone, Copy)]
pub(super) struct MappingChange {
    pub(super) start: u64,
    pub(super) length: u64,
    /// The file that is mapped there now, if it is one that can change.
    pub(super) key: Option<FileKey>,
}

/// A file was mapped that can no longer be identified.
#[derive(Debug)]
pub(super) struct UnknownFile;

/// Whether nobody jumps into what is going to be changed of the site of a call, as far as
/// code near by tells.
fn is_free(memory: &dyn Memory, end: u64) -> bool {
    let start = end.saturating_sub(NEAR);
    let mut code = vec![0; 2 * NEAR as usize];
    let got = memory.read(start, &mut code);
    buffer::is_free(&code[..got], start, end)
}

/// Memory that does not change meanwhile, read in larger pieces.
struct CachedMemory<'a> {
    memory: &'a dyn Memory,
    pieces: RefCell<FxHashMap<u64, Vec<u8>>>,
}

impl<'a> CachedMemory<'a> {
    const PIECE: u64 = 4 * PAGE;

    fn of(memory: &'a dyn Memory) -> Self {
        let pieces = RefCell::default();
        Self { memory, pieces }
    }
}

impl Memory for CachedMemory<'_> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> usize {
        let mut pieces = self.pieces.borrow_mut();
        let mut done = 0;
        while done < buffer.len() {
            let at = address + done as u64;
            let start = at / Self::PIECE * Self::PIECE;
            let piece = pieces.entry(start).or_insert_with(|| {
                let mut piece = vec![0; Self::PIECE as usize];
                let got = self.memory.read(start, &mut piece);
                piece.truncate(got);
                piece
            });
            let Some(rest) = piece
                .get((at - start) as usize..)
                .filter(|rest| !rest.is_empty())
            else {
                // It begins in the middle of a piece.
                return done + self.memory.read(at, &mut buffer[done..]);
            };
            let length = rest.len().min(buffer.len() - done);
            buffer[done..done + length].copy_from_slice(&rest[..length]);
            done += length;
        }
        done
    }
}

/// Joins writes that are near to each other.
fn joined(memory: &dyn Memory, mut writes: Vec<Write>) -> Vec<Write> {
    writes.sort_unstable_by_key(|write| write.address);
    let mut joined: Vec<Write> = Vec::new();
    for write in writes {
        let end = |write: &Write| write.address + write.bytes.len() as u64;
        if let Some(last) = joined.last_mut()
            && end(last) / PAGE == write.address / PAGE
        {
            let mut between = vec![0; (write.address - end(last)) as usize];
            if memory.read_exact(end(last), &mut between).is_ok() {
                last.bytes.append(&mut between);
                last.bytes.extend_from_slice(&write.bytes);
                continue;
            }
        }
        joined.push(write);
    }
    joined
}
