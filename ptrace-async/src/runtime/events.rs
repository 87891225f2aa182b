//! From wait statuses to stops (ptrace(2), "Stopped states").

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::in_process;
use super::new_tasks::NewTask;
use super::options::Interception;
use super::placement;
use super::raw::{RawStop, SpawnKind};
use super::shared::Shared;
use super::slot::{Nested, PathPrefix, Slot, StopPoint};
use crate::event::Tid;
use crate::filter::ARCH_X86_64;
use crate::sys::{self, Resume, SyscallInfo, Waited};
use crate::unstopped::replaces_descriptors;

/// The `CLONE_*` flags of the call a task is in, at its fork event.
fn clone_flags(tid: Tid, event: i32) -> u64 {
    let implied = match event {
        libc::PTRACE_EVENT_FORK => libc::SIGCHLD as u64,
        libc::PTRACE_EVENT_VFORK => (libc::CLONE_VFORK | libc::CLONE_VM | libc::SIGCHLD) as u64,
        _ => 0,
    };
    match sys::registers(tid) {
        Ok(regs) if regs.orig_rax == libc::SYS_clone as u64 => regs.rdi,
        Ok(regs) if regs.orig_rax == libc::SYS_clone3 as u64 => {
            let mut words = [0; 40];
            if sys::read_memory(tid, regs.rdi, &mut words) < words.len() {
                return implied;
            }
            // struct clone_args: the flags are its first word, the signal at
            // the child's end, which clone has among the flags, its fifth.
            let word = |index: usize| {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(&words[8 * index..8 * index + 8]);
                u64::from_ne_bytes(bytes)
            };
            word(0) | word(4)
        }
        _ => implied,
    }
}

/// The bit that marks the numbers of x32.
const X32: u64 = 0x4000_0000;
const SETAFFINITY: u64 = libc::SYS_sched_setaffinity as u64;
/// `sched_setaffinity` of the i386.
const SETAFFINITY_32: u64 = 241;

/// Why a syscall entry is given to the task's function.
enum EntryReason {
    /// The filter names the call.
    ByFilter,
    /// The task has attached to another, and waits for it.
    ForNestedTracing,
}

impl Shared {
    /// Translates a wait status into a stop; `None` when it was handled here.
    pub(super) fn interpret(&self, slot: &Rc<Slot>, waited: Waited) -> Option<RawStop> {
        let tid = waited.tid;
        let (signal, event) = (waited.status & 0xff, waited.status >> 8);
        slot.stopped.set(true);
        slot.killed.set(false);
        slot.stop_point.set(StopPoint::Other);
        self.placement.stopped(tid);
        let raw = match event {
            0 if signal == libc::SIGTRAP | 0x80 => self.syscall_stop(slot, tid, false)?,
            0 if signal == libc::SIGTRAP && self.restore_if_start_failed(slot) => return None,
            0 => {
                slot.stop_point.set(StopPoint::Signal(signal));
                RawStop::Signal(signal)
            }
            libc::PTRACE_EVENT_SECCOMP => self.syscall_stop(slot, tid, true)?,
            libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => {
                let Ok(child) = sys::event_message(tid) else {
                    // The parent was killed in the stop, so the child is never announced
                    // (see `new_tasks`).
                    slot.stopped.set(false);
                    return None;
                };
                let child = child as Tid;
                RawStop::Spawned {
                    kind: match event {
                        libc::PTRACE_EVENT_FORK => SpawnKind::Fork,
                        libc::PTRACE_EVENT_VFORK => SpawnKind::Vfork,
                        _ => SpawnKind::Clone,
                    },
                    child,
                    flags: clone_flags(tid, event),
                }
            }
            libc::PTRACE_EVENT_EXEC => {
                let former = sys::event_message(tid).unwrap_or(0) as Tid;
                if former != 0 && former != tid {
                    return self.exec_from_thread(slot, former);
                }
                slot.executed();
                RawStop::Exec { former: tid }
            }
            libc::PTRACE_EVENT_EXIT => {
                RawStop::PreExit(sys::event_message(tid).unwrap_or(0) as i32)
            }
            libc::PTRACE_EVENT_STOP if signal == libc::SIGTRAP => RawStop::Interrupted,
            libc::PTRACE_EVENT_STOP => {
                slot.stop_point.set(StopPoint::GroupStop);
                RawStop::GroupStop(signal)
            }
            _ => RawStop::Interrupted,
        };
        Some(raw)
    }

