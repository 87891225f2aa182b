//! The world's own part of a channel: the threads that wait there, and the time when a timer is
//! due.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rr_channel_log::identity::ThreadId;

use super::flow::Flow;

#[derive(Debug, Clone, Copy)]
pub(super) struct Timer {
    pub(super) due: Option<Instant>,
    pub(super) period: Option<Duration>,
}

#[derive(Debug)]
pub(super) struct Chan {
    pub(super) flow: Arc<Flow>,
    pub(super) timer: Option<Timer>,
    pub(super) waiters: Vec<ThreadId>,
}

impl Chan {
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.timer
            .is_some_and(|timer| timer.due.is_some_and(|due| due <= now))
    }
}
