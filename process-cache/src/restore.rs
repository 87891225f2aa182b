//! Establishing an outcome.
