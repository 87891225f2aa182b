//! The contents of messages: recorded if `RR_CHANNEL_PAYLOAD` asks for it.
//!
//! For a message of ipc-channel, the recorded bytes are those that travel, as they are received.
//! For any other message they are the memory of the value itself, if dropping it does nothing.
//! Pointers in such a value are not followed, and padding between its fields is recorded as it is.
//! For a value that needs to be dropped only the size is recorded: its memory is mostly pointers,
//! which differ in each run.

use std::mem::needs_drop;
use std::sync::atomic::{AtomicU8, Ordering};

use rr_channel_log::Payload;

use crate::engine::fork;
use crate::engine::session::session;
use crate::platform::sys;
use crate::recorder::tag::Tag;

/// The recorded form of a message's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Hash = 1,
    Bytes = 2,
}

static KIND: AtomicU8 = AtomicU8::new(0);

/// From here on, this is recorded.
pub fn start(kind: Kind) {
    KIND.store(kind as u8, Ordering::Relaxed);
}

fn kind() -> Option<Kind> {
    match KIND.load(Ordering::Relaxed) {
        0 => None,
        1 => Some(Kind::Hash),
        _ => Some(Kind::Bytes),
    }
}

/// Records the content of the message with this tag, if that is asked for.
#[inline]
pub fn of_value<T>(tag: Tag, value: &T) {
    if let Some(kind) = kind() {
        let bytes = (!needs_drop::<T>())
            .then(|| sys::memory_of(value))
            .flatten();
        note(kind, tag, size_of::<T>(), bytes.as_deref());
    }
}

/// The same of a message that travels as these bytes.
pub fn of_bytes(tag: Tag, bytes: &[u8]) {
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
