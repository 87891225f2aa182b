//! Timers of an executor: see [`objects`](crate::engine::objects).

use std::task::{Context, Poll};

use crate::engine::context;
use crate::engine::executor;
use crate::engine::fork;
use crate::engine::object_names::ObjectNames;
use crate::engine::objects::{Object, Ready, Which};
use crate::engine::session::{Session, session};

/// A timer, with a name. Tasks make timers again and again, and how often may
/// depend on what is not recorded. So a timer that is gone leaves its name to the next one.
#[derive(Debug)]
pub struct Timer(Object);

impl Default for Timer {
    fn default() -> Self {
        Timer::new()
    }
}

impl Timer {
    /// See [`Object::new`].
    pub fn new() -> Self {
        if matches!(session(), Session::Off) || fork::is_fork() {
            return Timer(Object::lazy());
        }
        if executor::is_nameless() || executor::is_serving() {
            return Timer::unrecorded();
        }
        let object = Object::lazy();
        if let Some(name) = context::with_object_names(ObjectNames::next_timer) {
            object.order.learn(name);
        }
        Timer(object)
    }

    /// See [`Object::unrecorded`].
    pub const fn unrecorded() -> Self {
        Timer(Object::unrecorded())
    }

    /// Polls whether it has elapsed, by `poll`.
    #[track_caller]
    pub fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        // In a replay it is polled in vain, too: a clock that is paused goes on to where the first
        // timer is due, of those that were polled. A timer that has elapsed stays so.
        let Timer(object) = self;
        let (ready, lost) = (|_: &T| Ready::Done, || None);
        object.poll_which(Which::Timer, &object.pended, cx, poll, ready, lost)
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if let Some(name) = self.0.order.name() {
            context::with_object_names_of(name.creator, |names| names.drop_timer(name));
        }
    }
}
