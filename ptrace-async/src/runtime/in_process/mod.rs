//! Lookups that the tracee performs and logs by itself, without a stop.
//!
//! A stop costs ten times what a lookup does, and compilers make thousands of
//! lookups in a process. When one address space has stopped often enough for
//! lookups, code and a log are mapped into it (`code`, `log`), and from then on
//! each site in it that stops for a lookup is patched once, at that stop: its
//! syscall instruction becomes a jump to a trampoline. What the log holds is
//! handed out before anything else is done about a stop of the task
//! ([`Handle::logged`]), and on request at any time
//! ([`Handle::logged_everywhere`]), so a tool can see all lookups that came
//! before a change before it lets the change happen.
//!
//! Nothing depends on it: what is not patched, and what the code does not want
//! to decide, stops. Processes that live shortly are left alone.
//!
//! **Why it is safe to patch.** A site is patched while its only task is
//! stopped right there, and no other task shares its memory; so nobody runs
//! the bytes that change. A signal handler may return into them: addresses
//! that handlers will return to are noted ([`Space::interrupted`]), and a site
//! that holds one is left alone. A forked child has a copy of the code but
//! shares the log: it gets the original bytes back before it runs
//! ([`Space::restore_child`]); if what is there is not our patch any more (the
//! library was unmapped), it is left. Children that share the memory share all
//! of it, as vfork and threads do: the lock in the log keeps them apart. An
//! execve ends it all.

mod code;
mod log;

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::AsRawFd;
use std::rc::Rc;

use self::code::{BASE, CODE_LEN, PATCH_LEN, SITE_MAX, Site, TRAMPOLINE_LEN, handles};
pub(crate) use self::code::{PERFORMED, performed_at};
use self::log::Log;
pub use self::log::Logged;
use super::scratch::Space;
use super::stop::Stop;
use super::tracee::{Prehook, Signal, Tracee};
use super::{Handle, Interception};
use crate::event::Tid;
use crate::invocation::Invocation;
use crate::memory::Memory;
use crate::sys;

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
const PAGE: u64 = 4096;

/// What is known of one address space.
#[derive(Debug, Default)]
pub(super) struct InProcess {
    /// Lookups that stopped.
    heat: Cell<u32>,
    /// It cannot be done here, or must not.
    refused: Cell<bool>,
    /// Where handlers will return to.
    frames: RefCell<Vec<u64>>,
    mapped: RefCell<Option<Mapped>>,
}

/// The mappings.
#[derive(Debug)]
struct Mapped {
    log: Log,
    /// The page of trampolines, and how many are used.
    trampolines: u64,
    sites: Vec<(Site, u64)>,
    /// The task that stopped or began last: what is in the log is its own, or
    /// that of one with the same memory, directory and files.
    last: Tid,
    /// A call was being made when all logs were asked for, with this mark.
    unsettled: Option<u64>,
    /// The log made no sense once.
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
    fn take(&mut self) -> Calls {
        if self.broken {
            return Calls::Made(Vec::new());
        }
        match self.log.take() {
            Some(mut calls) => {
                if let Some(first) = calls.first_mut() {
                    first.begun_before(self.unsettled.take());
                }
                Calls::Made(calls)
            }
            None => {
                self.broken = true;
                Calls::Lost
            }
        }
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

    /// Gives a forked child, which is in its first stop, what stood where its
    /// copy of the code is patched. Its own space is this one's copy.
    pub(super) fn restore_child(&self, child: Tid) {
        let mapped = self.in_process.mapped.borrow();
        let Some(mapped) = &*mapped else { return };
        for (site, trampoline) in &mapped.sites {
            let mut found = [0; PATCH_LEN];
            let read = sys::read_memory(child, site.address, &mut found);
            if read == PATCH_LEN && site.patch(*trampoline) == Some(found) {
                // An error means that the child is gone.
                let _ = sys::write_memory(child, site.address, &site.original());
            }
        }
    }

    /// What a forked child starts with.
    pub(super) fn copy_in_process(&self) -> InProcess {
        let copy = InProcess::default();
        // The mappings are there, but they are its parent's.
        let mapped = self.in_process.mapped.borrow().is_some();
        copy.refused.set(mapped || self.in_process.refused.get());
        copy.frames
            .borrow_mut()
            .clone_from(&self.in_process.frames.borrow());
        copy
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
                let space = slot.space.borrow().clone();
                space.logged_by(tid)
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
            while mapped.log.is_in_flight() && rounds < PATIENCE {
                std::hint::spin_loop();
                rounds += 1;
            }
            // Asked before what is logged is taken: what ends in between is.
            let unsettled = mapped.log.is_in_flight();
            let calls = mapped.take();
            if calls != Calls::Made(Vec::new()) {
                all.push((mapped.last, calls));
            }
            if unsettled && mapped.unsettled.is_none() {
                mapped.unsettled = Some(mark);
            }
        }
        all
    }
}

