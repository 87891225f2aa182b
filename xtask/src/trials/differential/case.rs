//! The parts of a differential test case.
//!
//! A case is plain data: the tree it starts from and a list of steps. Nothing
//! in it refers to the generator, so a case that failed can be shrunk, stored
//! as JSON and replayed by any later version.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::disturb::Disturbance;

/// A starting tree and the steps to take in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Case {
    /// Which generator made it, for people.
    pub(crate) kind: String,
    /// The seed it was generated from.
    pub(crate) seed: u64,
    /// A note on the fact that the case shows, once a person has looked at it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) note: String,
    /// Whether edits set the same modification time on both sides, to the
    /// nanosecond; needed where a program writes times into its output.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) pin_times: bool,
    /// The starting tree, parents before children.
    pub(crate) files: Vec<Entry>,
    /// The steps, in order.
    pub(crate) steps: Vec<Step>,
}

/// One path of the starting tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Relative to the root of the tree.
    pub(crate) path: String,
    /// The node at the path.
    pub(crate) node: Node,
    /// Seconds between its modification time and the start of the case; the
    /// present when absent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) age: Option<u64>,
}

/// A node of the tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Node {
    /// A regular file, as pieces that shrinking may remove one by one.
    File {
        /// The pieces, concatenated to the content.
        blocks: Vec<String>,
        /// Permission bits.
        mode: u32,
    },
    /// A directory with permission bits.
    Dir(u32),
    /// A symbolic link with its target.
    Symlink(String),
    /// Another name of an earlier entry.
    HardLink(String),
    /// A copy of this program of the system.
    Program(String),
    /// The program that makes calls on descriptors.
    Descriptors,
}

/// Edits, then a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Step {
    /// Changes by a person or another program before the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) edits: Vec<Edit>,
    /// Whether the edits come right before the run, in the same tick of the clock where that
    /// happens.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) hasty: bool,
    /// Before the run, one on pcache's side alone that these disturb.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) disturbances: Vec<Disturbance>,
    /// The further use of the tree that the disturbed run left.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) aftermath: Aftermath,
    /// Whether nothing is skipped in the disturbed run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) refreshed: bool,
    /// The command to run plainly and under pcache.
    pub(crate) run: Run,
    /// Paths of which each two are to be in the same order of time as plainly.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) order: Vec<String>,
}

/// The tree that the undisturbed run begins with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Aftermath {
    /// The one that the disturbed run began with.
    #[default]
    Restored,
    /// The one that the disturbed run left, on both sides.
    Kept,
}

/// One change of the tree from outside. A change that does not apply (the
/// path is missing, say) does nothing, on both sides alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Edit {
    /// Write the pieces over the content, in place.
    Write(String, Vec<String>),
    /// Write a new file and rename it over the path.
    Replace(String, Vec<String>),
    /// Append text.
    Append(String, String),
    /// Change the first byte, keeping size and modification time.
    Sneak(String),
    /// Set the modification time to the present.
    Touch(String),
    /// Set the modification time to this many seconds before the case began.
    TouchAge(String, u64),
    /// Remove the path and what is below it.
    Delete(String),
    /// Set the permission bits.
    Chmod(String, u32),
    /// Replace the path by a symbolic link to the second.
    Symlink(String, String),
    /// Make the first path another name of the second.
    HardLink(String, String),
    /// Rename the first path to the second.
    Rename(String, String),
    /// Exchange the two paths.
    Swap(String, String),
    /// Make a directory.
    MakeDir(String),
    /// Replace the path by a copy of a program of the system.
    Install(String, String),
    /// Set the size of a file.
    Resize(String, u64),
    /// Replace the path by a named pipe.
    Fifo(String),
    /// Set the owner and the group.
    Own(String, u32, u32),
    /// Set an extended attribute to the bytes of this hexadecimal value, or remove it.
    Attribute(String, String, Option<String>),
    /// Bring the starting tree back, nothing else left, with the entries'
    /// times moved this many seconds into the past (the present for `None`).
    Reset(Option<u64>),
    /// On pcache's side, start the step's command and kill pcache and all it
    /// started after so many milliseconds; then `Reset` on both sides.
    Crash(u64),
}

/// How a command is run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    /// Program and arguments.
    pub(crate) argv: Vec<String>,
    /// Working directory, relative to the root of the tree.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) cwd: String,
    /// Variables beyond the fixed few that every run has.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) env: BTreeMap<String, String>,
    /// Standard input.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) input: Input,
    /// Standard output and error.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) output: Output,
    /// Shell commands that set up the process before it becomes the command
    /// (`umask 027;`).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) prelude: String,
    /// Options for pcache.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) options: Vec<String>,
    /// Whether the output may come in any order (parallel builds).
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) unordered: bool,
    /// A file whose content must be new each time the command runs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) chance: Option<String>,
}

/// Where standard input comes from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) enum Input {
    /// `/dev/null`.
    #[default]
    Null,
    /// A regular file of the tree, from this offset on.
    File(String, u64),
    /// A pipe that holds this text.
    Pipe(String),
}

/// Where standard output and error go.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) enum Output {
    /// A pipe each.
    #[default]
    Pipes,
    /// One pipe for both.
    OnePipe,
    /// A file each.
    Files,
    /// One file for both, through one open file description.
    OneFile,
    /// One file for both that already has content, in append mode.
    Append,
    /// The same, opened once for each.
    TwoAppends,
    /// Standard output into this file of the tree (`> path`), error to a pipe.
    Tree(String),
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
