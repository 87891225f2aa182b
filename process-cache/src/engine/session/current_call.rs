//! The call whose events are being applied.

use std::path::{Path, PathBuf};

use ptrace_async::event::Tid;

/// The call that is being applied.
#[derive(Debug)]
pub(crate) struct CurrentCall {
    task: Tid,
    umask: u32,
    /// Sequence number at which its change began.
    began: Option<u64>,
    /// Its result, if it is an unstopped lookup.
    returned: Option<i64>,
    /// Sequence number of the lookup, if it may be older than the last changes.
    looking_back: Option<u64>,
    /// The last path whose metadata a task queried, and the sequence number before that.
    looked_at: Option<(Tid, PathBuf, u64)>,
    /// The last answer that was noted, or the error.
    noted: Option<Result<(), i32>>,
}

impl Default for CurrentCall {
    fn default() -> Self {
        Self {
            task: 0,
            umask: 0o022,
            began: None,
            returned: None,
            looking_back: None,
            looked_at: None,
            noted: None,
        }
    }
}

impl CurrentCall {
    /// Begins the next event of this task.
    pub(crate) fn begin(&mut self, task: Tid, umask: u32, began: Option<u64>) {
        (self.task, self.umask, self.began) = (task, umask, began);
    }

    /// Returns the task that makes the call.
    pub(crate) fn task(&self) -> Tid {
        self.task
    }

    /// Returns its file-creation mask.
    pub(crate) fn umask(&self) -> u32 {
        self.umask
    }

    /// Returns the sequence number at which the call's change began.
    pub(crate) fn began(&self) -> Option<u64> {
        self.began
    }

    /// Sets the sequence number at which the next change began.
    pub(crate) fn set_began(&mut self, began: u64) {
        self.began = Some(began);
    }

    /// Returns the call's result, if it is an unstopped lookup.
    pub(crate) fn returned(&self) -> Option<i64> {
        self.returned
    }

    /// Returns the sequence number of the lookup, if it may be older than the last changes.
    pub(crate) fn looking_back(&self) -> Option<u64> {
        self.looking_back
    }

    /// Marks the next events as those of an unstopped call.
    pub(crate) fn set_unstopped(&mut self, returned: Option<i64>, looking_back: Option<u64>) {
        (self.returned, self.looking_back) = (returned, looking_back);
    }

    /// Notes that a task has queried the metadata of a path; `before` is the sequence number at
    /// that moment.
    pub(crate) fn set_looked_at(&mut self, task: Tid, path: PathBuf, before: u64) {
        self.looked_at = Some((task, path, before));
    }

    /// Takes the sequence number before the last metadata query, if that query was by this task
    /// and of this path.
    pub(crate) fn take_looked_at(&mut self, task: Tid, path: &Path) -> Option<u64> {
        let (who, what, before) = self.looked_at.take()?;
        (who == task && what == path).then_some(before)
    }

    /// Notes an answer to the call, or its error.
    pub(crate) fn set_noted(&mut self, answer: Result<(), i32>) {
        self.noted = Some(answer);
    }

    /// Takes the last answer that was noted.
    pub(crate) fn take_noted(&mut self) -> Option<Result<(), i32>> {
        self.noted.take()
    }

    /// Forgets the last metadata query.
    pub(crate) fn forget_looked_at(&mut self) {
        self.looked_at = None;
    }
}
