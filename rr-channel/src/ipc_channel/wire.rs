//! The wire format: a message as upstream writes it and, while recording, a stamp behind it.
//!
//! A plain receiver reads its value and stops, so it never sees the bytes after it. That is why
//! the stamp is at the end, and is found from there:
//!
//! | bytes | content |
//! |---|---|
//! | 13 for each handle in the value | its index (4), kind (1), and channel (4 and 4) |
//! | 4 | the number of handles |
//! | 4 for each number of the process's path | that number |
//! | 4 | how many numbers these are |
//! | 8 | the message's tag |
//! | 8 | the run that the process belongs to |
//! | 16 | [`MAGIC`] |
//!
//! Threads and channels of another process of the same run get numbers of this process's
//! session, by which they are known from then on.
//!
//! A message without a stamp, or with one of another run, is *foreign*: it is told from
//! others by its position among the foreign messages of its channel.
//!
//! A receiver in a replay reads messages before their turn, and one in a set does not
//! know their types. Such a message is taken out of upstream's hands, with all the handles
//! that its stamp lists ([`Packet`]), and made a value when the program asks for it.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;

use ::ipc_channel::ipc as raw;
use ::ipc_channel::{IpcError, SerDeError};
use rr_channel_log::identity::{ChannelId, Dti, ProcessPath, ThreadId};
use serde::de::{self, DeserializeOwned, IntoDeserializer, SeqAccess, Visitor};
use serde::ser::{self, SerializeTuple};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::now::{Now, elsewhere, now};
use super::outward;
use rr_channel_core::engine::payload;
use rr_channel_core::engine::session::home;
use rr_channel_core::recorder::process::Home;
use rr_channel_core::recorder::tag::Tag;

const MAGIC: [u8; 16] = *b"\xf5rrch\x00\xfe\x02\xc0ipc\xff\x9d\x80\xf8";
const ENTRY: usize = 13;
const TAIL: usize = 4 + 4 + 8 + 8 + 16;

/// The kind of a handle in a message.
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

/// Restores the earlier value when dropped.
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

/// The error for a handle of another kind than the requested one.
pub(super) fn other_kind<E: de::Error>() -> E {
    E::custom("the message holds a handle of another kind")
}

