#![expect(unsafe_code, reason = "lock_api's traits are unsafe to implement")]
//! Raw mutexes.
//!
//! **Safety** rests on what [`raw_mutexes`] says. The state of an acquisition is upstream's,
//! which has none: all its values are alike.

use std::fmt;
use std::time::{Duration, Instant};

use ::parking_lot_13 as raw;
use lock_api_5 as lock_api;
use lock_api_5::{RawMutex as _, RawMutexFair as _};
use rr_channel_log::Op;

use crate::raw_locks::{Count, acquire, after, attempt, observe, raw_mutexes};
use rr_channel_core::engine::order::Order;
use rr_channel_core::engine::session::{Session, session};

/// The value that the holder of a mutex has.
pub(super) type Acquired = <raw::RawMutex as lock_api::RawMutex>::Guard;
type Attempted = Option<Acquired>;

raw_mutexes!(guard: [guard], types: { type Guard = Acquired; });
