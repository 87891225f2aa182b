//! Names for threads and channels that are the same in every run.
//!
//! A thread's deterministic id ([`Dti`], Tivo section 4.4.1) is the path of child numbers from a
//! root. Each thread numbers its own children from 1, so it does not matter which of two racing
//! threads spawns first. A channel's id is its creator and the creator's count of channels. Paths
//! are long, so a session interns each one to a small [`ThreadId`], which messages and logs carry.
//! The log keeps the path, and a replay hands out the recorded numbers again.
//!
//! Tivo gave one shared `None` to all threads that it had not spawned itself, and could not tell
//! their messages apart. Here such a thread has a position below its creator too (see
//! [`Dti::foreign_child`]). Where its creator is a test harness, or is not known, the thread is a
//! root of its own, named by its thread name. So a test is called after the test and not after the
//! order in which the harness started it. Several roots of one name, or without a name, are
//! numbered in the order in which they first used this crate, which may differ from run to run.
//!
//! Processes have such names too ([`ProcessPath`]). A process numbers the processes that it starts
//! by the starting thread and that thread's count of processes, and not by time. A thread of
//! another process of the same recording is known by that process and its number there
//! ([`Root::Elsewhere`]).

use std::fmt;
use std::str::FromStr;

/// The start of a path of child numbers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Root {
    /// The thread that runs `main`.
    Main,
    /// A thread that this crate did not spawn, and that is named by its name.
    Foreign {
        /// Its thread name; empty if it has none.
        name: String,
        /// Its position, from 1, among foreign threads of this name.
        occurrence: u32,
    },
    /// A thread of another process of the recording.
    Elsewhere {
        /// The process.
        process: ProcessPath,
        /// The thread's number in that process's part of the recording.
        thread: ThreadId,
    },
}

/// A process of a recording: the path of numbers from the one that was recorded first,
/// each process numbering those that it starts, from 1.
///
/// Its text form is `0` for the first one, `0.2` for the second one that this started,
/// `0.2.1` for the first one of that.
///
/// ```
/// use rr_channel_log::identity::ProcessPath;
///
/// let second = ProcessPath::first().child(2);
/// assert_eq!(second.to_string(), "0.2");
/// assert_eq!("0.2".parse(), Ok(second));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessPath(Vec<u32>);

impl ProcessPath {
    /// Processes below each other, at most: there is one more variable in each one's
    /// environment, and one more directory.
    pub const DEEPEST: usize = 64;

    /// The process that was recorded first.
    pub const fn first() -> Self {
        ProcessPath(Vec::new())
    }

    /// The `number`th process, from 1, that this one starts.
    #[must_use]
    pub fn child(&self, number: u32) -> Self {
        let mut numbers = Vec::with_capacity(self.0.len() + 1);
        numbers.extend_from_slice(&self.0);
        numbers.push(number);
        ProcessPath(numbers)
    }

    /// The numbers, outermost first; none for the first process.
    pub fn numbers(&self) -> &[u32] {
        &self.0
    }
}

impl FromIterator<u32> for ProcessPath {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Self {
        ProcessPath(numbers.into_iter().collect())
    }
}

impl fmt::Display for ProcessPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0")?;
        self.0.iter().try_for_each(|number| write!(f, ".{number}"))
    }
}

/// The text names no process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseProcessPathError(String);

impl fmt::Display for ParseProcessPathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a process: `{}`", self.0)
    }
}

impl std::error::Error for ParseProcessPathError {}

impl FromStr for ProcessPath {
    type Err = ParseProcessPathError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split('.');
        let is_path = parts.next() == Some("0") && parts.clone().count() <= Self::DEEPEST;
        let numbers = is_path.then(|| parts.map(unsigned).collect::<Option<_>>());
        let error = || ParseProcessPathError(text.to_owned());
        numbers.flatten().map(ProcessPath).ok_or_else(error)
    }
}

/// A number without a sign, which would be read as part of it.
fn unsigned(text: &str) -> Option<u32> {
    match text.starts_with('+') {
        true => None,
        false => text.parse().ok(),
    }
}

/// A deterministic thread id: the path of child numbers from a root.
///
/// Its text form is what logs and reports show, and [`FromStr`] reads it back:
/// `main`, `main/2/1`, `main/~1` (the first thread that `main` created without this
/// crate), `main/+1/+2` (the second part of the first work that `main` gave to a pool),
/// `test::name`, `worker#2/1` (the second foreign root named `worker`, its
/// first child), `@0.1:3` (thread 3 of [process](ProcessPath) 0.1). Bytes that would confuse it are percent-encoded.
///
/// ```
/// use rr_channel_log::identity::Dti;
///
/// let second = Dti::main().child(2);
/// assert_eq!(second.child(1).to_string(), "main/2/1");
/// assert_eq!("main/2".parse(), Ok(second));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Dti {
    root: Root,
    path: Vec<Step>,
}

/// One step from a thread to its child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// To the thread's child with this number, spawned through this crate.
    Child(u32),
    /// To the thread's child with this number, created in another way.
    ForeignChild(u32),
    /// To the piece of work with this number that the thread, or the piece of work, has
    /// handed to a pool.
    Task(u32),
}

