//! The contents of messages, in a file beside a recording's logs.
//!
//! Lines of text, after a title. Each has the sender and the number of a message, its size in
//! bytes, and its bytes: the first ones in hexadecimal digits, or `#` and their hash (64-bit
//! FNV-1a). The bytes are missing where they are not known.
//!
//! ```text
//! rr-channel payloads 1
//! 3 17 4 0a000000
//! 3 18 4 #4b9f5a1b2c3d4e5f
//! 3 19 24
//! ```

use std::collections::BTreeMap;
use std::fmt;

use crate::identity::ThreadId;

/// The name of the file, in the recording's directory.
pub const PAYLOADS_FILE: &str = "payloads";
/// The first line of the file.
pub const PAYLOADS_TITLE: &str = "rr-channel payloads 1\n";

/// The content of a message, as far as it was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// Its size in bytes.
    pub size: u64,
    /// Its bytes, as far as they are known.
    pub content: Content,
}

/// Bytes of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Nothing is known.
    Unknown,
    /// The first bytes, [`Payload::MOST`] at most.
    Bytes(Vec<u8>),
    /// The hash of all: 64-bit FNV-1a.
    Hash(u64),
}

impl Payload {
    /// So many bytes of a message are kept, at most.
    pub const MOST: usize = 256;

    /// The payload of a message of `size` bytes that are not known.
    pub const fn unknown(size: usize) -> Self {
        Payload {
            size: size as u64,
            content: Content::Unknown,
        }
    }

    /// The payload of a message of these bytes, the first of which are kept.
    pub fn of(bytes: &[u8]) -> Self {
        Payload {
            size: bytes.len() as u64,
            content: Content::Bytes(bytes[..bytes.len().min(Self::MOST)].to_vec()),
        }
    }

    /// The payload of a message of these bytes, of which only the hash is kept.
    pub fn hashed(bytes: &[u8]) -> Self {
        let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
        });
        Payload {
            size: bytes.len() as u64,
            content: Content::Hash(hash),
        }
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.size)?;
        match &self.content {
            Content::Unknown => Ok(()),
            Content::Hash(hash) => write!(f, " #{hash:016x}"),
            Content::Bytes(bytes) => {
                f.write_str(" ")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

/// Messages by sender and number.
pub(crate) type Payloads = BTreeMap<(ThreadId, u64), Payload>;

/// Reads the file; `None` if it is no such file. A last line that was cut off is ignored.
pub(crate) fn parse(text: &str) -> Option<Payloads> {
    let (text, _) = text
        .strip_prefix(PAYLOADS_TITLE)?
        .rsplit_once('\n')
        .unwrap_or_default();
    text.lines().map(line).collect()
}

fn line(line: &str) -> Option<((ThreadId, u64), Payload)> {
    let mut words = line.split(' ');
    let mut number = || words.next()?.parse().ok();
    let (sender, message, size): (u64, u64, u64) = (number()?, number()?, number()?);
    let content = match words.next() {
        None => Content::Unknown,
        Some(word) => match word.strip_prefix('#') {
            Some(hash) => Content::Hash(u64::from_str_radix(hash, 16).ok()?),
            None => Content::Bytes(bytes(word)?),
        },
    };
    let message = (ThreadId(sender.try_into().ok()?), message);
    Some((message, Payload { size, content })).filter(|_| words.next().is_none())
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else {
        return None;
    };
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |[high, low]: &[u8; 2]| u8::try_from(digit(*high)? * 16 + digit(*low)?).ok();
    pairs.iter().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn payloads_read_back() {
        let payloads = [
            Payload::unknown(24),
            Payload::of(b""),
            Payload::of(&[10, 0, 255]),
            Payload::of(&[7; 1000]),
            Payload::hashed(b"abc"),
        ];
        let mut text = PAYLOADS_TITLE.to_owned();
        for (number, payload) in payloads.iter().enumerate() {
            text += &format!("3 {number} {payload}\n");
        }
        let read = parse(&(text + "3 9 cut o")).unwrap();
        assert!(read.keys().copied().eq((0..5).map(|n| (ThreadId(3), n))));
        assert!(read.values().eq(payloads.iter()));
    }

    #[test]
    fn the_hash_is_fnv() {
        assert_eq!(Payload::hashed(b"a").to_string(), "1 #af63dc4c8601ec8c");
    }

    #[test]
    fn invalid_payload_lines_are_refused() {
        for line in [
            "x",
            "1",
            "1 2",
            "1 2 3 4",
            "1 2 3 é",
            "1 2 3 #x",
            "1 2 3 00 1",
        ] {
            assert_eq!(parse(&format!("{PAYLOADS_TITLE}{line}\n")), None, "{line}");
        }
        assert_eq!(parse("1 2 3\n"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(rr-channel payloads 1\n)?([ 0-9a-f#]|\n|.)*") {
            let _ = parse(&text);
        }
    }
}
