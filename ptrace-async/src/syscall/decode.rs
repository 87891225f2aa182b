//! Arguments as values, decoded from the registers and the memory behind them.
//!
//! [`Decoded::at_entry`] decodes the inputs of a call, [`Decoded::at_exit`] also its
//! outputs. Memory that cannot be read is a value as well ([`Value::Unreadable`]), since
//! the kernel answers `EFAULT` and the tool continues.
//!
//! **Invariant:** no registers and no memory make decoding panic, and it reads
//! no more than its [`Limits`] allow.

use smallvec::SmallVec;

use super::call::Syscall;
use super::effects;
use super::effects::range::{count_of, read_vectors};
use super::flags::{self, FlagSet};
use super::layout::Layout;
use super::model::{Extent, Spec, Type, When};
use crate::invocation::Invocation;
use crate::memory::Memory;

/// How much of the memory behind arguments is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a data buffer.
    pub bytes: usize,
    /// Bytes of a string.
    pub text: usize,
    /// Items of an array, and strings of an array of strings.
    pub items: usize,
}

impl Default for Limits {
    /// Paths in full, 32 bytes of data, and 16 items.
    fn default() -> Self {
        Self {
            bytes: 32,
            text: 4096,
            items: 16,
        }
    }
}

/// A call, and its arguments as values.
#[derive(Debug, Clone)]
pub struct Decoded {
    /// The call as the registers have it.
    pub invocation: Invocation,
    /// The syscall's row of the table.
    pub syscall: Syscall,
    /// The arguments that the kernel looks at; for unknown syscalls all six
    /// registers.
    pub args: SmallVec<[DecodedArg; 6]>,
    /// The raw result, at exit.
    pub result: Option<i64>,
}

/// One argument.
#[derive(Debug, Clone)]
pub struct DecodedArg {
    /// Its name in the table.
    pub name: &'static str,
    /// The register.
    pub raw: u64,
    /// Its value.
    pub value: Value,
}

/// The value of an argument.
#[derive(Debug, Clone)]
pub enum Value {
    /// A signed number, as wide as its type.
    Int(i64),
    /// An unsigned number, as wide as its type.
    UInt(u64),
    /// A number without a better form than hexadecimal.
    Word(u64),
    /// A file descriptor.
    Fd(i32),
    /// A directory descriptor, or `AT_FDCWD`.
    DirFd(i32),
    /// A user or group id; `None` is "unchanged" (-1).
    Id(Option<u32>),
    /// Permission bits and file type.
    Mode(u32),
    /// A device number.
    Device(u64),
    /// A signal number.
    Signal(i32),
    /// Flags or an enumerated value.
    Flags(&'static FlagSet, u64),
    /// An address that is not looked behind.
    Address(u64),
    /// A null pointer.
    Null,
    /// A string (a path, or another), without its NUL. `complete` is false when
    /// it was cut to the limit.
    Text {
        /// The bytes.
        bytes: Vec<u8>,
        /// Whether that is all.
        complete: bool,
    },
    /// An array of strings.
    Strings {
        /// The first strings.
        items: Vec<Vec<u8>>,
        /// Whether these are all, each in full.
        complete: bool,
    },
    /// A data buffer.
    Bytes {
        /// The first bytes.
        bytes: Vec<u8>,
        /// How long the buffer is.
        len: u64,
    },
    /// A structure.
    Struct {
        /// Which.
        layout: Layout,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// An array of structures or integers.
    Structs {
        /// Of what.
        layout: Layout,
        /// The bytes of the first items.
        items: Vec<Vec<u8>>,
        /// How many items there are.
        count: u64,
    },
    /// The buffers that an array of `struct iovec` describes.
    Vectors {
        /// The first buffers: their beginnings and lengths.
        items: Vec<(Vec<u8>, u64)>,
        /// How many buffers there are.
        count: u64,
    },
    /// A message header.
    Message(Box<Message>),
    /// An array of message headers, with the bytes sent or received of each.
    Messages(Vec<(Message, u32)>),
    /// An output that the kernel has not written (yet).
    Unwritten(u64),
    /// An address that could not be read.
    Unreadable(u64),
}

/// A `struct msghdr`.
#[derive(Debug, Clone)]
pub struct Message {
    /// The address, if there is one.
    pub name: Option<Vec<u8>>,
    /// The buffers, as in [`Value::Vectors`].
    pub buffers: Vec<(Vec<u8>, u64)>,
    /// The number of bytes of control data.
    pub control_len: u64,
    /// The flags of a received message.
    pub flags: u32,
}

impl Decoded {
    /// Decodes a call that is about to be made.
    #[must_use]
    pub fn at_entry(invocation: Invocation, memory: &dyn Memory) -> Self {
        Self::with_limits(invocation, None, memory, &Limits::default())
    }

    /// Decodes a call that was made.
    #[must_use]
    pub fn at_exit(invocation: Invocation, result: i64, memory: &dyn Memory) -> Self {
        Self::with_limits(invocation, Some(result), memory, &Limits::default())
    }

    /// Decodes a call with other limits than the usual ones.
    #[must_use]
    pub fn with_limits(
        invocation: Invocation,
        result: Option<i64>,
        memory: &dyn Memory,
        limits: &Limits,
    ) -> Self {
        let syscall = invocation.syscall();
        let args = match syscall {
            Syscall::Known(spec) => {
                let decoder = Decoder {
                    spec,
                    invocation: &invocation,
                    result,
                    memory,
                    limits,
                };
                let looked_at = (0..spec.args.len()).filter(|&index| !decoder.is_ignored(index));
                looked_at.map(|index| decoder.arg(index)).collect()
            }
            Syscall::Unknown(_) => invocation
                .args
                .iter()
                .map(|&raw| DecodedArg {
                    name: "",
                    raw,
                    value: Value::Word(raw),
                })
                .collect(),
        };
        Self {
            invocation,
            syscall,
            args,
            result,
        }
    }

    /// The value of the argument with this name.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.args
            .iter()
            .find(|arg| arg.name == name)
            .map(|arg| &arg.value)
    }

    /// The path arguments that could be read in full, each with the directory
    /// descriptor that it is relative to (`AT_FDCWD` where the call has none).
    pub fn paths(&self) -> impl Iterator<Item = (i32, &[u8])> + '_ {
        let places = self.syscall.spec().into_iter().flat_map(Spec::paths);
        places.filter_map(|(at, base)| {
            let base = match base.map(|base| &self.args[base].value) {
                Some(&Value::DirFd(fd)) => fd,
                _ => libc::AT_FDCWD,
            };
            match &self.args[at].value {
                Value::Text {
                    bytes,
                    complete: true,
                } => Some((base, bytes.as_slice())),
                _ => None,
            }
        })
    }
}

