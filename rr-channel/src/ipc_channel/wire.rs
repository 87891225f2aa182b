//! What travels: a message as upstream writes it and, while recording, a stamp behind it.
//!
//! A plain receiver reads its value and stops, so it never sees what comes after. That
//! is why the stamp is at the end, and is found from there:
//!
//! | bytes | content |
//! |---|---|
//! | 13 for each handle in the value | its index (4), kind (1), and channel (4 and 4) |
//! | 4 | the number of handles |
//! | 8 | the message's tag |
//! | 8 | the process, by a random number |
//! | 16 | [`MAGIC`] |
//!
//! A message without a stamp, or with another process's, is *foreign*: it is told from
//! others by its position among the foreign messages of its channel.
//!
//! A receiver in a replay reads messages before their turn, and one in a set does not
//! know their types. Such a message is taken out of upstream's hands, with all the handles
//! that its stamp lists ([`Packet`]), and made a value when the program asks for it.

use std::cell::RefCell;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use ::ipc_channel::ipc as raw;
use ::ipc_channel::{IpcError, SerDeError};
use serde::de::{self, DeserializeOwned, IntoDeserializer, SeqAccess, Visitor};
use serde::ser::{self, SerializeTuple};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::now::{Now, now};
use super::outward;
use crate::identity::{ChannelId, ThreadId};
use crate::tag::Tag;

const MAGIC: [u8; 16] = *b"\xf5rrch\x00\xfe\x01\xc0ipc\xff\x9d\x80\xf8";
const ENTRY: usize = 13;
const TAIL: usize = 4 + 8 + 8 + 16;

/// Tells this process's stamps from those of others.
static PROCESS: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(std::process::id()));

/// What kind of handle a message carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Sender,
    Receiver,
    BytesSender,
    BytesReceiver,
    Memory,
}

impl Kind {
    const ALL: [Kind; 5] = [
        Kind::Sender,
        Kind::Receiver,
        Kind::BytesSender,
        Kind::BytesReceiver,
        Kind::Memory,
    ];
}

/// A handle in a message: its index, as upstream counts, and its channel.
#[derive(Debug, Clone, Copy)]
struct Entry {
    index: usize,
    kind: Kind,
    id: ChannelId,
}

/// A handle taken out of upstream's hands.
#[derive(Debug)]
pub(super) enum Handle {
    Sender(raw::OpaqueIpcSender),
    Receiver(raw::OpaqueIpcReceiver),
    BytesSender(raw::IpcBytesSender),
    BytesReceiver(raw::IpcBytesReceiver),
    Memory(raw::IpcSharedMemory),
}

/// The handles of a packet, until they are taken.
type Handles = Vec<(Entry, Option<Handle>)>;

thread_local! {
    /// The handles of the message that is being written, if it will be stamped.
    static WRITING: RefCell<Option<Vec<Entry>>> = const { RefCell::new(None) };
    /// The handles of the packet that is being read.
    static READING: RefCell<Option<Handles>> = const { RefCell::new(None) };
}

/// Puts what was there back when dropped.
struct Restore<T: 'static>(
    &'static std::thread::LocalKey<RefCell<Option<T>>>,
    Option<T>,
);

impl<T> Restore<T> {
    fn replace(
        place: &'static std::thread::LocalKey<RefCell<Option<T>>>,
        value: Option<T>,
    ) -> Self {
        Restore(place, place.replace(value))
    }

    fn take(&self) -> Option<T> {
        self.0.take()
    }
}

impl<T> Drop for Restore<T> {
    fn drop(&mut self) {
        self.0.replace(self.1.take());
    }
}

/// Writes a handle as `handle` writes itself, and notes it for the stamp.
pub(super) fn write_handle<S: Serializer>(
    handle: &impl Serialize,
    kind: Kind,
    id: ChannelId,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    if WRITING.with_borrow(Option::is_none) {
        return handle.serialize(serializer);
    }
    // Upstream gives an index to a handle that is written.
    let index: usize = postcard::to_stdvec(handle)
        .and_then(|bytes| postcard::from_bytes(&bytes))
        .map_err(ser::Error::custom)?;
    if index != usize::MAX {
        WRITING.with_borrow_mut(|entries| {
            if let Some(entries) = entries {
                entries.push(Entry { index, kind, id });
            }
        });
    }
    index.serialize(serializer)
}

