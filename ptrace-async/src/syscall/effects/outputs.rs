//! The outputs of a call before it runs.

use super::before::Before;
use super::pass::Pass;
use super::range::{IOV_MAX, Range, count_of, read_vectors};
use crate::invocation::Invocation;
use crate::memory::Memory;
use crate::syscall::model::{Effects, Extent, Length, Rule, Spec, Type};

/// The place that holds the address of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pointer {
    /// In an argument.
    Argument(u8),
    /// In the word at this address, which is in an output that comes before this one.
    Word(u64),
}

/// Memory that a call may write, or that holds the address of such memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Output {
    /// Where the call finds its address.
    pub pointer: Pointer,
    /// All of it.
    pub range: Range,
    /// Whether the call reads it as well, or leaves parts of it as they are.
    pub is_read: bool,
}

/// The size of `siginfo_t`.
const SIGINFO: u64 = 128;
/// The size of `struct rusage`.
const RUSAGE: u64 = 144;

/// The memory that a call may write, each with the place that holds its address. A tracer
/// can so redirect the writes. Use it at the call's entry.
///
/// The list is empty for calls whose arguments change their meaning with a command
/// (`ioctl`, `fcntl`, `futex`), and for calls that are not modelled.
#[must_use]
pub fn outputs(invocation: &Invocation, memory: &dyn Memory) -> Vec<Output> {
    let Some(spec) = invocation.syscall().spec() else {
        return Vec::new();
    };
    let mut found = OutputWalk {
        pass: Pass {
            invocation,
            result: None,
            memory,
            before: &Before::default(),
            ranges: Vec::new(),
        },
        outputs: Vec::new(),
    };
    match spec.effects {
        Effects::Typed | Effects::Rule(Rule::Pselect) => {}
        Effects::Rule(Rule::Poll) => {
            let Type::In(extent) = spec.args[0].ty else {
                return Vec::new();
            };
            let size = found.pass.size(spec, extent, invocation.args[0]);
            found.push(Pointer::Argument(0), invocation.args[0], size, true);
        }
        Effects::Rule(Rule::WaitId) => {
            found.push(Pointer::Argument(2), invocation.args[2], SIGINFO, true);
            found.push(Pointer::Argument(4), invocation.args[4], RUSAGE, false);
        }
        Effects::Rule(Rule::MessageQueue) if spec.name == "msgrcv" => {
            let size = invocation.args[2].saturating_add(8);
            found.push(Pointer::Argument(1), invocation.args[1], size, false);
        }
        Effects::Rule(_) | Effects::Unmodelled(_) => return Vec::new(),
    }
    found.typed(spec);
    found.outputs
}

struct OutputWalk<'a> {
    pass: Pass<'a>,
    outputs: Vec<Output>,
}

impl OutputWalk<'_> {
    fn push(&mut self, pointer: Pointer, start: u64, len: u64, is_read: bool) {
        let len = len.min(u64::MAX - start);
        if start != 0 && len != 0 {
            let range = Range { start, len };
            self.outputs.push(Output {
                pointer,
                range,
                is_read,
            });
        }
    }

    fn typed(&mut self, spec: &'static Spec) {
        for (index, arg) in (0_u8..).zip(spec.args) {
            let (extent, is_read) = match arg.ty {
                Type::Out(extent) | Type::OutWhen(_, extent) => (extent, false),
                Type::InOut(extent) | Type::InOutWhen(_, extent) => (extent, true),
                // The lengths that `sendmmsg` writes lie in its input array.
                _ => continue,
            };
            let pointer = Pointer::Argument(index);
            let address = self.pass.arg(usize::from(index));
            if address == 0 {
                continue;
            }
            let count = |count| count_of(spec, self.pass.invocation, count);
            match extent {
                Extent::Vectors(length) => self.vectors(pointer, address, count(length)),
                Extent::Message => {
                    self.push(pointer, address, 56, true);
                    self.message(address);
                }
                Extent::Messages(length) => {
                    let count = count(length).min(IOV_MAX);
                    self.push(pointer, address, count * 64, true);
                    for index in 0..count {
                        self.message(address.saturating_add(index * 64));
                    }
                }
                _ => {
                    let has_head = matches!(
                        extent,
                        Extent::Bytes(Length::Head(_) | Length::HeadWithin(_))
                            | Extent::Sized(_, Length::Head(_) | Length::HeadWithin(_))
                    );
                    let size = self.pass.size(spec, extent, address);
                    self.push(pointer, address, size, is_read || has_head);
                }
            }
        }
    }

    /// The memory that a `struct msghdr` points to.
    fn message(&mut self, header: u64) {
        let field = |offset: u64| header.saturating_add(offset);
        let word = |offset| self.pass.u64_at(field(offset)).unwrap_or(0);
        let (name, vectors, count, control) = (word(0), word(16), word(24), word(32));
        // No length beyond an `int` is accepted.
        let length = |offset| u64::from(self.pass.u32_at(field(offset)).unwrap_or(0));
        let (name_length, control_length) = (length(8), length(40));
        self.push(Pointer::Word(field(0)), name, name_length, false);
        self.vectors(Pointer::Word(field(16)), vectors, count);
        self.push(Pointer::Word(field(32)), control, control_length, false);
    }

    /// An array of `struct iovec`, and the buffers that it describes.
    fn vectors(&mut self, pointer: Pointer, address: u64, count: u64) {
        let count = count.min(IOV_MAX);
        self.push(pointer, address, count * 16, true);
        let vectors = read_vectors(self.pass.memory, address, count);
        for (index, buffer) in (0..).zip(vectors) {
            let word = Pointer::Word(address.saturating_add(index * 16));
            self.push(word, buffer.start, buffer.len, false);
        }
    }
}
