//! A project: its packages, its coverage, and how cargo is called for it.

pub(super) mod cargo;
mod configuration;
pub(super) mod coverage;
mod fixed;
mod metadata;
pub(super) mod recorded_std;
mod std_names;
