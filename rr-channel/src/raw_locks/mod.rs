//! The common code of the drop-ins for both versions of parking_lot.
//!
//! Their raw locks differ in one thing: a lock of `lock_api` 0.5 hands out a value to the thread
//! that acquires it and takes it back at the release, one of 0.4 does not. So the implementations
//! are macros, which take the name of that value where there is one. Where such a macro is used,
//! these stand for upstream's types:
//!
//! | name | with a value | without |
//! |---|---|---|
//! | `Acquired` | that value | `()` |
//! | `Attempted` | `Option<Acquired>` | `bool` |
//! | `Upgraded` | `Result<Acquired, Acquired>` | `bool` |

mod acquire;
mod aliases;
mod mutex;
mod once;
mod rwlock;

pub(crate) use acquire::{Count, acquire, after, attempt, log, observe};
pub(crate) use aliases::lock_aliases;
pub(crate) use mutex::raw_mutexes;
pub(crate) use once::once_states;
pub(crate) use rwlock::raw_rwlock;
