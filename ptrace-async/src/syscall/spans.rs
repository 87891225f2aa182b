//! The bytes of files that a call loads and stores.
//!
//! [`Object::Content`](super::Object::Content) says that a call touches a file;
//! two calls that touch different bytes of it still do not conflict. A span
//! begins at an offset that the call names, or at the position of the open file
//! description, which only a process model knows.

use smallvec::SmallVec;

use super::effects::range::{count_of, read_vectors};
use super::errno::error_of;
use crate::invocation::Invocation;
use crate::memory::Memory;

/// A part of a file that a call touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span {
    /// The argument that names the file: a descriptor, or the path of
    /// `truncate`.
    pub arg: u8,
    /// Whether the call changes these bytes.
    pub store: bool,
    /// Where the span begins.
    pub from: Start,
    /// Its length in bytes; `None` reaches to the end of the file.
    pub len: Option<u64>,
}

/// Where a span begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Start {
    /// At this offset.
    Offset(u64),
    /// At the position that the open file description had before the call (at
    /// its end, for a store to one that appends).
    Position,
}

/// The spans of a call: before it (`result` is `None`) those it asks for, after
/// it those it touched. Empty for calls that transfer no file content, and for
/// calls that failed.
#[must_use]
pub fn spans(
    invocation: &Invocation,
    result: Option<i64>,
    memory: &dyn Memory,
) -> SmallVec<[Span; 2]> {
    let mut spans = SmallVec::new();
    if result.is_some_and(|result| error_of(result).is_some()) {
        return spans;
    }
    let call = Call {
        invocation,
        result,
        memory,
    };
    let name = invocation.syscall().name();
    let args = &invocation.args;
    let store = name.contains("write");
    match name {
        "read" | "write" | "getdents" | "getdents64" => {
            spans.push(call.span(0, store, Start::Position, call.asked(2)));
        }
        "readv" | "writev" => {
            spans.push(call.span(0, store, Start::Position, call.asked_vectors()));
        }
        "pread64" | "pwrite64" => {
            spans.push(call.span(0, store, Start::Offset(args[3]), call.asked(2)));
        }
        "preadv" | "pwritev" => {
            spans.push(call.span(0, store, Start::Offset(args[3]), call.asked_vectors()));
        }
        "preadv2" | "pwritev2" => {
            let from = if args[3] == u64::MAX {
                Start::Position
            } else {
                Start::Offset(args[3])
            };
            spans.push(call.span(0, store, from, call.asked_vectors()));
        }
        "sendfile" => {
            spans.push(call.span(1, false, call.pointed(2), call.asked(3)));
            spans.push(call.span(0, true, Start::Position, call.asked(3)));
        }
        "copy_file_range" | "splice" => {
            spans.push(call.span(0, false, call.pointed(1), call.asked(4)));
            spans.push(call.span(2, true, call.pointed(3), call.asked(4)));
        }
        "truncate" | "ftruncate" => {
            spans.push(Span {
                arg: 0,
                store: true,
                from: Start::Offset(args[1]),
                len: None,
            });
        }
        "fallocate" => {
            // Collapsing and inserting move everything behind the offset.
            let moves = libc::FALLOC_FL_COLLAPSE_RANGE | libc::FALLOC_FL_INSERT_RANGE;
            let len = (args[1] & moves as u64 == 0).then_some(args[3]);
            spans.push(Span {
                arg: 0,
                store: true,
                from: Start::Offset(args[2]),
                len,
            });
        }
        _ => {}
    }
    spans
}

struct Call<'a> {
    invocation: &'a Invocation,
    result: Option<i64>,
    memory: &'a dyn Memory,
}

impl Call<'_> {
    fn span(&self, arg: u8, store: bool, from: Start, asked: u64) -> Span {
        let len = self
            .result
            .map_or(asked, |result| result.max(0).cast_unsigned());
        Span {
            arg,
            store,
            from,
            len: Some(len),
        }
    }

    fn asked(&self, index: u8) -> u64 {
        let spec = self.invocation.syscall().spec();
        spec.map_or(0, |spec| count_of(spec, self.invocation, index))
    }

    fn asked_vectors(&self) -> u64 {
        let vectors = read_vectors(self.memory, self.invocation.args[1], self.asked(2));
        vectors
            .iter()
            .fold(0, |sum, vector| sum.saturating_add(vector.len))
    }

    /// The offset that argument `index` points to. The call advances it by what
    /// it transferred.
    fn pointed(&self, index: usize) -> Start {
        let address = self.invocation.args[index];
        if address == 0 {
            return Start::Position;
        }
        let now = self.memory.read_u64(address).unwrap_or(0);
        Start::Offset(now.saturating_sub(self.result.unwrap_or(0).max(0).cast_unsigned()))
    }
}
