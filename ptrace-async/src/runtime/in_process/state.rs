//! The state of in-process calls in one address space.

use std::cell::{Cell, RefCell};

use super::call::UnstoppedCall;
use super::code;
use super::layout::{BASE, LOG, LOGS};
use super::log::{Log, Sharing};
use super::program::LoadedProgram;
use super::site::{PATCH_LEN, Site, TRAMPOLINE_LEN};
use super::vdso::{MOST as MOST_READS, TIME_OF_DAY, VdsoEntry};
use crate::event::Tid;
use crate::invocation::Invocation;
use crate::sys;

/// The number of handler return addresses that are remembered. In a program that is
/// interrupted more often no more sites are patched.
const MAX_HANDLER_RETURNS: usize = 64;
/// The state of in-process calls in one address space.
#[derive(Debug, Default)]
pub(crate) struct InProcess {
    /// The number of lookups that have stopped.
    pub(crate) lookups_stopped: Cell<u32>,
    /// Calls cannot or must not be performed in process here.
    pub(crate) disabled: Cell<bool>,
    /// The mapped code must not log any more.
    pub(crate) logging_disabled: Cell<bool>,
    /// The addresses that signal handlers will return to.
    pub(crate) handler_returns: RefCell<Vec<u64>>,
    /// There are too many of them, so no site is patched any more.
    pub(crate) too_many_returns: Cell<bool>,
    /// It has had threads.
    pub(crate) threads: Cell<bool>,
    /// The number of partial sharers.
    pub(crate) partial_sharers: Cell<u32>,
    pub(crate) mapped: RefCell<Option<Mapped>>,
}

/// The mappings.
#[derive(Debug)]
pub(crate) struct Mapped {
    pub(crate) log: Log,
    /// The memory of trampolines, if there is some.
    pub(crate) trampolines: Option<Trampolines>,
    /// The sites that were patched at the start.
    pub(crate) program: Option<LoadedProgram>,
    /// The sites that were patched where they stopped, with their trampolines.
    pub(crate) sites: Vec<(Site, u64)>,
    /// The task that stopped or began last. The calls in the log are its own, or those of a
    /// thread of it.
    pub(crate) last: Tid,
    /// The mark of the request for all logs during which a call was in flight.
    pub(crate) in_flight_mark: Option<u64>,
    /// Calls that are not in the log, and that precede those in it.
    pub(crate) unlogged_calls: Vec<UnstoppedCall>,
    /// The stamp of the last call that was taken from the log.
    last_stamp: u64,
    /// The stamp of a close that was reported while it was in flight.
    reported_close: Option<u64>,
    /// The log was invalid, which was not reported yet.
    pub(crate) corrupt_unreported: bool,
    /// The log was invalid and is not read any more.
    pub(crate) corrupt: bool,
}

/// The memory of trampolines in an address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trampolines {
    pub(crate) address: u64,
    /// Its length in bytes.
    pub(crate) len: u64,
}

impl Trampolines {
    pub(crate) fn contains(self, address: u64) -> bool {
        address.wrapping_sub(self.address) < self.len
    }
}

/// The answer of `Handle::unstopped_calls`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnstoppedCalls {
    /// These calls, in this order.
    Made(Vec<UnstoppedCall>),
    /// The tracee has overwritten the log: its calls are not known.
    Lost,
}

impl Mapped {
    pub(crate) fn new(log: Log, trampolines: Option<Trampolines>, last: Tid) -> Self {
        Self {
            log,
            trampolines,
            program: None,
            sites: Vec::new(),
            last,
            in_flight_mark: None,
            unlogged_calls: Vec::new(),
            last_stamp: 0,
            reported_close: None,
            corrupt_unreported: false,
            corrupt: false,
        }
    }

    /// All sites that may be patched, with their trampolines.
    pub(crate) fn all_sites(&self) -> impl Iterator<Item = (Site, u64)> {
        let at_start = self.program.iter().flat_map(LoadedProgram::sites);
        at_start.chain(self.sites.iter().copied())
    }

