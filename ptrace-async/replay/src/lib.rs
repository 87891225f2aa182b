//! Recording and replaying process trees, without hardware counters.

pub mod cli;
pub mod machine;
pub mod maps;
mod memory;
mod os;
pub mod record;
pub mod replay;
pub mod trace;
