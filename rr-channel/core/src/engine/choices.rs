//! Choices that a program leaves to chance, the same in a recording and its replays.

use std::cell::Cell;
use std::sync::OnceLock;

use crate::engine::context;
use crate::engine::pool;
use crate::engine::replay;
use crate::engine::session::{Session, session};
use crate::engine::system_calls;

thread_local! {
    /// Where the calling thread or task was when it last chose, and how often it chose there.
    static CHOSEN: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// An input of choices besides the place where they are made.
static SALT: OnceLock<u64> = OnceLock::new();

/// A number below `limit`, for a choice that the program leaves to chance: the same one in a replay.
/// `native` chooses where nothing is recorded.
pub fn choose(limit: u32, native: impl FnOnce(u32) -> u32) -> u32 {
    if !pool::is_on() {
        return native(limit);
    }
    // A thread is known, and has a log to follow, once it was asked for.
    let thread = u64::from(context::thread_or_last().0);
    let place = match session() {
        Session::Off => None,
        Session::Record(_) => context::logged(),
        // No log is one without events.
        Session::Replay(_) => Some(replay::position().unwrap_or_default()),
    };
    let Some(place) = place else {
        return native(limit);
    };
    let place = thread << 40 ^ place;
    let (last, times) = CHOSEN.try_with(Cell::get).unwrap_or_default();
    let times = if last == place { times + 1 } else { 0 };
    let _ = CHOSEN.try_with(|chosen| chosen.set((place, times)));
    let salt = *SALT.get_or_init(system_calls::salt);
    let chosen = mixed(mixed(mixed(salt) ^ place) ^ times);
    (chosen % u64::from(limit.max(1))) as u32
}

/// Spreads each bit over all others (Steele, Lea and Flood 2014, SplitMix).
const fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