    /// The trampoline that an address lies in, and its site.
    pub(crate) fn trampoline_at(&self, address: u64) -> Option<(u64, Option<Site>)> {
        let trampolines = self.trampolines.filter(|all| all.contains(address))?;
        let index = (address - trampolines.address) / TRAMPOLINE_LEN;
        let trampoline = trampolines.address + index * TRAMPOLINE_LEN;
        let at_start = self.program.as_ref();
        let site = at_start.and_then(|program| program.site(index as usize));
        let late = || self.sites.iter().find(|(_, its)| *its == trampoline);
        let site = site.or_else(|| late().map(|(site, _)| *site));
        Some((trampoline, site))
    }

    /// Where the next trampoline goes.
    pub(crate) fn free_trampoline(&self) -> Option<u64> {
        let trampolines = self.trampolines?;
        let used = self.program.as_ref().map_or(0, LoadedProgram::count) + self.sites.len();
        let offset = used as u64 * TRAMPOLINE_LEN;
        let fits = offset + TRAMPOLINE_LEN <= trampolines.len;
        fits.then(|| trampolines.address + offset)
    }

    /// Whether a forked child has a copy of this.
    pub(crate) fn is_copied_to(&self, child: Tid) -> bool {
        sys::peek(child, LOG).is_ok_and(|place| place == self.log.place())
    }

    pub(crate) fn take(&mut self) -> UnstoppedCalls {
        // Read before the log, so that a call that ends in between is found in it.
        let in_flight = self.log.is_in_flight();
        let closing = self.log.closing();
        self.drain_log();
        self.report_close(closing);
        if std::mem::take(&mut self.corrupt_unreported) {
            return UnstoppedCalls::Lost;
        }
        let mut calls = std::mem::take(&mut self.unlogged_calls);
        if let Some(first) = calls.first_mut() {
            first.begun_before(self.in_flight_mark.take());
        } else if !in_flight {
            // The call was not logged in the end.
            self.in_flight_mark = None;
        }
        self.add_clock_reads(&mut calls);
        UnstoppedCalls::Made(calls)
    }

    /// Reports a close that is in flight. Another thread may have got its descriptor already,
    /// and has stopped with it. Nothing else may use a descriptor during its close.
    fn report_close(&mut self, closing: Option<(u32, u64)>) {
        let Some((descriptor, stamp)) = closing else {
            return;
        };
        if self.corrupt || stamp <= self.last_stamp || self.reported_close == Some(stamp) {
            return;
        }
        let close = Invocation {
            nr: libc::SYS_close.cast_unsigned(),
            args: [descriptor.into(), 0, 0, 0, 0, 0],
        };
        let close = UnstoppedCall::new(close, 0, Vec::new(), stamp);
        self.unlogged_calls.push(close);
        self.reported_close = Some(stamp);
    }

    /// Whether a call is a close that was reported while it was in flight, and succeeded.
    fn is_reported(&self, call: &UnstoppedCall) -> bool {
        self.reported_close == Some(call.stamp()) && call.value() == 0
    }

    /// Appends the clock reads that were counted. Their order among the calls is not known.
    fn add_clock_reads(&self, calls: &mut Vec<UnstoppedCall>) {
        let stamp = calls.last().map_or(0, UnstoppedCall::stamp);
        for (counter, reads) in self.log.take_clock_reads() {
            let (nr, clock) = match counter {
                TIME_OF_DAY => (libc::SYS_gettimeofday, 0),
                clock => (libc::SYS_clock_gettime, clock as u64),
            };
            let call = Invocation {
                nr: nr.cast_unsigned(),
                args: [clock, 0, 0, 0, 0, 0],
            };
            // The tracee may have written any number.
            let reads = reads.min(MOST_READS) as usize;
            let call = UnstoppedCall::new(call, 0, Vec::new(), stamp);
            calls.extend(std::iter::repeat_n(call, reads));
        }
    }