impl Dti {
    /// The id of the thread that runs `main`.
    pub const fn main() -> Self {
        Dti {
            root: Root::Main,
            path: Vec::new(),
        }
    }

    /// The id of the `occurrence`th foreign thread called `name`, from 1.
    pub const fn foreign(name: String, occurrence: u32) -> Self {
        Dti {
            root: Root::Foreign { name, occurrence },
            path: Vec::new(),
        }
    }

    /// The id of a thread of another process.
    pub const fn elsewhere(process: ProcessPath, thread: ThreadId) -> Self {
        Dti {
            root: Root::Elsewhere { process, thread },
            path: Vec::new(),
        }
    }

    /// Whether it is a thread of another process.
    #[inline]
    pub const fn is_elsewhere(&self) -> bool {
        matches!(self.root, Root::Elsewhere { .. })
    }

    /// The id of this thread's `number`th child, from 1.
    #[must_use]
    pub fn child(&self, number: u32) -> Self {
        self.below(Step::Child(number))
    }

    /// The id of the `number`th thread, from 1, that this thread created without this crate. These
    /// threads are counted separately, so that threads that a pool creates in the background do
    /// not shift the names of the program's own threads.
    #[must_use]
    pub fn foreign_child(&self, number: u32) -> Self {
        self.below(Step::ForeignChild(number))
    }

    /// The id of the `number`th piece of work, from 1, that this thread or piece of work
    /// hands to a pool, whichever of the pool's threads performs it.
    #[must_use]
    pub fn task(&self, number: u32) -> Self {
        self.below(Step::Task(number))
    }

    fn below(&self, step: Step) -> Self {
        let mut path = Vec::with_capacity(self.path.len() + 1);
        path.extend_from_slice(&self.path);
        path.push(step);
        Dti {
            root: self.root.clone(),
            path,
        }
    }

    /// The start of the path.
    pub const fn root(&self) -> &Root {
        &self.root
    }

    /// The steps from the root, outermost first; empty for a root.
    pub fn path(&self) -> &[Step] {
        &self.path
    }
}

impl fmt::Display for Dti {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.root {
            Root::Main => f.write_str("main")?,
            Root::Foreign { name, occurrence } => {
                // A foreign thread may call itself `main`, or like one that is elsewhere:
                // the first letter goes escaped.
                let reserved = name == "main";
                for (i, c) in name.char_indices() {
                    match c {
                        '/' | '#' | '%' => write!(f, "%{:02x}", c as u32)?,
                        c if c.is_ascii_control() || c == ' ' => write!(f, "%{:02x}", c as u32)?,
                        'm' if reserved && i == 0 => f.write_str("%6d")?,
                        '@' if i == 0 => f.write_str("%40")?,
                        c => write!(f, "{c}")?,
                    }
                }
                if *occurrence != 1 || name.is_empty() {
                    write!(f, "#{occurrence}")?;
                }
            }
            Root::Elsewhere { process, thread } => write!(f, "@{process}:{}", thread.0)?,
        }
        self.path.iter().try_for_each(|step| match step {
            Step::Child(number) => write!(f, "/{number}"),
            Step::ForeignChild(number) => write!(f, "/~{number}"),
            Step::Task(number) => write!(f, "/+{number}"),
        })
    }
}

/// The text is no thread id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseDtiError(String);

impl fmt::Display for ParseDtiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a thread id: `{}`", self.0)
    }
}

impl std::error::Error for ParseDtiError {}

impl FromStr for Dti {
    type Err = ParseDtiError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).ok_or_else(|| ParseDtiError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Dti> {
    let mut parts = text.split('/');
    let root = match parts.next()? {
        "main" => Root::Main,
        part if part.starts_with('@') => {
            let (process, thread) = part[1..].split_once(':')?;
            Root::Elsewhere {
                process: process.parse().ok()?,
                thread: ThreadId(unsigned(thread)?),
            }
        }
        part => {
            let (name, occurrence) = match part.split_once('#') {
                Some((name, number)) => (name, number.parse().ok()?),
                None => (part, 1),
            };
            if name.is_empty() && !part.contains('#') {
                return None;
            }
            Root::Foreign {
                name: unescape(name)?,
                occurrence,
            }
        }
    };
    let step = |part: &str| match part.split_at_checked(1)? {
        ("~", rest) => Some(Step::ForeignChild(unsigned(rest)?)),
        ("+", rest) => Some(Step::Task(unsigned(rest)?)),
        _ => Some(Step::Child(unsigned(part)?)),
    };
    let path = parts.map(step).collect::<Option<_>>()?;
    Some(Dti { root, path })
}

fn unescape(text: &str) -> Option<String> {
    let mut pieces = text.split('%');
    let mut out = pieces.next()?.to_owned();
    for piece in pieces {
        let byte = u8::from_str_radix(piece.get(..2)?, 16).ok()?;
        out.push(char::from(byte));
        out.push_str(&piece[2..]);
    }
    Some(out)
}

/// A thread's number within one session: an interned [`Dti`].
///
/// A recording hands numbers out as threads appear, and a replay of it reuses
/// them; between two recordings they mean nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadId(pub u32);

impl ThreadId {
    /// Numbers from here on are refused: a message's tag has room for 23 bits.
    pub const LIMIT: u32 = 1 << 23;
}

impl fmt::Display for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}", self.0)
    }
}