/// The stamp of a message with these handles, from `home`.
fn stamp(entries: &[Entry], tag: Tag, home: &Home) -> Vec<u8> {
    let path = home.path.numbers();
    let mut bytes = Vec::with_capacity(entries.len() * ENTRY + path.len() * 4 + TAIL);
    for Entry { index, kind, id } in entries {
        bytes.extend_from_slice(&(*index as u32).to_le_bytes());
        bytes.push(*kind as u8);
        bytes.extend_from_slice(&id.creator.0.to_le_bytes());
        bytes.extend_from_slice(&id.number.to_le_bytes());
    }
    bytes.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    for number in path {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(&(path.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&tag.bits().to_le_bytes());
    bytes.extend_from_slice(&home.run.to_le_bytes());
    bytes.extend_from_slice(&MAGIC);
    bytes
}

/// A stamp that was read.
struct Stamp {
    entries: Vec<Entry>,
    from: Origin,
    /// As the process numbers its threads that sent the message.
    tag: Tag,
}

/// The process that a message is from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Origin {
    This,
    /// Another one of this run.
    Other(ProcessPath),
    Elsewhere,
}

impl Stamp {
    /// The message's tag, in this process; `None` if it is a foreign one.
    fn tag(&self) -> Option<Tag> {
        let sender = self.from.thread(self.tag.sender())?;
        Some(Tag::new(sender, self.tag.number()))
    }
}

impl Origin {
    /// The number in this process of the thread that has the number `id` in that one.
    fn thread(&self, id: ThreadId) -> Option<ThreadId> {
        match self {
            Origin::This => Some(id),
            Origin::Other(process) => elsewhere(Dti::elsewhere(process.clone(), id)),
            Origin::Elsewhere => None,
        }
    }
}

/// Cuts the stamp off the end of a message that came to `home`.
fn unstamp(data: &mut Vec<u8>, home: Option<&Home>) -> Option<Stamp> {
    let rest = data.strip_suffix(&MAGIC)?;
    let (rest, run) = rest.split_last_chunk::<8>()?;
    let (rest, tag) = rest.split_last_chunk::<8>()?;
    let (rest, depth) = rest.split_last_chunk::<4>()?;
    let depth = u32::from_le_bytes(*depth) as usize;
    if depth > ProcessPath::DEEPEST {
        return None;
    }
    let (rest, path) = rest.split_at_checked(rest.len().checked_sub(depth * 4)?)?;
    let (rest, count) = rest.split_last_chunk::<4>()?;
    let len = (u32::from_le_bytes(*count) as usize).checked_mul(ENTRY)?;
    let (value, entries) = rest.split_at_checked(rest.len().checked_sub(len)?)?;
    let (entries, _) = entries.as_chunks::<ENTRY>();
    let entries = entries.iter().map(entry).collect::<Option<_>>()?;
    let path = path.as_chunks::<4>().0.iter().copied();
    let path: ProcessPath = path.map(u32::from_le_bytes).collect();
    let from = match home {
        Some(home) if home.run != u64::from_le_bytes(*run) => Origin::Elsewhere,
        Some(home) if home.path == path => Origin::This,
        Some(_) => Origin::Other(path),
        None => Origin::Elsewhere,
    };
    let stamp = Stamp {
        entries,
        from,
        tag: Tag::from_bits(u64::from_le_bytes(*tag)),
    };
    let len = value.len();
    data.truncate(len);
    Some(stamp)
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
    value: T,
    /// Its tag, and where it is from; `None` for one that upstream would send the same way.
    stamp: Option<(Tag, Cow<'static, Home>)>,
}

impl<T> Outgoing<T> {
    /// A message of this process; without a tag, one that upstream would send the same way.
    pub(super) fn new(value: T, tag: Option<Tag>) -> Self {
        let stamp = tag.and_then(|tag| Some((tag, Cow::Borrowed(home()?))));
        Outgoing { value, stamp }
    }
}

impl<T: Serialize> Serialize for Outgoing<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some((tag, home)) = &self.stamp else {
            let _plain = Restore::replace(&WRITING, None);
            return self.value.serialize(serializer);
        };
        let mut parts = serializer.serialize_tuple(2)?;
        let entries = {
            let written = Restore::replace(&WRITING, Some(Vec::new()));
            parts.serialize_element(&self.value)?;
            written.take().unwrap_or_default()
        };
        parts.serialize_element(&Bytes(&stamp(&entries, *tag, home)))?;
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
///
/// A value without a number is a tuple, of which each element is a call or two, and in the
/// program's own code, perhaps unoptimized. An `f64` is written as the eight bytes that it is
/// (postcard's specification, "Serde Data Model"), and moving one around leaves them as they are.
struct Bytes<'a>(&'a [u8]);

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (eights, rest) = self.0.as_chunks::<8>();
        let mut tuple = serializer.serialize_tuple(eights.len() + rest.len())?;
        for eight in eights {
            tuple.serialize_element(&f64::from_le_bytes(*eight))?;
        }
        for byte in rest {
            tuple.serialize_element(byte)?;
        }
        tuple.end()
    }
}

/// All bytes that are left. See [`Bytes`].
struct Rest(Vec<u8>);

/// As many bytes as most messages have, with their stamps.
const EXPECTED: usize = 256;