/// The state that decoding one call needs.
struct Decoder<'a> {
    spec: &'static Spec,
    invocation: &'a Invocation,
    result: Option<i64>,
    memory: &'a dyn Memory,
    limits: &'a Limits,
}

impl Decoder<'_> {
    fn arg(&self, index: usize) -> DecodedArg {
        let arg = self.spec.args[index];
        let raw = self.invocation.args[index];
        let ty = self.refined(index).unwrap_or(arg.ty);
        DecodedArg {
            name: arg.name,
            raw,
            value: self.value(raw, ty),
        }
    }

    /// Whether the kernel does not look at an argument, given the others.
    fn is_ignored(&self, index: usize) -> bool {
        match (self.spec.name, index) {
            // The mode counts only where a file can be created.
            ("open", 2) | ("openat", 3) => {
                let creates = (libc::O_CREAT | libc::O_TMPFILE & !libc::O_DIRECTORY) as u64;
                self.invocation.args[index - 1] & creates == 0
            }
            ("fcntl", 2) => matches!(
                self.invocation.args[1] as i32,
                libc::F_GETFD
                    | libc::F_GETFL
                    | libc::F_GETOWN
                    | libc::F_GETLEASE
                    | libc::F_GETPIPE_SZ
                    | libc::F_GET_SEALS
            ),
            ("futex", 3..) => match self.invocation.args[1] as i32 & 0x7f {
                libc::FUTEX_WAKE | libc::FUTEX_UNLOCK_PI | libc::FUTEX_TRYLOCK_PI => true,
                libc::FUTEX_WAIT | libc::FUTEX_LOCK_PI => index > 3,
                libc::FUTEX_WAIT_BITSET => index == 4,
                _ => false,
            },
            _ => false,
        }
    }

    /// The type of an argument whose meaning depends on a command before it.
    fn refined(&self, index: usize) -> Option<Type> {
        let command = self.invocation.args[1] as i32;
        match (self.spec.name, index) {
            ("fcntl", 2) => Some(match command {
                libc::F_SETFL => Type::Flags(flags::OPEN),
                libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => Type::Int,
                libc::F_GETLK | libc::F_OFD_GETLK => Type::InOut(Extent::One(Layout::Flock)),
                libc::F_SETLK | libc::F_SETLKW | libc::F_OFD_SETLK | libc::F_OFD_SETLKW => {
                    Type::In(Extent::One(Layout::Flock))
                }
                _ => return None,
            }),
            ("futex", 3) => match command & 0x7f {
                libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET | libc::FUTEX_LOCK_PI => {
                    Some(Type::In(Extent::One(Layout::Timespec)))
                }
                _ => None,
            },
            _ => None,
        }
    }

    fn value(&self, raw: u64, ty: Type) -> Value {
        match ty {
            Type::Path | Type::Text => self.text(raw),
            Type::Strings => self.strings(raw),
            Type::In(extent) => self.pointed(raw, extent),
            Type::Out(extent) => self.output(raw, When::Success, extent),
            Type::OutWhen(when, extent) => self.output(raw, when, extent),
            Type::InOut(extent) | Type::InOutWhen(_, extent) => self.pointed(raw, extent),
            plain => scalar(raw, plain),
        }
    }

    fn output(&self, raw: u64, when: When, extent: Extent) -> Value {
        match self.result {
            _ if raw == 0 => Value::Null,
            Some(result) if effects::is_written(self.invocation, result, when) => {
                self.pointed(raw, extent)
            }
            _ => Value::Unwritten(raw),
        }
    }

    fn text(&self, raw: u64) -> Value {
        if raw == 0 {
            return Value::Null;
        }
        match self.memory.read_c_string(raw, self.limits.text) {
            Ok(bytes) => Value::Text {
                bytes,
                complete: true,
            },
            Err(_) => match self.bytes(raw, self.limits.text) {
                bytes if bytes.is_empty() => Value::Unreadable(raw),
                bytes => Value::Text {
                    bytes,
                    complete: false,
                },
            },
        }
    }

    fn strings(&self, raw: u64) -> Value {
        if raw == 0 {
            return Value::Null;
        }
        let mut items = Vec::new();
        let mut complete = true;
        for index in 0.. {
            let pointer = raw
                .checked_add(index * 8)
                .map(|at| self.memory.read_u64(at));
            let Some(Ok(pointer)) = pointer else {
                if index == 0 {
                    return Value::Unreadable(raw);
                }
                complete = false;
                break;
            };
            if pointer == 0 {
                break;
            }
            if items.len() == self.limits.items {
                complete = false;
                break;
            }
            let item = self.memory.read_c_string(pointer, self.limits.text);
            complete &= item.is_ok();
            items.push(item.unwrap_or_else(|_| self.bytes(pointer, self.limits.text)));
        }
        Value::Strings { items, complete }
    }

    fn pointed(&self, raw: u64, extent: Extent) -> Value {
        if raw == 0 {
            return Value::Null;
        }
        let len = effects::size(self.invocation, self.result, self.memory, extent, raw);
        match extent {
            Extent::Bytes(_) => self.data(raw, len),
            Extent::One(layout) | Extent::Sized(layout, _) => {
                // The largest structure that has a printed form fits in a page.
                let bytes = self.bytes(raw, len.min(4096) as usize);
                if bytes.is_empty() && len > 0 {
                    Value::Unreadable(raw)
                } else {
                    Value::Struct { layout, bytes }
                }
            }
            Extent::Many(layout, _) => self.array(raw, layout, len),
            Extent::BitSet(_) | Extent::NodeSet(_) => self.array(raw, Layout::U64, len),
            Extent::Vectors(count) => {
                let count = count_of(self.spec, self.invocation, count);
                let done = self.done();
                Value::Vectors {
                    items: self.buffers(raw, count, done),
                    count,
                }
            }
            Extent::Message => match self.message(raw, self.done()) {
                Some(message) => Value::Message(Box::new(message)),
                None => Value::Unreadable(raw),
            },
            Extent::Messages(count) => {
                let count = count_of(self.spec, self.invocation, count);
                let count = count.min(self.limits.items as u64).min(self.done());
                let mut messages = Vec::new();
                for index in 0..count {
                    let at = raw.saturating_add(index * 64);
                    let done = self.memory.read_i32(at.saturating_add(56)).unwrap_or(0) as u32;
                    let limit = if self.result.is_some() {
                        u64::from(done)
                    } else {
                        u64::MAX
                    };
                    match self.message(at, limit) {
                        Some(message) => messages.push((message, done)),
                        None => break,
                    }
                }
                Value::Messages(messages)
            }
        }
    }

    /// How many bytes or items went through the call; before it: no bound.
    fn done(&self) -> u64 {
        self.result
            .map_or(u64::MAX, |result| result.max(0).cast_unsigned())
    }

    fn data(&self, raw: u64, len: u64) -> Value {
        let bytes = self.bytes(raw, len.min(self.limits.bytes as u64) as usize);
        if bytes.is_empty() && len > 0 {
            Value::Unreadable(raw)
        } else {
            Value::Bytes { bytes, len }
        }
    }

    fn array(&self, raw: u64, layout: Layout, len: u64) -> Value {
        let size = u64::from(layout.size().max(1));
        let count = len / size;
        let wanted = count.min(self.limits.items as u64) * size;
        let bytes = self.bytes(raw, wanted as usize);
        if bytes.is_empty() && wanted > 0 {
            return Value::Unreadable(raw);
        }
        let items = bytes
            .chunks_exact(size as usize)
            .map(<[u8]>::to_vec)
            .collect();
        Value::Structs {
            layout,
            items,
            count,
        }
    }

    /// The beginnings of the buffers of a vector, of which `done` bytes count.
    fn buffers(&self, raw: u64, count: u64, done: u64) -> Vec<(Vec<u8>, u64)> {
        let mut left = done;
        let vectors = read_vectors(self.memory, raw, count.min(self.limits.items as u64));
        let buffer = |vector: effects::Range| {
            let valid = vector.len.min(left);
            left -= valid;
            let shown = valid.min(self.limits.bytes as u64) as usize;
            (self.bytes(vector.start, shown), vector.len)
        };
        vectors.into_iter().map(buffer).collect()
    }

    fn message(&self, raw: u64, done: u64) -> Option<Message> {
        let field = |offset: u64| {
            let at = raw.checked_add(offset)?;
            self.memory.read_u64(at).ok()
        };
        let (name, name_len) = (field(0)?, field(8)? & 0xffff_ffff);
        let (vectors, count) = (field(16)?, field(24)?);
        Some(Message {
            // The largest socket address has 128 bytes.
            name: (name != 0).then(|| self.bytes(name, name_len.min(128) as usize)),
            buffers: self.buffers(vectors, count, done),
            control_len: field(40)?,
            flags: field(48)? as u32,
        })
    }

    /// Up to `len` bytes, fewer where memory ends.
    fn bytes(&self, address: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let got = self.memory.read(address, &mut bytes);
        bytes.truncate(got);
        bytes
    }
}

