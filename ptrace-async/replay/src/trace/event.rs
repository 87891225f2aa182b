//! The records of a trace: one [`Record`] for each input of a task from outside.
//!
//! Between two records of a task its program runs by itself, and does the same in every run
//! that starts from the same memory and registers. All records of a trace are in one order, in
//! which the tasks of one *group* (those that share writable memory) took turns.

use ptrace_async::syscall::Invocation;
use serde::{Deserialize, Serialize};

pub use crate::code::registers::Registers;

/// A task (thread) of a recording, numbered in the order of appearance.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default,
)]
pub struct Task(pub u32);

impl std::fmt::Display for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "task {}", self.0)
    }
}

/// A file whose content programs had in memory, numbered in the order of appearance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileNumber(pub u32);

/// Tasks that share writable memory, and take turns.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default,
)]
pub struct Group(pub u32);

/// One thing that happened to a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The task that it happened to.
    pub task: Task,
    /// Time in milliseconds since the recording began.
    pub time: u64,
    /// The event.
    pub event: Event,
}

/// An event of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// A program began, by an execve of the task, or as the first of the recording.
    Image(Box<Image>),
    /// The task came to a syscall.
    Call(Call),
    /// The call returned.
    Return(Return),
    /// Code was changed, so that calls do not stop there any more ([`crate::buffer`]).
    Patched(Patched),
    /// Calls that did not stop: the log of them, since the event before.
    Buffered(Buffered),
    /// The call made a task, which has not run yet.
    Spawned(Spawned),
    /// A task that was made begins.
    Started(Box<Started>),
    /// A signal was delivered to a handler.
    Signal(Box<Signal>),
    /// The task was stopped between two syscalls, and something happens to it here.
    Point(Box<ExecutionPoint>),
    /// An instruction was answered whose result differs from run to run.
    Instruction(Instruction),
    /// The task ended.
    Exit(Exit),
    /// A file that is mapped by what follows.
    File(Box<File>),
    /// The task's call changed a file that is mapped.
    FileChanged(FileChanged),
    /// The task's memory at this point, in one number.
    Digest(u64),
    /// The task's group has become part of this one: from now on they take turns.
    Joined(Group),
    /// How the first process ended, where that is not how its first task did: another
    /// thread went on after it, or executed a program.
    Ended(Ending),
    /// The kernel changed memory before the task's call returned.
    Written(Vec<Write>),
    /// A process that is not recorded changed a file while it was mapped: a replay does not
    /// know when, nor what.
    ChangedOutside(FileNumber),
}

/// A site whose calls do not stop any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Patched {
    /// Whether it is the first of the address space, which has got room for a log.
    pub is_first: bool,
    /// Pages that were mapped for trampolines.
    pub pages: Vec<u64>,
    /// Where the current call ends now, if that has changed.
    pub end: Option<u64>,
    /// How many sites these are.
    pub sites: u32,
    /// The code.
    pub writes: Vec<Write>,
}

/// Calls that did not stop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buffered {
    /// Their entries in the log, as they were in the process's memory.
    #[serde(with = "bytes")]
    pub log: Vec<u8>,
    /// The files that were mapped by them, one by one.
    pub files: Vec<FileNumber>,
}

/// A syscall as it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Its number.
    pub nr: u64,
    /// Its arguments, whether the call has so many or not.
    pub args: [u64; 6],
    /// The address behind the instruction.
    pub ip: u64,
    /// The stack pointer.
    pub sp: u64,
    /// A digest of the registers that a call preserves.
    pub check: u32,
}

impl Call {
    /// Its number and arguments.
    pub fn invocation(&self) -> Invocation {
        Invocation {
            nr: self.nr,
            args: self.args,
        }
    }
}

/// A syscall as it ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Return {
    /// The result, or a negative error number.
    pub value: i64,
    /// Memory that it changed.
    pub writes: Vec<Write>,
    /// More that it did.
    pub more: CallEffect,
}

