//! Skips processes whose inputs are unchanged.
#![allow(missing_docs)]
pub mod fact;
pub mod outcome;
pub mod path;
pub mod restore;
pub mod store;
pub mod world;
