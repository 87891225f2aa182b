//! The foundation of the other modules: a few system calls, locks, a value of the process, and the
//! backoff before a thread sleeps.

pub mod apart;
pub mod backoff;
pub mod clock;
pub mod current;
pub mod discard;
pub mod lock;
pub mod segments;
pub mod spin_lock;
pub mod stack;
pub mod sys;
