//! The session of a process, and what its threads do in it: recording, replay, chaos.
//!
//! A session begins when a thread first asks for it, and a thread is known to the session when
//! it first does something: so these modules know each other. [`replay`] does not ask for
//! the session: that hands it the [engine](replay::hand_in).

#[cfg(all(
    feature = "interpose",
    target_env = "gnu",
    not(target_feature = "crt-static"),
    not(miri)
))]
mod c_library;
#[cfg(not(all(
    feature = "interpose",
    target_env = "gnu",
    not(target_feature = "crt-static"),
    not(miri)
)))]
#[path = "c_library_off.rs"]
mod c_library;
pub mod chaos;
pub mod context;
pub mod executor;
pub mod fixed;
pub mod fork;
pub mod order;
pub mod payload;
pub mod pool;
pub mod replay;
pub mod seats;
pub mod session;
pub mod signal;

pub use c_library::clock;
