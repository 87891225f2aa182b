//! The command-line tools of `rr-channel`.
//!
//! [`reprise`] is `cargo reprise`: it records and replays the tests and programs of a
//! project whose source it does not touch.

pub mod reprise;
