//! Outcomes of runs, and the statistics over them.

pub mod fisher;
pub mod outcome;
pub mod wilson;
