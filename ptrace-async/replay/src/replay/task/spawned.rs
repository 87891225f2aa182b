//! Creation of a task by a replayed one.

use std::rc::Rc;

use ptrace_async::runtime::{Parked, Tracee};
use ptrace_async::syscall::error_of;

use super::super::remote_calls::RemoteCalls;
use super::{Failure, ReplayedTask};
use crate::replay::session::{NewTask, SpawnedTask};
use crate::trace::event::Spawned;

impl ReplayedTask {
    pub(super) async fn spawned(
        &mut self,
        tracee: Tracee<Parked>,
        spawned: Spawned,
    ) -> Result<Tracee<Parked>, Failure> {
        if self.call.is_none() {
            return Err(Failure::Diverged(
                "a new task".to_owned(),
                "the task is in no call".to_owned(),
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
        let mut new_task = Some(SpawnedTask {
            task: spawned.child,
            space,
        });
        let mut batch = RemoteCalls::default();
        batch.call(libc::SYS_clone, [flags, 0, 0, 0, 0, 0]);
        let session = self.session.clone();
        let made = batch
            .make_tasks(tracee, |child| {
                if let Some(new_task) = new_task.take() {
                    session.add_new_task(child, NewTask::Spawned(new_task));
                }
            })
            .await;
        let (tracee, results) = made?;
        self.child = Some(spawned.child);
        self.stand(&tracee)?;
        match results.iter().find_map(|&value| error_of(value)) {
            None => Ok(tracee),
            Some(error) => Err(Failure::Diverged(
                "a new task".to_owned(),
                format!(
                    "it cannot be created: {}",
                    std::io::Error::from_raw_os_error(error)
                ),
            )),
        }
    }
}
