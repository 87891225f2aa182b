//! Skips processes whose inputs are unchanged: the library behind `pcache`.
//!
//! A program run under pcache is a tree of *exec-units*. A unit lasts from a successful execve to
//! the exit of all processes that it started and that did not exec. Each unit is stored as its
//! observations (*facts*) and its effects (*outcome*), and is skipped when the same facts hold
//! again.
//!
//! # Layers
//!
//! From the ground up; a module imports only from rows above its own in this table.
//!
//! | layer | modules | purpose |
//! |---|---|---|
//! | 1 | `platform` | system calls, clock, worker threads |
//! | 2 | `model` | the vocabulary: facts, outcomes, paths, identifiers, misses |
//! | 3 | `policy` | what is assumed about programs, and what the user configures |
//! | 4 | `store` | contents by digest, results by weak key, the journal's files |
//! | 5 | `world` | answers to questions about files; paths, digests, executables |
//! | 6 | `restore` | effects of a result, established on the file tree |
//! | 7 | `key` | the weak key: what identifies a unit before it runs |
//! | 8 | `relocation`, `journal` | results of other directories; what past runs did |
//! | 9 | `remote` | results of other machines, and for other machines |
//! | 10 | `engine` | a run under trace: units, recording, hits, storing |
//! | 11 | `explain` | why units ran again, as text and as a page |
//! | 12 | `cli` | the command line |
//!
//! **Invariant:** everything that pcache does not understand is an
//! [`engine::unit::UncacheableReason`]. A unit with such a reason runs and is not stored; its
//! behaviour never changes.
//!
//! The modules are public for the binary, the tests, the benchmarks and the fuzz targets; there is
//! no promise of stability. A fact can be queried without the rest:
//!
//! ```
//! use process_cache::model::fact::{Answer, Query};
//! use process_cache::store::DigestTable;
//! use process_cache::world::World;
//!
//! let world = World::new(DigestTable::in_memory());
//! let answer = world.ask(&Query::Content("/there/is/no/such/file".into()));
//! assert_eq!(answer, Answer::Error(2)); // ENOENT
//! ```

pub mod cli;
pub mod engine;
pub mod explain;
pub mod journal;
pub mod key;
pub mod model;
pub mod platform;
pub mod policy;
pub mod relocation;
pub mod remote;
pub mod restore;
pub mod store;
pub mod world;
