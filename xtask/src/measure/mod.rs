//! Measurements: what the tools cost and what they save.

pub(crate) mod cliffs;
pub(crate) mod cost;
pub(crate) mod growth;
pub(crate) mod profile;
pub(crate) mod recordings;
pub(crate) mod workloads;
