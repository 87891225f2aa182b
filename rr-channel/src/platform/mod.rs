//! The foundation of the other modules: a few system calls, locks, a value of the process, and the
//! backoff before a thread sleeps.

pub(crate) mod backoff;
pub(crate) mod current;
pub(crate) mod lock;
pub(crate) mod spin_lock;
pub(crate) mod sys;
