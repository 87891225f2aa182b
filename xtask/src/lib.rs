//! Development tasks, run as `cargo xtask NAME`.
//!
//! Each task is one module with one `run` function; the command line in
//! [`cli`] is the only place that knows them all. A task that checks something
//! prints what is wrong, one line per finding, and fails.

mod cargo;
mod checks;
mod ci;
mod cli;
mod conformance;
mod corpus;
mod cost;
mod differential;
mod fidelity;
mod flaky;
mod growth;
mod kills;
mod load;
mod median;
mod pcache;
mod pcache_kills;
mod profile;
mod published;
mod recordings;
mod servo;
mod subject;
mod syscall_docs;
pub mod syscall_table;
mod tantivy;
mod totals;
mod tree;
mod workloads;

pub use cli::run;
