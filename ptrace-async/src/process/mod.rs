//! The process model.
