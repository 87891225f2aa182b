//! Lookups, reads and writes that the tracee performs and logs by itself, without a
//! stop.
//!
//! A stop costs ten times what a lookup does, and builds make tens of thousands
//! of them. So code and a log are mapped into tracees (`code`, `log`), and sites
//! that make lookups jump there: in copies of the loader and the C library that
//! a program starts with (`image`, `start`), or, in an address space that has
//! stopped often enough for lookups, each where it stops (`site`): its syscall
//! instruction becomes a jump to a trampoline. What the log holds is handed out
//! before anything else is done about a stop of the task ([`Handle::logged`]),
//! and on request at any time ([`Handle::logged_everywhere`]), so a tool can see
//! all lookups that came before a change before it lets the change happen. What
//! different tasks did has an order ([`Logged::stamp`]).
//!
//! Nothing depends on it: what is not patched, and what the code does not want
//! to decide, stops.
//!
//! **Why it is safe to patch.** A site is patched while its only task is
//! stopped right there, and no other task shares its memory; so nobody runs
//! the bytes that change. A signal handler may return into them: addresses
//! that handlers will return to are noted ([`Space::interrupted`]), and a site
//! that holds one is left alone; none is entered from our code (`retreat`). A
//! forked child has a copy of the code, and maps all logs: before it runs, its
//! copy is told of a log of its own ([`Space::fork_in_process`]), or, if there is
//! none, it gets the original bytes back ([`Space::restore`]); if what is there
//! is not our patch any more (the library was unmapped), it is left. An execve
//! ends it all.
//!
//! **Whose calls they are.** Threads share the memory, the descriptors and the
//! directories, so it does not matter which of them made a call; the lock in
//! the log keeps them apart. While there are others with the same memory
//! (between a vfork and its execve, say), nothing is logged, and what was is
//! the owner's. A task that restricts its own calls (seccomp(2)) is left alone
//! from then on, because its filter may look at where calls come from.

mod code;
mod image;
mod log;
mod retreat;
mod site;
mod start;

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

#[cfg(test)]
pub(crate) use self::code::performed_at;
use self::code::{BASE, CODE_LEN, PAGE};
pub(super) use self::log::Arena;
pub use self::log::Logged;
use self::log::{ARENA_LEN, LOGS_AT, Log, Sharing};
use self::site::{PATCH_LEN, SITE_MAX, Site, TRAMPOLINE_LEN};
pub(super) use self::start::Starting;
use super::scratch::Space;
use super::slot::Slot;
use super::stop::Stop;
use super::tracee::{Prehook, Signal, Tracee};
use super::{Handle, Interception, Shared};
use crate::event::Tid;
use crate::invocation::Invocation;
use crate::memory::Memory;
use crate::sys;
use crate::unstopped::handles;

/// Lookups that stop in one address space before it is worth the trouble: the
/// mappings take about twenty stops.
const WORTHWHILE: u32 = 48;
/// Sites patched in one address space at most.
const MAX_SITES: usize = 64;
/// Addresses that signal handlers return to that are remembered; a program
/// that is interrupted more often is left alone.
const MAX_FRAMES: usize = 64;
/// How far from a site its trampoline is asked for: near enough for a jump,
/// far from where the next mappings go.
const DISTANCE: u64 = 1 << 28;
/// Where trampolines are asked for if there is no such distance.
const LOWEST: u64 = 1 << 20;

/// What is known of one address space.
#[derive(Debug, Default)]
pub(super) struct InProcess {
    /// Lookups that stopped.
    heat: Cell<u32>,
    /// It cannot be done here, or must not.
    refused: Cell<bool>,
    /// What was done here is to have no effect any more.
    withdrawn: Cell<bool>,
    /// Where handlers will return to.
    frames: RefCell<Vec<u64>>,
    /// It has had threads.
    threads: Cell<bool>,
    /// Tasks that share the memory, and not all else.
    strangers: Cell<u32>,
    mapped: RefCell<Option<Mapped>>,
}

