//! The common methods of `std`'s `Once` and parking_lot's, which differ only in the type of their
//! states.

/// Methods of a type with `attempts`, upstream's `raw`, and `turn`; `$state` is what
/// upstream tells an initialization.
#[doc(hidden)]
#[macro_export]
macro_rules! once_calls {
    ($state:ty) => {
        /// Runs `f` if nothing was run here yet, and otherwise waits until that has ended.
        ///
        /// # Panics
        /// If what was run here panicked.
        #[inline]
        #[track_caller]
        pub fn call_once<F: FnOnce()>(&self, f: F) {
            match $crate::engine::allocator::session_for(&self.attempts.order) {
                Session::Off => self.raw.call_once(f),
                Session::Record(_) => self.attempts.record(|begin| {
                    self.raw.call_once(|| {
                        begin();
                        f();
                    });
                }),
                Session::Replay(engine) => match self.turn(engine) {
                    OnceTurn::Done => {}
                    OnceTurn::Poisoned => panic!("Once instance has previously been poisoned"),
                    turn => {
                        self.attempts.follow(turn, |begin| {
                            self.raw.call_once(|| {
                                begin();
                                self.attempts.perform(engine, f);
                            });
                        });
                        engine.touched(&self.attempts.order);
                    }
                },
            }
        }

        /// As [`call_once`](Once::call_once), but runs `f` also where something panicked.
        #[inline]
        #[track_caller]
        pub fn call_once_force<F: FnOnce($state)>(&self, f: F) {
            match $crate::engine::allocator::session_for(&self.attempts.order) {
                Session::Off => self.raw.call_once_force(f),
                Session::Record(_) => self.attempts.record(|begin| {
                    self.raw.call_once_force(|state| {
                        begin();
                        f(state);
                    });
                }),
                Session::Replay(engine) => match self.turn(engine) {
                    OnceTurn::Done => {}
                    turn => {
                        self.attempts.follow(turn, |begin| {
                            self.raw.call_once_force(|state| {
                                begin();
                                self.attempts.perform(engine, || f(state));
                            });
                        });
                        engine.touched(&self.attempts.order);
                    }
                },
            }
        }
    };
}

/// The same, of waits.
#[doc(hidden)]
#[macro_export]
macro_rules! once_waits {
    () => {
        /// Blocks until something has run here to its end.
        ///
        /// # Panics
        /// If it panicked.
        #[track_caller]
        pub fn wait(&self) {
            match $crate::engine::allocator::session_for(&self.attempts.order) {
                Session::Off => self.raw.wait(),
                Session::Record(_) => self.attempts.record(|_| self.raw.wait()),
                Session::Replay(engine) => match self.turn(engine) {
                    OnceTurn::Done => {}
                    OnceTurn::Poisoned => panic!("Once instance has previously been poisoned"),
                    turn => self.attempts.follow(turn, |_| self.raw.wait()),
                },
            }
        }

        /// Blocks until something has run here to its end, whatever panicked before.
        #[track_caller]
        pub fn wait_force(&self) {
            match $crate::engine::allocator::session_for(&self.attempts.order) {
                Session::Off => self.raw.wait_force(),
                Session::Record(_) => self.attempts.record(|_| self.raw.wait_force()),
                Session::Replay(engine) => match self.turn(engine) {
                    OnceTurn::Done => {}
                    turn => self.attempts.follow(turn, |_| self.raw.wait_force()),
                },
            }
        }
    };
}
