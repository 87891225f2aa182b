//! Development tasks, run as `cargo xtask NAME`.
//!
//! Each task is one module with one `run` function; the command line in
//! `cli` is the only place that knows them all. A task that checks something
//! prints what is wrong, one line per finding, and fails.
//!
//! # Layers
//!
//! From the ground up; a module imports only from rows above its own in this table.
//!
//! | layer | modules | purpose |
//! |---|---|---|
//! | 1 | `support` | calls of cargo, programs under test, trees of files, statistics |
//! | 2 | `trials` | long checks: programs under the tools, compared with plain runs |
//! | 3 | `measure` | measurements of cost and gain |
//! | 4 | `generate` | pages that are made from code and data |
//! | 5 | `checks` | checks of sources and pages |
//! | 6 | `ci` | the table of checks of continuous integration |
//! | 7 | `cli` | the command line |

mod checks;
mod ci;
mod cli;
mod generate;
mod measure;
mod support;
mod trials;

pub use cli::run;
