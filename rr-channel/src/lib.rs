//! Channels and threads that record and replay.
//!
//! So far: names for threads and channels that are the same in every run.

pub mod identity;