/// An effect of a call beyond its result and memory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub enum CallEffect {
    /// No further effect.
    #[default]
    Nothing,
    /// Part of what was written went to the recorder's own output.
    Output {
        /// 1 or 2.
        stream: u8,
        /// Counts the outputs of the whole recording.
        number: u64,
        /// A digest of what was printed; not of what a task printed while it was killed.
        check: Option<u32>,
    },
    /// A file was mapped.
    Mapped {
        /// The file.
        file: FileNumber,
        /// Whether what is written there is seen by all who map it.
        shared: bool,
    },
    /// All registers changed (`rt_sigreturn`).
    State(Box<RegisterState>),
}

/// All registers of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegisterState {
    /// The general ones.
    pub registers: Registers,
    /// The others, in the format of XSAVE.
    #[serde(with = "bytes")]
    pub extended: Vec<u8>,
}

/// Bytes that appeared in memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Write {
    /// The first address.
    pub address: u64,
    /// The bytes.
    #[serde(with = "bytes")]
    pub bytes: Vec<u8>,
}

/// A new task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spawned {
    /// Its number.
    pub child: Task,
    /// The `CLONE_*` flags that made it.
    pub flags: u64,
    /// The group that it belongs to: its maker's, if they share memory.
    pub group: Group,
}

/// The first moment of a task that was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Started {
    /// Its registers.
    pub registers: Registers,
    /// The processor it ran on.
    pub cpu: u32,
    /// Memory that the kernel wrote at its start (its id).
    pub writes: Vec<Write>,
}

/// Position in the program where a signal was delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SignalPosition {
    /// Right after its last event.
    Event,
    /// Before the syscall that it came to.
    Call,
    /// At an instruction that faults.
    Fault,
}

/// A signal that a handler was called for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Signal {
    /// Its number.
    pub signal: i32,
    /// Where the program was.
    pub at: SignalPosition,
    /// The instruction there.
    pub ip: u64,
    /// At the handler's first instruction.
    pub state: RegisterState,
    /// The frame on the stack.
    pub frame: Write,
}

/// A place in a program that no syscall marks, found again by its state: where all of this
/// is equal, the future is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionPoint {
    /// The general registers.
    pub registers: Registers,
    /// A digest of the others ([`RegisterState::extended`]).
    pub extended: u64,
    /// The top of the stack, from 128 bytes below the stack pointer upwards.
    pub stack: Vec<u8>,
    /// Words of memory that the program writes here, and what they are.
    pub words: Vec<(u64, u64)>,
    /// Which registers differ from visit to visit, as far as was seen.
    pub telling: Vec<u8>,
    /// How many bytes of code can be moved elsewhere to make room for a jump; 0 when none.
    pub room: u8,
    /// The code there, where the program has made it itself and may do so only on its way
    /// here.
    pub code: Vec<u8>,
    /// A digest of memory, where there was time to compute it.
    pub contents: Option<Contents>,
}

/// A digest of the private memory of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    /// The digest.
    pub digest: u64,
    /// The stack pointers of its threads: what lies below them does not count.
    pub stacks: Vec<u64>,
}

/// An instruction whose result differs from run to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instruction {
    /// The kind of instruction.
    pub kind: InstructionKind,
    /// Where it is.
    pub ip: u64,
    /// The counter, or the random number.
    pub value: u64,
    /// `rdtscp`: the processor's id.
    pub aux: u32,
}

/// The instructions that are trapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum InstructionKind {
    /// `rdtsc`.
    Rdtsc,
    /// `rdtscp`.
    Rdtscp,
    /// `rdrand` or `rdseed`, of which the opcode has been replaced by that of `ud2`.
    Random {
        /// The register, by its number in instructions.
        register: u8,
        /// How many bytes of it: 2, 4 or 8.
        size: u8,
        /// The instruction's length.
        length: u8,
    },
}

impl InstructionKind {
    /// Its length in bytes.
    pub fn length(self) -> u64 {
        match self {
            Self::Rdtsc => 2,
            Self::Rdtscp => 3,
            Self::Random { length, .. } => length.into(),
        }
    }

