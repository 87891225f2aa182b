//! What is known of one address space whose calls are logged in it.

use std::cell::{Cell, RefCell};

use super::call::UnstoppedCall;
use super::code;
use super::layout::{BASE, LOG, LOGS, PAGE};
use super::log::{Log, Sharing};
use super::site::{PATCH_LEN, Site};
use crate::event::Tid;
use crate::sys;

/// Addresses that signal handlers return to that are remembered; a program
/// that is interrupted more often is left alone.
const MAX_HANDLER_RETURNS: usize = 64;
/// What is known of one address space.
#[derive(Debug, Default)]
pub(crate) struct InProcess {
    /// Lookups that stopped.
    pub(crate) lookups_stopped: Cell<u32>,
    /// It cannot be done here, or must not.
    pub(crate) disabled: Cell<bool>,
    /// What was done here is to have no effect any more.
    pub(crate) logging_disabled: Cell<bool>,
    /// Where handlers will return to.
    pub(crate) handler_returns: RefCell<Vec<u64>>,
    /// It has had threads.
    pub(crate) threads: Cell<bool>,
    /// Tasks that share the memory, and not all else.
    pub(crate) partial_sharers: Cell<u32>,
    pub(crate) mapped: RefCell<Option<Mapped>>,
}

/// The mappings.
#[derive(Debug)]
pub(crate) struct Mapped {
    pub(crate) log: Log,
    /// The page of trampolines, if there is one.
    pub(crate) trampolines: Option<u64>,
    pub(crate) sites: Vec<(Site, u64)>,
    /// The task that stopped or began last: what is in the log is its own, or
    /// that of one with the same memory, directory and files.
    pub(crate) last: Tid,
    /// A call was being made when all logs were asked for, with this mark.
    pub(crate) in_flight_mark: Option<u64>,
    /// Calls that are not in the log, and come before what is.
    pub(crate) unlogged_calls: Vec<UnstoppedCall>,
    /// The log made no sense, which is still to be told.
    pub(crate) corrupt_unreported: bool,
    /// It is not read any more.
    pub(crate) corrupt: bool,
}

/// What [`Handle::unstopped_calls`] has to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnstoppedCalls {
    /// These were made, in this order.
    Made(Vec<UnstoppedCall>),
    /// The tracee has written over the log: what it did is not known.
    Lost,
}

impl Mapped {
    pub(crate) fn new(log: Log, trampolines: Option<u64>, last: Tid) -> Self {
        Self {
            log,
            trampolines,
            sites: Vec::new(),
            last,
            in_flight_mark: None,
            unlogged_calls: Vec::new(),
            corrupt_unreported: false,
            corrupt: false,
        }
    }

    /// Whether a forked child has a copy of this.
    pub(crate) fn is_copied_to(&self, child: Tid) -> bool {
        sys::peek(child, LOG).is_ok_and(|place| place == self.log.place())
    }

    pub(crate) fn take(&mut self) -> UnstoppedCalls {
        // Asked before: what ends in between is logged.
        let in_flight = self.log.is_in_flight();
        self.drain_log();
        if std::mem::take(&mut self.corrupt_unreported) {
            return UnstoppedCalls::Lost;
        }
        let mut calls = std::mem::take(&mut self.unlogged_calls);
        if let Some(first) = calls.first_mut() {
            first.begun_before(self.in_flight_mark.take());
        } else if !in_flight {
            // It was given up.
            self.in_flight_mark = None;
        }
        UnstoppedCalls::Made(calls)
    }

    /// Takes over what is in the log.
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
                self.unlogged_calls.extend(calls);
            }
            None => self.mark_corrupt(),
        }
    }

    /// Notes a call that came after all that is in the log.
    pub(crate) fn add_unlogged(&mut self, call: UnstoppedCall) {
        self.drain_log();
        self.unlogged_calls.push(call);
    }

    /// What was done is not known: from now on it stops.
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
            self.disabled.set(true);
        }
    }

    /// Gives a task, which is stopped and the only one with its memory, what
    /// stood where this is patched: a forked child in its first stop has a copy.
    pub(crate) fn restore(&self, task: Tid) {
        let mapped = self.mapped.borrow();
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
    pub(crate) fn task_joined(&self, partial_sharer: bool) {
        let state = self;
        if partial_sharer {
            state.partial_sharers.set(state.partial_sharers.get() + 1);
        } else {
            state.threads.set(true);
        }
        self.update_sharing();
    }

    /// One that shared the memory, and not all else, has it no more.
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

    /// Leaves it alone from now on. `tid` is stopped, and the only task here
    /// if `alone`: then calls come from where they came from again.
    pub(crate) fn disable(&self, tid: Tid, alone: bool) {
        self.disabled.set(true);
        self.logging_disabled.set(true);
        self.update_sharing();
        if alone {
            self.restore(tid);
        }
    }

    /// Whether it logs lookups.
    pub(crate) fn logs(&self) -> bool {
        self.mapped.borrow().is_some()
    }

    /// What a forked child, which is in its first stop, starts with: its copy of
    /// the code gets a log of its own.
    pub(crate) fn fork(&self, child: Tid) -> Self {
        let state = self;
        let copy = Self::default();
        copy.disabled.set(state.disabled.get());
        copy.handler_returns
            .borrow_mut()
            .clone_from(&state.handler_returns.borrow());
        let mapped = state.mapped.borrow();
        let Some(parent) = &*mapped else { return copy };
        // It was forked before its parent came to have all this, or after it
        // was taken from it: then it has nothing, or is to lose it.
        let has_copy = parent.is_copied_to(child);
        let wanted = has_copy && !state.disabled.get() && !parent.corrupt;
        let log = wanted.then(|| Log::new(parent.log.arena())).flatten();
        match log.filter(|log| sys::poke(child, LOG, log.place()).is_ok()) {
            Some(log) => {
                let mut own = Mapped::new(log, parent.trampolines, child);
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

    /// The tracer lets a task go that may go on as it is.
    pub(crate) fn detached(&self) {
        if let Some(mapped) = &*self.mapped.borrow() {
            mapped.log.never_reuse();
        }
    }
}

/// Has nothing logged any more in a task that is stopped, and whose copy of
/// the code nobody here knows.
pub(crate) fn disable_logging(task: Tid) {
    let mut found = vec![0; code::bytes().len()];
    let read = sys::read_memory(task, BASE, &mut found);
    if read == found.len() && found == code::bytes() {
        // An error means that the task is gone.
        let _ = sys::poke(task, LOG, LOGS);
    }
}

impl InProcess {
    /// Whether a site is one of our own trampolines.
    pub(crate) fn owns_site(&self, site: &Site) -> bool {
        let mapped = self.mapped.borrow();
        mapped.as_ref().is_some_and(|mapped| {
            let made = mapped.trampolines.map(|from| from..from + PAGE);
            made.is_some_and(|made| made.contains(&site.address))
        })
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

/// What a task that is starting gets back if it fails to.
#[derive(Debug)]
pub(crate) struct Starting {
    pub(crate) registers: libc::user_regs_struct,
    pub(crate) original: Vec<u8>,
}
