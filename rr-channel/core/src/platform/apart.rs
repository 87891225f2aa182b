//! Work of the calling thread for this crate, and not for the program.

use std::cell::Cell;

thread_local! {
    static APART: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f`, in which neither random bytes nor clocks are recorded or replayed.
pub fn apart<T>(f: impl FnOnce() -> T) -> T {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            let _ = APART.try_with(|apart| apart.set(self.0));
        }
    }
    let before = APART.try_with(|apart| apart.replace(true));
    let _restore = Restore(before.unwrap_or(true));
    f()
}

/// Whether the calling thread is [`apart`], or has no state any more.
#[inline]
pub fn is_apart() -> bool {
    APART.try_with(Cell::get).unwrap_or(true)
}
