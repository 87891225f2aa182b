//! Start, execve, fork and end of recorded tasks.

use std::ops::ControlFlow;
use std::rc::Rc;

use ptrace_async::event::Tid;
use ptrace_async::memory::Memory;
use ptrace_async::runtime::{Exec, PreExit, Running, Spawned, Started, Stopped, Tracee};

use super::{Next, RecordedTask, image, keep, robust_list};
use crate::record::mappings::address_space::AddressSpace;
use crate::record::session::NewTask;
use crate::record::sites::known::MappedCode;
use crate::trace::Task;
use crate::trace::event::{self, Ending, Event, Mapping, SignalPosition, Write};

impl RecordedTask {
    pub(super) async fn start(
        &mut self,
        tracee: Tracee<Started>,
        tid_addresses: &[u64],
    ) -> Tracee<Running> {
        if !self.logs {
            return tracee.resume();
        }
        self.take_turn(&tracee).await;
        let cpu = self.scheduler().cpu();
        tracee.bind(cpu);
        if let Ok(regs) = tracee.registers() {
            let mut writes = Vec::new();
            // It is the address that the kernel writes to at the start as well, where it
            // writes to one at all.
            if self.clear_tid != 0 {
                keep(&tracee, self.clear_tid, 4, &mut writes);
            }
            for &address in tid_addresses {
                keep(&tracee, address, 4, &mut writes);
            }
            self.log(Event::Started(Box::new(event::Started {
                registers: (&regs).into(),
                cpu,
                writes,
            })));
        }
        self.go(tracee, SignalPosition::Event)
    }

    pub(super) async fn executed(&mut self, tracee: Tracee<Exec>) -> Tracee<Running> {
        tracee.hide_vdso();
        self.call = None;
        self.deferred.clear();
        self.interrupting.clear();
        self.clear_tid = 0;
        self.sites = Rc::default();
        self.end_space();
        self.suspended_at = None;
        self.leads_first = tracee.tid() == self.session.first.get();
        if self.logs && self.session.chaos.is_some() {
            self.take_turn(&tracee).await;
        } else {
            let old = self.scheduler();
            old.leave(self.task);
            self.scheduler = self.session.new_scheduler(self.task, Some(&old));
        }
        tracee.bind(self.scheduler.cpu());
        self.logs = true;
        self.space = Rc::new(AddressSpace::new(
            self.scheduler.clone(),
            self.sites.clone(),
        ));
        self.space.enter(self.task, tracee.tgid(), tracee.tid());
        self.session.live_files.begin(&self.space);
        if let Some(image) = image::capture(
            &tracee,
            &self.session,
            self.task,
            &self.scheduler,
            &self.space,
        ) {
            let executable = |mapping: &&Mapping| {
                let prot = i32::from(mapping.prot);
                prot & libc::PROT_EXEC != 0
            };
            let mut replaced = Vec::new();
            for mapping in image.mappings.iter().filter(executable) {
                if let Some((file, offset)) = mapping.file {
                    let code = MappedCode {
                        start: mapping.start,
                        end: mapping.end,
                        offset,
                        file,
                    };
                    let start = image.registers.ip();
                    self.sites
                        .begin(&self.session.known_sites, code, start, &tracee);
                    let random_instructions = &self.session.random_instructions;
                    replaced.extend(self.sites.replace_randoms(
                        &tracee,
                        random_instructions,
                        &code,
                    ));
                }
            }
            self.log(Event::Image(Box::new(image)));
            for patched in replaced {
                self.log(Event::Patched(patched));
            }
        }
        self.go(tracee, SignalPosition::Event)
    }

    pub(super) fn spawned(&mut self, tracee: Tracee<Spawned>) -> Tracee<Running> {
        self.note_child(&tracee, tracee.child(), tracee.flags());
        tracee.resume()
    }

    /// Records the creation of a task.
    fn note_child<S: Stopped>(&mut self, tracee: &Tracee<S>, tid: Tid, flags: u64) {
        let scheduler = self.scheduler();
        let shares = flags & libc::CLONE_VM as u64 != 0
            || scheduler.shares_memory()
            || self.session.chaos.is_some();
        let child = self.session.new_task();
        let theirs = if shares {
            scheduler.add_member();
            scheduler.clone()
        } else {
            self.session.new_scheduler(child, Some(&scheduler))
        };
        if flags & libc::CLONE_VM as u64 != 0 && flags & libc::CLONE_FILES as u64 == 0 {
            self.sites.note_table();
        }
        let mut clear_tid = 0;
        let wanted = (libc::CLONE_CHILD_CLEARTID | libc::CLONE_CHILD_SETTID) as u64;
        if let Some(begun) = &mut self.call {
            begun.has_noted_child = true;
        }
        if let Some(begun) = self.call.as_ref().filter(|_| flags & wanted != 0) {
            let call = &begun.invocation;
            clear_tid = if call.nr == libc::SYS_clone3 as u64 {
                // The third word of struct clone_args.
                tracee.read_u64(call.args[0] + 16).unwrap_or(0)
            } else {
                call.args[3]
            };
        }
        let number = theirs.number();
        let (sites, space) = if flags & libc::CLONE_VM as u64 != 0 {
            (self.sites.clone(), self.space.clone())
        } else {
            let sites = Rc::new(self.sites.copy());
            let space = Rc::new(self.space.copy(theirs.clone(), sites.clone()));
            self.session.live_files.begin(&space);
            // Until it says so itself.
            space.enter(child, tid, tid);
            (sites, space)
        };
        let new_task = NewTask {
            task: child,
            scheduler: theirs,
            clear_tid,
            sites,
            space,
            tid_addresses: self.tid_addresses(tracee, flags),
        };
        self.session.add_new_task(tid, new_task);
        self.log(Event::Spawned(event::Spawned {
            child,
            flags,
            group: number,
        }));
        if flags & libc::CLONE_VFORK as u64 != 0 {
            scheduler.release_turn(self.task);
        }
    }

