//! The vocabulary that all other modules share: facts, outcomes, paths and their
//! kinds.

pub mod abbreviate;
pub mod fact;
pub mod outcome;
pub mod path;
pub mod path_kind;
