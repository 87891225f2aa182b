//! An initialization that runs once.

/// Implements what both versions have of `Once`, which has upstream's as `raw`, `attempts`,
/// and a method `is_done`.
macro_rules! once_states {
    () => {
        /// The states as they are logged: done is [`DONE`].
        const STATES: [OnceState; 4] = [
            OnceState::New,
            OnceState::Done,
            OnceState::Poisoned,
            OnceState::InProgress,
        ];
        const DONE: u64 = 1;

        impl Once {
            /// Returns the state of the initialization.
            #[track_caller]
            pub fn state(&self) -> OnceState {
                match session() {
                    Session::Off => self.raw.state(),
                    Session::Record(_) => {
                        chaos::point();
                        self.observed()
                    }
                    Session::Replay(engine) => {
                        let is_done = || self.is_done();
                        engine
                            .recall_once(Op::IsCompleted, &self.attempts.order, DONE, &is_done)
                            .and_then(|number| STATES.get(number as usize).copied())
                            .unwrap_or_else(|| self.observed())
                    }
                }
            }

            fn observed(&self) -> OnceState {
                let state = self.raw.state();
                let number = STATES.iter().position(|known| *known == state);
                log(Op::IsCompleted, Outcome::Value(number.unwrap_or(0) as u64));
                state
            }

            once_calls!(OnceState);

            #[track_caller]
            fn turn(&self, engine: &Engine) -> OnceTurn {
                self.attempts.turn(engine, || self.is_done())
            }
        }

        impl fmt::Debug for Once {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct("Once").finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use once_states;
