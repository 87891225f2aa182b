//! Faults to inject: a call that fails without being made, as the environment asks for it.
//!
//! `PCACHE_INJECT=NAME:ERROR:WHICH` has a call fail with an error (`openat:ENOSPC:3`): the WHICH-th
//! call of that name that stops, or, with `marked`, each call whose sixth argument is [`MARK`].
//! Tests inject errors in this way that no file system gives when asked to. Only builds with
//! debug assertions or with the feature `planted-defects` do it.

use std::cell::Cell;

use ptrace_async::filter;
use ptrace_async::invocation::Invocation;
use ptrace_async::syscall::{errno, table};

/// The sixth argument of calls that are to fail; the kernel looks at five at most.
pub const MARK: u32 = 0x1a7e_c7ed;

/// A fault to inject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    number: u64,
    error: i32,
    /// How many calls stop before the one that fails; `None` for marked calls.
    left: Option<Cell<u64>>,
}

impl Fault {
    /// The fault that the environment asks for, if this build injects faults.
    pub fn of_environment() -> Option<Self> {
        if !cfg!(any(debug_assertions, feature = "planted-defects")) {
            return None;
        }
        Self::parse(&std::env::var("PCACHE_INJECT").ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(':');
        let (name, error, which) = (words.next()?, words.next()?, words.next()?);
        let is_named = |number: &i32| errno::name(*number) == Some(error);
        Some(Self {
            number: table::by_name(name)?.number.into(),
            error: (1..4096).find(is_named)?,
            left: match which {
                "marked" => None,
                which => Some(Cell::new(which.parse::<u64>().ok()?.checked_sub(1)?)),
            },
        })
    }

    /// The error with which this call is to fail.
    pub fn strikes(&self, call: &Invocation) -> Option<i32> {
        let strikes = call.nr == self.number
            && match &self.left {
                None => call.args[5] as u32 == MARK,
                Some(left) => {
                    let now = left.get();
                    left.set(now.wrapping_sub(1));
                    now == 0
                }
            };
        strikes.then_some(self.error)
    }

    /// The same for calls that are performed without a stop, which only marked ones can be.
    pub fn in_process(&self) -> Option<filter::Fault> {
        self.left.is_none().then_some(filter::Fault {
            number: self.number as u32,
            error: self.error as u16,
            test: filter::Test {
                argument: 5,
                mask: u32::MAX,
                compare: filter::Compare::Equal,
                value: MARK,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(nr: i64, sixth: u32) -> Invocation {
        Invocation {
            nr: nr as u64,
            args: [0, 0, 0, 0, 0, sixth.into()],
        }
    }

    #[test]
    fn the_chosen_call_fails() {
        let fault = Fault::parse("mkdir:ENOSPC:2").unwrap();
        let struck: Vec<_> = (0..3)
            .map(|_| fault.strikes(&call(libc::SYS_mkdir, 0)))
            .collect();
        assert_eq!(struck, [None, Some(libc::ENOSPC), None]);
        assert_eq!(fault.in_process(), None);
    }

    #[test]
    fn marked_calls_fail() {
        let fault = Fault::parse("access:EIO:marked").unwrap();
        assert_eq!(fault.strikes(&call(libc::SYS_access, 0)), None);
        assert_eq!(fault.strikes(&call(libc::SYS_stat, MARK)), None);
        let marked = call(libc::SYS_access, MARK);
        assert_eq!(fault.strikes(&marked), Some(libc::EIO));
        assert!(fault.in_process().is_some());
    }

    #[test]
    fn a_fault_that_is_not_understood_is_none() {
        for text in [
            "",
            "mkdir",
            "mkdir:ENOSPC",
            "mkdir:2:1",
            "nosuch:EIO:1",
            "mkdir:EIO:0",
        ] {
            assert_eq!(Fault::parse(text), None, "{text}");
        }
    }
}
