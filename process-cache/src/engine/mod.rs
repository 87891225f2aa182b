//! Runs a command: traces its units, finds hits, and stores new results.

pub mod absorb;
pub mod finalize;
pub mod linked;
mod moved_away;
mod outsiders;
pub mod recorder;
pub mod report;
pub mod run;
pub mod session;
pub mod standin;
pub mod tracer;
pub mod unit;
pub mod unstopped_calls;
