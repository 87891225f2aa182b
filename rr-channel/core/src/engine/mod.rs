//! The session of a process, and what its threads do in it: recording, replay, chaos.
//!
//! A session begins when a thread first asks for it, and a thread is known to the session when
//! it first does something: so these modules know each other. [`replay`] does not ask for
//! the session: that hands it the [engine](replay::hand_in).

pub mod allocator;
pub mod chaos;
mod choices;
#[cfg(interposes_system_calls)]
mod clock;
#[cfg(interposes_system_calls)]
mod clock_sites;
pub mod context;
pub mod executor;
pub mod fixed;
pub mod fork;
#[cfg(interposes)]
mod interpose;
#[cfg(not(interposes))]
#[path = "interpose_off.rs"]
mod interpose;
#[cfg(interposes)]
mod interpose_processes;
mod notifications;
pub mod object_names;
pub mod objects;
pub mod order;
pub mod payload;
pub mod pool;
#[cfg(interposes_system_calls)]
mod random;
pub mod replay;
pub mod seats;
pub mod session;
pub mod shown;
pub mod signal;
#[cfg(interposes_system_calls)]
mod system_calls;
#[cfg(not(interposes_system_calls))]
#[path = "system_calls_off.rs"]
mod system_calls;
mod timers;