/// The mappings.
#[derive(Debug)]
struct Mapped {
    log: Log,
    /// The page of trampolines, if there is one.
    trampolines: Option<u64>,
    sites: Vec<(Site, u64)>,
    /// The task that stopped or began last: what is in the log is its own, or
    /// that of one with the same memory, directory and files.
    last: Tid,
    /// A call was being made when all logs were asked for, with this mark.
    unsettled: Option<u64>,
    /// Calls that are not in the log, and come before what is.
    noted: Vec<Logged>,
    /// The log made no sense, which is still to be told.
    lost: bool,
    /// It is not read any more.
    broken: bool,
}

/// What [`Handle::logged`] has to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Calls {
    /// These were made, in this order.
    Made(Vec<Logged>),
    /// The tracee has written over the log: what it did is not known.
    Lost,
}

/// How long to wait for a call that is being made (in rounds): most take less
/// than a microsecond, unless their task is not running.
const PATIENCE: u32 = 300;

impl Mapped {
    fn new(log: Log, trampolines: Option<u64>, last: Tid) -> Self {
        Self {
            log,
            trampolines,
            sites: Vec::new(),
            last,
            unsettled: None,
            noted: Vec::new(),
            lost: false,
            broken: false,
        }
    }

    /// Whether a forked child has a copy of this.
    fn is_copied_to(&self, child: Tid) -> bool {
        sys::peek(child, code::LOG).is_ok_and(|place| place == self.log.place())
    }

    fn take(&mut self) -> Calls {
        // Asked before: what ends in between is logged.
        let in_flight = self.log.is_in_flight();
        self.collect();
        if std::mem::take(&mut self.lost) {
            return Calls::Lost;
        }
        let mut calls = std::mem::take(&mut self.noted);
        if let Some(first) = calls.first_mut() {
            first.begun_before(self.unsettled.take());
        } else if !in_flight {
            // It was given up.
            self.unsettled = None;
        }
        Calls::Made(calls)
    }

    /// Takes over what is in the log.
    fn collect(&mut self) {
        if self.broken {
            return;
        }
        match self.log.take() {
            Some(calls) => {
                let arena = self.log.arena();
                for path in calls.iter().filter_map(Logged::loaded) {
                    arena.images.borrow_mut().consider(arena, path);
                }
                self.noted.extend(calls);
            }
            None => self.lose(),
        }
    }

    /// Notes a call that came after all that is in the log.
    fn note(&mut self, call: Logged) {
        self.collect();
        self.noted.push(call);
    }

    /// What was done is not known: from now on it stops.
    fn lose(&mut self) {
        self.noted.clear();
        self.log.set_sharing(Sharing::Strangers);
        (self.lost, self.broken) = (true, true);
    }
}

impl Space {
    /// A signal handler will return to `address`.
    pub(super) fn interrupted(&self, address: u64) {
        let mut frames = self.in_process.frames.borrow_mut();
        if frames.contains(&address) {
            return;
        }
        if frames.len() < MAX_FRAMES {
            frames.push(address);
        } else {
            self.in_process.refused.set(true);
        }
    }

    /// Gives a task, which is stopped and the only one with its memory, what
    /// stood where this is patched: a forked child in its first stop has a copy.
    pub(super) fn restore(&self, task: Tid) {
        let mapped = self.in_process.mapped.borrow();
        let Some(mapped) = &*mapped else { return };
        for (site, trampoline) in &mapped.sites {
            let mut found = [0; PATCH_LEN];
            let read = sys::read_memory(task, site.address, &mut found);
            if read == PATCH_LEN && site.patch(*trampoline) == Some(found) {
                // An error means that the task is gone.
                let _ = sys::write_memory(task, site.address, &site.original());
            }
        }
    }

    /// A task that shares this memory begins.
    pub(super) fn joined(&self, stranger: bool) {
        let state = &self.in_process;
        if stranger {
            state.strangers.set(state.strangers.get() + 1);
        } else {
            state.threads.set(true);
        }
        self.tell_sharing();
    }

    /// One that shared the memory, and not all else, has it no more.
    pub(super) fn stranger_left(&self) {
        let strangers = &self.in_process.strangers;
        strangers.set(strangers.get().saturating_sub(1));
        self.tell_sharing();
    }

