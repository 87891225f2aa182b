//! Checks that read the sources and pages of the workspace.

pub(crate) mod deps;
pub(crate) mod docs;
pub(crate) mod prose;
pub(crate) mod spelling;
pub(crate) mod syscall_table;
