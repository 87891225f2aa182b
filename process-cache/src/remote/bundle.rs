//! Bundles: a result with its contents in one piece.
//!
//! A result of a whole build has dozens of small contents, and a server looks up, reads and sends
//! each of them separately. So a short result has a *bundle* next to its path sets: the newest
//! result, followed by all its contents in one zstd stream. The server sends it with the path
//! sets, so that one round trip suffices. A bundle is much smaller than the separate contents,
//! because those of one build are similar (a library repeats its objects). No lookup depends on
//! it. If there is none, it has another result, or most contents exist already, everything is
//! requested as usual.
//!
//! A bundle is a header (`"pcb"`, a version byte), the result's key, the length of the result, the
//! result as encoded by [`super::codec`], and the contents. Decoding verifies lengths only:
//! contents have digests, and a result is checked like any other.

use std::io;
use std::sync::Arc;

use super::codec::{FormError, Key};
use crate::store::Shared;

const MAGIC: &[u8; 3] = b"pcb";
pub(crate) const VERSION: u8 = 1;
/// Minimal number of contents in a bundle: the few contents of one compiler are quickly requested.
pub const LEAST: usize = 4;
/// Maximal total length of contents in a bundle, in bytes.
pub const MAX_CONTENTS: u64 = 4 << 20;
/// Maximal length of a bundle, in bytes: every request for path sets returns it, and it is stored
/// in addition to its contents.
pub const MAX: usize = 512 << 10;
/// The compression level of zstd. Compression runs once, in the background.
const LEVEL: i32 = 3;

/// Whether contents of these lengths justify a bundle.
pub fn is_worth(lengths: impl ExactSizeIterator<Item = u64>) -> bool {
    lengths.len() >= LEAST && lengths.fold(0, u64::saturating_add) <= MAX_CONTENTS
}

/// Makes a bundle of an encoded result and its concatenated contents; `None` if it would be too
/// long.
///
/// # Errors
/// Errors of zstd, which do not occur for a buffer.
pub fn encode(key: Key, result: &[u8], contents: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let packed = zstd::bulk::compress(contents, LEVEL)?;
    let Ok(length) = u32::try_from(result.len()) else {
        return Ok(None);
    };
    let bytes = [
        &MAGIC[..],
        &[VERSION],
        &key.0,
        &length.to_le_bytes(),
        result,
        &packed,
    ];
    let bytes = bytes.concat();
    Ok((bytes.len() <= MAX).then_some(bytes))
}

/// A decoded bundle.
#[derive(Debug, Clone)]
pub struct Bundle {
    /// The key of the result.
    pub key: Key,
    /// The result, encoded.
    pub result: Vec<u8>,
    /// The contents, compressed.
    contents: Shared,
}

impl Bundle {
    /// Decodes a bundle.
    ///
    /// # Errors
    /// The defect of the bytes.
    pub fn decode(bytes: Vec<u8>) -> Result<Self, FormError> {
        if bytes.len() > MAX {
            return Err(FormError::Large);
        }
        let rest = bytes.strip_prefix(MAGIC).ok_or(FormError::Magic)?;
        let (&version, rest) = rest.split_first().ok_or(FormError::Magic)?;
        if version != VERSION {
            return Err(FormError::Version(version));
        }
        let cut = || FormError::Damaged("it is cut".to_owned());
        let (key, rest) = rest.split_first_chunk().ok_or_else(cut)?;
        let (length, rest) = rest.split_first_chunk().ok_or_else(cut)?;
        let length = u32::from_le_bytes(*length) as usize;
        let (result, contents) = rest.split_at_checked(length).ok_or_else(cut)?;
        let (key, result) = (Key(*key), result.to_vec());
        let contents = bytes.len() - contents.len()..bytes.len();
        let contents = Shared::part(Arc::new(bytes), contents);
        Ok(Self {
            key,
            result,
            contents,
        })
    }

    /// Returns the contents, which have these lengths. They are not verified.
    ///
    /// # Errors
    /// Fails if the data is invalid, or has another total length.
    pub fn contents(&self, lengths: &[u64]) -> io::Result<Vec<Shared>> {
        let wrong = || io::Error::from(io::ErrorKind::InvalidData);
        let all = lengths.iter().copied().fold(0, u64::saturating_add);
        if all > MAX_CONTENTS {
            return Err(wrong());
        }
        let plain = zstd::bulk::decompress(&self.contents, all as usize)?;
        if plain.len() as u64 != all {
            return Err(wrong());
        }
        let plain = Arc::new(plain);
        let mut at = 0;
        let pieces = lengths.iter().map(|length| {
            let end = at + *length as usize;
            let piece = Shared::part(plain.clone(), at..end);
            at = end;
            piece
        });
        Ok(pieces.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key([7; 32]);

    fn bundle(contents: &[u8]) -> Vec<u8> {
        encode(KEY, b"result", contents).unwrap().unwrap()
    }

    #[test]
    fn a_bundle_decodes_to_its_contents() {
        let contents: [&[u8]; 4] = [b"one", b"", b"three", b"one"];
        let found = Bundle::decode(bundle(&contents.concat())).unwrap();
        assert_eq!((found.key, &found.result[..]), (KEY, &b"result"[..]));
        let pieces = found.contents(&[3, 0, 5, 3]).unwrap();
        assert!(pieces.iter().map(|piece| &piece[..]).eq(contents));
        for lengths in [
            &[3, 0, 5][..],
            &[3, 0, 5, 4],
            &[],
            &[u64::MAX, 3],
            &[MAX_CONTENTS + 1],
        ] {
            assert!(found.contents(lengths).is_err(), "{lengths:?}");
        }
    }

    #[test]
    fn malformed_bundles_are_refused() {
        let right = bundle(b"contents");
        assert!(matches!(
            Bundle::decode(b"pcr".to_vec()),
            Err(FormError::Magic)
        ));
        for length in 0..3 + 1 + 32 + 4 + 6 {
            assert!(
                Bundle::decode(right[..length].to_vec()).is_err(),
                "{length}"
            );
        }
        let cut = Bundle::decode(right[..right.len() - 1].to_vec()).unwrap();
        assert!(cut.contents(&[8]).is_err());
        let mut newer = right.clone();
        newer[3] += 1;
        assert!(matches!(Bundle::decode(newer), Err(FormError::Version(_))));
        let long = [right, vec![0; MAX]].concat();
        assert!(matches!(Bundle::decode(long), Err(FormError::Large)));
    }

    #[test]
    fn a_decompression_bomb_is_refused() {
        let bomb = Bundle::decode(bundle(&vec![0; MAX_CONTENTS as usize + 1])).unwrap();
        assert!(bomb.contents(&[MAX_CONTENTS]).is_err());
        assert!(bomb.contents(&[MAX_CONTENTS, 1]).is_err());
    }

    #[test]
    fn bundles_are_short() {
        assert!(!is_worth([1; LEAST - 1].into_iter()));
        assert!(is_worth([1; LEAST].into_iter()));
        assert!(!is_worth([MAX_CONTENTS, 1, 0, 0].into_iter()));
        assert!(!is_worth([u64::MAX; LEAST].into_iter()));
        let long = vec![0; MAX];
        assert!(encode(KEY, &long, b"").unwrap().is_none());
    }
}