    fn tell_sharing(&self) {
        let state = &self.in_process;
        if let Some(mapped) = &*state.mapped.borrow() {
            let nothing = mapped.broken || state.withdrawn.get() || state.strangers.get() > 0;
            mapped.log.set_sharing(if nothing {
                Sharing::Strangers
            } else if state.threads.get() {
                Sharing::Threads
            } else {
                Sharing::Alone
            });
        }
    }

    /// Leaves it alone from now on. `tid` is stopped, and the only task here
    /// if `alone`: then calls come from where they came from again.
    pub(super) fn withdraw(&self, tid: Tid, alone: bool) {
        self.in_process.refused.set(true);
        self.in_process.withdrawn.set(true);
        self.tell_sharing();
        if alone {
            self.restore(tid);
        }
    }

    /// Whether it logs lookups.
    pub(super) fn logs(&self) -> bool {
        self.in_process.mapped.borrow().is_some()
    }

    /// What a forked child, which is in its first stop, starts with: its copy of
    /// the code gets a log of its own.
    pub(super) fn fork_in_process(&self, child: Tid) -> InProcess {
        let state = &self.in_process;
        let copy = InProcess::default();
        copy.refused.set(state.refused.get());
        copy.frames.borrow_mut().clone_from(&state.frames.borrow());
        let mapped = state.mapped.borrow();
        let Some(parent) = &*mapped else { return copy };
        // It was forked before its parent came to have all this, or after it
        // was taken from it: then it has nothing, or is to lose it.
        let has_copy = parent.is_copied_to(child);
        let wanted = has_copy && !state.refused.get() && !parent.broken;
        let log = wanted.then(|| Log::new(parent.log.arena())).flatten();
        match log.filter(|log| sys::poke(child, code::LOG, log.place()).is_ok()) {
            Some(log) => {
                let mut own = Mapped::new(log, parent.trampolines, child);
                own.sites.clone_from(&parent.sites);
                *copy.mapped.borrow_mut() = Some(own);
            }
            None => {
                copy.refused.set(true);
                self.restore(child);
                if has_copy {
                    // An error means that the task is gone.
                    let _ = sys::poke(child, code::LOG, code::LOGS);
                }
            }
        }
        copy
    }

    /// The tracer lets a task go that may go on as it is.
    pub(super) fn let_go(&self) {
        if let Some(mapped) = &*self.in_process.mapped.borrow() {
            mapped.log.give_away();
        }
    }
}

/// Has nothing logged any more in a task that is stopped, and whose copy of
/// the code nobody here knows.
pub(super) fn disarm(task: Tid) {
    let mut found = vec![0; code::bytes().len()];
    let read = sys::read_memory(task, BASE, &mut found);
    if read == found.len() && found == code::bytes() {
        // An error means that the task is gone.
        let _ = sys::poke(task, code::LOG, code::LOGS);
    }
}

impl Shared {
    /// The memory of all logs.
    fn arena(&self) -> io::Result<Rc<Arena>> {
        let mut arena = self.arena.borrow_mut();
        if let Some(arena) = &*arena {
            return Ok(arena.clone());
        }
        let token = self.options.interception.filter().token();
        let new = Arena::new(token.unwrap_or(0))?;
        new.images.borrow_mut().dir = self.copies.borrow().clone();
        Ok(arena.insert(new).clone())
    }

    /// An address space logs lookups from now on.
    pub(super) fn note_patched(&self, space: &Rc<Space>) {
        let mut patched = self.patched.borrow_mut();
        patched.retain(|space| space.strong_count() > 0);
        patched.push(Rc::downgrade(space));
    }
}

impl Handle {
    /// What the address space of `tid`, which is stopped or has ended, has
    /// logged since it was asked last.
    pub fn logged(&self, tid: Tid) -> Calls {
        let slot = self.shared.slots.borrow().get(&tid).cloned();
        match slot {
            Some(slot) => {
                if let Some(calls) = slot.leftover.borrow_mut().take() {
                    return calls;
                }
                slot.logged()
            }
            None => Calls::Made(Vec::new()),
        }
    }

