//! The columns of the syscall table.
//!
//! A [`Spec`] describes one syscall for all tools. Most of it follows from the argument
//! types. `Out(Bytes(Returned(2)))` says how the argument is decoded, how it is printed,
//! and which bytes the kernel writes, so that the three cannot disagree.
//!
//! **Invariant:** everything here is constant data; looking at a [`Spec`]
//! neither allocates nor reads memory of a tracee.

use super::failure::Failure;
use super::flags::FlagSet;
use super::layout::Layout;

/// The row of one syscall.
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    /// The x86-64 number.
    pub number: u16,
    /// The kernel's name (`pread64`, `newfstatat`).
    pub name: &'static str,
    /// The arguments that the kernel looks at, in register order.
    pub args: &'static [Arg],
    /// The meaning of a successful result.
    pub returns: Return,
    /// Which memory the kernel reads and writes.
    pub effects: Effects,
    /// Memory that the kernel may write after the call has returned.
    pub later: Later,
    /// Whether the call can wait for something outside the calling task.
    pub blocks: bool,
    /// Kernel objects whose state the result depends on.
    pub loads: &'static [Object],
    /// Kernel objects whose state the call changes.
    pub stores: &'static [Object],
    /// Failures that depend on the world rather than on the arguments; see
    /// [`Spec::errors`] for the rest.
    pub world_errors: &'static [i32],
    /// Errors with another meaning than they have for most calls; see
    /// [`Spec::failure`](super::model::Spec::failure).
    pub unusual_errors: &'static [(i32, Failure)],
    /// The answer in a deterministic world.
    pub world: Deterministic,
    /// How a replay treats the call.
    pub replay: Replay,
    /// Whether tools may rely on this row.
    pub support: Support,
}

/// One argument of a syscall.
#[derive(Debug, Clone, Copy)]
pub struct Arg {
    /// The name in the manual page or the kernel.
    pub name: &'static str,
    /// How the 64-bit register is to be understood.
    pub ty: Type,
}

/// How an argument register is to be understood.
#[derive(Debug, Clone, Copy)]
pub enum Type {
    /// A C `int`; the upper half of the register is ignored.
    Int,
    /// A C `unsigned int`; the upper half of the register is ignored.
    UInt,
    /// A 64-bit signed number.
    Long,
    /// A 64-bit number best read in hexadecimal, or a word whose meaning
    /// depends on another argument (`ioctl`, `fcntl`).
    Word,
    /// A number of bytes or items.
    Size,
    /// A file offset.
    Offset,
    /// A file descriptor.
    Fd,
    /// A directory descriptor that may be `AT_FDCWD`; the next [`Type::Path`]
    /// argument is relative to it.
    DirFd,
    /// A process, thread or group id.
    Pid,
    /// A user id; -1 means "unchanged".
    Uid,
    /// A group id; -1 means "unchanged".
    Gid,
    /// Permission bits, printed in octal.
    Mode,
    /// A device number.
    Device,
    /// A signal number.
    Signal,
    /// Symbolic bits or one symbolic value.
    Flags(&'static FlagSet),
    /// An address that this call does not read or write through.
    Address,
    /// A NUL-terminated path.
    Path,
    /// Another NUL-terminated string.
    Text,
    /// A NULL-terminated array of pointers to NUL-terminated strings.
    Strings,
    /// Memory that the kernel reads.
    In(Extent),
    /// Memory that the kernel writes when the call succeeds.
    Out(Extent),
    /// Memory that the kernel reads, and writes when the call succeeds.
    InOut(Extent),
    /// Memory that the kernel writes in other cases than plain success.
    OutWhen(When, Extent),
    /// Memory that the kernel reads, and writes in other cases than plain
    /// success.
    InOutWhen(When, Extent),
}

/// With which results the kernel writes an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// With any result that is not an error.
    Success,
    /// With a result above zero (`wait4` that found a child).
    Positive,
    /// When a signal ended the call (`nanosleep`).
    Interrupted,
    /// With success, and when a signal ended the call (`poll`).
    SuccessOrInterrupted,
    /// With `E2BIG`: the kernel stores the size it knows in the size field of an
    /// extensible structure, and nothing else.
    TooBig,
    /// With any result.
    Always,
}

