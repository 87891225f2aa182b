//! The resource limits of a unit, which are part of its key.
//!
//! A query for all limits takes 16 calls, and most processes have those of their parent. So the
//! known limits of a process are shared with its children, until one of them sets its own
//! (setrlimit(2) and prlimit(2) stop). An untraced process may set them as well (prlimit(1)),
//! which is not observed. So a unit whose key contains limits from an earlier query is stored only
//! if its process still has them at its end, or when it sets its own.

use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::sync::Arc;

use ptrace_async::event::Tid;
use ptrace_async::process::read_proc;

use crate::platform::os;

/// The soft and the hard limit of each resource.
#[derive(Debug, PartialEq, Eq)]
pub struct Limits {
    /// The hash input.
    pub(super) hashed: Hashed,
    /// The same in words.
    pub(super) shown: Vec<u8>,
}

/// The hashed form of limits.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Hashed {
    /// Little-endian numbers of eight bytes.
    Numbers(Vec<u8>),
    /// The kernel's text.
    Text(Vec<u8>),
}

impl Limits {
    /// Reads the limits of a process (0: this process).
    pub fn of(process: Tid) -> Self {
        match os::limits(process) {
            Ok(limits) => {
                let numbers = || limits.as_flattened().iter();
                let shown: Vec<String> = numbers().map(u64::to_string).collect();
                Self {
                    hashed: Hashed::Numbers(numbers().flat_map(|n| n.to_le_bytes()).collect()),
                    shown: shown.join(" ").into_bytes(),
                }
            }
            // All users may read another user's limits there, which takes longer.
            Err(_) => {
                let text = read_proc(format!("/proc/{process}/limits")).unwrap_or_default();
                Self {
                    shown: text.clone(),
                    hashed: Hashed::Text(text),
                }
            }
        }
    }
}

/// Cached limits of a process and its children since the last change of limits.
#[derive(Debug, Clone, Default)]
pub struct Known(Rc<State>);

#[derive(Debug, Default)]
struct State {
    found: OnceCell<Arc<Limits>>,
    /// Whether a process is just setting a limit, or an untraced process has set some.
    unsettled: Cell<bool>,
}

impl Known {
    /// Creates the state of a process that is about to set a limit: its limits are unknown until
    /// the call has ended.
    pub fn unsettled() -> Self {
        let known = Self::default();
        known.0.unsettled.set(true);
        known
    }

    /// Returns the limits of a process, and their source if they were queried earlier.
    pub fn get(&self, process: Tid) -> (Arc<Limits>, Option<Self>) {
        if self.0.unsettled.get() {
            return (Limits::of(process).into(), None);
        }
        let is_known = self.0.found.get().is_some();
        let limits = self.0.found.get_or_init(|| Limits::of(process).into());
        (limits.clone(), is_known.then(|| self.clone()))
    }

    /// Whether a process that has set none still has these limits. If not, they are queried each
    /// time from now on.
    pub fn hold(&self, process: Tid) -> bool {
        let hold = self
            .0
            .found
            .get()
            .is_none_or(|found| **found == Limits::of(process));
        if !hold {
            self.0.unsettled.set(true);
        }
        hold
    }
}
