//! The machine below the engine: its processor, and system calls without a safe wrapper.

pub mod machine;
pub(crate) mod os;
