//! The limits of resources that a unit runs under, which are in its key.
//!
//! To ask for all of them takes 16 calls, and most processes have those of the process that
//! made them. So what is known of a process's limits is shared with those that it makes, until
//! one of them sets its own (setrlimit(2) and prlimit(2) stop). Who is not traced may set them
//! as well (prlimit(1)), and that does not show: a unit whose key was made of limits that were
//! asked for earlier is stored only if its process still has these at its end, or where it sets
//! its own.

use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::sync::Arc;

use ptrace_async::event::Tid;
use ptrace_async::process::read_proc;

use crate::platform::os;

/// The soft and the hard limit of each resource.
#[derive(Debug, PartialEq, Eq)]
pub struct Limits {
    /// As they are hashed.
    pub(super) hashed: Hashed,
    /// The same in words.
    pub(super) shown: Vec<u8>,
}

/// The hashed form of limits.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Hashed {
    /// Numbers of eight bytes, the least significant first.
    Numbers(Vec<u8>),
    /// The kernel's text.
    Text(Vec<u8>),
}

impl Limits {
    /// Those of a process (0: our own).
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
            // Somebody else's: all may read them there, which takes longer.
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

/// Cached limits of a process, and of those that it has made since it set any.
#[derive(Debug, Clone, Default)]
pub struct Known(Rc<State>);

#[derive(Debug, Default)]
struct State {
    found: OnceCell<Arc<Limits>>,
    /// One of them is just being set, or somebody else has set them.
    unsettled: Cell<bool>,
}

impl Known {
    /// Of a process that is about to set one: until it has, nothing can be known.
    pub fn unsettled() -> Self {
        let known = Self::default();
        known.0.unsettled.set(true);
        known
    }

    /// The limits of a process, and where they are known from if they were asked for earlier.
    pub fn get(&self, process: Tid) -> (Arc<Limits>, Option<Self>) {
        if self.0.unsettled.get() {
            return (Limits::of(process).into(), None);
        }
        let is_known = self.0.found.get().is_some();
        let limits = self.0.found.get_or_init(|| Limits::of(process).into());
        (limits.clone(), is_known.then(|| self.clone()))
    }

    /// Whether a process that has set none still has them. If not, all are asked from now on.
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
