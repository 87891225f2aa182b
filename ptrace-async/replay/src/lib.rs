//! Recording and replaying process trees, without hardware counters.

pub mod buffer;
pub mod cli;
mod code;
pub mod machine;
pub mod maps;
mod memory;
mod os;
mod point;
pub mod record;
pub mod replay;
pub mod trace;
