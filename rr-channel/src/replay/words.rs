#![expect(unsafe_code, reason = "values whose type is not known")]
//! Values of any type, as words.
//!
//! What a replayed channel does with its messages does not depend on their type. So its code is
//! there once for some sizes, and not once for each type: a program has many types of messages,
//! and may have been built without optimization.
//!
//! **Safety** rests on: words are made of a value by [`Words::of`], which owns it from then
//! on; a copy of them is one, too, and of all copies one at most is made the value again, or
//! [discarded](Discard), and as the same type. That is for whoever moves them to keep: the
//! channel that they are in ([`chan`](super::chan)), which has one type of messages
//! ([`typed`](super::typed)), and moves each as any other value.

use std::fmt;
use std::mem::MaybeUninit;

/// As many words as a value takes that is not in a box.
pub(super) const MOST: usize = 8;

/// Words that are moved.
pub(super) type Piece<const N: usize> = [MaybeUninit<u64>; N];

/// A value of some type, or a box of one.
pub(super) struct Words(Piece<MOST>);

/// Drops the value that words are.
///
/// # Safety
/// They are one of this type, and are used no more.
pub(super) type Discard = unsafe fn(Words);

impl Words {
    /// Whether values of this type take no box.
    const fn fits<T>() -> bool {
        size_of::<T>() <= size_of::<Self>() && align_of::<T>() <= align_of::<Self>()
    }

    /// How many words a value of this type takes.
    pub(super) const fn count_of<T>() -> usize {
        match Self::fits::<T>() {
            true => size_of::<T>().div_ceil(size_of::<u64>()),
            false => 1,
        }
    }

    /// Room for a value.
    #[inline(always)]
    pub(super) const fn new() -> Self {
        Words([MaybeUninit::uninit(); MOST])
    }

    /// Has a value become words.
    #[inline(always)]
    pub(super) fn of<T>(value: T) -> Self {
        let mut words = Self::new();
        let place = words.0.as_mut_ptr();
        if Self::fits::<T>() {
            // SAFETY: there is room for one, and it is aligned, as was just asked.
            unsafe { place.cast::<T>().write(value) };
        } else {
            // SAFETY: as above, of a pointer.
            unsafe { place.cast::<*mut T>().write(Box::into_raw(Box::new(value))) };
        }
        words
    }

    /// Has words become the value again.
    ///
    /// # Safety
    /// They, or what they are a copy of, were made of a `T`; and of all copies these are the only
    /// ones that are used from now on.
    #[inline(always)]
    pub(super) unsafe fn into<T>(self) -> T {
        let place = self.0.as_ptr();
        if Self::fits::<T>() {
            // SAFETY: `of` put one there, which nobody else has, as the caller promises.
            unsafe { place.cast::<T>().read() }
        } else {
            // SAFETY: as above; it is the box that `of` made.
            *unsafe { Box::from_raw(place.cast::<*mut T>().read()) }
        }
    }

    /// [Discards](Discard) a `T`.
    ///
    /// # Safety
    /// As of [`into`](Self::into).
    pub(super) unsafe fn discard<T>(self) {
        // SAFETY: as the caller promises.
        drop(unsafe { self.into::<T>() });
    }

    /// Its first words, which are all that matters if it [takes](Self::count_of) no more.
    #[inline(always)]
    pub(super) fn piece<const N: usize>(&self) -> Piece<N> {
        const { assert!(N <= MOST, "more than there are") };
        let mut piece = [MaybeUninit::uninit(); N];
        piece.copy_from_slice(&self.0[..N]);
        piece
    }

    /// Puts these in place of its first ones.
    #[inline(always)]
    pub(super) fn put<const N: usize>(&mut self, piece: Piece<N>) {
        const { assert!(N <= MOST, "more than there are") };
        self.0[..N].copy_from_slice(&piece);
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

    /// What becomes of a value that goes by as so many words as it takes.
    fn passed<T, const N: usize>(value: T) -> T {
        assert!(Words::count_of::<T>() <= N);
        let piece = Words::of(value).piece::<N>();
        let mut words = Words::new();
        words.put(piece);
        // SAFETY: of a `T`, and the only copy that is used.
        unsafe { words.into() }
    }

    #[test]
    fn values_of_all_sizes_come_out_as_they_went_in() {
        #[derive(Debug, PartialEq)]
        #[repr(align(64))]
        struct Aligned(u8);

        passed::<_, 1>(());
        assert_eq!(passed::<_, 1>(7_u8), 7);
        assert_eq!(passed::<_, 1>(Box::new(7)), Box::new(7));
        assert_eq!(passed::<_, 4>("text".to_owned()), "text");
        assert_eq!(passed::<_, 4>((1_u8, 2_u64, 3_u16)), (1, 2, 3));
        assert_eq!(passed::<_, 8>([7_u64; 8]), [7; 8]);
        // These are in boxes.
        assert_eq!(passed::<_, 1>([7_u64; 9]), [7; 9]);
        assert_eq!(passed::<_, 1>(Aligned(7)), Aligned(7));
        assert_eq!(passed::<_, 1>(7_u128), 7);
    }

    #[test]
    fn what_is_discarded_is_dropped_once() {
        let small = Arc::new(());
        let large = (Arc::clone(&small), [0_u64; 9]);
        let words = [Words::of(Arc::clone(&small)), Words::of(large)];
        assert_eq!(Arc::strong_count(&small), 3);
        let [first, second] = words;
        // SAFETY: of these types, and used no more.
        unsafe { first.discard::<Arc<()>>() };
        assert_eq!(Arc::strong_count(&small), 2);
        // SAFETY: as above.
        unsafe { second.discard::<(Arc<()>, [u64; 9])>() };
        assert_eq!(Arc::strong_count(&small), 1);
    }
}
