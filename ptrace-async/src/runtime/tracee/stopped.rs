//! Operations on a task in any stop: registers, memory, resuming.

use std::io;

use super::states::{Parked, Running, Stopped, Tracee};
use crate::memory::{Fault, Memory};
use crate::runtime::slot::PathPrefix;
use crate::sys::{self, Resume};

/// `NT_X86_XSTATE` of linux/elf.h.
const NT_X86_XSTATE: u32 = 0x202;

impl<S: Stopped> Tracee<S> {
    pub(super) fn go(self, how: Resume, signal: i32) -> Tracee<Running> {
        // The mailbox may already hold a stop: the task was killed while it was stopped.
        if !self.slot.gone.get() && self.slot.mailbox.borrow().is_empty() {
            let how = match how {
                // The exit stop that was asked for is still to come.
                Resume::Continue if self.slot.wants_exit.get() => Resume::ToSyscall,
                how => how,
            };
            self.shared.resume(&self.slot, how, signal);
        }
        self.with(Running)
    }

    /// Resumes the task to its next filtered syscall, event or signal.
    pub fn resume(self) -> Tracee<Running> {
        let how = self.shared.usual_resume();
        self.go(how, 0)
    }

    /// Resumes the task untraced, for good. A signal that it is stopped for is delivered,
    /// and a group stop lasts.
    ///
    /// # Errors
    /// `ESRCH` when it is gone.
    pub fn detach(self) -> io::Result<()> {
        let tid = self.living()?;
        self.shared.slots.borrow_mut().remove(&tid);
        self.space().in_process.detached();
        self.slot.unattended.set(true);
        self.slot.stopped.set(false);
        self.slot.gone.set(true);
        self.shared.placement.restore_affinity(tid);
        sys::resume(tid, Resume::Detach, self.slot.stop_point.get().signal())
    }

    /// Whether the next stop is already there: the task is being killed in its present
    /// stop.
    pub fn has_pending_stop(&self) -> bool {
        self.slot.gone.get() || !self.slot.mailbox.borrow().is_empty()
    }

    /// Drops the kind of the stop. When the task is resumed from there, a call that has not
    /// begun runs, and a signal is not delivered.
    pub fn park(self) -> Tracee<Parked> {
        self.with(Parked)
    }

    /// Runs one instruction. The task then reports a `SIGTRAP`
    /// ([`Stop::Signal`](super::Stop::Signal)) with the code `TRAP_TRACE`, unless something
    /// else stops it first.
    pub fn step(self) -> Tracee<Running> {
        self.go(Resume::Step, 0)
    }

    /// Sends a signal to the task itself, as `tgkill` by the tracer does.
    ///
    /// # Errors
    /// `ESRCH` when the task was killed in its stop.
    pub fn send_signal(&self, signal: i32) -> io::Result<()> {
        let tid = self.living()?;
        sys::send_signal(self.tgid(), tid, signal)
    }

    /// Binds the task, and its future children, to one CPU; returns whether that succeeded.
    /// The task can see this, unless the tool answers its calls about affinity.
    pub fn bind(&self, cpu: u32) -> bool {
        self.living()
            .is_ok_and(|tid| self.shared.placement.bind(tid, cpu as usize))
    }

    /// The extended registers (floating point, vectors) in the format of XSAVE.
    ///
    /// # Errors
    /// `ESRCH` when the task was killed in its stop.
    pub fn extended_state(&self) -> io::Result<Vec<u8>> {
        // Larger than the state of any processor (Intel's tiles need 11 KiB).
        sys::register_set(self.living()?, NT_X86_XSTATE, 16 << 10)
    }

    /// Sets the extended registers.
    ///
    /// # Errors
    /// `ESRCH` when the task was killed in its stop; `EINVAL` when this processor
    /// does not have them.
    pub fn set_extended_state(&self, state: &[u8]) -> io::Result<()> {
        sys::set_register_set(self.living()?, NT_X86_XSTATE, state)
    }

    /// The general registers.
    ///
    /// # Errors
    /// `ESRCH` when the task was killed in its stop.
    pub fn registers(&self) -> io::Result<libc::user_regs_struct> {
        let tid = self.living()?;
        if let Some(registers) = self.slot.registers.get() {
            return Ok(registers);
        }
        let registers = sys::registers(tid).inspect_err(|error| self.failed(error))?;
        self.slot.registers.set(Some(registers));
        Ok(registers)
    }

    /// Remembers that the task was killed in its stop: no request works any more.
    fn failed(&self, error: &io::Error) {
        if error.raw_os_error() == Some(libc::ESRCH) {
            self.slot.killed.set(true);
        }
    }

    /// Sets the general registers.
    ///
    /// # Errors
    /// `ESRCH` when the task was killed in its stop.
    pub fn set_registers(&self, regs: &libc::user_regs_struct) -> io::Result<()> {
        // The kernel may change some of the values, so they are read again.
        self.slot.registers.set(None);
        sys::set_registers(self.living()?, regs).inspect_err(|error| self.failed(error))
    }

