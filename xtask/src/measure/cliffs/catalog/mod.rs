//! The loops of calls that are measured, as data: each call of the syscall table is in one of
//! them, or in [`LEFT_OUT`] with a reason.

mod events;
mod files;
mod left_out;
mod memory;
mod paths;
mod process;
mod system;

pub(super) use self::left_out::LEFT_OUT;

/// A loop of calls.
#[derive(Debug)]
pub(crate) struct Loop {
    /// The name that the tables show.
    pub(crate) name: &'static str,
    /// Whether programs make these calls often.
    pub(crate) often: bool,
    /// Calls before the loop.
    pub(super) setup: &'static [Step],
    /// The body of the loop.
    pub(super) body: Body,
    /// Calls of the table that the body makes and that are no steps of their own.
    also: &'static [&'static str],
}

/// The body of a loop.
#[derive(Debug)]
pub(super) enum Body {
    /// Calls one after the other.
    Steps(&'static [Step]),
    /// More than arguments can say; see [`super::bodies`].
    Program(&'static str),
}

/// A call and its arguments.
#[derive(Debug)]
pub(super) struct Step {
    /// Its name in the syscall table.
    pub(super) call: &'static str,
    /// The function of the C library that makes it; `None` for syscall(2).
    pub(super) function: Option<&'static str>,
    pub(super) args: &'static [Arg],
}

/// An argument of a call.
#[derive(Debug, Clone, Copy)]
pub(super) enum Arg {
    /// A number.
    N(i64),
    /// The address of a text that ends with NUL.
    Text(&'static str),
    /// The address of these words, eight bytes each.
    Words(&'static [i64]),
    /// The address of so many bytes, which are zero at first.
    Room(usize),
    /// The address of a buffer that several calls share, by its number below [`SHARED`].
    Shared(usize),
    /// The same, after its first word was set to zero.
    Zeroed(usize),
    /// The `int` at this index of a shared buffer.
    IntIn(usize, usize),
    /// The first word of a shared buffer.
    WordIn(usize),
    /// The address of an `iovec` of one buffer of so many bytes.
    Vector(usize),
    /// The address of a `msghdr` of one byte, or of a `mmsghdr` that begins with it.
    Message,
    /// The address of a `pollfd` that waits for input of a descriptor.
    Poll(Thing),
    /// A descriptor.
    Fd(Thing),
    /// The address of [`AREA`] bytes of whole pages.
    Area,
    /// The address of a signal handler that does nothing.
    Handler,
    /// The result of a step of this round of the loop.
    Got(usize),
    /// The caller's process id.
    Pid,
    /// The caller's user id.
    Uid,
    /// The caller's group id.
    Gid,
}

/// The number of shared buffers.
pub(super) const SHARED: usize = 2;
/// The length of [`Arg::Area`] in bytes.
pub(super) const AREA: usize = 16 * 4096;

/// A descriptor that is made before the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Thing {
    /// A file opened for reading, above the descriptors that programs have from the start.
    File,
    /// The same at the lowest free descriptor.
    LowFile,
    /// A file opened for reading and writing.
    Out,
    /// A directory with some entries.
    Dir,
    /// `/dev/null`, for writing.
    Null,
    /// `/dev/zero`.
    Zero,
    /// The ends of a pipe.
    PipeOut,
    /// See [`Thing::PipeOut`].
    PipeIn,
    /// A pair of connected Unix sockets.
    Socket,
    /// See [`Thing::Socket`].
    Peer,
    /// A Unix socket without an address.
    Lone,
    /// An epoll instance.
    Epoll,
    /// An eventfd.
    Event,
    /// A timer.
    Timer,
    /// An inotify instance.
    Inotify,
    /// The caller's own process.
    Pidfd,
}

/// The reason why a call is in no loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// It ends the process, or replaces its program.
    Ends,
    /// It changes the machine for all.
    Machine,
    /// Without privileges it only fails.
    Privileges,
    /// It waits for something that does not come.
    Waits,
    /// Today's kernels have no more than its number, or only the kernel makes it.
    Obsolete,
    /// A traced program may not make it.
    Tracing,
    /// Each call leaves something behind.
    Leaves,
}

impl Reason {
    /// The reason in words.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Ends => "ends the process",
            Self::Machine => "changes the machine's state",
            Self::Privileges => "needs privileges",
            Self::Waits => "blocks",
            Self::Obsolete => "obsolete, or made by the kernel only",
            Self::Tracing => "cannot be made under a tracer",
            Self::Leaves => "each call leaves something behind",
        }
    }
}

