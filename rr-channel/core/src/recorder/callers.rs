//! The lines of the project that call its dependencies.
//!
//! An operation inside of a dependency (a channel's `async fn`, a pool's own lock) says little to
//! the people of the project. Its place gets the line of theirs that led there: the nearest frame
//! of the stack whose source is the project's. A recording gets these only where
//! `RR_CHANNEL_PROJECT` says where that is.
//!
//! A stack is walked for each such operation (some 10 µs), and its lines are looked up once.

use std::backtrace::Backtrace;
use std::env;
use std::ffi::OsStr;
use std::panic::Location;
use std::sync::OnceLock;

use crate::platform::stack;

static PROJECT: OnceLock<Project> = OnceLock::new();

/// Where the source of a project is.
#[derive(Debug)]
struct Project {
    /// The directory, with a `/` at its end.
    root: String,
    /// Directories whose source is not the project's, with a `/` at the end of each.
    others: Vec<String>,
}

impl Project {
    /// From a list of paths: the project's directory, and those in it that have others' source.
    fn parse(paths: &OsStr) -> Option<Self> {
        let mut directories = env::split_paths(paths).map(|path| {
            let path = path.to_str()?.trim_end_matches('/');
            (!path.is_empty()).then(|| format!("{path}/"))
        });
        Some(Project {
            root: directories.next()??,
            others: directories.collect::<Option<_>>()?,
        })
    }

    /// The path below the directory, if it is that of a source file of the project's. Cargo
    /// compiles the members of a workspace, and copies that are kept in it, by relative paths.
    fn own<'a>(&self, path: &'a str) -> Option<&'a str> {
        let below = path.strip_prefix(self.root.as_str()).unwrap_or(path);
        let is_others = |other: &String| {
            let other = other.strip_prefix(self.root.as_str()).unwrap_or(other);
            below.starts_with(other)
        };
        (!below.starts_with('/') && !self.others.iter().any(is_others)).then_some(below)
    }
}

/// From here on, operations in the source of others have callers. `paths` is a list as in `PATH`.
pub fn look_for(paths: &OsStr) {
    if let Some(project) = Project::parse(paths) {
        let _ = PROJECT.set(project);
    }
}

/// The project, if `place` is not in its source.
fn project_without(place: &Location<'_>) -> Option<&'static Project> {
    PROJECT
        .get()
        .filter(|project| project.own(place.file()).is_none())
}

/// A number that stands for the callers of `place`, if it is outside of the project.
pub fn stack_at(place: &Location<'_>) -> Option<u64> {
    project_without(place).map(|_| stack::digest())
}

/// Describes `place`: first the line that led there, if there is one.
pub fn describe(place: &Location<'_>) -> String {
    let caller = project_without(place).and_then(|project| {
        // Only this form has whole paths.
        let stack = format!("{:#}", Backtrace::force_capture());
        first_own(&stack, project).map(str::to_owned)
    });
    match caller {
        // A place in this crate would say nothing.
        Some(caller) if place.file().starts_with(this_crate()) => caller,
        Some(caller) => format!("{caller}, in {}", short(place)),
        None => place.to_string(),
    }
}

/// The beginning of the paths of this crate's source.
fn this_crate() -> &'static str {
    file!().trim_end_matches("recorder/callers.rs")
}

/// The first position of a printed stack that is in the project's source.
fn first_own<'a>(stack: &'a str, project: &Project) -> Option<&'a str> {
    stack
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("at "))
        // The C library's have relative paths, and are not the project's.
        .filter(|position| position.starts_with('/'))
        .find_map(|position| project.own(position))
}

/// The position with the part of its path that tells dependencies apart: from the directory that
/// `src` is in.
fn short(place: &Location<'_>) -> String {
    let text = place.to_string();
    let package = text
        .rfind("/src/")
        .and_then(|end| text[..end].rfind('/').map(|start| start + 1));
    text[package.unwrap_or_default()..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_line_of_the_project_is_the_caller() {
        let stack = "   0:     0x55 - std::a\n            at /rustc/1/library/std/src/a.rs:1:2\n   \
                     1:     0x56 - tokio::b\n            at /home/u/p-2/src/b.rs:3:4\n   \
                     1:     0x56 - tokio::b\n            at /home/u/p/target/tokio/src/b.rs:3:4\n   \
                     2:     0x57 - start\n            at ./nptl/start.c:1:2\n   \
                     2:     0x57 - p::c\n            at /home/u/p/src/c.rs:5:6\n   \
                     3:     0x58 - p::d\n            at /home/u/p/src/d.rs:7:8\n";
        let project = |paths: &str| Project::parse(OsStr::new(paths)).unwrap();
        let found = first_own(stack, &project("/home/u/p:/home/u/p/target"));
        assert_eq!(found, Some("src/c.rs:5:6"));
        let found = first_own(stack, &project("/home/u/p/"));
        assert_eq!(found, Some("target/tokio/src/b.rs:3:4"));
        assert_eq!(first_own(stack, &project("/home/u/q")), None);
        let project = project("/home/u/p:/home/u/p/target");
        assert_eq!(project.own("target/tokio/src/b.rs"), None);
        assert_eq!(project.own("src/b.rs"), Some("src/b.rs"));
    }

    #[test]
    fn without_a_project_a_place_stands_alone() {
        let here = Location::caller();
        assert_eq!(stack_at(here), None);
        assert_eq!(describe(here), here.to_string());
    }
}