    /// A thread other than the leader executed a program. It gets the leader's id, and the
    /// leader ends without a report (ptrace(2), "execve(2) under ptrace").
    fn exec_from_thread(&self, leader: &Rc<Slot>, former: Tid) -> Option<RawStop> {
        let tid = leader.tid.get();
        self.placement.replaced(former, tid);
        let caller = self.slots.borrow_mut().remove(&former);
        let Some(caller) = caller else {
            leader.executed();
            return Some(RawStop::Exec { former });
        };
        leader.gone.set(true);
        leader.leave_space();
        self.end_nested(leader);
        leader.mailbox.borrow_mut().push_back(RawStop::Superseded);
        self.remote.push(leader.key);
        caller.tid.set(tid);
        caller.stopped.set(true);
        caller.stop_point.set(StopPoint::Other);
        caller.executed();
        self.slots.borrow_mut().insert(tid, caller.clone());
        if caller.unattended.get() {
            self.resume(&caller, Resume::Continue, 0);
        } else {
            caller
                .mailbox
                .borrow_mut()
                .push_back(RawStop::Exec { former });
            self.remote.push(caller.key);
        }
        None
    }

    fn syscall_stop(&self, slot: &Rc<Slot>, tid: Tid, seccomp: bool) -> Option<RawStop> {
        slot.starting.take();
        match sys::syscall_info(tid) {
            Ok(SyscallInfo::Entry {
                arch,
                nr,
                args,
                ip,
                sp,
            }) => {
                let reason = self.entry_reason(slot, seccomp, (arch, nr, &args))?;
                if replaces_descriptors(nr) || arch != ARCH_X86_64 {
                    slot.space.borrow().in_process.forget_descriptors();
                }
                if let EntryReason::ByFilter = reason {
                    self.prepare_entry(slot, arch, nr, &args);
                }
                Some(RawStop::Prehook {
                    arch,
                    nr,
                    args,
                    ip,
                    sp,
                })
            }
            Ok(SyscallInfo::Exit { value }) => {
                if slot.wants_exit.replace(false) {
                    Some(RawStop::Posthook(value))
                } else {
                    self.resume(slot, self.usual_resume(), 0);
                    None
                }
            }
            // ESRCH: it died in the stop; the death is reported next.
            Ok(SyscallInfo::None) | Err(_) => {
                self.resume(slot, self.usual_resume(), 0);
                None
            }
        }
    }

    /// Why the function receives a syscall entry; `None` if it does not, and the task is
    /// resumed.
    fn entry_reason(
        &self,
        slot: &Rc<Slot>,
        seccomp: bool,
        (arch, nr, args): (u32, u64, &[u64; 6]),
    ) -> Option<EntryReason> {
        let filter = self.options.interception.filter();
        let stops = filter.stops(arch, nr, args);
        let is_wait = nr == libc::SYS_wait4 as u64;
        if is_wait && slot.nested.has_attached() && !seccomp && !stops {
            return Some(EntryReason::ForNestedTracing);
        }
        // An entry stop because of `ToSyscall`. If the filter names the call, its own stop
        // follows.
        let is_filtered = matches!(self.options.interception, Interception::Seccomp(_));
        if is_filtered && !seccomp {
            self.resume(slot, Resume::Continue, 0);
            return None;
        }
        if stops {
            return Some(EntryReason::ByFilter);
        }
        // A filter of the tracee's own asks for a tracer, and there is none for it. The call
        // fails as it does without a tracer (seccomp(2)).
        let tid = slot.tid.get();
        if seccomp && let Ok(mut regs) = sys::registers(tid) {
            regs.orig_rax = u64::MAX;
            regs.rax = i64::from(-libc::ENOSYS).cast_unsigned();
            let _ = sys::set_registers(tid, &regs);
        }
        self.resume(slot, self.usual_resume(), 0);
        None
    }