/// A handle read from a message.
pub(super) enum Read<R> {
    /// From a packet, with its channel.
    Packed(Handle, ChannelId),
    /// By upstream.
    Plain(R),
}

/// Reads a handle of `kind`: from the packet that is being read, or as upstream does.
pub(super) fn read_handle<'de, R, D>(kind: Kind, deserializer: D) -> Result<Read<R>, D::Error>
where
    R: Deserialize<'de>,
    D: Deserializer<'de>,
{
    if READING.with_borrow(Option::is_none) {
        return R::deserialize(deserializer).map(Read::Plain);
    }
    let index = usize::deserialize(deserializer)?;
    if kind == Kind::Memory && index == usize::MAX {
        return R::deserialize(index.into_deserializer()).map(Read::Plain);
    }
    let found = READING.with_borrow_mut(|entries| {
        let same_place = |entry: &Entry| {
            entry.index == index && (entry.kind == Kind::Memory) == (kind == Kind::Memory)
        };
        entries
            .iter_mut()
            .flatten()
            .filter(|(entry, _)| same_place(entry))
            .find_map(|(entry, handle)| Some((handle.take()?, entry.id)))
    });
    found
        .map(|(handle, id)| Read::Packed(handle, id))
        .ok_or_else(|| de::Error::custom("the message does not hold the handle that it names"))
}

/// The error for a handle that is not what was asked for.
pub(super) fn other_kind<E: de::Error>() -> E {
    E::custom("the message holds a handle of another kind")
}

/// The stamp of a message with these handles.
fn stamp(entries: &[Entry], tag: Tag) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(entries.len() * ENTRY + TAIL);
    for Entry { index, kind, id } in entries {
        bytes.extend_from_slice(&(*index as u32).to_le_bytes());
        bytes.push(*kind as u8);
        bytes.extend_from_slice(&id.creator.0.to_le_bytes());
        bytes.extend_from_slice(&id.number.to_le_bytes());
    }
    bytes.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&tag.bits().to_le_bytes());
    bytes.extend_from_slice(&PROCESS.to_le_bytes());
    bytes.extend_from_slice(&MAGIC);
    bytes
}

/// A stamp that was read.
struct Stamp {
    entries: Vec<Entry>,
    /// `None` if it is another process's.
    tag: Option<Tag>,
}

/// Cuts the stamp off the end of a message.
fn unstamp(data: &mut Vec<u8>) -> Option<Stamp> {
    let rest = data.strip_suffix(&MAGIC)?;
    let (rest, process) = rest.split_last_chunk::<8>()?;
    let (rest, tag) = rest.split_last_chunk::<8>()?;
    let (rest, count) = rest.split_last_chunk::<4>()?;
    let len = (u32::from_le_bytes(*count) as usize).checked_mul(ENTRY)?;
    let (value, entries) = rest.split_at_checked(rest.len().checked_sub(len)?)?;
    let (entries, _) = entries.as_chunks::<ENTRY>();
    let entries = entries.iter().map(entry).collect::<Option<_>>()?;
    let is_ours = u64::from_le_bytes(*process) == *PROCESS;
    let tag = is_ours.then(|| Tag::from_bits(u64::from_le_bytes(*tag)));
    let len = value.len();
    data.truncate(len);
    Some(Stamp { entries, tag })
}

fn entry(bytes: &[u8; ENTRY]) -> Option<Entry> {
    let number = |at: usize| {
        let (four, _) = bytes[at..].split_first_chunk::<4>()?;
        Some(u32::from_le_bytes(*four))
    };
    Some(Entry {
        index: number(0)? as usize,
        kind: *Kind::ALL.get(usize::from(bytes[4]))?,
        id: ChannelId {
            creator: ThreadId(number(5)?),
            number: number(9)?,
        },
    })
}

/// A message as it is sent.
pub(super) struct Outgoing<T> {
    pub(super) value: T,
    /// `None` for one that upstream would send the same way.
    pub(super) tag: Option<Tag>,
}

impl<T: Serialize> Serialize for Outgoing<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(tag) = self.tag else {
            let _plain = Restore::replace(&WRITING, None);
            return self.value.serialize(serializer);
        };
        let mut parts = serializer.serialize_tuple(2)?;
        let entries = {
            let written = Restore::replace(&WRITING, Some(Vec::new()));
            parts.serialize_element(&self.value)?;
            written.take().unwrap_or_default()
        };
        parts.serialize_element(&Bytes(&stamp(&entries, tag)))?;
        parts.end()
    }
}