/// The shape and size of pointed-to memory.
#[derive(Debug, Clone, Copy)]
pub enum Extent {
    /// So many bytes of data.
    Bytes(Length),
    /// One structure.
    One(Layout),
    /// An array of structures; the length counts items.
    Many(Layout, Length),
    /// A structure whose size in bytes is given at run time (extensible
    /// structures, socket addresses).
    Sized(Layout, Length),
    /// An array of `struct iovec`, as many as the named argument says. The
    /// array itself is read; the direction is that of the buffers, which are
    /// transferred up to the result.
    Vectors(u8),
    /// A `struct msghdr` with its name, control data and buffers. The
    /// direction is that of the buffers.
    Message,
    /// An array of `struct mmsghdr`, as many as the named argument says.
    Messages(u8),
    /// A bit set with as many bits as the named argument says, in 64-bit words.
    BitSet(u8),
    /// A NUMA node set: as [`Extent::BitSet`], with one bit less.
    NodeSet(u8),
}

/// Where a length comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// Always the same.
    Fixed(u32),
    /// The value of the named argument.
    Arg(u8),
    /// The result, and never more than the named argument (which is zero where
    /// a program only asks for the size). Before the result is known: the
    /// argument.
    Returned(u8),
    /// The `u32` that the named argument points to. Where the call updates it,
    /// the smaller of the values before and after.
    Pointed(u8),
    /// One for each page in the number of bytes that the named argument gives.
    Pages(u8),
    /// The `u32` at this offset of the structure itself.
    Head(u8),
    /// The `u32` at the start of the structure itself, and never more than the
    /// named argument.
    HeadWithin(u8),
}

/// The meaning of a result that is not an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Return {
    /// Zero.
    Zero,
    /// A number of bytes or items.
    Count,
    /// A new file descriptor.
    Fd,
    /// A process, thread, group or session id.
    Pid,
    /// An address.
    Address,
    /// A file offset.
    Offset,
    /// Some other number.
    Value,
    /// A user or group id.
    Id,
    /// It does not return to its caller.
    Never,
    /// The kernel has no such call (any more) and answers `ENOSYS`.
    NoSys,
}

/// Whether the memory effects of a call are known.
///
/// A change of the mappings (`mmap`, `munmap`, `mremap`, `brk`, `execve`) is a
/// store to [`Object::AddressSpace`] and no memory effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effects {
    /// They follow from the argument types.
    Typed,
    /// They follow from the argument types and this rule.
    Rule(Rule),
    /// They are not known, for this reason.
    Unmodelled(&'static str),
}

/// Memory effects that depend on the values of arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "each variant is the call, or family of calls, that it serves"
)]
pub enum Rule {
    ArchPrctl,
    Capabilities,
    Clone,
    Clone3,
    Fcntl,
    FileHandle,
    FsConfig,
    Futex,
    FutexWaitV,
    Ioctl,
    Kcmp,
    ModifyLdt,
    Madvise,
    MessageQueue,
    MsgCtl,
    Poll,
    Prctl,
    Pselect,
    Seccomp,
    SemCtl,
    ShmCtl,
    SysFs,
    Syslog,
    WaitId,
    XattrAt,
}

/// Memory that the kernel may write after a call has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Later {
    /// None.
    Never,
    /// When the task ends (`set_tid_address`, `set_robust_list`).
    AtExit,
    /// At any time (`rseq`, asynchronous input and output).
    Anytime,
}

