//! Digests used by remote caches.
//!
//! pcache identifies contents by their BLAKE3 digest, and uses it with servers that support it.
//! Others require SHA-256; then a result contains both digests of each of its contents. Received
//! contents are compared with the BLAKE3 digest in any case.

use sha2::Digest as _;

use crate::model::fact::Digest;

/// The digest function of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Function {
    /// BLAKE3, as in the store.
    Blake3,
    /// SHA-256, which every server supports.
    Sha256,
}

impl Function {
    /// Returns the digest of some bytes.
    pub fn of(self, bytes: &[u8]) -> Wire {
        let mut hasher = self.hasher();
        hasher.update(bytes);
        hasher.finish()
    }

    /// Creates a hasher.
    pub fn hasher(self) -> Hasher {
        let state = match self {
            Self::Blake3 => State::Blake3(Box::default()),
            Self::Sha256 => State::Sha256(sha2::Sha256::new()),
        };
        Hasher { state, size: 0 }
    }
}

/// The digest of a content at a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Wire {
    /// Its digest by the agreed function.
    pub hash: [u8; 32],
    /// Its length in bytes.
    pub size: u64,
}

impl Wire {
    /// Returns the digest in hexadecimal digits.
    pub fn hex(&self) -> String {
        Digest(self.hash).to_string()
    }

    /// Parses hexadecimal digits and a length; `None` for anything else.
    pub fn parse(hex: &str, size: i64) -> Option<Self> {
        let mut hash = [0; 32];
        let (pairs, []) = hex.as_bytes().as_chunks::<2>() else {
            return None;
        };
        if pairs.len() != hash.len() {
            return None;
        }
        for (byte, pair) in hash.iter_mut().zip(pairs) {
            let digit = |digit: u8| (digit as char).to_digit(16);
            *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
        }
        let size = u64::try_from(size).ok()?;
        Some(Self { hash, size })
    }
}

/// Computes a digest.
#[derive(Debug, Clone)]
pub struct Hasher {
    state: State,
    size: u64,
}

#[derive(Debug, Clone)]
enum State {
    Blake3(Box<blake3::Hasher>),
    Sha256(sha2::Sha256),
}

impl Hasher {
    /// Hashes more bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.size += bytes.len() as u64;
        match &mut self.state {
            State::Blake3(hasher) => drop(hasher.update(bytes)),
            State::Sha256(hasher) => hasher.update(bytes),
        }
    }

    /// Returns the digest of all bytes so far.
    pub fn finish(self) -> Wire {
        let hash = match self.state {
            State::Blake3(hasher) => *hasher.finalize().as_bytes(),
            State::Sha256(hasher) => hasher.finalize().into(),
        };
        Wire {
            hash,
            size: self.size,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_match_the_reference_functions() {
        let wire = Function::Sha256.of(b"abc");
        assert_eq!(
            wire.hex(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(wire.size, 3);
        let wire = Function::Blake3.of(b"abc");
        assert_eq!(wire.hash, *blake3::hash(b"abc").as_bytes());
    }

    #[test]
    fn only_well_formed_digests_parse() {
        let wire = Function::Sha256.of(b"x");
        assert_eq!(Wire::parse(&wire.hex(), 1), Some(wire));
        let hex = wire.hex();
        for (hex, size) in [
            (&hex[..63], 1),
            (&hex[..62], 1),
            (&*format!("{hex}00"), 1),
            (&*hex.replace(&hex[..1], "g"), 1),
            (&*hex, -1),
            ("", 0),
            ("é", 0),
        ] {
            assert_eq!(Wire::parse(hex, size), None, "{hex} {size}");
        }
    }
}
