//! Queries about an execve that is about to happen.
//!
//! A program that reads the file its output goes to sees what it has written
//! (`cat` refuses, `sort` does not): a result with the same contents in other
//! files says nothing about it.
//!
//! What its key leaves out is told here as well.

use std::os::unix::fs::MetadataExt;

use crate::key::{Keyed, LeftOut};
use crate::model::fact::{Answer, Query};
use crate::world::World;

/// An execution that is about to happen.
#[derive(Debug, Default)]
pub struct ExecContext {
    /// The plain files that are open for writing: device and inode.
    outputs: Vec<(u64, u64)>,
    left_out: LeftOut,
}

impl ExecContext {
    /// One that has this key.
    pub fn of(keyed: &Keyed) -> Self {
        let written = keyed.inherited.iter().filter(|it| it.output.is_some());
        Self {
            outputs: written.filter_map(|it| it.inode).collect(),
            left_out: keyed.left_out,
        }
    }

    /// Answers a query as `world` does, except that one of its outputs has a content like no
    /// other, and is nothing that can be written by its name as if nobody else did.
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