    /// What all address spaces have logged, with a task of each: every lookup
    /// that had its answer before this was called. One that has just begun may
    /// have its answer too, and be logged later; it then says so by `mark`
    /// ([`Logged::mark`]).
    pub fn logged_everywhere(&self, mark: u64) -> Vec<(Tid, Calls)> {
        let spaces = self.shared.patched.borrow();
        let mut all = Vec::new();
        for space in spaces.iter().filter_map(std::rc::Weak::upgrade) {
            let mut mapped = space.in_process.mapped.borrow_mut();
            let Some(mapped) = &mut *mapped else { continue };
            let mut rounds = 0;
            // What was being made the last time is likely to wait for something.
            let patience = if mapped.unsettled.is_none() {
                PATIENCE
            } else {
                0
            };
            while mapped.log.is_in_flight() && rounds < patience {
                std::hint::spin_loop();
                rounds += 1;
            }
            // Asked before what is logged is taken: what ends in between is.
            let unsettled = mapped.log.is_in_flight();
            let calls = mapped.take();
            if calls != Calls::Made(Vec::new()) {
                mapped.last = self.living(space.as_ref(), mapped.last);
                all.push((mapped.last, calls));
            }
            if unsettled && mapped.unsettled.is_none() {
                mapped.unsettled = Some(mark);
            }
        }
        all
    }

    /// `last`, or another task of this space if that one has ended.
    fn living(&self, space: &Space, last: Tid) -> Tid {
        let slots = self.shared.slots.borrow();
        let is_here =
            |slot: &&Rc<Slot>| std::ptr::eq(&**slot.space.borrow(), space) && !slot.stranger.get();
        if slots.get(&last).as_ref().is_some_and(is_here) {
            return last;
        }
        let other = slots.values().find(is_here);
        other.map_or(last, |slot| slot.tid.get())
    }
}

impl Slot {
    /// What its address space has logged, if that is its own.
    pub(super) fn logged(&self) -> Calls {
        if self.stranger.get() {
            return Calls::Made(Vec::new());
        }
        self.space.borrow().logged_by(self.tid.get())
    }

    /// It has this memory no more.
    pub(super) fn leave_space(&self) {
        if self.stranger.replace(false) {
            let former = self.space.replace(Rc::default());
            former.stranger_left();
        }
    }
}

impl Space {
    /// Whether a site is one of our own trampolines.
    fn has_made(&self, site: &Site) -> bool {
        let mapped = self.in_process.mapped.borrow();
        mapped.as_ref().is_some_and(|mapped| {
            let made = mapped.trampolines.map(|from| from..from + PAGE);
            made.is_some_and(|made| made.contains(&site.address))
        })
    }

    fn logged_by(&self, tid: Tid) -> Calls {
        let mut mapped = self.in_process.mapped.borrow_mut();
        let Some(mapped) = &mut *mapped else {
            return Calls::Made(Vec::new());
        };
        mapped.last = tid;
        let calls = mapped.take();
        mapped.log.empty();
        calls
    }
}

/// The arguments of the mmap of a page for trampolines near a site.
fn trampoline_page(site: &Site) -> [u64; 6] {
    // Below programs at fixed addresses, whose heap grows upwards.
    let near = site.address.checked_sub(DISTANCE).unwrap_or(LOWEST) & !(PAGE - 1);
    let read_execute = (libc::PROT_READ | libc::PROT_EXEC) as u64;
    let private = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    [near, PAGE, read_execute, private, u64::MAX, 0]
}

impl Tracee<Signal> {
    /// Notes where a handler of the signal that is about to be delivered will
    /// return to, which is not within our code.
    pub(super) fn note_frame(&self) {
        let space = self.space();
        let state = &space.in_process;
        if !matches!(self.shared().options.interception, Interception::Seccomp(_)) {
            return;
        }
        let mut mapped = state.mapped.borrow_mut();
        if state.refused.get() && mapped.is_none() {
            return;
        }
        let Ok(mut regs) = self.registers() else {
            return;
        };
        if let Some(mapped) = &mut *mapped
            && mapped.retreat(&mut regs, self)
        {
            // An error means that the task is gone.
            let _ = self.set_registers(&regs);
        }
        space.interrupted(regs.rip);
    }
}

