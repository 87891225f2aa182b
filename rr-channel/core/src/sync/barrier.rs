//! A barrier.

use std::fmt;
use std::sync;

use rr_channel_log::Op;

use super::PoisonError;
use crate::engine::chaos;
use crate::engine::fork;
use crate::engine::order::Order;
use crate::engine::session::{Session, session};
use crate::platform::lock::lock;

/// A place where threads wait for each other. See [`std::sync::Barrier`].
///
/// ```
/// use rr_channel::sync::Barrier;
/// use rr_channel::thread;
///
/// let barrier = Barrier::new(3);
/// let leaders = thread::scope(|s| {
///     let threads = [(); 3].map(|()| s.spawn(|| barrier.wait().is_leader()));
///     threads.map(|thread| usize::from(thread.join().unwrap()))
/// });
/// assert_eq!(leaders.iter().sum::<usize>(), 1);
/// ```
pub struct Barrier {
    size: usize,
    order: Order,
    state: sync::Mutex<State>,
    full: sync::Condvar,
}

/// Outside of replays.
#[derive(Debug)]
struct State {
    waiting: usize,
    generation: usize,
}

impl Barrier {
    /// Creates a barrier for `n` threads at a time.
    #[inline]
    pub const fn new(n: usize) -> Self {
        Barrier {
            size: n,
            order: Order::new(),
            state: sync::Mutex::new(State {
                waiting: 0,
                generation: 0,
            }),
            full: sync::Condvar::new(),
        }
    }

    /// Blocks until as many threads have come as the barrier is for. The last one is
    /// the leader.
    #[track_caller]
    pub fn wait(&self) -> BarrierWaitResult {
        if let Session::Replay(engine) = session()
            && !fork::is_fork()
        {
            engine.turn(Op::Arrive, &self.order);
            let arrivals = engine.arrived(&self.order);
            let size = self.size.max(1) as u64;
            engine.await_count(&self.order, arrivals.next_multiple_of(size));
            return BarrierWaitResult(arrivals.is_multiple_of(size));
        }
        chaos::point();
        let mut state = lock(&self.state);
        if matches!(session(), Session::Record(_)) {
            self.order.took(Op::Arrive);
        }
        state.waiting += 1;
        if state.waiting < self.size {
            let generation = state.generation;
            drop(
                self.full
                    .wait_while(state, |state| state.generation == generation)
                    .unwrap_or_else(PoisonError::into_inner),
            );
            return BarrierWaitResult(false);
        }
        state.waiting = 0;
        state.generation = state.generation.wrapping_add(1);
        self.full.notify_all();
        BarrierWaitResult(true)
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier").finish_non_exhaustive()
    }
}

/// Whether a thread is the one among those at a [`Barrier`] that is chosen.
///
/// Not `std`'s own, which only `std`'s barrier can make.
pub struct BarrierWaitResult(bool);

impl BarrierWaitResult {
    /// Whether the thread is the leader.
    #[must_use]
    pub const fn is_leader(&self) -> bool {
        self.0
    }
}

impl fmt::Debug for BarrierWaitResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BarrierWaitResult")
            .field("is_leader", &self.is_leader())
            .finish()
    }
}
