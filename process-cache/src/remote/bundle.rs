//! A result with its contents, in one piece.
//!
//! A result of a whole build has dozens of small contents, and a server looks each of
//! them up, reads it and sends it by itself, packed without the others. So beside path
//! sets stands, where it is short, a *bundle*: the newest result, and behind it all its
//! contents in one piece of zstd. It comes along with the path sets, and then one round
//! trip brings all there is; and it is a fraction as long as the contents, because those of
//! one build resemble each other (a library repeats the objects that it was made of). It
//! is never needed: where there is none, it is another result, or most contents are there
//! already, everything is asked for as ever.
//!
//! A bundle is a header (`"pcb"`, a version byte), the result's key, the length of the
//! result, the result as [`super::codec`] packs it, and the contents. Nothing in it is
//! verified here but lengths: contents have digests, and a result is checked like any.

use std::io;
use std::sync::Arc;

use super::codec::{FormError, Key};
use crate::store::Shared;

const MAGIC: &[u8; 3] = b"pcb";
pub(crate) const VERSION: u8 = 1;
/// Where bundles begin, in contents: those of one compiler are quickly asked for.
pub const LEAST: usize = 4;
/// Contents that are longer have no bundle, in bytes, all together.
pub const MAX_CONTENTS: u64 = 4 << 20;
/// The longest bundle, in bytes: it comes to everybody who asks for path sets, and is
/// stored besides its contents.
pub const MAX: usize = 512 << 10;
/// How hard zstd tries. It is done once, in the background.
const LEVEL: i32 = 3;

/// Whether contents of these lengths are worth a bundle.
pub fn is_worth(lengths: impl ExactSizeIterator<Item = u64>) -> bool {
    lengths.len() >= LEAST && lengths.fold(0, u64::saturating_add) <= MAX_CONTENTS
}

/// Makes a bundle of a packed result and of contents that stand one behind the other;
/// `None` if it would be too long.
///
/// # Errors
/// Those of zstd, which has none for a buffer.
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

/// A bundle, taken apart.
#[derive(Debug, Clone)]
pub struct Bundle {
    /// Where the result stands.
    pub key: Key,
    /// The result, packed.
    pub result: Vec<u8>,
    /// The contents, packed.
    contents: Shared,
}

impl Bundle {
    /// Takes a bundle apart.
    ///
    /// # Errors
    /// What is wrong with the bytes.
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

    /// The contents, which have these lengths; nobody has verified them yet.
    ///
    /// # Errors
    /// When it is something else, or there is less or more in it.
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
