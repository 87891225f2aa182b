//! The subcommands, and the interface for other tools.

mod cause;
pub(super) mod library;
pub(super) mod minimize;
pub(super) mod record;
pub(super) mod replay;