    /// Which one stands there.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0x0f, 0x31, ..] => Some(Self::Rdtsc),
            [0x0f, 0x01, 0xf9, ..] => Some(Self::Rdtscp),
            _ => Self::random(bytes, [0x0f, 0x0b]).map(|(kind, _)| kind),
        }
    }

    /// The [`Random`](Self::Random) that begins there, of which the opcode is `opcode`, and its
    /// length. With a prefix that makes it something else it is none.
    pub(crate) fn random(bytes: &[u8], opcode: [u8; 2]) -> Option<(Self, u8)> {
        let short = bytes.first() == Some(&0x66);
        let rest = &bytes[usize::from(short)..];
        let extension = rest.first().filter(|&&byte| byte & 0xf0 == 0x40);
        let rest = &rest[usize::from(extension.is_some())..];
        let [first, second, register, ..] = *rest else {
            return None;
        };
        if [first, second] != opcode || register < 0xf0 {
            return None;
        }
        let extension = extension.copied().unwrap_or(0);
        let size = match (extension & 8 != 0, short) {
            (true, _) => 8,
            (false, true) => 2,
            (false, false) => 4,
        };
        let length = (bytes.len() - rest.len() + 3) as u8;
        let kind = Self::Random {
            register: register & 7 | (extension & 1) << 3,
            size,
            length,
        };
        Some((kind, length))
    }
}

/// The end of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// How, where it is known.
    pub ending: Ending,
    /// Writes of the kernel to memory that other tasks share.
    pub writes: Vec<Write>,
}

/// How a task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// By itself, with this status.
    Exited(i32),
    /// By this signal.
    Killed(i32),
    /// Another thread executed a program and has its id.
    Superseded,
}

/// A program as it begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Image {
    /// The program's path.
    pub program: Vec<u8>,
    /// The process id it had.
    pub pid: i32,
    /// The group that its task belongs to from now on.
    pub group: Group,
    /// The processor it ran on: programs can ask which it is, without a call.
    pub cpu: u32,
    /// Registers.
    pub registers: Registers,
    /// Its memory, from the bottom.
    pub mappings: Vec<Mapping>,
    /// Content that is not from files: the stack, the end of the data segment.
    pub writes: Vec<Write>,
}

/// A mapping of a fresh program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapping {
    /// The first address.
    pub start: u64,
    /// The first address behind it.
    pub end: u64,
    /// `PROT_*`.
    pub prot: u8,
    /// Whether it grows downwards.
    pub grows_down: bool,
    /// The file behind it, and the offset there.
    pub file: Option<(FileNumber, u64)>,
}

/// A file that programs had in memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// Its number.
    pub number: FileNumber,
    /// Where it was.
    pub path: Vec<u8>,
    /// Its identity when it was recorded.
    pub identity: Identity,
    /// The digest of its content (BLAKE3), if it was stored with the trace.
    pub stored: Option<[u8; 32]>,
}

/// New content of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChanged {
    /// Which file.
    pub number: FileNumber,
    /// Its size now.
    pub size: u64,
    /// Where the new bytes are.
    pub offset: u64,
    /// The new bytes.
    #[serde(with = "bytes")]
    pub bytes: Vec<u8>,
}

/// Identity of a file and of its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The device.
    pub device: u64,
    /// The inode.
    pub inode: u64,
    /// Its size in bytes.
    pub size: u64,
    /// The last change of the content, in nanoseconds.
    pub modified: i64,
    /// The last change of anything, in nanoseconds.
    pub changed: i64,
}

/// Byte strings as such, and not as lists of numbers.
mod bytes {
    use serde::de::{Error, Visitor};
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], s: S) -> Result<S::Ok, S::Error> {
        s.serialize_bytes(bytes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<u8>, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Vec<u8>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
                Ok(bytes.to_vec())
            }
        }
        d.deserialize_bytes(Bytes)
    }
}
