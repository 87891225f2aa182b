//! A replayed task that makes another one.

use std::rc::Rc;

use ptrace_async::runtime::{Parked, Tracee};
use ptrace_async::syscall::error_of;

use super::super::agent::Batch;
use super::{Over, Replayed};
use crate::replay::session::{Birth, Newborn};
use crate::trace::event::Spawned;

impl Replayed {
    pub(super) async fn spawned(
        &mut self,
        tracee: Tracee<Parked>,
        spawned: Spawned,
    ) -> Result<Tracee<Parked>, Over> {
        if self.call.is_none() {
            return Err(Over::Diverged(
                "a new task".to_owned(),
                "no call".to_owned(),
            ));
        }
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
        let space = if flags & libc::CLONE_VM as u64 != 0 {
            self.space.clone()
        } else {
            Rc::new(self.space.copy())
        };
        let mut newborn = Some(Newborn {
            task: spawned.child,
            space,
        });
        let mut batch = Batch::default();
        batch.call(libc::SYS_clone, [flags, 0, 0, 0, 0, 0]);
        let player = self.player.clone();
        let made = batch
            .make_tasks(tracee, |child| {
                if let Some(newborn) = newborn.take() {
                    player.bear(child, Birth::Task(newborn));
                }
            })
            .await;
        let (tracee, results) = made?;
        self.child = Some(spawned.child);
        self.stand(&tracee)?;
        match results.iter().find_map(|&value| error_of(value)) {
            None => Ok(tracee),
            Some(error) => Err(Over::Diverged(
                "a new task".to_owned(),
                format!(
                    "it cannot be made: {}",
                    std::io::Error::from_raw_os_error(error)
                ),
            )),
        }
    }
}