/// A kernel object, at the granularity at which two calls conflict.
///
/// A number names the argument that identifies the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Object {
    /// The descriptor table.
    FdTable,
    /// The open file description behind a descriptor: position and flags.
    File(u8),
    /// The object behind a descriptor: content and metadata of the file, the bytes in the
    /// pipe or socket, the state of the device.
    Content(u8),
    /// The directory entry that a path names.
    Name(u8),
    /// The file that a path resolves to: content and metadata.
    Node(u8),
    /// The working directory.
    Cwd,
    /// The root directory.
    Root,
    /// The file-creation mask.
    Umask,
    /// The mounts of the namespace.
    Mounts,
    /// All file systems (`sync`).
    FileSystems,
    /// The namespaces of the task.
    Namespaces,
    /// The mappings and their protection.
    AddressSpace,
    /// The word at the address in an argument, and its waiters.
    Futex(u8),
    /// Signal dispositions.
    SignalActions,
    /// The signal mask and the alternate stack of the task.
    SignalMask,
    /// Signals that wait for delivery.
    PendingSignals,
    /// The task or process that an argument names.
    Process(u8),
    /// The calling task or process itself: name, personality, `prctl` state.
    Myself,
    /// The children: their existence, and their ends.
    Children,
    /// Process groups, sessions and the controlling terminal.
    Groups,
    /// User and group ids, capabilities, keyrings.
    Credentials,
    /// Resource limits.
    Limits,
    /// Resource usage.
    Usage,
    /// Scheduling policy, priority and affinity.
    Scheduling,
    /// A clock.
    Clock,
    /// The timers of the process.
    Timers,
    /// The entropy pool.
    Random,
    /// Addresses, ports and routes.
    Network,
    /// System V and POSIX inter-process communication.
    Ipc,
    /// Kernel keys.
    Keys,
    /// The machine: host name, memory, modules, power, processors.
    Machine,
}

/// The answer in a deterministic world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Deterministic {
    /// The kernel's answer: equal inputs have equal answers.
    Same,
    /// A time from a logical clock.
    Clock,
    /// Bytes from a seeded generator.
    Random,
    /// Ids in the order of creation.
    Pid,
    /// The full count: a short transfer is continued.
    Count,
    /// File metadata with logical inode numbers and times.
    Metadata,
    /// Entries in a fixed order.
    Order,
    /// A fixed machine.
    Machine,
    /// Fixed resource usage.
    Usage,
    /// A fixed address.
    Address,
    /// An answer that depends on the progress of other tasks, and so on a fixed schedule.
    Schedule,
    /// Nothing: the call reaches outside of any such world.
    Refuse,
}

/// How a replay that has no effects outside treats a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Replay {
    /// It is not performed: the recorded result and memory take its place.
    Emulate,
    /// It is performed again, because it builds state of the task itself.
    ReExecute,
    /// Neither alone will do (`mmap` of a file, `clone`, `execve`).
    Special,
}

/// Whether tools may rely on a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// Yes.
    Modelled,
    /// No, for this reason; meeting the call is an error that names it.
    Unsupported(&'static str),
}

impl Spec {
    /// A row with the commonest answers in the other columns.
    #[must_use]
    pub(super) const fn new(
        number: u16,
        name: &'static str,
        args: &'static [Arg],
        returns: Return,
    ) -> Self {
        assert!(args.len() <= 6, "a syscall has at most six arguments");
        Self {
            number,
            name,
            args,
            returns,
            effects: Effects::Typed,
            later: Later::Never,
            blocks: false,
            loads: &[],
            stores: &[],
            world_errors: &[],
            unusual_errors: &[],
            world: Deterministic::Same,
            replay: Replay::Emulate,
            support: Support::Modelled,
        }
    }

    pub(super) const fn blocks(mut self) -> Self {
        self.blocks = true;
        self
    }

    pub(super) const fn loads(mut self, objects: &'static [Object]) -> Self {
        self.loads = objects;
        self
    }

