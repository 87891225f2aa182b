//! What the runtime knows of one task, and of one address space.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use super::in_process::{Calls, Starting};
use super::nested::Nested;
use super::scratch::Space;
use super::stop::Raw;
use crate::event::Tid;

/// What a task that nobody resumes must be resumed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    /// Anywhere.
    Elsewhere,
    /// Before the delivery of this signal.
    Signal(i32),
    /// In a group stop.
    GroupStop,
}

impl At {
    /// The signal that a task resumed from here is to get.
    pub(super) fn signal(self) -> i32 {
        match self {
            Self::Signal(signal) => signal,
            Self::Elsewhere | Self::GroupStop => 0,
        }
    }
}

/// The start of a path argument, read once for all who want it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peeked {
    address: u64,
    length: usize,
    bytes: [u8; PEEK],
}

/// What a first read of a string asks for (see `Memory::read_c_string`).
const PEEK: usize = 256;

impl Peeked {
    pub(super) const NOTHING: Self = Self {
        address: 0,
        length: 0,
        bytes: [0; PEEK],
    };

    /// Reads what is at `address` in the memory of `tid`, which is stopped.
    pub(super) fn read(tid: Tid, address: u64) -> Self {
        let mut peeked = Self::NOTHING;
        peeked.address = address;
        peeked.length = crate::sys::read_memory(tid, address, &mut peeked.bytes);
        peeked
    }

    pub(super) fn starts_with(&self, prefix: &[u8]) -> bool {
        self.bytes[..self.length].starts_with(prefix)
    }

    /// Fills the whole buffer, if that is what was read.
    pub(super) fn copy(&self, address: u64, buffer: &mut [u8]) -> bool {
        let known = self.address == address && buffer.len() <= self.length && !buffer.is_empty();
        if known {
            buffer.copy_from_slice(&self.bytes[..buffer.len()]);
        }
        known
    }
}

/// One traced task as the runtime knows it.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) key: u64,
    pub(super) tid: Cell<Tid>,
    pub(super) tgid: Cell<Tid>,
    pub(super) parent: Option<Tid>,
    pub(super) mailbox: RefCell<VecDeque<Raw>>,
    /// Reaped or replaced: no ptrace request makes sense any more.
    pub(super) gone: Cell<bool>,
    /// In a stop that nobody resumed yet.
    pub(super) stopped: Cell<bool>,
    pub(super) at: Cell<At>,
    /// The function asked for the exit stop of the current syscall.
    pub(super) wants_exit: Cell<bool>,
    /// It is stopped before an execve, which keeps its number.
    pub(super) executing: Cell<bool>,
    /// It has asked for its CPU affinity, or may read it: it is never narrowed.
    pub(super) exposed: Cell<bool>,
    /// Memory that was read in the current stop already.
    pub(super) peeked: Cell<Peeked>,
    /// It was found killed in its stop.
    pub(super) killed: Cell<bool>,
    /// Its registers, if they were read in the current stop.
    pub(super) registers: Cell<Option<libc::user_regs_struct>>,
    /// What its address space had logged when an execve ended it.
    pub(super) leftover: RefCell<Option<Calls>>,
    /// It shares its memory with tasks that it does not share all else with.
    pub(super) stranger: Cell<bool>,
    /// Its memory is a copy of its parent's.
    pub(super) copied: Cell<bool>,
    /// It has restricted its own system calls, or those it comes from have; or
    /// another process has the same directory or descriptors.
    pub(super) confined: Cell<bool>,
    /// It is about to start in process.
    pub(super) starting: RefCell<Option<Box<Starting>>>,
    /// Its function has ended: stops are resumed at once.
    pub(super) unattended: Cell<bool>,
    pub(super) nested: Nested,
    /// Whom it shares its memory with.
    pub(super) space: RefCell<Rc<Space>>,
}
