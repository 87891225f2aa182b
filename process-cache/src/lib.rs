//! Skips processes whose inputs are unchanged.
#![allow(missing_docs)]
pub mod cli;
pub mod content;
pub mod defect;
pub mod fact;
pub mod finish;
pub mod hit;
pub mod jobs;
pub mod key;
pub mod locate;
pub mod machine;
pub mod os;
pub mod outcome;
pub mod path;
pub mod place;
pub mod policy;
pub mod recorder;
pub mod report;
pub mod restore;
pub mod run;
pub mod session;
pub mod standin;
pub mod store;
pub mod tracer;
pub mod unit;
pub mod world;