/// Upstream's handles ask for it; nobody reads one.
impl<'de, T> Deserialize<'de> for Outgoing<T> {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(de::Error::custom("a message that is being sent"))
    }
}

/// Bytes without their number.
struct Bytes<'a>(&'a [u8]);

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut tuple = serializer.serialize_tuple(self.0.len())?;
        for byte in self.0 {
            tuple.serialize_element(byte)?;
        }
        tuple.end()
    }
}

/// All bytes that are left.
struct Rest(Vec<u8>);

impl<'de> Deserialize<'de> for Rest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Rest;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Rest, A::Error> {
                let mut bytes = Vec::new();
                // The end is an error: there is no other sign of it.
                while let Ok(Some(byte)) = seq.next_element() {
                    bytes.push(byte);
                }
                Ok(Rest(bytes))
            }
        }
        deserializer.deserialize_tuple(usize::MAX, Collect)
    }
}

/// A message whose value has not been made yet.
#[derive(Debug)]
pub(super) struct Packet {
    pub(super) tag: Option<Tag>,
    pub(super) data: Vec<u8>,
    handles: Handles,
}

impl Packet {
    /// A message that carries nothing but bytes.
    pub(super) fn of_bytes(mut data: Vec<u8>) -> Packet {
        let tag = unstamp(&mut data).and_then(|stamp| stamp.tag);
        Packet {
            tag,
            data,
            handles: Vec::new(),
        }
    }

    /// Takes the handles that `entries` list out of the message that upstream is reading.
    fn unpack<E: de::Error>(data: Vec<u8>, stamp: Stamp) -> Result<Packet, E> {
        let take = |entry: Entry| {
            let at: de::value::UsizeDeserializer<E> = entry.index.into_deserializer();
            let handle = match entry.kind {
                Kind::Sender => Deserialize::deserialize(at).map(Handle::Sender),
                Kind::Receiver => Deserialize::deserialize(at).map(Handle::Receiver),
                Kind::BytesSender => Deserialize::deserialize(at).map(Handle::BytesSender),
                Kind::BytesReceiver => Deserialize::deserialize(at).map(Handle::BytesReceiver),
                Kind::Memory => Deserialize::deserialize(at).map(Handle::Memory),
            };
            // Ids of another process mean nothing here.
            let id = match stamp.tag {
                Some(_) => entry.id,
                None => match entry.kind {
                    Kind::Sender | Kind::BytesSender => outward::new_name(),
                    _ => super::new_id(),
                },
            };
            Ok((Entry { id, ..entry }, Some(handle?)))
        };
        let handles = stamp.entries.iter().copied().map(take);
        Ok(Packet {
            tag: stamp.tag,
            data,
            handles: handles.collect::<Result<_, E>>()?,
        })
    }

    /// The value.
    pub(super) fn open<T: DeserializeOwned>(self) -> Result<T, SerDeError> {
        let _read = Restore::replace(&READING, Some(self.handles));
        postcard::from_bytes(&self.data).map_err(SerDeError::from)
    }
}

/// A message of a set whose type is not known, and that was sent by this process.
pub(super) struct Untyped(pub(super) Packet);

impl<'de> Deserialize<'de> for Untyped {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Rest(mut data) = Rest::deserialize(deserializer)?;
        match unstamp(&mut data) {
            Some(stamp) => Packet::unpack(data, stamp).map(Untyped),
            None => Ok(Untyped(Packet::of_bytes(data))),
        }
    }
}

/// Upstream's messages ask for it; nobody writes one.
impl Serialize for Untyped {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(ser::Error::custom("a message that was received"))
    }
}

/// A message as it is received.
pub(super) enum Arrival<T> {
    Packet(Packet),
    /// One that upstream has made a value already: a foreign one.
    Value(Result<T, SerDeError>),
}

impl<T> Arrival<T> {
    pub(super) fn tag(&self) -> Option<Tag> {
        match self {
            Arrival::Packet(packet) => packet.tag,
            Arrival::Value(_) => None,
        }
    }
}