    /// Adjusts affinities and in-process calls before the function sees a syscall entry.
    fn prepare_entry(&self, slot: &Rc<Slot>, arch: u32, nr: u64, args: &[u64; 6]) {
        let tid = slot.tid.get();
        let foreign = arch != ARCH_X86_64 || nr >= X32;
        if !slot.exposed.get() {
            let exposes = match placement::exposure(nr, args) {
                placement::Exposure::None => false,
                placement::Exposure::Certain => true,
                placement::Exposure::OfPath(path) => {
                    let start = PathPrefix::read(tid, path);
                    slot.path_prefix.set(start);
                    placement::may_show(&start)
                }
            };
            // Foreign calls are not decoded, so any of them may show an affinity.
            if exposes || foreign {
                self.expose(slot);
            }
        }
        let executes = matches!(nr.cast_signed(), libc::SYS_execve | libc::SYS_execveat);
        if executes {
            // The host may read the affinity that the program starts with.
            self.placement.restore_affinity(tid);
        }
        // An execve of the leader keeps its id.
        slot.executing
            .set(executes && arch == ARCH_X86_64 && tid == slot.tgid.get());
        self.withdraw_before_restriction(slot, nr, args);
        let sets_affinity = match foreign {
            true => matches!(nr, SETAFFINITY_32) || nr == X32 | SETAFFINITY,
            false => nr == SETAFFINITY,
        };
        if sets_affinity {
            self.placement.reset();
        }
    }

    /// Stops logging in a task that is about to restrict its own calls, or to stop sharing
    /// descriptors or directories with its threads.
    fn withdraw_before_restriction(&self, slot: &Rc<Slot>, nr: u64, args: &[u64; 6]) {
        let parts = nr == libc::SYS_unshare as u64
            || nr == libc::SYS_setns as u64
            || nr == libc::SYS_close_range as u64
                && args[2] & libc::CLOSE_RANGE_UNSHARE as u64 != 0;
        let sets_mode =
            nr == libc::SYS_seccomp as u64 && args[0] as u32 <= libc::SECCOMP_SET_MODE_FILTER;
        let confines =
            sets_mode || nr == libc::SYS_prctl as u64 && args[0] as i32 == libc::PR_SET_SECCOMP;
        if !parts && !confines {
            return;
        }
        let space = slot.space.borrow();
        // The slot holds the only reference.
        let alone = Rc::strong_count(&space) == 1;
        if confines {
            space.in_process.disable(slot.tid.get(), alone);
            for other in self.slots.borrow().values() {
                // The restriction may apply to its threads, too
                // (`SECCOMP_FILTER_FLAG_TSYNC`).
                if Rc::ptr_eq(&other.space.borrow(), &space) {
                    other.confined.set(true);
                }
            }
        } else if !alone {
            space.in_process.disable(slot.tid.get(), false);
        }
    }

    /// The slot of a task that has just appeared.
    pub(super) fn new_slot(&self, tid: Tid, new_task: NewTask) -> Rc<Slot> {
        let thread = new_task.flags & libc::CLONE_THREAD as u64 != 0;
        let slots = self.slots.borrow();
        let parent = new_task.parent.and_then(|parent| slots.get(&parent));
        let tgid = new_task.tgid.unwrap_or_else(|| match parent {
            Some(parent) if thread => parent.tgid.get(),
            _ if thread => new_task.parent.unwrap_or(tid),
            _ => tid,
        });
        let shares = new_task.flags & libc::CLONE_VM as u64 != 0;
        let inherited = new_task.inherited.as_ref();
        let space = match inherited {
            Some(inherited) if shares => inherited.space.clone(),
            Some(inherited) => {
                let space = Rc::new(inherited.space.copy(tid));
                if space.in_process.logs() {
                    self.note_patched(&space);
                }
                space
            }
            // The parent's event was lost, so the task may have a copy of the code.
            None if new_task.parent.is_some() && !thread => {
                in_process::disable_logging(tid);
                Rc::default()
            }
            // Threads of an attached process arrive one by one.
            None => slots
                .values()
                .find(|other| other.tgid.get() == tgid)
                .map(|other| other.space.borrow().clone())
                .unwrap_or_default(),
        };
        let key = self.next_key.get();
        self.next_key.set(key + 1);
        Rc::new(Slot {
            key,
            tid: tid.into(),
            tgid: tgid.into(),
            parent: new_task.parent,
            mailbox: Default::default(),
            gone: false.into(),
            stopped: true.into(),
            stop_point: StopPoint::Other.into(),
            wants_exit: false.into(),
            executing: false.into(),
            exposed: false.into(),
            path_prefix: PathPrefix::NOTHING.into(),
            killed: Cell::new(false),
            registers: Cell::new(None),
            calls_before_exec: RefCell::default(),
            partial_sharer: inherited
                .is_some_and(|inherited| inherited.partial_sharer)
                .into(),
            copied: (new_task.parent.is_some() && !shares).into(),
            confined: inherited.is_some_and(|inherited| inherited.confined).into(),
            starting: RefCell::default(),
            unattended: false.into(),
            nested: Nested::default(),
            space: space.into(),
        })
    }
}
