//! The recorder: follows a process tree and writes down its inputs as they come.
//!
//! # Layers
//!
//! | layer | modules | purpose |
//! |---|---|---|
//! | 1 | `calls`, `descriptors`, `loss`, `scheduler`, `scratch`, `search`, `stdio` | parts that know nothing of each other: the decision on each call, turns, the search for execution points, streams |
//! | 2 | `decisions`, `sites` | the documented form of the decisions; syscall sites and their patches |
//! | 3 | `mappings` | address spaces and the files that are mapped there |
//! | 4 | `session` | what the tasks of a recording share |
//! | 5 | `task` | what is recorded at each stop of a task |

mod calls;
pub mod decisions;
mod descriptors;
mod loss;
mod mappings;
mod scheduler;
mod scratch;
mod search;
mod session;
mod sites;
mod stdio;
pub(crate) mod task;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::rc::Rc;

use ptrace_async::filter::{Filter, Rule};
use ptrace_async::runtime::{Interception, Options as RuntimeOptions, Program, Runtime};

pub use self::loss::OnLoss;
use self::session::Session;
/// The version of the hints that recordings keep for later ones.
pub use self::sites::hints::VERSION as HINTS_VERSION;
use crate::buffer;
use crate::platform::os;
use crate::trace::event::Ending;
use crate::trace::{self, Directory, Writer};
use crate::tracee::ticker::Ticker;

/// How to record.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Whether to digest the memory of each process at its end, for a replay to compare.
    pub digests: bool,
    /// Whether every call stops, instead of being performed and logged in the process.
    pub stops: bool,
    /// Treatment of the programs when the recording cannot go on.
    pub on_loss: OnLoss,
    /// A seed for turns that are given by chance, one at a time among all tasks.
    pub chaos: Option<u64>,
    /// A directory of this user's for what is learnt of the system's files, so that the next
    /// recordings know it. It is made, and not used where others may write to it.
    pub hints_directory: Option<PathBuf>,
}

/// The result of a recording.
#[derive(Debug)]
pub struct Recording {
    /// Whether the program was executed at all.
    pub has_begun: bool,
    /// How the first process ended.
    pub ending: Option<Ending>,
    /// Calls that were refused because they cannot be recorded: name, reason, how often.
    pub refused: BTreeMap<(&'static str, &'static str), u64>,
    /// Mapped files that processes outside the recording have changed.
    pub outside_changes: BTreeSet<PathBuf>,
    /// The reason why the recording ended before the programs, which has been reported.
    pub lost: Option<String>,
    /// The size of the records in bytes, or why they are not whole.
    pub written: Result<u64, trace::Error>,
    /// How often a task was stopped.
    pub stops: u64,
}

/// Records a program and all that it starts, until the last of them has ended.
///
/// # Errors
/// When it cannot be started or traced, or the trace cannot be written to.
pub fn record(program: &Program, directory: Directory, options: Options) -> io::Result<Recording> {
    // Everything stops that the stub does not perform.
    let filter = Filter::build(512, |_| {
        Rule::UnlessFrom(buffer::BASE, Box::new(Rule::Trace))
    });
    let runtime = Runtime::new(RuntimeOptions {
        interception: Interception::Seccomp(filter),
        exit_kill: true,
    });
    let background = runtime.handle().host_threads();
    let writer = Writer::create(&directory, move || std::mem::forget(background.enter()))
        .map_err(io::Error::other)?;
    let background = runtime.handle().host_threads();
    let ticker = Ticker::start(move || std::mem::forget(background.enter()))?;
    let session = Rc::new(Session::new(directory, writer, ticker, options));
    let handle = runtime.handle();
    runtime.spawn(program)?;
    os::allow_many_files();
    let shared = session.clone();
    runtime.run(move |tracee| task::follow(tracee, shared.clone()))?;
    Ok(Recording {
        has_begun: session.has_begun(),
        ending: session.ending(),
        refused: session.refused(),
        outside_changes: session.outside_changes(),
        written: session.finish(),
        lost: session.loss.reason(),
        stops: handle.stops(),
    })
}
