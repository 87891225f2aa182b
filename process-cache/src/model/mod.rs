//! The vocabulary that all other modules share: facts, outcomes, identifiers, paths and
//! their kinds.

pub mod abbreviate;
pub mod fact;
pub mod fate;
pub mod file_key;
pub mod inherited;
pub mod limits;
pub mod miss;
pub mod outcome;
pub mod path;
pub mod path_kind;
pub mod unit_id;
pub mod weak_key;
