//! Traced tasks and their processes.

use ptrace_async::event::Tid;
use ptrace_async::invocation::Invocation;
use ptrace_async::process::Pending;
use rustc_hash::FxHashMap;

use super::Before;
use crate::key::Known;
use crate::model::outcome::Ending;
use crate::model::unit_id::UnitId;
use crate::platform::place::Place;

/// A traced task.
pub(crate) struct Task {
    /// The unit to which it belongs.
    pub(crate) unit: UnitId,
    /// Its process.
    pub(crate) process: Tid,
    /// A call between its entry and its exit.
    pub(crate) pending: Option<AwaitedCall>,
    /// Whether it runs the stand-in of a skipped program, so that nothing is observed.
    pub(crate) skipped: bool,
    /// Whether its last exit stop was seen.
    pub(crate) left: bool,
    /// Whether the job-control stop that it is part of was reported.
    pub(crate) stop_reported: bool,
    /// The identity of its working directory, once it was asked.
    pub(crate) place: Option<Place>,
}

impl Task {
    /// Creates a task that has done nothing yet.
    pub(crate) fn new(unit: UnitId, process: Tid) -> Self {
        Self {
            unit,
            process,
            pending: None,
            skipped: false,
            left: false,
            stop_reported: false,
            place: None,
        }
    }
}

/// A call whose exit stop was asked for.
pub(crate) struct AwaitedCall {
    /// The call.
    pub(crate) call: Invocation,
    /// The work of the process model at its exit; `None` if only the result matters.
    pub(crate) pending: Option<Pending>,
    /// Metadata of the files that it changes, before it.
    pub(crate) before: Before,
    /// The answer that was noted for it at its entry, or the error.
    pub(crate) noted: Option<Result<(), i32>>,
}

/// A SIGKILL that a traced process sends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kill {
    /// The unit of the sender.
    pub(crate) sender: UnitId,
    /// Its target as kill(2) takes it, with a group instead of 0.
    pub(crate) target: Tid,
}

impl Kill {
    /// Whether it ends this process, which is in this group.
    pub(crate) fn hits(&self, process: Tid, group: Option<Tid>) -> bool {
        match self.target {
            -1 => true,
            target if target < 0 => Some(-target) == group,
            target => target == process,
        }
    }
}

/// A traced process.
#[derive(Debug, Default)]
pub(crate) struct Process {
    /// Threads that have not ended.
    pub(crate) threads: u32,
    /// Exit statuses of its threads: the first one (the process ends with it, or with that of the
    /// thread that ended all), and a non-zero one of another thread.
    pub(crate) statuses: (Option<i32>, Option<i32>),
    /// Units whose main process this is, outermost first.
    pub(crate) units: Vec<UnitId>,
    /// The last signal that it got, if the kernel sent it.
    pub(crate) kernel_signal: Option<i32>,
    /// The signals that were seen before they reached it, one bit each.
    pub(crate) seen_signals: u64,
    /// How its stand-in ends, if its program was skipped.
    pub(crate) stand_in: Option<Ending>,
    /// Whether its stand-in has been executed. The next execve is that of the program.
    pub(crate) runs_stand_in: bool,
    /// Whether it, or an ancestor, made system calls that were not followed. Then the model does
    /// not know its descriptors and directory.
    pub(crate) unseen: bool,
    /// Whether it, or an ancestor, restricted itself by a filter of system calls or a security
    /// module.
    pub(crate) restricted: bool,
    /// Its limits.
    pub(crate) limits: Known,
}

/// All traced tasks and processes.
#[derive(Default)]
pub(crate) struct Tasks {
    tasks: FxHashMap<Tid, Task>,
    processes: FxHashMap<Tid, Process>,
}

impl Tasks {
    /// Returns the task with this id.
    pub(crate) fn get(&self, tid: Tid) -> Option<&Task> {
        self.tasks.get(&tid)
    }

    /// Returns the task with this id.
    pub(crate) fn get_mut(&mut self, tid: Tid) -> Option<&mut Task> {
        self.tasks.get_mut(&tid)
    }

    /// Whether there is a task with this id.
    pub(crate) fn contains(&self, tid: Tid) -> bool {
        self.tasks.contains_key(&tid)
    }

    /// Whether no task exists.
    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Returns all tasks.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Task> {
        self.tasks.values()
    }

    /// Returns all tasks, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Task> {
        self.tasks.values_mut()
    }

    /// Adds a task.
    pub(crate) fn insert(&mut self, tid: Tid, task: Task) {
        self.tasks.insert(tid, task);
    }

    /// Removes a task.
    pub(crate) fn remove(&mut self, tid: Tid) -> Option<Task> {
        self.tasks.remove(&tid)
    }

    /// Removes all threads of a process but this one (execve(2)).
    pub(crate) fn keep_only(&mut self, process: Tid, tid: Tid) {
        self.tasks
            .retain(|&other, task| task.process != process || other == tid);
    }

    /// Marks the job-control stop of a process's threads as reported.
    pub(crate) fn set_stop_reported(&mut self, process: Tid) {
        for task in self.tasks.values_mut() {
            task.stop_reported |= task.process == process;
        }
    }

    /// Returns the process with this id.
    pub(crate) fn process(&self, process: Tid) -> Option<&Process> {
        self.processes.get(&process)
    }

    /// Returns the process with this id.
    pub(crate) fn process_mut(&mut self, process: Tid) -> Option<&mut Process> {
        self.processes.get_mut(&process)
    }

    /// Returns the process with this id, which is created if it is new.
    pub(crate) fn process_or_new(&mut self, process: Tid) -> &mut Process {
        self.processes.entry(process).or_default()
    }

    /// Notes that a signal is about to reach a process.
    pub(crate) fn note_signal(&mut self, process: Tid, signal: i32) {
        if let Some(process) = self.processes.get_mut(&process) {
            process.seen_signals |= 1_u64.checked_shl(signal as u32).unwrap_or(0);
        }
    }

    /// Removes a process.
    pub(crate) fn remove_process(&mut self, process: Tid) {
        self.processes.remove(&process);
    }

    /// Returns the process of a task.
    pub(crate) fn process_of(&self, tid: Tid) -> Option<&Process> {
        self.process(self.get(tid)?.process)
    }

    /// Returns the process of a task.
    pub(crate) fn process_of_mut(&mut self, tid: Tid) -> Option<&mut Process> {
        let process = self.get(tid)?.process;
        self.process_mut(process)
    }
}
