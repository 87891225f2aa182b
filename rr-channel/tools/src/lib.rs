//! The command-line tools of `rr-channel`.
//!
//! [`reprise`] is `cargo reprise`: it records and replays the tests and programs of a
//! project whose source it does not touch. [`log_tool`] is `rr-channel`: it shows what was
//! recorded. [`minimize`] finds what makes the difference between two recordings.

mod ending;
pub mod log_tool;
pub mod minimize;
mod report;
pub mod reprise;

pub use ending::end_by;

/// A number of things, in words.
fn counted(count: u64, thing: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{s}")
}
