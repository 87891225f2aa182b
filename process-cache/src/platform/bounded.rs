//! Lists of bounded length: one byte of a stored form can represent a value of a hundred bytes,
//! and untrusted input may exploit this.

use std::marker::PhantomData;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Larger than the number of changes or writes of any unit.
pub(crate) const MANY: usize = 1 << 20;

/// A list of at most `MAX` items, for `deserialize_with`.
///
/// # Errors
/// Errors of the format, and an error for too many items.
pub(crate) fn list<'de, D, T, const MAX: usize>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_seq(List::<T, MAX>(PhantomData))
}

struct List<T, const MAX: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for List<T, MAX> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a list of at most {MAX}")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        // The announced length is untrusted.
        let mut items = Vec::with_capacity(list.size_hint().unwrap_or(0).min(1024));
        while let Some(item) = list.next_element()? {
            if items.len() == MAX {
                return Err(A::Error::custom("too many items"));
            }
            items.push(item);
        }
        Ok(items)
    }
}

#[cfg(test)]
mod tests {
    #[derive(Debug, serde::Deserialize)]
    struct Few(#[serde(deserialize_with = "super::list::<_, _, 3>")] Vec<u8>);

    #[test]
    fn a_list_longer_than_the_bound_is_refused() {
        let read = |items: &[u8]| {
            let bytes = postcard::to_stdvec(items).expect("bytes");
            postcard::from_bytes::<Few>(&bytes)
        };
        assert_eq!(read(&[1, 2, 3]).expect("as many as may be").0, [1, 2, 3]);
        assert!(read(&[1, 2, 3, 4]).is_err());
    }
}