impl<'de> Deserialize<'de> for Rest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Rest;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Rest, A::Error> {
                let mut bytes = Vec::with_capacity(EXPECTED);
                // The end is an error: there is no other sign of it. Nothing of an element
                // has been read then.
                while let Ok(Some(eight)) = seq.next_element::<f64>() {
                    bytes.extend_from_slice(&eight.to_le_bytes());
                }
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
        let tag = unstamp(&mut data, home()).and_then(|stamp| stamp.tag());
        note(tag, &data);
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
            let leads_out = matches!(entry.kind, Kind::Sender | Kind::BytesSender);
            let id = match stamp.from.thread(entry.id.creator) {
                Some(creator) => ChannelId {
                    creator,
                    ..entry.id
                },
                // Ids of another run mean nothing here.
                None => super::new_id(),
            };
            if leads_out && stamp.from != Origin::This {
                outward::leads_out(id);
            }
            Ok((Entry { id, ..entry }, Some(handle?)))
        };
        let handles = stamp.entries.iter().copied().map(take);
        let tag = stamp.tag();
        note(tag, &data);
        Ok(Packet {
            tag,
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

/// Records the content of a message.
fn note(tag: Option<Tag>, data: &[u8]) {
    if let Some(tag) = tag {
        payload::of_bytes(tag, data);
    }
}

/// A message of a set whose type is not known, and that was sent by this process.
pub(super) struct Untyped(pub(super) Packet);

impl<'de> Deserialize<'de> for Untyped {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Rest(mut data) = Rest::deserialize(deserializer)?;
        match unstamp(&mut data, home()) {
            Some(stamp) => Packet::unpack(data, stamp).map(Untyped),
            None => Ok(Untyped(Packet::of_bytes(data))),
        }
    }
}

/// Upstream's messages ask for it; no code writes one.
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
        // The value being read is upstream's, also while a packet is read.
        let _plain = Restore::replace(&READING, None);
        if let Now::Off = now() {
            return T::deserialize(deserializer).map(|value| Arrival::Value(Ok(value)));
        }
        let Rest(mut data) = Rest::deserialize(deserializer)?;
        match unstamp(&mut data, home()) {
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
    let stamp = home().map(|home| stamp(&[], tag, home));
    [data, &stamp.unwrap_or_default()].concat()
}

/// Bytes as they were sent, without the stamp that they may have.
pub(super) fn plain_bytes(mut data: Vec<u8>) -> Vec<u8> {
    unstamp(&mut data, None);
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

    fn home_of(path: &str) -> Home {
        Home {
            path: path.parse().unwrap(),
            run: 7,
            ..Home::of_environment("unused").unwrap()
        }
    }

    #[test]
    fn a_stamp_reads_back_and_leaves_the_value() {
        for path in ["0", "0.1", "0.1.2"] {
            let home = home_of(path);
            let mut data = [&b"value"[..], &stamp(&entries(), tag(), &home)].concat();
            let read = unstamp(&mut data, Some(&home)).unwrap();
            assert_eq!(data, b"value");
            assert_eq!((&read.from, read.tag), (&Origin::This, tag()));
            assert_eq!(format!("{:?}", read.entries), format!("{:?}", entries()));
        }
    }

    #[test]
    fn another_process_s_stamp_says_which() {
        let stamped = stamp(&entries(), tag(), &home_of("0.2"));
        let from = |home: Option<Home>| {
            let stamp = unstamp(&mut stamped.clone(), home.as_ref()).unwrap();
            (stamp.from, stamp.entries.len())
        };
        let path = "0.2".parse().unwrap();
        assert_eq!(from(Some(home_of("0"))), (Origin::Other(path), 5));
        let run = 8;
        let home = home_of("0.2");
        assert_eq!(from(Some(Home { run, ..home })), (Origin::Elsewhere, 5));
        assert_eq!(from(None), (Origin::Elsewhere, 5));
    }

    /// Decodes a message as a receiver does that has no code for stamps.
    #[test]
    fn a_plain_receiver_does_not_see_a_stamp() {
        let value = ("text".to_owned(), vec![1_u16, 2], Some(-3));
        let plain = postcard::to_stdvec(&value).unwrap();
        let outgoing = |home: Option<Home>| Outgoing {
            value: value.clone(),
            stamp: home.map(|home| (tag(), Cow::Owned(home))),
        };
        let unstamped = postcard::to_stdvec(&outgoing(None)).unwrap();
        let stamped = postcard::to_stdvec(&outgoing(Some(home_of("0.1")))).unwrap();
        assert_eq!(unstamped, plain);
        assert!(stamped.len() > plain.len() && stamped.starts_with(&plain));
        let read: (String, Vec<u16>, Option<i32>) = postcard::from_bytes(&stamped).unwrap();
        assert_eq!(read, value);
    }

    /// A value of another type than it claims, or not all of the sent value.
    #[test]
    fn a_plain_message_is_foreign_with_any_content() {
        let (tx, rx) = raw::channel::<(u8, u64)>().unwrap();
        tx.send((1, 2)).unwrap();
        let rx: raw::IpcReceiver<Arrival<u8>> = rx.to_opaque().to();
        let arrival = rx.recv().unwrap();
        assert_eq!(arrival.tag(), None);
        assert_eq!(arrival.open().unwrap(), 1);
    }

    #[test]
    fn any_bytes_are_written_and_read_as_they_are() {
        // All classes of an `f64`: numbers, infinities, and values that are no number.
        let of = |word: u64| (0..9).map(move |n| word.rotate_left(n * 7).to_le_bytes());
        let words = [
            0,
            1,
            u64::MAX,
            0x7ff0 << 48,
            0x7ff0_0000_0000_0001,
            0xfff4 << 48,
        ];
        let all = words
            .map(|word| of(word).flatten().collect::<Vec<_>>())
            .concat();
        for len in (0..20).chain([all.len()]) {
            let bytes = &all[..len];
            assert_eq!(postcard::to_stdvec(&Bytes(bytes)).unwrap(), bytes);
            let Rest(read) = postcard::from_bytes(bytes).unwrap();
            assert_eq!(read, bytes);
        }
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
            unstamp(&mut data, None);
            prop_assert!(before.starts_with(&data));
        }
    }
}
