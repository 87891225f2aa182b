#![expect(unsafe_code, reason = "values whose type is not known")]
//! Values of any type, as memory words.
//!
//! **Safety** rests on: words are made of a value and own it, as a value of one type. Their
//! content is read as this type only. The code that makes them and takes the value out again keeps
//! to that: it is the channel that they are in, which has one type of messages
//! ([`typed`](super::typed)).

use std::fmt;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr;
use std::time::Instant;

/// Room for a value that is in no box: a string or a vector and one word more.
type Room = [MaybeUninit<u64>; 4];

/// A value of some type, or a box of one.
pub(super) struct Words {
    room: Room,
    /// Drops the value in there, once.
    discard: unsafe fn(*mut Room),
}

// SAFETY: of a type that may not be sent there is no channel in another thread, as the face of
// a channel has the type of its messages (and says so by its `PhantomData`).
unsafe impl Send for Words {}

/// Whether values of this type take no box.
const fn fits<T>() -> bool {
    size_of::<T>() <= size_of::<Room>() && align_of::<T>() <= align_of::<Room>()
}

/// # Safety
/// There is a `T` in this room, or a box of one, which is not used any more.
unsafe fn discard<T>(room: *mut Room) {
    // SAFETY: as the caller promises; a value in a room is aligned there, or is in a box.
    unsafe {
        if fits::<T>() {
            room.cast::<T>().drop_in_place();
        } else {
            drop(Box::from_raw(room.cast::<*mut T>().read()));
        }
    }
}

impl Words {
    /// Has a value become words.
    #[inline]
    pub(super) fn of<T>(value: T) -> Self {
        let mut room = [MaybeUninit::uninit(); 4];
        let place = ptr::from_mut(&mut room);
        // SAFETY: there is room for one, and it is aligned; and for a pointer in any case.
        unsafe {
            if fits::<T>() {
                place.cast::<T>().write(value);
            } else {
                place.cast::<*mut T>().write(Box::into_raw(Box::new(value)));
            }
        }
        Words {
            room,
            discard: discard::<T>,
        }
    }

    /// Has words become the value again.
    ///
    /// # Safety
    /// They were made of a `T`.
    #[inline]
    pub(super) unsafe fn value<T>(self) -> T {
        let words = ManuallyDrop::new(self);
        let place = ptr::from_ref(&words.room);
        // SAFETY: `of` put one there, or its box, as the caller promises; and it is not read after
        // this, as the words are not dropped.
        unsafe {
            if fits::<T>() {
                place.cast::<T>().read()
            } else {
                *Box::from_raw(place.cast::<*mut T>().read())
            }
        }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: of the type that these were made of, which is in there, and is used no more.
        unsafe { (self.discard)(&raw mut self.room) };
    }
}

impl From<Instant> for Words {
    fn from(when: Instant) -> Self {
        Words::of(when)
    }
}

impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("Words { .. }")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn values_of_all_sizes_come_out_as_they_went_in() {
        fn passed<T>(value: T) -> T {
            let words = Words::of(value);
            // Elsewhere than where it was made.
            let moved = Box::new(words);
            // SAFETY: of a `T`.
            unsafe { (*moved).value::<T>() }
        }
        #[derive(Debug, PartialEq)]
        #[repr(align(64))]
        struct Aligned(u8);

        passed(());
        assert_eq!(passed(7_u8), 7);
        assert_eq!(passed(Box::new(7)), Box::new(7));
        assert_eq!(passed("text".to_owned()), "text");
        assert_eq!(passed((1_u8, 2_u64, 3_u16)), (1, 2, 3));
        assert_eq!(passed([7_u64; 4]), [7; 4]);
        // These are in boxes.
        assert_eq!(passed([7_u64; 5]), [7; 5]);
        assert_eq!(passed(Aligned(7)), Aligned(7));
        assert_eq!(passed(7_u128), 7);
    }

    #[test]
    fn a_value_is_dropped_once_by_its_words_or_its_owner() {
        let small = Arc::new(());
        let large = (Arc::clone(&small), [0_u64; 9]);
        let words = [Words::of(Arc::clone(&small)), Words::of(large)];
        assert_eq!(Arc::strong_count(&small), 3);
        let [first, second] = words;
        drop(first);
        assert_eq!(Arc::strong_count(&small), 2);
        // SAFETY: of this type.
        let large = unsafe { second.value::<(Arc<()>, [u64; 9])>() };
        assert_eq!(Arc::strong_count(&small), 2);
        drop(large);
        assert_eq!(Arc::strong_count(&small), 1);
    }
}
