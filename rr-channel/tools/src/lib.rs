//! The command-line tools of `rr-channel`.
//!
//! [`reprise`] is `cargo reprise`: it records and replays the tests and programs of a
//! project whose source it does not touch. [`log_tool`] is `rr-channel`: it shows what was
//! recorded. [`minimize`] finds what makes the difference between two recordings.
//!
//! # Layers
//!
//! From the ground up; a module imports only from rows above its own in this table.
//!
//! | layer | modules | purpose |
//! |---|---|---|
//! | 1 | `ending`, `plural` | ends this process by a signal; numbers in words |
//! | 2 | `report` | reports of a replay's processes, as one |
//! | 3 | `log_tool` | shows recordings |
//! | 4 | `minimize` | finds what makes the difference between two recordings |
//! | 5 | `reprise` | records and replays projects |

mod ending;
pub mod log_tool;
pub mod minimize;
mod plural;
mod report;
pub mod reprise;

pub use ending::end_by;
