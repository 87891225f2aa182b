//! Skips processes whose inputs are unchanged.
#![allow(missing_docs)]
pub mod content;
pub mod defect;
pub mod fact;
pub mod finish;
pub mod jobs;
pub mod key;
pub mod locate;
pub mod machine;
pub mod outcome;
pub mod path;
pub mod place;
pub mod policy;
pub mod recorder;
pub mod report;
pub mod restore;
pub mod session;
pub mod standin;
pub mod store;
pub mod unit;
pub mod world;