impl Tracee<Prehook> {
    /// Has lookups of this address space performed and logged in it, if this
    /// is one and there are many of them, from the next call of this site on.
    /// Ask [`Handle::logged`] at every stop from then on.
    ///
    /// # Errors
    /// The stop that came instead when the task died meanwhile.
    pub async fn perform_in_process(self) -> Result<Self, Stop> {
        let nr = self.invocation().nr;
        if !handles(nr) || self.is_foreign() {
            return Ok(self);
        }
        let space = self.space();
        let state = &space.in_process;
        if state.refused.get() || self.slot().confined.get() {
            return Ok(self);
        }
        state.heat.set(state.heat.get().saturating_add(1));
        if state.heat.get() < WORTHWHILE {
            return Ok(self);
        }
        let passes = match &self.shared().options.interception {
            Interception::Seccomp(filter) => filter.token().is_some(),
            Interception::Ptrace(_) => false,
        };
        if !passes {
            state.refused.set(true);
            return Ok(self);
        }
        // The one of the slot, and ours.
        if Rc::strong_count(&space) > 2 {
            return Ok(self);
        }
        let Some(site) = self.site().filter(|site| !space.has_made(site)) else {
            return Ok(self);
        };
        if state
            .frames
            .borrow()
            .iter()
            .any(|frame| site.contains(*frame))
        {
            return Ok(self);
        }
        let mut tracee = self;
        if space.in_process.mapped.borrow().is_none() {
            let (same, mapped) = tracee.map(&site).await?;
            tracee = same;
            match mapped {
                Ok(mapped) => {
                    *space.in_process.mapped.borrow_mut() = Some(mapped);
                    space.tell_sharing();
                    tracee.shared().note_patched(&space);
                }
                Err(_) => {
                    space.in_process.refused.set(true);
                    return Ok(tracee);
                }
            }
        } else {
            tracee = tracee.map_trampolines(&space, &site).await?;
        }
        tracee.patch(&space, site);
        Ok(tracee)
    }

    /// Maps a page for trampolines, if there is none.
    async fn map_trampolines(self, space: &Space, site: &Site) -> Result<Self, Stop> {
        let has_none = |mapped: &Mapped| mapped.trampolines.is_none();
        if !space
            .in_process
            .mapped
            .borrow()
            .as_ref()
            .is_some_and(has_none)
        {
            return Ok(self);
        }
        let (tracee, page) = self.made(libc::SYS_mmap, trampoline_page(site)).await?;
        match (page, &mut *space.in_process.mapped.borrow_mut()) {
            (Ok(page), Some(mapped)) => mapped.trampolines = Some(page),
            _ => space.in_process.refused.set(true),
        }
        Ok(tracee)
    }

    /// The site that this call was made at.
    fn site(&self) -> Option<Site> {
        let address = self.instruction_pointer().checked_sub(2)?;
        let mut bytes = [0; image::BEFORE + SITE_MAX];
        let from = address.checked_sub(image::BEFORE as u64)?;
        let read = self.read(from, &mut bytes);
        if read != bytes.len() || (BASE..BASE + CODE_LEN).contains(&address) {
            return None;
        }
        let (before, site) = bytes.split_first_chunk::<{ image::BEFORE }>()?;
        // In a patched copy it is reached from our code (see `image`).
        let is_patched = image::may_be_patched(before) && self.space().logs();
        let site = *site.first_chunk()?;
        Site::recognise(address, site).filter(|_| !is_patched)
    }

    /// Maps code, log and a page for trampolines.
    async fn map(self, site: &Site) -> Result<(Self, io::Result<Mapped>), Stop> {
        let arena = match self.shared().arena() {
            Ok(arena) => arena,
            Err(error) => return Ok((self, Err(error))),
        };
        let Some(log) = Log::new(&arena) else {
            return Ok((self, Err(io::ErrorKind::OutOfMemory.into())));
        };
        let path = start::path_of(arena.file());
        let (tracee, scratch) = self.scratch(path.len()).await?;
        let scratch = match scratch {
            Ok(scratch) => scratch,
            Err(error) => return Ok((tracee, Err(error))),
        };
        if let Err(error) = tracee.write(scratch.address(), &path) {
            return Ok((tracee, Err(error)));
        }
        let flags = (libc::O_RDWR | libc::O_CLOEXEC) as u64;
        let open = [libc::AT_FDCWD as u64, scratch.address(), flags, 0, 0, 0];
        let (tracee, fd) = tracee.made(libc::SYS_openat, open).await?;
        let fd = match fd {
            Ok(fd) => fd,
            Err(error) => return Ok((tracee, Err(error))),
        };
        let (tracee, mapped) = tracee.map_from(fd, log, site).await?;
        let (tracee, _) = tracee.made(libc::SYS_close, [fd, 0, 0, 0, 0, 0]).await?;
        Ok((tracee, mapped))
    }

