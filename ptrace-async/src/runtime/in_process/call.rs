//! A call that a tracee made without a stop, as the log has it.

use std::ops::Deref;
use std::rc::Rc;

use crate::invocation::Invocation;
use crate::memory::Memory;
use crate::unstopped as calls;

/// Bytes that were taken from a log; all calls of that batch share them.
#[derive(Debug, Clone)]
pub(super) struct SharedBytes {
    pub(super) all: Rc<Vec<u8>>,
    pub(super) from: u32,
    pub(super) len: u32,
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.all[self.from as usize..][..self.len as usize]
    }
}

impl From<Vec<u8>> for SharedBytes {
    fn from(bytes: Vec<u8>) -> Self {
        let len = bytes.len() as u32;
        Self {
            all: Rc::new(bytes),
            from: 0,
            len,
        }
    }
}

impl PartialEq for SharedBytes {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for SharedBytes {}

/// A call that was made without a stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnstoppedCall {
    pub(super) call: Invocation,
    pub(super) value: i64,
    /// Its path with its NUL, or the bytes that it wrote.
    pub(super) text: SharedBytes,
    pub(super) stamp: u64,
    pub(super) mark: Option<u64>,
    pub(super) by_loader: bool,
}

impl UnstoppedCall {
    /// A call that was made but not logged. `path` is its path with the NUL, or the bytes
    /// that it wrote.
    pub(super) fn new(call: Invocation, value: i64, path: Vec<u8>, stamp: u64) -> Self {
        Self {
            call,
            value,
            text: path.into(),
            stamp,
            mark: None,
            by_loader: false,
        }
    }

    /// Its position in the order of all tasks' calls. If one call began after another had
    /// ended, it has the greater number.
    pub fn stamp(&self) -> u64 {
        self.stamp
    }

    /// The call. Its first four arguments are known. This value is a [`Memory`] that holds
    /// its path.
    pub fn invocation(&self) -> Invocation {
        self.call
    }

    /// Its return value: a result, or a negative errno.
    pub fn value(&self) -> i64 {
        self.value
    }

    /// Its path as the tracee passed it, without the NUL; `None` for a call without one.
    pub fn path(&self) -> Option<&[u8]> {
        path_address(&self.call)?;
        self.text.split(|byte| *byte == 0).next()
    }

    /// The change time of the directory that the call lists, in nanoseconds. The directory had it
    /// before the call.
    pub fn changed_at(&self) -> Option<i64> {
        calls::lists(self.call.nr).then(|| self.call.args[3].cast_signed())
    }

    /// The mark of the [`Handle::all_unstopped_calls`](crate::runtime::Handle) during which
    /// the call was in flight. It is the first call of its task since then, and may have
    /// had its answer before that request.
    pub fn mark(&self) -> Option<u64> {
        self.mark
    }

    fn is_in_path(&self, address: u64) -> bool {
        let path = path_address(&self.call);
        let offset = path.and_then(|path| address.checked_sub(path));
        offset.is_some_and(|offset| offset <= self.path().map_or(0, <[u8]>::len) as u64)
    }

    pub(super) fn begun_before(&mut self, mark: Option<u64>) {
        self.mark = mark;
    }

    /// The path of a file that the loader has opened.
    pub(super) fn loaded(&self) -> Option<&[u8]> {
        let opens = [libc::SYS_open, libc::SYS_openat].contains(&self.call.nr.cast_signed());
        self.path()
            .filter(|_| self.by_loader && opens && self.value >= 0)
    }
}

/// The address of a call's path in the tracee.
pub(super) fn path_address(call: &Invocation) -> Option<u64> {
    calls::path_argument(call.nr).map(|index| call.args[index])
}

impl Memory for UnstoppedCall {
    fn read(&self, address: u64, buffer: &mut [u8]) -> usize {
        let pair = self.call.args[3].to_le_bytes();
        let (at, all) = if calls::makes_pair(self.call.nr) {
            (Some(self.call.args[0]), &pair[..])
        } else if calls::writes(self.call.nr) {
            (Some(self.call.args[1]), &self.text[..])
        } else if calls::names_attribute(self.call.nr) && !self.is_in_path(address) {
            let path = self.path().map_or(0, <[u8]>::len) + 1;
            (
                Some(self.call.args[1]),
                self.text.get(path..).unwrap_or_default(),
            )
        } else {
            (path_address(&self.call), &self.text[..])
        };
        let Some(bytes) = at
            .and_then(|at| address.checked_sub(at))
            .and_then(|from| all.get(usize::try_from(from).ok()?..))
        else {
            return 0;
        };
        let len = bytes.len().min(buffer.len());
        buffer[..len].copy_from_slice(&bytes[..len]);
        len
    }
}