    /// Moves the entries of the log into `unlogged_calls`.
    pub(crate) fn drain_log(&mut self) {
        if self.corrupt {
            return;
        }
        match self.log.take() {
            Some(calls) => {
                let arena = self.log.arena();
                for path in calls.iter().filter_map(UnstoppedCall::loaded) {
                    arena.images.borrow_mut().consider(arena.file(), path);
                }
                if let Some(last) = calls.last() {
                    self.last_stamp = last.stamp();
                }
                let new = calls.into_iter().filter(|call| !self.is_reported(call));
                let new: Vec<_> = new.collect();
                self.unlogged_calls.extend(new);
            }
            None => self.mark_corrupt(),
        }
    }

    /// Records a call that came after all entries of the log.
    pub(crate) fn add_unlogged(&mut self, call: UnstoppedCall) {
        self.drain_log();
        self.last_stamp = call.stamp();
        if !self.is_reported(&call) {
            self.unlogged_calls.push(call);
        }
    }

    /// The calls are not known: from now on all calls stop.
    pub(crate) fn mark_corrupt(&mut self) {
        self.unlogged_calls.clear();
        self.log.set_sharing(Sharing::PartialSharers);
        (self.corrupt_unreported, self.corrupt) = (true, true);
    }
}

impl InProcess {
    /// A signal handler will return to `address`.
    pub(crate) fn handler_returns_to(&self, address: u64) {
        let mut handler_returns = self.handler_returns.borrow_mut();
        if handler_returns.contains(&address) {
            return;
        }
        if handler_returns.len() < MAX_HANDLER_RETURNS {
            handler_returns.push(address);
        } else {
            self.too_many_returns.set(true);
        }
    }

    /// Restores the patched bytes in a stopped task that shares its memory with no other
    /// task. A forked child in its first stop is such a task.
    pub(crate) fn restore(&self, task: Tid) {
        let mapped = self.mapped.borrow();
        let Some(mapped) = &*mapped else { return };
        for (site, trampoline) in mapped.all_sites() {
            let mut found = [0; PATCH_LEN];
            let read = sys::read_memory(task, site.address, &mut found);
            if read == PATCH_LEN && site.patch(trampoline) == Some(found) {
                // An error means that the task is gone.
                let _ = sys::write_memory(task, site.address, &site.original());
            }
        }
    }

    /// A task that shares this memory was created.
    pub(crate) fn task_joined(&self, partial_sharer: bool) {
        let state = self;
        if partial_sharer {
            state.partial_sharers.set(state.partial_sharers.get() + 1);
        } else {
            state.threads.set(true);
        }
        self.update_sharing();
    }

    /// A partial sharer has left the address space.
    pub(crate) fn partial_sharer_left(&self) {
        let partial_sharers = &self.partial_sharers;
        partial_sharers.set(partial_sharers.get().saturating_sub(1));
        self.update_sharing();
    }

    pub(crate) fn update_sharing(&self) {
        let state = self;
        if let Some(mapped) = &*state.mapped.borrow() {
            let nothing =
                mapped.corrupt || state.logging_disabled.get() || state.partial_sharers.get() > 0;
            mapped.log.set_sharing(if nothing {
                Sharing::PartialSharers
            } else if state.threads.get() {
                Sharing::Threads
            } else {
                Sharing::Alone
            });
        }
    }

    /// From now on, this much is known of a descriptor. Nothing is noted where another thread may
    /// be about to replace the descriptor, unless it is `new` and no other thread knows its
    /// number.
    pub(crate) fn know(&self, descriptor: i32, what: u8, new: bool) {
        if let Some(mapped) = &*self.mapped.borrow()
            && (new || !self.threads.get())
            && self.partial_sharers.get() == 0
        {
            mapped.log.know(descriptor, what);
        }
    }

    /// Nothing is known of any descriptor any more.
    pub(crate) fn forget_descriptors(&self) {
        if let Some(mapped) = &*self.mapped.borrow() {
            mapped.log.forget_descriptors();
        }
    }