/// A deterministic channel id (the paper's DCI): the creator, and which of the
/// creator's channels this is, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelId {
    /// The thread that made the channel.
    pub creator: ThreadId,
    /// Its position among that thread's channels.
    pub number: u32,
}

impl ChannelId {
    /// The first number of an executor's objects, which are counted apart from channels.
    pub const FIRST_OBJECT: u32 = 1 << 24;
    /// The first number of its timers.
    pub const FIRST_TIMER: u32 = 1 << 25;
    /// Above these bits is which of several operations on an object it is that a task polls.
    const OBJECT_BITS: u32 = 13;
    /// More operations of a task on one object have the same number.
    pub const OPERATIONS: u32 = 1 << 11;

    /// The object of which several operations have names.
    pub const fn object(self) -> ChannelId {
        if self.number >= ChannelId::FIRST_TIMER {
            return self;
        }
        let mask = ChannelId::FIRST_OBJECT | ((1 << ChannelId::OBJECT_BITS) - 1);
        ChannelId {
            number: self.number & mask,
            ..self
        }
    }

    /// Which of several operations on the object it is, from 0.
    pub const fn operation(self) -> u32 {
        if self.number >= ChannelId::FIRST_TIMER {
            return 0;
        }
        (self.number >> ChannelId::OBJECT_BITS) % ChannelId::OPERATIONS
    }

    /// The name of an operation on the object.
    pub const fn with_operation(self, operation: u32) -> ChannelId {
        if self.number >= ChannelId::FIRST_TIMER {
            return self;
        }
        ChannelId {
            number: self.number | (operation % ChannelId::OPERATIONS) << ChannelId::OBJECT_BITS,
            ..self
        }
    }
}

impl fmt::Display for ChannelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, number) = match self.number {
            timer @ ChannelId::FIRST_TIMER.. => ('t', timer - ChannelId::FIRST_TIMER + 1),
            ChannelId::FIRST_OBJECT.. => {
                let object = self.object().number - ChannelId::FIRST_OBJECT + 1;
                write!(f, "{}.o{object}", self.creator)?;
                return match self.operation() {
                    0 => Ok(()),
                    operation => write!(f, " ({})", operation + 1),
                };
            }
            channel => ('c', channel),
        };
        write!(f, "{}.{kind}{number}", self.creator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(dti: &Dti, text: &str) {
        assert_eq!(dti.to_string(), text);
        assert_eq!(text.parse().as_ref(), Ok(dti));
    }

    #[test]
    fn ids_read_as_paths() {
        check(&Dti::main(), "main");
        check(&Dti::main().child(1).child(1).child(2), "main/1/1/2");
        check(
            &Dti::foreign("tests::sends".into(), 1).child(3),
            "tests::sends/3",
        );
        check(&Dti::foreign("worker".into(), 2), "worker#2");
        check(&Dti::main().foreign_child(3).child(1), "main/~3/1");
        check(&Dti::main().task(2).task(1), "main/+2/+1");
        check(&Dti::foreign(String::new(), 1), "#1");
        let process = ProcessPath::first().child(2).child(1);
        check(&Dti::elsewhere(process, ThreadId(3)), "@0.2.1:3");
        check(&Dti::elsewhere(ProcessPath::first(), ThreadId(0)), "@0:0");
    }

    #[test]
    fn a_foreign_thread_called_main_is_not_main() {
        check(&Dti::foreign("main".into(), 1), "%6dain");
        check(&Dti::foreign("@0:0".into(), 1), "%400:0");
    }

    #[test]
    fn names_that_look_like_paths_are_escaped() {
        check(&Dti::foreign("a/1#2 %".into(), 1), "a%2f1%232%20%25");
    }

    #[test]
    fn invalid_ids_are_refused() {
        for text in [
            "", "/1", "main/", "main/x", "main/-1", "main/+", "main/~", "main/++1", "main/é", "a%",
            "a%zz", "a#", "a#1#2", "@", "@0", "@0:", "@1:2", "@0.x:2", "@0.+1:2",
        ] {
            assert!(text.parse::<Dti>().is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn every_id_reads_back(
            name in any::<String>(),
            occurrence in 1..u32::MAX,
            path in prop::collection::vec((0..3, any::<u32>()), 0..5),
        ) {
            let root = Dti::foreign(name, occurrence);
            let dti = path.iter().fold(root, |dti, (kind, n)| match kind {
                0 => dti.foreign_child(*n),
                1 => dti.task(*n),
                _ => dti.child(*n),
            });
            prop_assert_eq!(dti.to_string().parse(), Ok(dti));
        }

        #[test]
        fn any_text_is_read_or_refused(text in any::<String>()) {
            let _ = text.parse::<Dti>();
        }
    }
}