/// A register as a value by itself.
fn scalar(raw: u64, ty: Type) -> Value {
    match ty {
        Type::Int | Type::Pid => Value::Int(i64::from(raw as i32)),
        Type::UInt => Value::UInt(raw & 0xffff_ffff),
        Type::Long | Type::Offset => Value::Int(raw.cast_signed()),
        Type::Size => Value::UInt(raw),
        Type::Fd => Value::Fd(raw as i32),
        Type::DirFd => Value::DirFd(raw as i32),
        Type::Uid | Type::Gid => Value::Id(Some(raw as u32).filter(|&id| id != u32::MAX)),
        Type::Mode => Value::Mode(raw as u32),
        Type::Device => Value::Device(raw),
        Type::Signal => Value::Signal(raw as i32),
        Type::Flags(set) => {
            // An enumerated value is an `int` where its mask covers 32 bits.
            let int = set.mask == 0xffff_ffff;
            Value::Flags(set, if int { raw & 0xffff_ffff } else { raw })
        }
        Type::Address if raw == 0 => Value::Null,
        Type::Address => Value::Address(raw),
        _ => Value::Word(raw),
    }
}

/// An integer field of a structure.
pub(super) fn field_value(bytes: &[u8], offset: usize, width: usize, ty: Type) -> Option<Value> {
    let bytes = bytes.get(offset..offset.checked_add(width)?)?;
    let raw = bytes
        .iter()
        .rev()
        .fold(0_u64, |word, byte| (word << 8) | u64::from(*byte));
    let signed = match width {
        2 => i64::from(raw as i16),
        4 => i64::from(raw as i32),
        _ => raw.cast_signed(),
    };
    Some(match ty {
        Type::Int | Type::Long | Type::Pid => Value::Int(signed),
        Type::UInt => Value::UInt(raw),
        _ => scalar(raw, ty),
    })
}
