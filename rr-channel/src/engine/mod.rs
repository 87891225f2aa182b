//! The session of a process, and what its threads do in it: recording, replay, chaos.
//!
//! A session begins when a thread first asks for it, and a thread is known to the session when
//! it first does something: so these modules know each other. [`replay`] does not ask for
//! the session: that hands it the [engine](replay::hand_in).

pub(crate) mod chaos;
pub(crate) mod context;
pub mod executor;
pub(crate) mod fixed;
pub(crate) mod fork;
#[cfg(all(
    feature = "interpose",
    target_env = "gnu",
    not(target_feature = "crt-static"),
    not(miri)
))]
pub(crate) mod interpose;
#[cfg(not(all(
    feature = "interpose",
    target_env = "gnu",
    not(target_feature = "crt-static"),
    not(miri)
)))]
#[path = "interpose_off.rs"]
pub(crate) mod interpose;
#[cfg(all(
    feature = "interpose",
    target_env = "gnu",
    not(target_feature = "crt-static"),
    not(miri)
))]
mod interpose_processes;
pub(crate) mod order;
pub(crate) mod payload;
pub mod pool;
#[cfg(all(
    feature = "interpose",
    target_arch = "x86_64",
    target_env = "gnu",
    not(target_feature = "crt-static"),
    not(miri)
))]
pub(crate) mod random;
#[cfg(not(all(
    feature = "interpose",
    target_arch = "x86_64",
    target_env = "gnu",
    not(target_feature = "crt-static"),
    not(miri)
)))]
#[path = "random_off.rs"]
pub(crate) mod random;
pub(crate) mod replay;
pub(crate) mod seats;
pub(crate) mod session;
pub(crate) mod signal;
