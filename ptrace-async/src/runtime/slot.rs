//! The state of one traced task.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use super::in_process::{Starting, UnstoppedCalls};
use super::new_tasks::InheritedState;
use super::raw::RawStop;
use super::space::Space;
use crate::event::Tid;
use crate::sys;

/// The stop that a task is in, which decides how it is resumed without its function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopPoint {
    /// Any other stop.
    Other,
    /// Before the delivery of this signal.
    Signal(i32),
    /// In a group stop.
    GroupStop,
}

impl StopPoint {
    /// The signal that a task resumed from here receives.
    pub(super) fn signal(self) -> i32 {
        match self {
            Self::Signal(signal) => signal,
            Self::Other | Self::GroupStop => 0,
        }
    }
}

/// The start of a path argument, read once for all uses in a stop.
#[derive(Debug, Clone, Copy)]
pub(super) struct PathPrefix {
    address: u64,
    length: usize,
    bytes: [u8; PREFIX_LEN],
}

/// The length of a first read of a string (see `Memory::read_c_string`).
const PREFIX_LEN: usize = 256;

impl PathPrefix {
    pub(super) const NOTHING: Self = Self {
        address: 0,
        length: 0,
        bytes: [0; PREFIX_LEN],
    };

    /// Reads what is at `address` in the memory of `tid`, which is stopped.
    pub(super) fn read(tid: Tid, address: u64) -> Self {
        let mut path_prefix = Self::NOTHING;
        path_prefix.address = address;
        path_prefix.length = sys::read_memory(tid, address, &mut path_prefix.bytes);
        path_prefix
    }

    pub(super) fn starts_with(&self, prefix: &[u8]) -> bool {
        self.bytes[..self.length].starts_with(prefix)
    }

    /// Fills the buffer from this prefix, if it covers all of it; returns whether it did.
    pub(super) fn copy(&self, address: u64, buffer: &mut [u8]) -> bool {
        let known = self.address == address && buffer.len() <= self.length && !buffer.is_empty();
        if known {
            buffer.copy_from_slice(&self.bytes[..buffer.len()]);
        }
        known
    }
}

/// A task's state in the `ptrace` calls of another tracee.
#[derive(Debug, Default)]
pub(super) struct Nested {
    /// The function (by key) of the task that attached to this one.
    pub(super) tracer: Cell<Option<u64>>,
    /// The stop for that task is still to come.
    pub(super) interrupt_pending: Cell<bool>,
    /// Stopped on behalf of that task.
    pub(super) is_stopped_for: Cell<bool>,
    /// The attaching task has waited for the stop.
    pub(super) is_stop_reported: Cell<bool>,
    /// The task itself has attached to another.
    pub(super) has_attached: Cell<bool>,
}

impl Nested {
    /// Whether the task has attached to another.
    pub(super) fn has_attached(&self) -> bool {
        self.has_attached.get()
    }
}

/// One traced task as the runtime knows it.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(super) key: u64,
    pub(super) tid: Cell<Tid>,
    pub(super) tgid: Cell<Tid>,
    pub(super) parent: Option<Tid>,
    pub(super) mailbox: RefCell<VecDeque<RawStop>>,
    /// Reaped or replaced: ptrace requests make no sense any more.
    pub(super) gone: Cell<bool>,
    /// In a stop, not resumed yet.
    pub(super) stopped: Cell<bool>,
    pub(super) stop_point: Cell<StopPoint>,
    /// The function asked for the exit stop of the current syscall.
    pub(super) wants_exit: Cell<bool>,
    /// Stopped before an execve, which keeps its id.
    pub(super) executing: Cell<bool>,
    /// It has asked for its CPU affinity, or may read it: it is never narrowed.
    pub(super) exposed: Cell<bool>,
    /// The path prefix that was read in the current stop.
    pub(super) path_prefix: Cell<PathPrefix>,
    /// It was found killed in its stop.
    pub(super) killed: Cell<bool>,
    /// Its registers, if they were read in the current stop.
    pub(super) registers: Cell<Option<libc::user_regs_struct>>,
    /// The calls that its address space had logged when an execve ended that.
    pub(super) calls_before_exec: RefCell<Option<UnstoppedCalls>>,
    /// It shares memory, but not descriptors and directories as threads do.
    pub(super) partial_sharer: Cell<bool>,
    /// Its memory is a copy of its parent's.
    pub(super) copied: Cell<bool>,
    /// Its calls are never performed in process: it or an ancestor has restricted its own
    /// system calls, or another process shares its directory or descriptors.
    pub(super) confined: Cell<bool>,
    /// It is about to start in process.
    pub(super) starting: RefCell<Option<Box<Starting>>>,
    /// Its function has ended: it is resumed at once from every stop.
    pub(super) unattended: Cell<bool>,
    pub(super) nested: Nested,
    /// Its address space, which other tasks may share.
    pub(super) space: RefCell<Rc<Space>>,
}

impl Slot {
    /// The calls that its address space has logged. None for a partial sharer, whose calls
    /// are not logged.
    pub(super) fn unstopped_calls(&self) -> UnstoppedCalls {
        if self.partial_sharer.get() {
            return UnstoppedCalls::Made(Vec::new());
        }
        self.space.borrow().in_process.logged_by(self.tid.get())
    }

    /// The task leaves its address space.
    pub(super) fn leave_space(&self) {
        if self.partial_sharer.replace(false) {
            let former = self.space.replace(Rc::default());
            former.in_process.partial_sharer_left();
        }
    }

    /// The state that a child inherits that was created with these flags. Neither of the
    /// two runs yet.
    pub(super) fn child_inherits(&self, flags: u64) -> InheritedState {
        let has = |flag: i32| flags & flag as u64 != 0;
        let alike = has(libc::CLONE_THREAD) && has(libc::CLONE_FILES) && has(libc::CLONE_FS);
        let space = self.space.borrow().clone();
        let partial_sharer = has(libc::CLONE_VM) && (!alike || self.partial_sharer.get());
        if has(libc::CLONE_VM) {
            space.in_process.task_joined(partial_sharer);
        }
        if !has(libc::CLONE_THREAD) && (has(libc::CLONE_FS) || has(libc::CLONE_FILES)) {
            // Both processes change the same directory or descriptors, and two logs have no
            // common order. An execve does not end that sharing.
            self.confined.set(true);
            space.in_process.disable(self.tid.get(), false);
        }
        InheritedState {
            space,
            partial_sharer,
            confined: self.confined.get(),
        }
    }

    /// The task has executed another program.
    pub(super) fn executed(&self) {
        self.wants_exit.set(false);
        self.copied.set(false);
        self.starting.take();
        let calls = self.unstopped_calls();
        self.leave_space();
        self.space.replace(Rc::default());
        if calls != UnstoppedCalls::Made(Vec::new()) {
            *self.calls_before_exec.borrow_mut() = Some(calls);
        }
    }
}
