//! The session of a process, and what its threads do in it: recording, replay, chaos.
//!
//! A session begins when a thread first asks for it, and a thread is known to the session when
//! it first does something: so these modules know each other. [`replay`] does not ask for
//! the session: that hands it the [engine](replay::hand_in).

pub mod chaos;
#[cfg(all(
    feature = "interpose",
    target_arch = "x86_64",
    target_env = "gnu",
    not(target_feature = "crt-static"),
    not(miri)
))]
pub mod clock;
#[cfg(not(all(
    feature = "interpose",
    target_arch = "x86_64",
    target_env = "gnu",
    not(target_feature = "crt-static"),
    not(miri)
)))]
#[path = "clock_off.rs"]
pub mod clock;
#[cfg(all(
    feature = "interpose",
    target_arch = "x86_64",
    target_env = "gnu",
    not(target_feature = "crt-static"),
    not(miri)
))]
mod clock_sites;
pub mod context;
pub mod executor;
pub mod fixed;
pub mod fork;
#[cfg(all(
    feature = "interpose",
    target_env = "gnu",
    not(target_feature = "crt-static"),
    not(miri)
))]
pub mod interpose;
#[cfg(not(all(
    feature = "interpose",
    target_env = "gnu",
    not(target_feature = "crt-static"),
    not(miri)
)))]
#[path = "interpose_off.rs"]
pub mod interpose;
#[cfg(all(
    feature = "interpose",
    target_env = "gnu",
    not(target_feature = "crt-static"),
    not(miri)
))]
mod interpose_processes;
pub mod order;
pub mod payload;
pub mod pool;
#[cfg(all(
    feature = "interpose",
    target_arch = "x86_64",
    target_env = "gnu",
    not(target_feature = "crt-static"),
    not(miri)
))]
pub mod random;
#[cfg(not(all(
    feature = "interpose",
    target_arch = "x86_64",
    target_env = "gnu",
    not(target_feature = "crt-static"),
    not(miri)
)))]
#[path = "random_off.rs"]
pub mod random;
pub mod replay;
pub mod seats;
pub mod session;
pub mod signal;
#[cfg(all(
    feature = "interpose",
    target_arch = "x86_64",
    target_env = "gnu",
    not(target_feature = "crt-static"),
    not(miri)
))]
pub mod system_calls;
#[cfg(not(all(
    feature = "interpose",
    target_arch = "x86_64",
    target_env = "gnu",
    not(target_feature = "crt-static"),
    not(miri)
)))]
#[path = "system_calls_off.rs"]
pub mod system_calls;