    /// A task that is killed while it makes another may never say so: the result of its call
    /// does.
    fn note_child_of_killed(&mut self, tracee: &Tracee<PreExit>) {
        let Some(begun) = self.call.as_ref().filter(|begun| !begun.has_noted_child) else {
            return;
        };
        let call = begun.invocation;
        let flags = match call.nr.cast_signed() {
            libc::SYS_fork => 0,
            libc::SYS_vfork => (libc::CLONE_VFORK | libc::CLONE_VM) as u64,
            libc::SYS_clone => call.args[0],
            libc::SYS_clone3 => tracee.read_u64(call.args[0]).unwrap_or(0),
            _ => return,
        };
        let Ok(regs) = tracee.registers() else { return };
        let child = Tid::try_from(regs.rax.cast_signed()).unwrap_or(0);
        if regs.orig_rax == call.nr && child > 0 {
            self.note_child(tracee, child, flags);
        }
    }

    /// Where the kernel has told this task of the one that it has made, if that one can see
    /// it before the call returns.
    fn tid_addresses<S: Stopped>(&self, tracee: &Tracee<S>, flags: u64) -> Vec<u64> {
        let tells = (libc::CLONE_PIDFD | libc::CLONE_PARENT_SETTID) as u64;
        let Some(begun) = self
            .call
            .as_ref()
            .filter(|_| flags & libc::CLONE_VM as u64 != 0 && flags & tells != 0)
        else {
            return Vec::new();
        };
        let [first, _, third, ..] = begun.invocation.args;
        if begun.invocation.nr != libc::SYS_clone3 as u64 {
            return vec![third];
        }
        // The second and the fourth word of struct clone_args.
        [
            (libc::CLONE_PIDFD, first + 8),
            (libc::CLONE_PARENT_SETTID, first + 24),
        ]
        .into_iter()
        .filter(|&(flag, _)| flags & flag as u64 != 0)
        .filter_map(|(_, word)| tracee.read_u64(word).ok())
        .collect()
    }

    pub(super) fn ending(&mut self, tracee: Tracee<PreExit>) -> Tracee<Running> {
        let leads = tracee.tid() == tracee.tgid();
        self.note_child_of_killed(&tracee);
        self.note_effects_of_killed(&tracee);
        // Who goes on in the same memory has the same log.
        self.drain(&tracee);
        let mut writes = Vec::new();
        let scheduler = self.scheduler();
        if self.clear_tid != 0 && scheduler.is_shared() {
            writes.push(Write {
                address: self.clear_tid,
                bytes: vec![0; 4],
            });
        }
        if scheduler.is_shared() {
            robust_list::died(&tracee, &mut writes);
        }
        let status = tracee.status();
        let ending = if libc::WIFEXITED(status) {
            Ending::Exited(libc::WEXITSTATUS(status))
        } else {
            Ending::Killed(libc::WTERMSIG(status))
        };
        self.log(Event::Exit(event::Exit { ending, writes }));
        self.ended = Some(ending);
        if leads {
            // It is reported when its threads have ended, which need the turn.
            scheduler.release_turn(self.task);
        }
        tracee.resume()
    }

    /// The task leaves its address space.
    fn end_space(&self) {
        self.space.leave(self.task);
        if Rc::strong_count(&self.space) == 1 {
            self.session.end_space(self.task, &self.space);
        }
    }

    /// A task that is killed in a call may have printed, or changed a file: its result is
    /// where it would have been returned.
    fn note_effects_of_killed(&mut self, tracee: &Tracee<PreExit>) {
        let Some(begun) = self.call.take() else {
            return;
        };
        let Ok(regs) = tracee.registers() else {
            return;
        };
        // A call that was not performed has the error of one that there is not.
        let value = regs.rax.cast_signed();
        self.after_change(tracee, &begun, value);
        let Some(stream) = begun.stream else { return };
        if regs.orig_rax == begun.invocation.nr && value > 0 {
            self.log_last_output(stream, self.next_output(), value);
        }
    }

    pub(super) fn end(&mut self, ending: Ending) -> ControlFlow<(), Next> {
        if self.ended.is_none() {
            self.drain_of_dead();
            self.log(Event::Exit(event::Exit {
                ending,
                writes: Vec::new(),
            }));
        }
        self.unsuspend();
        self.end_space();
        self.scheduler().leave(self.task);
        self.session.output.release_turn(self.task);
        if self.leads_first && ending != Ending::Superseded {
            if self.task != Task(0) || self.ended.is_some_and(|ended| ended != ending) {
                self.log(Event::Ended(ending));
            }
            self.session.end(ending);
        }
        ControlFlow::Break(())
    }
}
