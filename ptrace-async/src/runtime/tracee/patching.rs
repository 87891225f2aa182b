//! Patching call sites of a task, so that their calls are performed and logged in process.
//!
//! `in_process` explains why that is safe.

use std::io;
use std::rc::Rc;

use super::states::{Prehook, Signal, Tracee};
use super::stop::Stop;
use crate::invocation::Invocation;
use crate::memory::Memory;
use crate::runtime::in_process::layout::{ARENA_LEN, BASE, CODE_LEN, LOG, LOGS, LOGS_AT, PAGE};
use crate::runtime::in_process::program::{DISTANCE, LOWEST};
use crate::runtime::in_process::site::{SITE_MAX, Site};
use crate::runtime::in_process::{
    BEFORE, Log, Mapped, Trampolines, jumped_into, may_be_patched, path_of,
};
use crate::runtime::options::Interception;
use crate::runtime::space::Space;
use crate::sys;
use crate::syscall::errno::error_of;
use crate::unstopped::handles;

/// The number of lookups that stop in one address space before it is patched. The mappings
/// themselves take about twenty stops.
const WORTHWHILE: u32 = 48;
/// The number of sites that are patched in one address space at most.
const MAX_SITES: usize = 64;

/// The distance in bytes from which jumps to a site are looked for. A function lies within
/// it, as a rule.
const NEAR: u64 = 1 << 15;

/// The arguments of the mmap of a page for trampolines near a site.
fn trampoline_page(site: &Site) -> [u64; 6] {
    // Below programs at fixed addresses, whose heap grows upwards.
    let near = site.address.checked_sub(DISTANCE).unwrap_or(LOWEST) & !(PAGE - 1);
    let read_execute = (libc::PROT_READ | libc::PROT_EXEC) as u64;
    let private = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    [near, PAGE, read_execute, private, u64::MAX, 0]
}

impl Tracee<Signal> {
    /// Notes the address that the signal's handler will return to. If it lies in our code,
    /// the task is moved out of it first.
    pub(super) fn note_handler_return(&self) {
        let space = self.space();
        let state = &space.in_process;
        if !matches!(self.shared().options.interception, Interception::Seccomp(_)) {
            return;
        }
        let mut mapped = state.mapped.borrow_mut();
        if state.disabled.get() && mapped.is_none() {
            return;
        }
        let Ok(mut regs) = self.registers() else {
            return;
        };
        if let Some(mapped) = &mut *mapped
            && mapped.leave_code(&mut regs, self)
        {
            // An error means that the task is gone.
            let _ = self.set_registers(&regs);
        }
        space.in_process.handler_returns_to(regs.rip);
    }
}

impl Tracee<Prehook> {
    /// Counts this call, and patches its site if the address space makes many of this kind.
    /// From its next call on, the site performs and logs the call in process. Ask
    /// [`Handle::unstopped_calls`](crate::runtime::Handle::unstopped_calls) at every stop from then on.
    ///
    /// # Errors
    /// The stop that came instead, when the task was killed.
    pub async fn perform_in_process(self) -> Result<Self, Stop> {
        let nr = self.invocation().nr;
        if !handles(nr) || self.is_foreign() {
            return Ok(self);
        }
        let space = self.space();
        let state = &space.in_process;
        if state.disabled.get() || self.slot().confined.get() {
            return Ok(self);
        }
        state
            .lookups_stopped
            .set(state.lookups_stopped.get().saturating_add(1));
        let call = self.instruction_pointer().checked_sub(2);
        let program = state.program();
        let known = program
            .as_ref()
            .zip(call)
            .and_then(|(program, call)| program.stopped_at(call));
        if known.is_none() && state.lookups_stopped.get() < WORTHWHILE {
            return Ok(self);
        }
        let passes = match &self.shared().options.interception {
            Interception::Seccomp(filter) => filter.token().is_some(),
            Interception::Ptrace(_) => false,
        };
        if !passes {
            state.disabled.set(true);
            return Ok(self);
        }
        // One reference is the slot's, the other ours: no other task shares the memory.
        if Rc::strong_count(&space) > 2 {
            return Ok(self);
        }
        if let Some((site, trampoline)) = known {
            if !state.is_returned_to(&site) {
                self.patch(&space, site, trampoline);
            }
            return Ok(self);
        }
        let is_elsewhere = |site: &Site| {
            let known = program
                .as_ref()
                .is_some_and(|program| program.contains(site.address));
            !known && !state.has_trampoline_at(site.address)
        };
        let Some(site) = self.site().filter(is_elsewhere) else {
            return Ok(self);
        };
        if state.is_returned_to(&site) {
            return Ok(self);
        }
        let mut tracee = self;
        if space.in_process.mapped.borrow().is_none() {
            let (same, mapped) = tracee.map(&site).await?;
            tracee = same;
            match mapped {
                Ok(mapped) => {
                    *space.in_process.mapped.borrow_mut() = Some(mapped);
                    space.in_process.update_sharing();
                    tracee.shared().note_patched(&space);
                }
                Err(_) => {
                    space.in_process.disabled.set(true);
                    return Ok(tracee);
                }
            }
        } else {
            tracee = tracee.map_trampolines(&space, &site).await?;
        }
        let free = |mapped: &Mapped| mapped.free_trampoline();
        let trampoline = space.in_process.mapped.borrow().as_ref().and_then(free);
        if let Some(trampoline) = trampoline {
            tracee.patch(&space, site, trampoline);
        }
        Ok(tracee)
    }