    /// Stops performing calls in process. `tid` is stopped. If it is the only task here
    /// (`alone`), the sites are restored, too.
    pub(crate) fn disable(&self, tid: Tid, alone: bool) {
        self.disabled.set(true);
        self.logging_disabled.set(true);
        self.update_sharing();
        if alone {
            self.restore(tid);
        }
    }

    /// Whether calls are logged here.
    pub(crate) fn logs(&self) -> bool {
        self.mapped.borrow().is_some()
    }

    /// The state of a forked child in its first stop: its copy of the code gets a log of
    /// its own.
    pub(crate) fn fork(&self, child: Tid) -> Self {
        let state = self;
        let copy = Self::default();
        copy.disabled.set(state.disabled.get());
        copy.handler_returns
            .borrow_mut()
            .clone_from(&state.handler_returns.borrow());
        copy.too_many_returns.set(state.too_many_returns.get());
        let mapped = state.mapped.borrow();
        let Some(parent) = &*mapped else { return copy };
        // The child has no copy if it was forked before its parent was patched. It must not
        // keep its copy if the parent was disabled since.
        let has_copy = parent.is_copied_to(child);
        let wanted = has_copy && !state.disabled.get() && !parent.corrupt;
        let log = wanted.then(|| Log::new(parent.log.arena())).flatten();
        match log.filter(|log| sys::poke(child, LOG, log.place()).is_ok()) {
            Some(log) => {
                let mut own = Mapped::new(log, parent.trampolines, child);
                own.program.clone_from(&parent.program);
                own.sites.clone_from(&parent.sites);
                *copy.mapped.borrow_mut() = Some(own);
            }
            None => {
                copy.disabled.set(true);
                self.restore(child);
                if has_copy {
                    // An error means that the task is gone.
                    let _ = sys::poke(child, LOG, LOGS);
                }
            }
        }
        copy
    }

    /// A task is detached and keeps its mappings.
    pub(crate) fn detached(&self) {
        if let Some(mapped) = &*self.mapped.borrow() {
            mapped.log.never_reuse();
        }
    }
}

/// Stops logging in a stopped task whose copy of the code is not known here.
pub(crate) fn disable_logging(task: Tid) {
    let mut found = vec![0; code::bytes().len()];
    let read = sys::read_memory(task, BASE, &mut found);
    if read == found.len() && found == code::bytes() {
        // An error means that the task is gone.
        let _ = sys::poke(task, LOG, LOGS);
    }
}

impl InProcess {
    /// Whether an address lies in our own trampolines.
    pub(crate) fn has_trampoline_at(&self, address: u64) -> bool {
        let mapped = self.mapped.borrow();
        let trampolines = mapped.as_ref().and_then(|mapped| mapped.trampolines);
        trampolines.is_some_and(|all| all.contains(address))
    }

    /// The program whose sites were patched at the start.
    pub(crate) fn program(&self) -> Option<LoadedProgram> {
        let mapped = self.mapped.borrow();
        mapped.as_ref().and_then(|mapped| mapped.program.clone())
    }

    /// Whether a handler returns into a site.
    pub(crate) fn is_returned_to(&self, site: &Site) -> bool {
        let returns = self.handler_returns.borrow();
        self.too_many_returns.get() || returns.iter().any(|address| site.contains(*address))
    }

    pub(crate) fn logged_by(&self, tid: Tid) -> UnstoppedCalls {
        let mut mapped = self.mapped.borrow_mut();
        let Some(mapped) = &mut *mapped else {
            return UnstoppedCalls::Made(Vec::new());
        };
        mapped.last = tid;
        let calls = mapped.take();
        mapped.log.empty();
        calls
    }
}

/// The state that a task gets back if it fails to start in process.
#[derive(Debug)]
pub(crate) struct Starting {
    pub(crate) registers: libc::user_regs_struct,
    /// Where the instructions are that it begins with.
    pub(crate) entry: u64,
    /// The bytes under them, if these matter to the program.
    pub(crate) original: Vec<u8>,
    /// The vdso whose clock reads are counted.
    pub(crate) vdso: Option<VdsoEntry>,
}
