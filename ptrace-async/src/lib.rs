//! Tracees as async functions, one syscall model, and cheap interception.
#![allow(missing_docs)]
pub mod event;
pub mod memory;
pub mod process;
pub mod syscall;