    /// Maps a page for trampolines if there is none.
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
            (Ok(address), Some(mapped)) => {
                mapped.trampolines = Some(Trampolines { address, len: PAGE });
            }
            _ => space.in_process.disabled.set(true),
        }
        Ok(tracee)
    }

    /// The site that this call was made at.
    fn site(&self) -> Option<Site> {
        let address = self.instruction_pointer().checked_sub(2)?;
        let mut bytes = [0; BEFORE + SITE_MAX];
        let from = address.checked_sub(BEFORE as u64)?;
        let read = self.read(from, &mut bytes);
        if read != bytes.len() || (BASE..BASE + CODE_LEN).contains(&address) {
            return None;
        }
        let (before, site) = bytes.split_first_chunk::<{ BEFORE }>()?;
        // A site in a patched copy is only reached from our code (see `patch`).
        let is_patched = may_be_patched(before) && self.space().in_process.logs();
        let site = *site.first_chunk()?;
        let site = Site::recognise(address, site).filter(|_| !is_patched)?;
        (!self.may_jump_into(&site)).then_some(site)
    }

    /// Whether something near by may jump to the comparison of a site.
    fn may_jump_into(&self, site: &Site) -> bool {
        let mut text = vec![0; 2 * NEAR as usize];
        let (before, after) = text.split_at_mut(NEAR as usize);
        // Fewer bytes are there if the mapping ends.
        let after_len = self.read(site.address, after);
        let page = site.address & (PAGE - 1);
        let mut before_len = 0;
        while before_len < before.len() {
            let part = if before_len == 0 && page != 0 {
                page
            } else {
                PAGE
            } as usize;
            let end = before.len() - before_len;
            let from = end.saturating_sub(part);
            let address = site.address - (before.len() - from) as u64;
            if self.read(address, &mut before[from..end]) != end - from {
                break;
            }
            before_len = before.len() - from;
        }
        let from = NEAR as usize - before_len;
        let range = before_len..before_len + (site.end() - site.address) as usize;
        let text = &text[from..NEAR as usize + after_len];
        !jumped_into(text, std::slice::from_ref(&range)).is_empty()
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
        let path = path_of(arena.file());
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
            [LOG, PAGE, read_write, copied, fd, CODE_LEN],
            [LOGS, ARENA_LEN as u64, read_write, fixed, fd, LOGS_AT],
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
                    // The range is in use or memory is limited: the mappings made so far
                    // are undone.
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
        let (address, len) = made[3];
        let mapped = Mapped::new(log, Some(Trampolines { address, len }), tracee.tid());
        let told = sys::poke(tracee.tid(), LOG, mapped.log.place());
        Ok((tracee, told.map(|()| mapped)))
    }

    /// Injects a call and returns its result.
    async fn made(self, nr: i64, args: [u64; 6]) -> Result<(Self, io::Result<u64>), Stop> {
        let nr = nr.cast_unsigned();
        let (tracee, value) = self.inject(Invocation { nr, args }).await?;
        let value = match error_of(value) {
            Some(error) => Err(io::Error::from_raw_os_error(error)),
            None => Ok(value.cast_unsigned()),
        };
        Ok((tracee, value))
    }

    /// Makes a site jump to a trampoline of its own. The present call returns into the
    /// trampoline as well, because the instructions after it have been overwritten.
    fn patch(&self, space: &Space, site: Site, trampoline: u64) {
        let mut mapped = space.in_process.mapped.borrow_mut();
        let Some(mapped) = &mut *mapped else { return };
        let is_known = mapped
            .all_sites()
            .any(|(known, its)| known == site && its == trampoline);
        let is_patched = mapped.sites.iter().any(|(known, _)| *known == site);
        if is_patched || !is_known && mapped.sites.len() >= MAX_SITES {
            return;
        }
        let (Some(code), Some(jump)) = (site.trampoline(trampoline), site.patch(trampoline)) else {
            return;
        };
        let Ok(mut regs) = self.registers() else {
            return;
        };
        regs.rip = site.after_call(trampoline);
        let original = site.original();
        let done = self
            .write(trampoline, &code)
            .and_then(|()| self.write(site.address, &jump))
            .and_then(|()| self.set_registers(&regs));
        if done.is_err() {
            // The task has ended or its memory cannot be written: the site is restored.
            let _ = self.write(site.address, &original);
            space.in_process.disabled.set(true);
            return;
        }
        if !is_known {
            mapped.sites.push((site, trampoline));
        }
    }
}
