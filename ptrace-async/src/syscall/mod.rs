//! The syscall model.
