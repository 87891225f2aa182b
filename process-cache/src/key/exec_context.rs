//! Queries about an execve that is about to happen.
//!
//! A program that reads its own output file sees what it has written (`cat` refuses, `sort` does
//! not). A result recorded with other files of the same content does not apply then.
//!
//! Also answers queries for parts that are not in the weak key.

use std::os::unix::fs::MetadataExt;

use crate::key::{Keyed, LeftOut};
use crate::model::fact::{Answer, Query};
use crate::world::World;

/// An execve that is about to happen.
#[derive(Debug, Default)]
pub struct ExecContext {
    /// Regular files that are open for writing: device and inode.
    outputs: Vec<(u64, u64)>,
    left_out: LeftOut,
}

impl ExecContext {
    /// Creates the context of the execve with this key.
    pub fn of(keyed: &Keyed) -> Self {
        let written = keyed.inherited.iter().filter(|it| it.output.is_some());
        Self {
            outputs: written.filter_map(|it| it.inode).collect(),
            left_out: keyed.left_out,
        }
    }

    /// Answers a query as `world` does, with an exception for the own output files: their content
    /// equals no other, and they are not plain targets of a write.
    pub fn ask(&self, world: &World, query: &Query) -> Answer {
        if let Query::LeftOut(part) = query {
            return self.left_out.answer(*part);
        }
        if let Query::Content(path) | Query::Target(path) | Query::Replaced(path) = query
            && !self.outputs.is_empty()
            && let Ok(found) = std::fs::metadata(path)
            && self.outputs.contains(&(found.dev(), found.ino()))
        {
            return Answer::Error(libc::ETXTBSY);
        }
        world.ask(query)
    }
}
