//! Messages that nobody receives.

use std::mem::ManuallyDrop;

/// Drops `messages`. If a destructor panics, the messages after it leak, as those of `std`'s and
/// crossbeam's channels do: a second panic would end the process.
///
/// To be called outside of every lock: a destructor may use channels.
pub fn discard<T>(messages: Vec<T>) {
    let mut messages = ManuallyDrop::new(messages.into_iter());
    messages.by_ref().for_each(drop);
    drop(ManuallyDrop::into_inner(messages));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

    #[test]
    fn messages_after_a_panic_leak() {
        struct Message<'a>(u8, &'a Cell<u8>);
        impl Drop for Message<'_> {
            fn drop(&mut self) {
                self.1.set(self.1.get() + 1);
                if self.0 > 0 {
                    resume_unwind(Box::new("as planned"));
                }
            }
        }
        let dropped = Cell::new(0);
        let messages = [0, 1, 1].map(|number| Message(number, &dropped)).into();
        let result = catch_unwind(AssertUnwindSafe(|| discard(messages)));
        assert_eq!((result.is_err(), dropped.get()), (true, 2));
    }
}
