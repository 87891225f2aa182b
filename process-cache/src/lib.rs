//! Skips processes whose inputs are unchanged: the library behind `pcache`.
//!
//! A program run under pcache is a tree of *exec-units*: a unit lasts from a
//! successful execve to the exit of all it started that did not execute
//! something else. Each unit is stored as what it *observed* (facts) and what it
//! *left behind* (an outcome), and is skipped when the same facts hold again.
//!
//! | step | modules |
//! |---|---|
//! | what identifies a unit before it runs | [`key`] |
//! | looking it up: questions, answers, the store | [`model::fact`], [`world`], [`store`] |
//! | a hit: files restored, a stand-in executed | [`restore`], [`engine::hit`], [`engine::standin`] |
//! | a miss: stops of tasks, events, observations, changes | [`engine::tracer`], [`engine::recorder`], [`mod@engine::unit`], [`engine::session`] |
//! | results of others, and for others | [`remote`] |
//! | results of other places | [`relocation`] |
//! | the end of a unit: preconditions, effects | [`engine::finalize`], [`model::outcome`] |
//! | what is assumed about programs and places | [`policy`], [`model::path_kind`] |
//! | what past runs did, and explanations | [`journal`], [`explain`] |
//! | the command line, and what is told | [`cli`], [`engine::run`], [`engine::report`] |
//!
//! **Invariant:** what is not understood is a [`engine::unit::Doubt`], and a unit in
//! doubt is run and not stored. Doubt never changes what a command does.
//!
//! The modules are public so that the binary, the tests, the benchmarks and the
//! fuzz targets can use them; there is no promise of stability. A fact can be
//! asked without any of the rest:
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