impl<T: DeserializeOwned> Arrival<T> {
    pub(super) fn value(self) -> Result<T, SerDeError> {
        match self {
            Arrival::Packet(packet) => packet.open(),
            Arrival::Value(value) => value,
        }
    }

    pub(super) fn open(self) -> Result<T, IpcError> {
        self.value().map_err(IpcError::SerializationError)
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Arrival<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // What is being read is upstream's, also while a packet is.
        let _plain = Restore::replace(&READING, None);
        if let Now::Off = now() {
            return T::deserialize(deserializer).map(|value| Arrival::Value(Ok(value)));
        }
        let Rest(mut data) = Rest::deserialize(deserializer)?;
        match unstamp(&mut data) {
            Some(stamp) => Packet::unpack(data, stamp).map(Arrival::Packet),
            // Which handles it holds only its type can tell.
            None => Ok(Arrival::Value(
                postcard::from_bytes(&data).map_err(SerDeError::from),
            )),
        }
    }
}

/// Upstream's handles ask for it; nobody writes one.
impl<T> Serialize for Arrival<T> {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(ser::Error::custom("a message that was received"))
    }
}

/// `data` with a stamp behind it.
pub(super) fn stamped_bytes(data: &[u8], tag: Tag) -> Vec<u8> {
    [data, &stamp(&[], tag)].concat()
}

/// Bytes as they were sent, without the stamp that they may have.
pub(super) fn plain_bytes(mut data: Vec<u8>) -> Vec<u8> {
    unstamp(&mut data);
    data
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tag() -> Tag {
        Tag::new(ThreadId(3), 77)
    }

    fn entries() -> Vec<Entry> {
        Kind::ALL
            .iter()
            .zip(0..)
            .map(|(kind, n)| Entry {
                index: n as usize,
                kind: *kind,
                id: ChannelId {
                    creator: ThreadId(n),
                    number: 100 + n,
                },
            })
            .collect()
    }

    #[test]
    fn a_stamp_reads_back_and_leaves_the_value() {
        let mut data = [&b"value"[..], &stamp(&entries(), tag())].concat();
        let read = unstamp(&mut data).unwrap();
        assert_eq!(data, b"value");
        assert_eq!(read.tag, Some(tag()));
        assert_eq!(format!("{:?}", read.entries), format!("{:?}", entries()));
    }

    #[test]
    fn another_process_s_stamp_has_no_tag() {
        let mut data = stamp(&entries(), tag());
        let at = data.len() - MAGIC.len() - 1;
        data[at] ^= 1;
        let read = unstamp(&mut data).unwrap();
        assert_eq!((read.tag, read.entries.len()), (None, 5));
    }

    /// What a receiver does that knows nothing of stamps.
    #[test]
    fn a_plain_receiver_does_not_see_a_stamp() {
        let value = ("text".to_owned(), vec![1_u16, 2], Some(-3));
        let plain = postcard::to_stdvec(&value).unwrap();
        let outgoing = |tag| Outgoing {
            value: value.clone(),
            tag,
        };
        let unstamped = postcard::to_stdvec(&outgoing(None)).unwrap();
        let stamped = postcard::to_stdvec(&outgoing(Some(tag()))).unwrap();
        assert_eq!(unstamped, plain);
        assert!(stamped.len() > plain.len() && stamped.starts_with(&plain));
        let read: (String, Vec<u16>, Option<i32>) = postcard::from_bytes(&stamped).unwrap();
        assert_eq!(read, value);
    }

    /// A value that is not what it says, or not all of what was sent.
    #[test]
    fn a_plain_message_is_foreign_whatever_it_holds() {
        let (tx, rx) = raw::channel::<(u8, u64)>().unwrap();
        tx.send((1, 2)).unwrap();
        let rx: raw::IpcReceiver<Arrival<u8>> = rx.to_opaque().to();
        let arrival = rx.recv().unwrap();
        assert_eq!(arrival.tag(), None);
        assert_eq!(arrival.open().unwrap(), 1);
    }

    proptest! {
        #[test]
        fn any_end_of_a_message_is_read_without_panic(
            mut data in prop::collection::vec(any::<u8>(), 0..80),
            magic in any::<bool>(),
        ) {
            if magic {
                data.extend_from_slice(&MAGIC);
            }
            let before = data.clone();
            unstamp(&mut data);
            prop_assert!(before.starts_with(&data));
        }
    }
}
