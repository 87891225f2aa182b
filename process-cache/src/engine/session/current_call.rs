//! The call whose events are being applied.

use std::path::{Path, PathBuf};

use ptrace_async::event::Tid;

/// The call that is being applied.
#[derive(Debug)]
pub(crate) struct CurrentCall {
    task: Tid,
    umask: u32,
    /// When the change that it makes began.
    began: Option<u64>,
    /// Its result, if it is a lookup that was logged without a stop.
    returned: Option<i64>,
    /// The sequence number of the lookup, if it may be older than the last changes.
    looking_back: Option<u64>,
    /// The last path that a task asked metadata of, and the sequence number before.
    looked_at: Option<(Tid, PathBuf, u64)>,
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
        }
    }
}

impl CurrentCall {
    /// An event of this task is applied next.
    pub(crate) fn begin(&mut self, task: Tid, umask: u32, began: Option<u64>) {
        (self.task, self.umask, self.began) = (task, umask, began);
    }

    /// The task that makes the call.
    pub(crate) fn task(&self) -> Tid {
        self.task
    }

    /// Its file-creation mask.
    pub(crate) fn umask(&self) -> u32 {
        self.umask
    }

    /// When the change began that the call makes.
    pub(crate) fn began(&self) -> Option<u64> {
        self.began
    }

    /// The change that is applied next began then.
    pub(crate) fn set_began(&mut self, began: u64) {
        self.began = Some(began);
    }

    /// The call's result, if it is a lookup that was logged without a stop.
    pub(crate) fn returned(&self) -> Option<i64> {
        self.returned
    }

    /// The sequence number of the lookup, if it may be older than the last changes.
    pub(crate) fn looking_back(&self) -> Option<u64> {
        self.looking_back
    }

    /// The next events are those of a call that was logged without a stop.
    pub(crate) fn set_unstopped(&mut self, returned: Option<i64>, looking_back: Option<u64>) {
        (self.returned, self.looking_back) = (returned, looking_back);
    }

    /// A task has asked for the metadata of a path; `before` is the sequence number then.
    pub(crate) fn set_looked_at(&mut self, task: Tid, path: PathBuf, before: u64) {
        self.looked_at = Some((task, path, before));
    }

    /// The sequence number before the last request for metadata, if that was this task's and
    /// of this path; forgotten now.
    pub(crate) fn take_looked_at(&mut self, task: Tid, path: &Path) -> Option<u64> {
        let (who, what, before) = self.looked_at.take()?;
        (who == task && what == path).then_some(before)
    }

    /// Nothing was asked for last.
    pub(crate) fn forget_looked_at(&mut self) {
        self.looked_at = None;
    }
}
