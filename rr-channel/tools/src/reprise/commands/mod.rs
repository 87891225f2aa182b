//! The subcommands, and what other tools use of them.

mod cause;
pub(super) mod library;
pub(super) mod minimize;
pub(super) mod record;
pub(super) mod replay;