    pub(super) const fn stores(mut self, objects: &'static [Object]) -> Self {
        self.stores = objects;
        self
    }

    pub(super) const fn fails(mut self, errors: &'static [i32]) -> Self {
        self.world_errors = errors;
        self
    }

    /// Errors whose meaning is not the usual one of their number.
    pub(super) const fn means(mut self, errors: &'static [(i32, Failure)]) -> Self {
        self.unusual_errors = errors;
        self
    }

    pub(super) const fn world(mut self, world: Deterministic) -> Self {
        self.world = world;
        self
    }

    pub(super) const fn rule(mut self, rule: Rule) -> Self {
        self.effects = Effects::Rule(rule);
        self
    }

    pub(super) const fn unmodelled(mut self, reason: &'static str) -> Self {
        self.effects = Effects::Unmodelled(reason);
        self
    }

    pub(super) const fn later(mut self, later: Later) -> Self {
        self.later = later;
        self
    }

    pub(super) const fn reexecuted(mut self) -> Self {
        self.replay = Replay::ReExecute;
        self
    }

    pub(super) const fn special(mut self) -> Self {
        self.replay = Replay::Special;
        self
    }

    pub(super) const fn unsupported(mut self, reason: &'static str) -> Self {
        self.support = Support::Unsupported(reason);
        self
    }

    /// Whether tools may rely on this row: it is supported, and its memory
    /// effects are known.
    #[must_use]
    pub const fn is_modelled(&self) -> bool {
        matches!(self.support, Support::Modelled) && !matches!(self.effects, Effects::Unmodelled(_))
    }

    /// The position of the argument with this name.
    #[must_use]
    pub fn position(&self, name: &str) -> Option<usize> {
        self.args.iter().position(|arg| arg.name == name)
    }

    /// The path arguments: for each its position, and the position of the
    /// directory descriptor that it is relative to, if the call has one.
    pub fn paths(&self) -> impl Iterator<Item = (usize, Option<usize>)> + '_ {
        self.args
            .iter()
            .enumerate()
            .filter(|(_, arg)| matches!(arg.ty, Type::Path))
            .map(|(index, _)| {
                let base = index.checked_sub(1);
                (
                    index,
                    base.filter(|&base| matches!(self.args[base].ty, Type::DirFd)),
                )
            })
    }

    /// Errors that the call can return: those that follow from the types of
    /// its arguments, and those that the table names. Coarse: permission and
    /// validity checks of single calls are not listed.
    #[must_use]
    pub fn errors(&self) -> Vec<i32> {
        let mut errors = Vec::new();
        if self.returns == Return::NoSys {
            return vec![libc::ENOSYS];
        }
        for arg in self.args {
            match arg.ty {
                Type::Fd => errors.push(libc::EBADF),
                Type::DirFd => errors.extend([libc::EBADF, libc::ENOTDIR]),
                Type::Path => errors.extend([
                    libc::EFAULT,
                    libc::ENOENT,
                    libc::ENOTDIR,
                    libc::EACCES,
                    libc::ELOOP,
                    libc::ENAMETOOLONG,
                    libc::EIO,
                    libc::ENOMEM,
                    libc::ESTALE,
                ]),
                Type::Pid => errors.push(libc::ESRCH),
                Type::Flags(_) | Type::Signal => errors.push(libc::EINVAL),
                Type::Text
                | Type::Strings
                | Type::In(_)
                | Type::Out(_)
                | Type::InOut(_)
                | Type::OutWhen(..)
                | Type::InOutWhen(..) => errors.push(libc::EFAULT),
                _ => {}
            }
        }
        if self.blocks {
            errors.push(libc::EINTR);
        }
        if self.returns == Return::Fd {
            errors.extend([libc::EMFILE, libc::ENFILE, libc::ENOMEM]);
        }
        errors.extend_from_slice(self.world_errors);
        errors.sort_unstable();
        errors.dedup();
        errors
    }
}
