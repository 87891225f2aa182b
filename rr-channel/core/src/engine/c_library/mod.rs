//! The definitions of functions of the C library, which come before its own: what the program
//! calls comes to the session.
//!
//! They are there unless the feature `interpose` is off, or the program cannot have them:
//! [`c_library_off`](super) stands in then.

mod processes;
pub(super) mod threads;
#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(not(target_arch = "x86_64"))]
#[path = "without_x86_64.rs"]
mod x86_64;

pub use x86_64::clock;
pub(super) use x86_64::{random, system_calls};
