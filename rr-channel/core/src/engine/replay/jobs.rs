//! The next step of a pool's thread, from its log.

use rr_channel_log::{Event, Op, Outcome};

use super::Engine;
use super::follow;
use super::listen::Wake;
use super::lock_order::{Next, Reach};
use super::report::{Attempt, Cause};
use super::waiter_counts;
use super::world::{Source, Watch};
use crate::engine::context;
use crate::recorder::tag::Tag;

/// The next step of a pool's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextJob {
    /// It has taken this job.
    Take(Tag),
    /// It goes on with the half of a fork that it kept.
    Own,
    /// It goes on once the awaited result is there.
    Done,
    /// It finds nothing to do.
    Nothing,
    /// The thread is live and decides for itself.
    Live,
}

/// The place where a pool's thread asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asks {
    /// It waits for something.
    Waits,
    /// It has put half of a fork aside, and waits for that.
    Joins,
    /// It lets others run.
    Yields,
}

impl Engine {
    /// Returns the next step of the calling thread, which `asks` as one of the threads of the pool
    /// at `pool`. Waits for a job until it can `take` that job. `reclaim` takes back what the
    /// thread had put aside.
    ///
    /// [`NextJob::Done`] has not come about yet: see [`Engine::await_done`].
    pub fn next_job(
        &self,
        pool: usize,
        asks: Asks,
        take: impl Fn(Tag) -> bool,
        reclaim: impl FnOnce() -> bool,
    ) -> NextJob {
        let id = context::thread_or_last();
        let watch = (Watch::Object(pool), 0);
        let expected = match self.next_event(id, Op::Job, None) {
            Next::Live => return NextJob::Live,
            Next::End => {
                // Its further steps are unknown: it takes none before the others need it.
                self.await_event(id, watch, None, || Reach::Later);
                return NextJob::Live;
            }
            Next::Event(event) => event,
        };
        match (expected.outcome, asks) {
            (Outcome::Message { sender, number }, _) => {
                let tag = Tag::new(sender, number);
                let reach = || match take(tag) {
                    true => Reach::Now,
                    false => Reach::Later,
                };
                if self.await_event(id, watch, Some(expected), reach) {
                    follow::advance();
                    NextJob::Take(tag)
                } else {
                    NextJob::Live
                }
            }
            (Outcome::Again, Asks::Joins) if reclaim() => {
                follow::advance();
                NextJob::Own
            }
            (Outcome::Empty, Asks::Yields) => {
                follow::advance();
                NextJob::Nothing
            }
            (Outcome::Done, Asks::Waits | Asks::Joins) => NextJob::Done,
            _ => {
                let actual = Attempt {
                    op: Op::Job,
                    channel: None,
                };
                self.desync(id, Cause::Mismatch { expected, actual });
                NextJob::Live
            }
        }
    }

    /// Waits by `sleep` for the result that, by its log, [comes about](NextJob::Done) for the
    /// calling thread. `sleep` returns whether it did. It returns earlier if its argument says
    /// that the thread was released; `wake` wakes it for that. `false` if the thread goes live
    /// instead.
    pub fn await_done(
        &'static self,
        wake: Wake,
        sleep: impl FnOnce(&dyn Fn() -> bool) -> bool,
    ) -> bool {
        let listening = self.listen(Source::Here, Some(job_event(Outcome::Done)), Some(wake));
        let done = sleep(&|| listening.is_released());
        drop(listening);
        let followed = done && !follow::is_live();
        if followed {
            follow::advance();
        }
        followed
    }

    /// A job came to the pool at `pool`.
    pub fn job_came(&self, pool: usize) {
        if waiter_counts::is_watched(pool) {
            let mut world = self.lock();
            world.step();
            world.touch(Watch::Object(pool), 0);
        }
    }
}

/// The log event of a job that a thread took.
pub const fn took(tag: Tag) -> Event {
    job_event(Outcome::Message {
        sender: tag.sender(),
        number: tag.number(),
    })
}

/// The log event of a pool's thread.
pub const fn job_event(outcome: Outcome) -> Event {
    Event {
        op: Op::Job,
        channel: None,
        outcome,
    }
}
