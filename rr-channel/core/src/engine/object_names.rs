//! Names of an executor's objects, and numbers of the operations on them.
//!
//! Each thread or task names the objects that it makes, in the order in which it makes them.

use std::ops::Range;
use std::sync::OnceLock;

use rr_channel_log::identity::{ChannelId, ThreadId};

use crate::platform::segments;

/// Objects that have different names, of those that one thread or task makes. There are many, and
/// most are gone soon.
const OBJECTS: u32 = 4096;

/// The names that one thread or task has given.
#[derive(Debug)]
pub struct ObjectNames {
    creator: ThreadId,
    objects: u32,
    /// Whether the name of a timer is in use, by its number.
    timers: Vec<bool>,
    /// The operations that it polls: the address of the object, and a number.
    operations: Vec<(usize, u32)>,
}

impl ObjectNames {
    pub(super) const fn new(creator: ThreadId) -> Self {
        ObjectNames {
            creator,
            objects: 0,
            timers: Vec::new(),
            operations: Vec::new(),
        }
    }

    fn name(&self, number: u32) -> ChannelId {
        ChannelId {
            creator: self.creator,
            number,
        }
    }

    /// Names the next object.
    pub fn next_object(&mut self) -> ChannelId {
        let number = ChannelId::FIRST_OBJECT + self.objects % OBJECTS;
        self.objects = self.objects.wrapping_add(1);
        self.name(number)
    }

    /// Names a timer by the first name that is free.
    pub fn next_timer(&mut self) -> ChannelId {
        let free = self.timers.iter().position(|is_used| !is_used);
        let at = free.unwrap_or(self.timers.len());
        if free.is_none() {
            self.timers.push(false);
        }
        self.timers[at] = true;
        self.name(ChannelId::FIRST_TIMER + at as u32)
    }

    /// A timer with this name is gone: the name is free again.
    pub fn drop_timer(&mut self, name: ChannelId) {
        let at = name.number.checked_sub(ChannelId::FIRST_TIMER);
        let used = at.and_then(|at| self.timers.get_mut(at as usize));
        if let Some(used) = used {
            *used = false;
        }
    }

    /// An operation begins on the object at `address`: the thread, and the first number that no
    /// other operation of the thread on the object has.
    pub fn begin_operation(&mut self, address: usize) -> (ThreadId, u32) {
        let is_used = |number| self.operations.contains(&(address, number));
        let number = (0..ChannelId::OPERATIONS - 1).find(|number| !is_used(*number));
        let number = number.unwrap_or(ChannelId::OPERATIONS - 1);
        self.operations.push((address, number));
        (self.creator, number)
    }

    /// The operation with this number on the object at `address` is over.
    pub fn end_operation(&mut self, address: usize, number: u32) {
        let is_meant = |own: &(usize, u32)| *own == (address, number);
        if let Some(at) = self.operations.iter().position(is_meant) {
            self.operations.swap_remove(at);
        }
    }
}

/// The name of an object in a `static`, which has the same place in each run of the program; `None`
/// if it is elsewhere. Objects whose places have the same remainder have the same name.
pub fn name_of_static(address: usize) -> Option<ChannelId> {
    static STATICS: OnceLock<Range<usize>> = OnceLock::new();
    const PF_W: u32 = 2;
    let statics = STATICS.get_or_init(|| segments::of_program(PF_W).unwrap_or_default());
    statics.contains(&address).then(|| ChannelId {
        creator: STATIC,
        number: ChannelId::FIRST_OBJECT + ((address - statics.start) >> 3) as u32 % PLACES,
    })
}

/// The number of different names of objects in statics.
const PLACES: u32 = 8192;

/// The number of a thread that there is not, and that names objects in statics.
const STATIC: ThreadId = ThreadId(ThreadId::LIMIT - 2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_gets_the_first_name_that_is_free() {
        let mut names = ObjectNames::new(ThreadId(3));
        let made = [names.next_timer(), names.next_timer(), names.next_timer()];
        names.drop_timer(made[1]);
        assert_eq!(names.next_timer(), made[1]);
        assert_eq!(names.next_timer().number, made[2].number + 1);
    }

    #[test]
    fn an_operation_gets_the_first_number_that_is_free_on_its_object() {
        let mut names = ObjectNames::new(ThreadId(3));
        let begin = |names: &mut ObjectNames, object| names.begin_operation(object).1;
        assert_eq!([8, 8, 9].map(|object| begin(&mut names, object)), [0, 1, 0]);
        names.end_operation(8, 0);
        assert_eq!([8, 8].map(|object| begin(&mut names, object)), [0, 2]);
    }
}
