//! Files that a program's output goes to before it starts.
//!
//! A program that reads the file its output goes to sees what it has written
//! (`cat` refuses, `sort` does not): a result with the same contents in other
//! files says nothing about it.

use std::os::unix::fs::MetadataExt;

use ptrace_async::event::FileKind;

use crate::fact::{Answer, Query};
use crate::key::Execution;
use crate::world::World;

/// The plain files that are open for writing when a program starts.
#[derive(Debug, Default)]
pub struct Outputs(Vec<(u64, u64)>);

impl Outputs {
    /// Those of an execution that is about to happen.
    pub fn of(execution: &Execution) -> Self {
        let process = match execution.tid {
            0 => String::from("self"),
            tid => tid.to_string(),
        };
        let plain = |kind: &FileKind| matches!(kind, FileKind::Opened | FileKind::Regular);
        let files = execution
            .descriptors
            .iter()
            .filter(|descriptor| descriptor.modes[1] && plain(&descriptor.kind))
            .filter_map(|descriptor| {
                let path = format!("/proc/{process}/fd/{}", descriptor.fd);
                let found = std::fs::metadata(path).ok()?;
                Some((found.dev(), found.ino()))
            });
        Self(files.collect())
    }

    /// Answers a query as `world` does, except that the content of one of these
    /// is like no other.
    pub fn ask(&self, world: &World, query: &Query) -> Answer {
        if let (Query::Content(path), false) = (query, self.0.is_empty())
            && let Ok(found) = std::fs::metadata(path)
            && self.0.contains(&(found.dev(), found.ino()))
        {
            return Answer::Error(libc::ETXTBSY);
        }
        world.ask(query)
    }
}
