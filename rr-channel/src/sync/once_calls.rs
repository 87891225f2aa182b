//! What `std`'s `Once` and parking_lot's have in common, but for the type of their states.

/// Methods of a type with `attempts`, upstream's `raw`, and `turn`; `$state` is what
/// upstream tells an initialization.
macro_rules! once_calls {
    ($state:ty) => {
        /// Runs `f` if nothing was run here yet, and otherwise waits until that has ended.
        ///
        /// # Panics
        /// If what was run here panicked.
        #[inline]
        #[track_caller]
        pub fn call_once<F: FnOnce()>(&self, f: F) {
            match session() {
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
            match session() {
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
pub(crate) use once_calls;
