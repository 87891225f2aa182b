//! Replaying: the same programs on the same inputs, with no effect outside.
//!
//! Each recorded task has one here, whose program runs natively from record to record.
//! Of its calls none is performed but those that shape its own memory, at the recorded
//! addresses; results, memory, signals and answers come from the trace. Tasks of one group
//! take turns as they did; groups run beside each other.

mod again;
mod agent;
mod backtrace;
mod check;
mod divergence;
mod feed;
mod mappings;
mod player;
mod printer;
mod task;

use std::io;
use std::rc::Rc;

use ptrace_async::filter::{Filter, Rule};
use ptrace_async::runtime::{Interception, Options as RuntimeOptions, Program, Runtime};

pub use self::again::made_again;
use self::agent::Executable;
pub use self::backtrace::Frame;
pub use self::divergence::Divergence;
use self::feed::Feed;
use self::player::Player;
use crate::buffer;
use crate::trace::event::Ending;
use crate::trace::{self, Directory, Reader, Tail};

/// How to replay.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Whether not to print what the programs printed.
    pub quiet: bool,
}

/// What came of a replay.
#[derive(Debug)]
pub struct Outcome {
    /// How the first process ended, if it did.
    pub ending: Option<Ending>,
    /// Where it went another way.
    pub divergence: Option<Divergence>,
    /// What is wrong with the trace.
    pub error: Option<trace::Error>,
    /// How the trace ends, if it was read to its end.
    pub tail: Option<Tail>,
    /// How many records were read.
    pub records: u64,
    /// How many digests of memory were compared.
    pub digests: u64,
}

/// Replays a trace.
///
/// # Errors
/// When nothing can be traced here, or the trace cannot be opened.
pub fn replay(directory: Directory, options: Options) -> io::Result<Outcome> {
    let filter = Filter::build(512, |_| {
        let other = Rule::UnlessFrom(buffer::BASE, Box::new(Rule::Trace));
        Rule::UnlessFrom(agent::CODE, Box::new(other))
    });
    let runtime = Runtime::new(RuntimeOptions {
        interception: Interception::Seccomp(filter),
        exit_kill: true,
    });
    let reader = Reader::open(&directory).map_err(io::Error::other)?;
    let agent = Executable::new()?;
    let mut program = Program::new(&["reprise"])?;
    program.candidates = vec![std::ffi::CString::new(agent.path())?];
    program.envp = Vec::new();
    let player = Rc::new(Player::new(
        directory.clone(),
        Feed::new(reader),
        agent,
        options.quiet,
    ));
    runtime.spawn(&program)?;
    let shared = player.clone();
    runtime.run(move |tracee| task::follow(tracee, shared.clone()))?;
    player.printer.borrow_mut().finish();
    let ended = player.feed.ended();
    let (records, tail, error) = player.feed.finish();
    Ok(Outcome {
        ending: player.ending().map(|ending| ended.unwrap_or(ending)),
        divergence: player.divergence().map(|mut divergence| {
            divergence.add_history(&directory);
            divergence
        }),
        error: error.or_else(|| player.error()),
        tail,
        records,
        digests: player.digests(),
    })
}
