//! Shared parts of the tasks: calls of cargo, programs under test, trees of files, statistics.

pub(crate) mod cargo;
pub(crate) mod descriptors;
pub(crate) mod load;
pub(crate) mod machine;
pub(crate) mod median;
pub(crate) mod pcache;
pub(crate) mod published;
pub(crate) mod seen;
pub(crate) mod totals;
pub(crate) mod tree;
pub(crate) mod workers;
pub(crate) mod workspace;
