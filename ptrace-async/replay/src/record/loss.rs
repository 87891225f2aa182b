//! Handling of a recording that cannot be written any more, for example on a full disk.
//!
//! Nothing is recorded after the first loss, because a gap makes all later records useless.
//! The trace has no end mark, and a replay goes up to the gap. Programs cannot run untraced,
//! since their filter needs a tracer: those that go on keep stopping, without being recorded.

use std::cell::RefCell;

use ptrace_async::event::Tid;
use rustc_hash::FxHashMap;

/// Treatment of the programs after a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnLoss {
    /// They go on without being recorded.
    #[default]
    GoOn,
    /// They are killed.
    Stop,
}

/// The first loss of a recording, and the processes to kill then.
#[derive(Debug, Default)]
pub(super) struct Loss {
    on_loss: OnLoss,
    reason: RefCell<Option<String>>,
    /// The processes that there are, and how many tasks they have.
    processes: RefCell<FxHashMap<Tid, usize>>,
}

impl Loss {
    pub(super) fn new(on_loss: OnLoss) -> Self {
        Self {
            on_loss,
            ..Self::default()
        }
    }

    /// Whether everything has been recorded so far.
    pub(super) fn is_none(&self) -> bool {
        self.reason.borrow().is_none()
    }

    /// The reason of the loss, if there is one.
    pub(super) fn reason(&self) -> Option<String> {
        self.reason.borrow().clone()
    }

    /// The recording cannot go on. Tells the user at once, who may have programs that run
    /// for days.
    pub(super) fn note(&self, reason: &str) {
        if !self.is_none() {
            return;
        }
        self.reason.replace(Some(reason.to_owned()));
        match self.on_loss {
            OnLoss::GoOn => eprintln!(
                "reprise: the recording ends here ({reason}); the command goes on without it"
            ),
            OnLoss::Stop => {
                eprintln!(
                    "reprise: the recording ends here ({reason}); the command is killed (--disk-full=stop)"
                );
                for &process in self.processes.borrow().keys() {
                    kill(process);
                }
            }
        }
    }

    /// A task of this process is there.
    pub(super) fn begin(&self, process: Tid) {
        *self.processes.borrow_mut().entry(process).or_default() += 1;
        if self.on_loss == OnLoss::Stop && !self.is_none() {
            kill(process);
        }
    }

    /// A task of this process is gone.
    pub(super) fn end(&self, process: Tid) {
        let mut processes = self.processes.borrow_mut();
        if let Some(tasks) = processes.get_mut(&process) {
            *tasks -= 1;
            if *tasks == 0 {
                processes.remove(&process);
            }
        }
    }
}

/// The end of the process has not been reported, so its id is not reused.
fn kill(process: Tid) {
    if let Some(pid) = rustix::process::Pid::from_raw(process) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

/// Whether a task has been killed meanwhile, so that nothing can be learnt of it.
pub(super) fn is_gone(task: Tid) -> bool {
    // It leads nowhere when its memory is gone; and is not shown where that is hidden.
    std::fs::metadata(format!("/proc/{task}/exe"))
        .is_err_and(|error| error.kind() != std::io::ErrorKind::PermissionDenied)
}
