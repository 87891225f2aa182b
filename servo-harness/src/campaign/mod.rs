//! Many runs of many tests: plain, recorded and replayed.

mod progress;
pub mod runs;
pub(crate) mod suspects;
pub(crate) mod tame;
pub(crate) mod together;
