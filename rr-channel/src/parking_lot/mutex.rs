#![expect(unsafe_code, reason = "lock_api's traits are unsafe to implement")]
//! Raw mutexes.
//!
//! **Safety** rests on what [`raw_mutexes`] says.

use std::fmt;
use std::time::{Duration, Instant};

use ::parking_lot as raw;
use lock_api::{RawMutex as _, RawMutexFair as _};
use rr_channel_log::Op;

use super::attempt::attempt;
use crate::raw_locks::{Count, acquire, after, observe, raw_mutexes};
use rr_channel_core::engine::order::Order;
use rr_channel_core::engine::session::{Session, session};

type Acquired = ();
type Attempted = bool;

raw_mutexes!(guard: [], types: {
    type GuardMarker = <raw::RawMutex as lock_api::RawMutex>::GuardMarker;
});