impl Space {
    /// Whether a site is one of our own trampolines.
    fn has_made(&self, site: &Site) -> bool {
        let mapped = self.in_process.mapped.borrow();
        mapped.as_ref().is_some_and(|mapped| {
            (mapped.trampolines..mapped.trampolines + PAGE).contains(&site.address)
        })
    }

    pub(super) fn logged_by(&self, tid: Tid) -> Calls {
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

impl Tracee<Signal> {
    /// Notes where a handler of the signal that is about to be delivered will
    /// return to.
    pub(super) fn note_frame(&self) {
        let space = self.space();
        let candidate = matches!(self.shared().options.interception, Interception::Seccomp(_))
            && !space.in_process.refused.get();
        if candidate && let Ok(regs) = self.registers() {
            space.interrupted(regs.rip);
        }
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
        if state.refused.get() {
            return Ok(self);
        }
        state.heat.set(state.heat.get().saturating_add(1));
        if state.heat.get() < WORTHWHILE {
            return Ok(self);
        }
        let passes = match &self.shared().options.interception {
            Interception::Seccomp(filter) => filter.lets_logged_pass(),
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
                    let mut patched = tracee.shared().patched.borrow_mut();
                    patched.retain(|space| space.strong_count() > 0);
                    patched.push(Rc::downgrade(&space));
                }
                Err(_) => {
                    space.in_process.refused.set(true);
                    return Ok(tracee);
                }
            }
        }
        tracee.patch(&space, site);
        Ok(tracee)
    }

    /// The site that this call was made at.
    fn site(&self) -> Option<Site> {
        let address = self.instruction_pointer().checked_sub(2)?;
        let mut bytes = [0; SITE_MAX];
        if self.read(address, &mut bytes) != SITE_MAX || (BASE..BASE + CODE_LEN).contains(&address)
        {
            return None;
        }
        Site::recognise(address, bytes)
    }

    /// Maps code, log and a page for trampolines.
    async fn map(self, site: &Site) -> Result<(Self, io::Result<Mapped>), Stop> {
        let (file, log) = match Log::new() {
            Ok(made) => made,
            Err(error) => return Ok((self, Err(error))),
        };
        let path = format!("/proc/{}/fd/{}\0", std::process::id(), file.as_raw_fd());
        let (tracee, scratch) = self.scratch(path.len()).await?;
        let scratch = match scratch {
            Ok(scratch) => scratch,
            Err(error) => return Ok((tracee, Err(error))),
        };
        if let Err(error) = tracee.write(scratch.address(), path.as_bytes()) {
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
        let private = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        let read_execute = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        let read_write = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let near = if site.address > 2 * DISTANCE {
            site.address - DISTANCE
        } else {
            site.address + DISTANCE
        } & !(PAGE - 1);
        let maps = [
            [BASE, CODE_LEN, read_execute, fixed, fd, 0],
            [code::LOG, log::LEN as u64, read_write, fixed, fd, CODE_LEN],
            [near, PAGE, read_execute, private, u64::MAX, 0],
        ];
        let mut tracee = self;
        let mut made: Vec<(u64, u64)> = Vec::new();
        for args in maps {
            let (same, address) = tracee.made(libc::SYS_mmap, args).await?;
            tracee = same;
            let wanted = |address: &u64| *address == args[0] || args[3] == private;
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
        let mapped = Mapped {
            log,
            trampolines: made[2].0,
            sites: Vec::new(),
            last: tracee.tid(),
            unsettled: None,
            broken: false,
        };
        Ok((tracee, Ok(mapped)))
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
        let trampoline = mapped.trampolines + count as u64 * TRAMPOLINE_LEN;
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
        // From now on it may look at its affinity unseen (see `placement`).
        self.slot().exposed.set(true);
    }
}
