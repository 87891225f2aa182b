//! Tracees as async functions, one syscall model, and cheap interception.
#![allow(missing_docs)]
pub mod event;
pub mod filter;
pub mod invocation;
pub mod memory;
pub mod process;
pub mod runtime;
mod sys;
pub mod syscall;
