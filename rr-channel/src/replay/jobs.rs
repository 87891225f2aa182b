//! What a pool's thread does next, as its log has it.

use super::Engine;
use super::follow;
use super::turns::{Next, Reach};
use super::watched;
use super::world::Watch;
use crate::context;
use crate::log::{Event, Op, Outcome};
use crate::tag::Tag;

/// What a pool's thread does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextJob {
    /// It takes this job, which is there.
    Take(Tag),
    /// It goes on with the half of a fork that it kept.
    Own,
    /// What it waits for comes about.
    Done,
    /// It finds nothing to do.
    Nothing,
    /// Whatever it likes: it is live.
    Live,
}

impl Engine {
    /// What the calling thread does next, as one of the threads of the pool at `pool`;
    /// waits for a job until `is_there`.
    pub(crate) fn next_job(&self, pool: usize, is_there: impl Fn(Tag) -> bool) -> NextJob {
        let id = context::thread_or_last();
        let event = match self.next_event(id, Op::Job, None) {
            Next::Live => return NextJob::Live,
            Next::End => None,
            Next::Event(event) => Some(event),
        };
        let watch = (Watch::Object(pool), 0);
        match event.map(|event| event.outcome) {
            Some(Outcome::Message { sender, number }) => {
                let tag = Tag::new(sender, number);
                let reach = || match is_there(tag) {
                    true => Reach::Now,
                    false => Reach::Later,
                };
                if self.await_event(id, watch, event, reach) {
                    NextJob::Take(tag)
                } else {
                    NextJob::Live
                }
            }
            None => {
                // It is unknown what it did then: not before the others need it.
                self.await_event(id, watch, None, || Reach::Later);
                NextJob::Live
            }
            Some(outcome) => {
                follow::advance();
                match outcome {
                    Outcome::Again => NextJob::Own,
                    Outcome::Done => NextJob::Done,
                    _ => NextJob::Nothing,
                }
            }
        }
    }

    /// A job came to the pool at `pool`.
    pub(crate) fn job_came(&self, pool: usize) {
        if watched::is_watched(pool) {
            let mut world = self.lock();
            world.step();
            world.touch(Watch::Object(pool), 0);
        }
    }
}

/// What is logged of a job that was taken.
pub(crate) const fn took(tag: Tag) -> Event {
    event(Outcome::Message {
        sender: tag.sender(),
        number: tag.number(),
    })
}

/// What is logged of a pool's thread.
pub(crate) const fn event(outcome: Outcome) -> Event {
    Event {
        op: Op::Job,
        channel: None,
        outcome,
    }
}
