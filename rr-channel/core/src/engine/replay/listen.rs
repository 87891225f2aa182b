//! Threads that wait elsewhere than in the world: in the kernel, or asleep in a pool.
//!
//! No other thread can notify them there of changes in the world. So such a thread *listens*: the
//! world knows that it waits, for whom, and for which event of its log. The search for stalls may
//! then release it from that event. The thread looks at intervals whether it was released, or is
//! woken by the waker that it left for that.

use std::cell::Cell;
use std::fmt;

use rr_channel_log::Event;
use rr_channel_log::identity::ThreadId;

use super::world::Source;
use super::{Engine, Place, Wait, Want, follow};
use crate::engine::context;

/// Wakes a thread that listens. Called while the world is locked: it must not come back
/// here.
pub struct Wake(Box<dyn Fn() + Send>);

impl Wake {
    pub fn new(wake: impl Fn() + Send + 'static) -> Self {
        Wake(Box::new(wake))
    }

    pub(super) fn wake(&self) {
        (self.0)();
    }
}

impl fmt::Debug for Wake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wake")
    }
}

impl Engine {
    /// The calling thread is about to wait elsewhere, for what `source` does; `expected` is
    /// what its log says; `None` if that ends here. If it is released from its log, it is
    /// woken by `wake`, or looks itself.
    pub fn listen(
        &'static self,
        source: Source,
        expected: Option<Event>,
        wake: Option<Wake>,
    ) -> Listening {
        if wake.is_some() {
            // It does not look by itself.
            self.start_watch();
        }
        let id = context::thread_or_last();
        let mut wait = Wait::new(Want::Nothing);
        wait.listens = Some(source);
        wait.expected = expected;
        wait.end_of_log = expected.is_none();
        let looks = wake.is_none();
        wait.wake = wake;
        let mut world = self.lock();
        wait.looks_since = world.moves;
        world.begin_wait(id, wait);
        let place = world.thread(id).place;
        self.someone_waits(&world);
        Listening {
            engine: self,
            id,
            place,
            looks,
            has_looked: Cell::new(false),
        }
    }
}

/// The calling thread waits elsewhere, until this is dropped.
#[derive(Debug)]
pub struct Listening {
    engine: &'static Engine,
    id: ThreadId,
    place: &'static Place,
    /// Whether it has no waker, so it looks at intervals for the event that it waits for.
    looks: bool,
    /// Whether it has looked whether it was released.
    has_looked: Cell<bool>,
}

impl Listening {
    /// The awaited message came.
    pub fn heard(&self) {
        self.engine.lock().step();
    }

    /// Whether the thread was released from its log. It asks when it begins to wait, and then at
    /// intervals. A thread without a waker asks whenever it has looked in vain for the event that
    /// it waits for.
    pub fn is_released(&self) -> bool {
        if self.has_looked.replace(true) {
            // By now it has waited for long.
            self.engine.start_watch();
            if self.looks {
                self.engine.lock().has_looked_in_vain(self.id);
            }
        }
        self.place.is_live()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.engine.lock().end_wait(self.id);
        follow::sync();
    }
}
