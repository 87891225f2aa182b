//! Skips processes whose inputs are unchanged: the library behind `pcache`.
//!
//! A program run under pcache is a tree of *exec-units*: a unit lasts from a
//! successful execve to the exit of all it started that did not execute
//! something else. Each unit is stored as what it *observed* (facts) and what it
//! *left behind* (an outcome), and is skipped when the same facts hold again.
//!
//! | step | modules |
//! |---|---|
//! | what identifies a unit before it runs | [`key`], [`machine`] |
//! | looking it up: questions, answers, the store | [`fact`], [`world`], [`store`] |
//! | a hit: files restored, a stand-in executed | [`restore`], [`hit`], [`standin`] |
//! | a miss: stops of tasks, events, observations, changes | [`tracer`], [`recorder`], [`mod@unit`], [`session`] |
//! | results of others, and for others | [`remote`] |
//! | results of other places | [`roots`] |
//! | the end of a unit: preconditions, effects | [`finish`], [`outcome`] |
//! | what is assumed about programs and places | [`policy`], [`place`], [`config`] |
//! | what past runs did, and explanations | [`journal`], [`why`], [`page`] |
//! | the command line, and what is told | [`cli`], [`run`], [`report`], [`brief`] |
//!
//! **Invariant:** what is not understood is a [`unit::Doubt`], and a unit in
//! doubt is run and not stored. Doubt never changes what a command does.
//!
//! The modules are public so that the binary, the tests, the benchmarks and the
//! fuzz targets can use them; there is no promise of stability. A fact can be
//! asked without any of the rest:
//!
//! ```
//! use process_cache::fact::{Answer, Query};
//! use process_cache::store::DigestTable;
//! use process_cache::world::World;
//!
//! let world = World::new(DigestTable::in_memory());
//! let answer = world.ask(&Query::Content("/there/is/no/such/file".into()));
//! assert_eq!(answer, Answer::Error(2)); // ENOENT
//! ```

pub mod begins;
mod bounded;
pub mod brief;
pub mod cli;
pub mod clock;
pub mod config;
pub mod content;
pub mod defect;
pub mod fact;
pub mod finish;
pub mod hit;
pub mod jobs;
pub mod journal;
pub mod key;
pub mod locate;
pub mod logged;
pub mod lookups;
pub mod machine;
pub mod os;
pub mod outcome;
pub mod page;
pub mod path;
pub mod place;
pub mod policy;
pub mod recorder;
pub mod remote;
pub mod report;
pub mod restore;
pub mod roots;
pub mod run;
pub mod script;
pub mod session;
pub mod standin;
pub mod store;
pub mod tracer;
pub mod unit;
pub mod why;
pub mod world;
