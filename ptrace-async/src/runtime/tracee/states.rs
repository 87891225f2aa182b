//! The states of a tracee as types.
//!
//! `Tracee<Running>` can only be waited for, and each kind of stop has its own state.
//! Methods that resume the task consume the value and return a running one. So the
//! registers of a running task cannot be read by mistake.

use std::marker::PhantomData;
use std::rc::Rc;
use std::{fmt, io};

use crate::event::Tid;
use crate::invocation::Invocation;
use crate::memory::Memory;
use crate::runtime::raw::SpawnKind;
use crate::runtime::shared::{Handle, Shared};
use crate::runtime::slot::Slot;
use crate::runtime::space::Space;
use crate::sys;

/// A state of a tracee.
pub trait TraceeState: fmt::Debug {}

/// A state in which the task waits for the tracer.
pub trait Stopped: TraceeState {}

/// Not stopped.
#[derive(Debug)]
pub struct Running;
/// In its first stop, or stopped by request.
#[derive(Debug)]
pub struct Started;
/// At a syscall's entry; libptrace calls this stop the prehook.
#[derive(Debug, Clone, Copy)]
pub struct Prehook {
    pub(super) arch: u32,
    pub(super) call: Invocation,
    pub(super) ip: u64,
    pub(super) sp: u64,
}
/// At a syscall's exit; libptrace calls this stop the posthook.
#[derive(Debug, Clone, Copy)]
pub struct Posthook {
    pub(super) value: i64,
}
/// Another name of [`Prehook`].
pub type SyscallEntry = Prehook;
/// Another name of [`Posthook`].
pub type SyscallExit = Posthook;
/// After a successful execve.
#[derive(Debug, Clone, Copy)]
pub struct Exec {
    pub(super) former: Tid,
}
/// After the creation of a child.
#[derive(Debug, Clone, Copy)]
pub struct Spawned {
    pub(super) kind: SpawnKind,
    pub(super) child: Tid,
    pub(super) flags: u64,
}
/// Before the end.
#[derive(Debug, Clone, Copy)]
pub struct PreExit {
    pub(super) status: i32,
}
/// Before the delivery of a signal.
#[derive(Debug, Clone, Copy)]
pub struct Signal {
    pub(super) signal: i32,
}
/// In a group stop.
#[derive(Debug, Clone, Copy)]
pub struct GroupStop {
    pub(super) signal: i32,
}
/// In a stop of any kind. Its details cannot be read any more, and a signal that it is
/// stopped for will not be delivered.
#[derive(Debug, Clone, Copy)]
pub struct Parked;

macro_rules! states {
    ($($name:ident)*) => { $(impl TraceeState for $name {} impl Stopped for $name {})* };
}
impl TraceeState for Running {}
states!(Started Prehook Posthook Exec Spawned PreExit Signal GroupStop Parked);

/// One traced task.
pub struct Tracee<S: TraceeState> {
    pub(super) shared: Rc<Shared>,
    pub(super) slot: Rc<Slot>,
    pub(super) state: S,
    /// Not Send: ptrace requests are valid on the tracer's thread alone.
    thread: PhantomData<*const ()>,
}

impl<S: TraceeState> fmt::Debug for Tracee<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tracee({}, {:?})", self.tid(), self.state)
    }
}

impl<S: TraceeState> Tracee<S> {
    /// The task's id. It changes when a thread other than the leader executes
    /// a program.
    pub fn tid(&self) -> Tid {
        self.slot.tid.get()
    }

    /// The id of the process the task belongs to.
    pub fn tgid(&self) -> Tid {
        self.slot.tgid.get()
    }

    /// The parent task; `None` for the first task and for attached ones.
    pub fn parent(&self) -> Option<Tid> {
        self.slot.parent
    }

    /// The runtime.
    pub fn handle(&self) -> Handle {
        Handle {
            shared: self.shared.clone(),
        }
    }

    /// Its id for a ptrace request; an error when it has ended.
    pub(super) fn living(&self) -> io::Result<Tid> {
        if self.slot.gone.get() {
            Err(io::Error::from_raw_os_error(libc::ESRCH))
        } else {
            Ok(self.tid())
        }
    }

    pub(super) fn slot(&self) -> &Rc<Slot> {
        &self.slot
    }

    pub(super) fn shared(&self) -> &Rc<Shared> {
        &self.shared
    }

    pub(super) fn space(&self) -> Rc<Space> {
        self.slot.space.borrow().clone()
    }

    /// A view of the task that can be used while this value is elsewhere.
    pub fn observer(&self) -> Observer {
        Observer {
            slot: self.slot.clone(),
            thread: PhantomData,
        }
    }

    pub(super) fn with<T: TraceeState>(self, state: T) -> Tracee<T> {
        Tracee {
            shared: self.shared,
            slot: self.slot,
            state,
            thread: PhantomData,
        }
    }
}

impl Tracee<Started> {
    pub(crate) fn new(shared: Rc<Shared>, slot: Rc<Slot>) -> Self {
        Self {
            shared,
            slot,
            state: Started,
            thread: PhantomData,
        }
    }
}

/// A read-only view of a task.
#[derive(Debug)]
pub struct Observer {
    slot: Rc<Slot>,
    thread: PhantomData<*const ()>,
}

impl Observer {
    /// The id of the process the task belongs to.
    pub fn tgid(&self) -> Tid {
        self.slot.tgid.get()
    }

    /// The general registers.
    ///
    /// # Errors
    /// `ESRCH` when the task is gone, or not in a stop.
    pub fn registers(&self) -> io::Result<libc::user_regs_struct> {
        if self.slot.gone.get() {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        sys::registers(self.slot.tid.get())
    }
}

impl Memory for Observer {
    fn read(&self, address: u64, buffer: &mut [u8]) -> usize {
        if self.slot.gone.get() {
            return 0;
        }
        sys::read_memory(self.slot.tid.get(), address, buffer)
    }
}
