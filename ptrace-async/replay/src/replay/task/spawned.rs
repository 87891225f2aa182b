//! A replayed task that makes another one.

use std::cell::Cell;
use std::rc::Rc;

use ptrace_async::runtime::Stop;
use ptrace_async::syscall::{Invocation, error_of};

use super::super::player::Birth;
use super::{Here, Over, Replayed, is_restarted};
use crate::trace::event::Spawned;

impl Replayed {
    pub(super) async fn spawned(&mut self, here: Here, spawned: Spawned) -> Result<Here, Over> {
        let Here::Call(mut tracee) = here else {
            return Err(Over::Diverged(
                "a new task".to_owned(),
                "no call".to_owned(),
            ));
        };
        let kept = libc::CLONE_VM
            | libc::CLONE_FS
            | libc::CLONE_FILES
            | libc::CLONE_SIGHAND
            | libc::CLONE_THREAD
            | libc::CLONE_SYSVSEM;
        let mut flags = spawned.flags & kept as u64;
        if flags & libc::CLONE_THREAD as u64 == 0 {
            flags &= !(libc::CLONE_FILES as u64);
        }
        let clone = Invocation {
            nr: libc::SYS_clone as u64,
            args: [flags, 0, 0, 0, 0, 0],
        };
        tracee.modify(clone)?;
        let mut stop = tracee.resume_to_exit().stop().await;
        loop {
            stop = match stop {
                Stop::Spawned(tracee) => {
                    let shares = flags & libc::CLONE_VM as u64 != 0;
                    let birth = Birth {
                        task: spawned.child,
                        program_break: if shares {
                            self.program_break.clone()
                        } else {
                            Rc::new(Cell::new(self.program_break.get()))
                        },
                        loaded: if shares {
                            self.loaded.clone()
                        } else {
                            Rc::new(Cell::new(self.loaded.get()))
                        },
                    };
                    self.player.bear(tracee.child(), birth);
                    tracee.resume().stop().await
                }
                // Somebody's signal came in between; the kernel makes the call again.
                Stop::Posthook(tracee) if is_restarted(tracee.value()) => {
                    tracee.resume().stop().await
                }
                Stop::Prehook(tracee) => tracee.resume_to_exit().stop().await,
                Stop::Posthook(tracee) => {
                    return match error_of(tracee.value()) {
                        None => Ok(Here::Parked(tracee.park())),
                        Some(error) => Err(Over::Diverged(
                            "a new task".to_owned(),
                            format!(
                                "it cannot be made: {}",
                                std::io::Error::from_raw_os_error(error)
                            ),
                        )),
                    };
                }
                Stop::Exited(_) | Stop::Killed { .. } | Stop::Superseded => return Err(Over::Gone),
                other => match other.park() {
                    Some(tracee) => tracee.resume().stop().await,
                    None => return Err(Over::Gone),
                },
            };
        }
    }
}