/// All loops.
pub(super) fn loops() -> impl Iterator<Item = &'static Loop> {
    let groups = [
        files::LOOPS,
        paths::LOOPS,
        memory::LOOPS,
        process::LOOPS,
        events::LOOPS,
        system::LOOPS,
    ];
    groups.into_iter().flatten()
}

impl Loop {
    /// The calls of the table that the loop makes, in its order.
    pub(crate) fn calls(&self) -> Vec<&'static str> {
        let steps = match self.body {
            Body::Steps(steps) => steps,
            Body::Program(_) => &[],
        };
        let steps = steps.iter().map(|step| step.call);
        steps.chain(self.also.iter().copied()).collect()
    }

    /// The number of calls in one round, for a cost per call. A body that is a program counts
    /// as one.
    pub(crate) fn len(&self) -> usize {
        match self.body {
            Body::Steps(steps) => steps.len(),
            Body::Program(_) => 1,
        }
    }

    /// After these calls.
    const fn after(mut self, setup: &'static [Step]) -> Self {
        self.setup = setup;
        self
    }

    /// Makes these calls as well.
    const fn also(mut self, calls: &'static [&'static str]) -> Self {
        self.also = calls;
        self
    }
}

/// A loop of calls that programs make often.
const fn often(name: &'static str, steps: &'static [Step]) -> Loop {
    Loop {
        name,
        often: true,
        setup: &[],
        body: Body::Steps(steps),
        also: &[],
    }
}

/// A loop of calls that few programs make, or make once.
const fn seldom(name: &'static str, steps: &'static [Step]) -> Loop {
    let mut all = often(name, steps);
    all.often = false;
    all
}

/// A loop whose body is a program, which makes these calls among others.
const fn program(name: &'static str, calls: &'static [&'static str]) -> Loop {
    Loop {
        name,
        often: true,
        setup: &[],
        body: Body::Program(name),
        also: calls,
    }
}

/// A call through the function of the C library of the same name.
const fn c(call: &'static str, args: &'static [Arg]) -> Step {
    through(call, call, args)
}

/// A call through a function of the C library of another name.
const fn through(function: &'static str, call: &'static str, args: &'static [Arg]) -> Step {
    Step {
        call,
        function: Some(function),
        args,
    }
}

/// A call through syscall(2).
const fn n(call: &'static str, args: &'static [Arg]) -> Step {
    Step {
        call,
        function: None,
        args,
    }
}

/// Closes what a step of the same round has opened.
const fn close(args: &'static [Arg]) -> Step {
    c("close", args)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ptrace_async::syscall::table;

    use super::*;

    #[test]
    fn each_call_of_the_table_is_in_a_loop_or_left_out_with_a_reason() {
        let looped: BTreeSet<&str> = loops().flat_map(Loop::calls).collect();
        let left_out: BTreeSet<&str> = LEFT_OUT.iter().map(|(call, _)| *call).collect();
        assert_eq!(left_out.len(), LEFT_OUT.len());
        let table: BTreeSet<&str> = table::all().map(|spec| spec.name).collect();
        let missing: Vec<_> = table.difference(&(&looped | &left_out)).copied().collect();
        assert_eq!(
            missing,
            Vec::<&str>::new(),
            "neither in a loop nor left out"
        );
        let both: Vec<_> = looped.intersection(&left_out).copied().collect();
        assert_eq!(both, Vec::<&str>::new(), "in a loop and left out");
        let unknown: Vec<_> = (&looped | &left_out).difference(&table).copied().collect();
        assert_eq!(unknown, Vec::<&str>::new(), "not in the table");
    }

    #[test]
    fn loops_have_names_of_their_own() {
        let names: BTreeSet<&str> = loops().map(|one| one.name).collect();
        assert_eq!(names.len(), loops().count());
    }

    #[test]
    fn steps_name_only_what_is_there() {
        for one in loops() {
            let Body::Steps(steps) = one.body else {
                continue;
            };
            for (index, step) in steps.iter().enumerate() {
                assert!(step.args.len() <= 6, "{}", one.name);
                for arg in step.args {
                    let known = match *arg {
                        Arg::Got(other) => other < index,
                        Arg::Shared(k) | Arg::Zeroed(k) | Arg::IntIn(k, _) | Arg::WordIn(k) => {
                            k < SHARED
                        }
                        _ => true,
                    };
                    assert!(known, "{}: {arg:?}", one.name);
                }
            }
        }
    }
}