    /// Sets a hardware breakpoint for this task only, or clears it (`None`). The task stops
    /// right before it executes the instruction at the address, with a `SIGTRAP` of the
    /// kind `TRAP_HWBKPT` (sigaction(2)). There is one address at a time.
    ///
    /// # Errors
    /// The kernel's error for an address outside of user space, or on a machine without
    /// debug registers.
    pub fn set_hardware_breakpoint(&self, address: Option<u64>) -> io::Result<()> {
        /// `DR7`: the first breakpoint, for this task, of an instruction.
        const CONTROL: usize = 7;
        const FIRST: u64 = 1;
        let tid = self.living()?;
        let Some(address) = address else {
            return sys::set_debug_register(tid, CONTROL, 0);
        };
        sys::set_debug_register(tid, 0, address)?;
        sys::set_debug_register(tid, CONTROL, FIRST)
    }

    /// Reads a plain value of the tracee's memory.
    ///
    /// # Errors
    /// [`Fault`] when it is not readable.
    pub fn read_value<T: Plain>(&self, address: u64) -> Result<T, Fault> {
        let mut bytes = vec![0; size_of::<T>()];
        self.read_exact(address, &mut bytes)?;
        Ok(T::from_bytes(&bytes))
    }

    /// Reads `count` values that lie one after the other.
    ///
    /// # Errors
    /// [`Fault`] when part of them is not readable.
    pub fn read_slice<T: Plain>(&self, address: u64, count: usize) -> Result<Vec<T>, Fault> {
        let fault = Fault { address };
        let len = size_of::<T>().checked_mul(count).ok_or(fault)?;
        let mut bytes = Vec::new();
        // The tracee chose the length, so the allocation may fail.
        bytes.try_reserve_exact(len).map_err(|_| fault)?;
        bytes.resize(len, 0);
        self.read_exact(address, &mut bytes)?;
        Ok(bytes
            .chunks_exact(size_of::<T>())
            .map(T::from_bytes)
            .collect())
    }

    /// Reads many ranges with as few calls as possible into one buffer, which is cut at the
    /// first fault.
    pub fn read_ranges(&self, ranges: &[(u64, u64)]) -> Vec<u8> {
        /// Up to this many ranges, `process_vm_readv` is quicker than opening
        /// `/proc/TID/mem`.
        const FEW: usize = 3;
        let total = ranges
            .iter()
            .fold(0_u64, |sum, range| sum.saturating_add(range.1));
        let mut buffer = vec![0; total as usize];
        let got = self.living().map_or(0, |tid| {
            match self.slot.copied.get() && ranges.len() > FEW {
                true => sys::read_shared_ranges(tid, ranges, &mut buffer),
                false => sys::read_ranges(tid, ranges, &mut buffer),
            }
        });
        buffer.truncate(got);
        buffer
    }

    /// Writes the tracee's memory, read-only pages included.
    ///
    /// # Errors
    /// When the range is not mapped or the task is gone.
    pub fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.slot.path_prefix.set(PathPrefix::NOTHING);
        sys::write_memory(self.living()?, address, bytes)
    }

    /// Writes tracee memory that the tracee itself could write; returns the number of
    /// bytes.
    ///
    /// # Errors
    /// `ESRCH` when it was killed in its stop.
    pub fn write_writable(&self, address: u64, bytes: &[u8]) -> io::Result<usize> {
        self.slot.path_prefix.set(PathPrefix::NOTHING);
        Ok(sys::write_writable(self.living()?, address, bytes))
    }

    /// Writes to several addresses of the tracee's memory, even where it is protected
    /// (code).
    ///
    /// # Errors
    /// `ESRCH` when it was killed in its stop; a place that is not there. What comes after
    /// that is not written.
    pub fn write_protected<'a>(
        &self,
        writes: impl Iterator<Item = (u64, &'a [u8])>,
    ) -> io::Result<()> {
        self.slot.path_prefix.set(PathPrefix::NOTHING);
        sys::write_protected(self.living()?, writes)
    }
}

impl<S: Stopped> Memory for Tracee<S> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> usize {
        let Ok(tid) = self.living() else { return 0 };
        if self.slot.path_prefix.get().copy(address, buffer) {
            return buffer.len();
        }
        sys::read_memory(tid, address, buffer)
    }
}

/// Types for which any bytes of the right length are a valid value.
pub trait Plain: Copy {
    /// Makes the value from exactly `size_of::<Self>()` bytes.
    fn from_bytes(bytes: &[u8]) -> Self;
}

macro_rules! plain {
    ($($name:ty)*) => { $(impl Plain for $name {
        fn from_bytes(bytes: &[u8]) -> Self {
            let mut exact = [0; size_of::<$name>()];
            exact.copy_from_slice(bytes);
            <$name>::from_ne_bytes(exact)
        }
    })* };
}
plain!(u8 i8 u16 i16 u32 i32 u64 i64 usize isize u128 i128);
