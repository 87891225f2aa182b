//! What the rest is made of: a few system calls, a lock, a value of the process, and what
//! precedes sleep.

pub(crate) mod backoff;
pub(crate) mod current;
pub(crate) mod lock;
pub(crate) mod spin_lock;
pub(crate) mod sys;