    async fn map_from(
        self,
        fd: u64,
        log: Log,
        site: &Site,
    ) -> Result<(Self, io::Result<Mapped>), Stop> {
        let fixed = (libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE) as u64;
        let copied = (libc::MAP_PRIVATE | libc::MAP_FIXED_NOREPLACE) as u64;
        let read_execute = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        let read_write = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let maps = [
            [BASE, CODE_LEN, read_execute, fixed, fd, 0],
            [code::LOG, PAGE, read_write, copied, fd, CODE_LEN],
            [code::LOGS, ARENA_LEN as u64, read_write, fixed, fd, LOGS_AT],
            trampoline_page(site),
        ];
        let mut tracee = self;
        let mut made: Vec<(u64, u64)> = Vec::new();
        for args in maps {
            let (same, address) = tracee.made(libc::SYS_mmap, args).await?;
            tracee = same;
            let anywhere = args[4] == u64::MAX;
            let wanted = |address: &u64| *address == args[0] || anywhere;
            match address {
                Ok(address) if wanted(&address) => made.push((address, args[1])),
                other => {
                    // Somebody lives there, or memory is limited: as it was.
                    let taken = other.ok().map(|address| (address, args[1]));
                    for (address, len) in made.into_iter().chain(taken) {
                        let args = [address, len, 0, 0, 0, 0];
                        let (same, _) = tracee.made(libc::SYS_munmap, args).await?;
                        tracee = same;
                    }
                    let error = io::Error::from_raw_os_error(libc::EEXIST);
                    return Ok((tracee, Err(error)));
                }
            }
        }
        let mapped = Mapped::new(log, Some(made[3].0), tracee.tid());
        let told = sys::poke(tracee.tid(), code::LOG, mapped.log.place());
        Ok((tracee, told.map(|()| mapped)))
    }

    /// Makes a call in the tracee's place.
    async fn made(self, nr: i64, args: [u64; 6]) -> Result<(Self, io::Result<u64>), Stop> {
        let nr = nr.cast_unsigned();
        let (tracee, value) = self.inject(Invocation { nr, args }).await?;
        let value = match crate::syscall::error_of(value) {
            Some(error) => Err(io::Error::from_raw_os_error(error)),
            None => Ok(value.cast_unsigned()),
        };
        Ok((tracee, value))
    }

    /// Makes a site jump to a trampoline of its own. The call it is stopped at
    /// returns there too, because what follows it has been overwritten.
    fn patch(&self, space: &Space, site: Site) {
        let mut mapped = space.in_process.mapped.borrow_mut();
        let Some(mapped) = &mut *mapped else { return };
        let count = mapped.sites.len();
        if count >= MAX_SITES || mapped.sites.iter().any(|(known, _)| *known == site) {
            return;
        }
        let Some(page) = mapped.trampolines else {
            return;
        };
        let trampoline = page + count as u64 * TRAMPOLINE_LEN;
        let (Some(code), Some(jump)) = (site.trampoline(trampoline), site.patch(trampoline)) else {
            return;
        };
        let Ok(mut regs) = self.registers() else {
            return;
        };
        regs.rip = Site::after_call(trampoline);
        let original = site.original();
        let done = self
            .write(trampoline, &code)
            .and_then(|()| self.write(site.address, &jump))
            .and_then(|()| self.set_registers(&regs));
        if done.is_err() {
            // Gone, or its memory cannot be written: then as it was.
            let _ = self.write(site.address, &original);
            space.in_process.refused.set(true);
            return;
        }
        mapped.sites.push((site, trampoline));
    }
}
