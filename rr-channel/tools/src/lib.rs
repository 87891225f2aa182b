//! The command-line tools of `rr-channel`.
//!
//! [`reprise`] is `cargo reprise`: it records and replays the tests and programs of a
//! project without changes to its source. [`log_tool`] is `rr-channel`: it shows recordings.
//! [`minimize`] finds the decisions that make the difference between two recordings.
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
//! | 4 | `minimize` | finds the decisions that make two recordings differ |
//! | 5 | `reprise` | records and replays projects |

mod ending;
pub mod log_tool;
pub mod minimize;
mod plural;
mod report;
pub mod reprise;

pub use ending::end_by;
