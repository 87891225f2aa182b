//! The contents of messages: recorded if `RR_CHANNEL_PAYLOAD` asks for it.
//!
//! Of a message of ipc-channel these are the bytes that travel, as they are received; of any
//! other message it is the memory of the value itself, where dropping it does nothing: what
//! such a value points to is not followed, and what lies between its fields is whatever it
//! is. Of a value that has something to drop, only its size is recorded: it is mostly
//! pointers, which are others in each run.

use std::mem::needs_drop;
use std::sync::atomic::{AtomicU8, Ordering};

use rr_channel_log::Payload;

use crate::engine::fork;
use crate::engine::session::session;
use crate::platform::sys;
use crate::recorder::tag::Tag;

/// The recorded form of a message's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Hash = 1,
    Bytes = 2,
}

static KIND: AtomicU8 = AtomicU8::new(0);

/// From here on, this is recorded.
pub(crate) fn start(kind: Kind) {
    KIND.store(kind as u8, Ordering::Relaxed);
}

fn kind() -> Option<Kind> {
    match KIND.load(Ordering::Relaxed) {
        0 => None,
        1 => Some(Kind::Hash),
        _ => Some(Kind::Bytes),
    }
}

/// Notes what the message with this tag holds, if that is asked for.
#[inline]
pub(crate) fn of_value<T>(tag: Tag, value: &T) {
    if let Some(kind) = kind() {
        let bytes = (!needs_drop::<T>())
            .then(|| sys::memory_of(value))
            .flatten();
        note(kind, tag, size_of::<T>(), bytes.as_deref());
    }
}

/// The same of a message that travels as these bytes.
#[cfg(feature = "ipc_channel")]
pub(crate) fn of_bytes(tag: Tag, bytes: &[u8]) {
    if let Some(kind) = kind() {
        note(kind, tag, bytes.len(), Some(bytes));
    }
}

#[cold]
fn note(kind: Kind, tag: Tag, size: usize, bytes: Option<&[u8]>) {
    if let Some(recorder) = session().recorder().filter(|_| !fork::is_fork()) {
        let payload = match (kind, bytes) {
            (_, None) => Payload::unknown(size),
            (Kind::Hash, Some(bytes)) => Payload::hashed(bytes),
            (Kind::Bytes, Some(bytes)) => Payload::of(bytes),
        };
        recorder.holds(tag, &payload);
    }
}
