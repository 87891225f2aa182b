//! Requests to tasks at rest, and frozen copies of processes.

use std::rc::Rc;

use ptrace_async::runtime::{Parked, Tracee};
use ptrace_async::syscall::error_of;

use super::{Failure, ReplayedTask, kill};
use crate::replay::remote_calls::RemoteCalls;
use crate::replay::session::record_queue::Request;
use crate::replay::session::{NewTask, ReplaySession};
use crate::replay::snapshot::{
    CopyRequest, ForkAdvice, FrozenCopy, FrozenProcess, TaskDescription, TaskSnapshot, fork_advice,
};

/// The child of a copy's parent: who copies never waits for it.
const SIBLING: u64 = libc::CLONE_PARENT as u64;

impl ReplayedTask {
    /// Does what is asked of a task at rest; nothing is left of one that has gone.
    pub(super) async fn answer(
        &mut self,
        tracee: Tracee<Parked>,
        request: Request,
    ) -> Option<Tracee<Parked>> {
        match request {
            Request::WriteShared => return self.write_shared(tracee).await.ok(),
            Request::GoOn => return self.go_on(tracee).await,
            Request::Describe | Request::Freeze => {}
        }
        let (tracee, described) = self.describe(tracee, request).await.ok()?;
        match described {
            Ok(described) => self.session.described.borrow_mut().push(described),
            Err(error) => self.session.fail(error),
        }
        Some(tracee)
    }

    async fn describe(
        &mut self,
        tracee: Tracee<Parked>,
        request: Request,
    ) -> Result<(Tracee<Parked>, std::io::Result<TaskDescription>), Failure> {
        let kept = TaskSnapshot {
            task: self.task,
            process: tracee.tgid(),
            registers: tracee.registers()?,
            extended: tracee.extended_state()?.into(),
            events: self.events,
            entry: self.entry,
            call: self.call,
            returned: self.returned,
            given: self.given,
            child: self.child,
        };
        let mut described = TaskDescription {
            kept,
            space: self.space.clone(),
            copy: None,
        };
        if request == Request::Describe {
            return Ok((tracee, Ok(described)));
        }
        let registers = described.kept.registers;
        let (tracee, copy) = self.copy(tracee).await?;
        tracee.set_registers(&registers)?;
        Ok((
            tracee,
            copy.map(|copy| {
                described.copy = Some(copy);
                described
            }),
        ))
    }

    /// Goes on from the point that it is at to the next visit like it.
    async fn go_on(&mut self, tracee: Tracee<Parked>) -> Option<Tracee<Parked>> {
        let found = self.session.retried.borrow_mut().take()?;
        match self.next_visit(tracee, &found.point, found.number).await {
            Ok(tracee) => Some(tracee),
            Err(failure) => {
                self.report_divergence(found.number, failure);
                None
            }
        }
    }

    /// Writes to memory that is shared, as was asked.
    async fn write_shared(&self, mut tracee: Tracee<Parked>) -> Result<Tracee<Parked>, Failure> {
        let Some(put) = self.session.shared_writes.borrow_mut().take() else {
            return Ok(tracee);
        };
        let registers = tracee.registers()?;
        let writable = libc::PROT_READ | libc::PROT_WRITE;
        let is_writable = i32::from(put.prot) & libc::PROT_WRITE != 0;
        let protect = |prot: u64| {
            let mut batch = RemoteCalls::default();
            batch.call(libc::SYS_mprotect, [put.address, put.length, prot, 0, 0, 0]);
            batch
        };
        if !is_writable {
            // The tracer may not write there either (ptrace(2)).
            (tracee, _) = protect(writable as u64).make(tracee).await?;
        }
        for (address, page) in &put.writes {
            if let Err(error) = tracee.write(*address, page) {
                self.session.fail(error);
            }
        }
        if !is_writable {
            (tracee, _) = protect(put.prot.into()).make(tracee).await?;
            tracee.set_registers(&registers)?;
        }
        Ok(tracee)
    }

    /// Makes a copy of the process.
    async fn copy(
        &self,
        tracee: Tracee<Parked>,
    ) -> Result<(Tracee<Parked>, std::io::Result<FrozenCopy>), Failure> {
        let fork_advice: Rc<[ForkAdvice]> = if self.space.has_fork_advice() {
            fork_advice(tracee.tgid())?.into()
        } else {
            Rc::default()
        };
        let frozen = Rc::new(FrozenProcess::default());
        *frozen.fork_advice.borrow_mut() = fork_advice.clone();
        let (tracee, made) = make(
            tracee,
            &fork_advice,
            &self.session,
            NewTask::Frozen(frozen.clone()),
        )
        .await?;
        // As it was advised.
        let tracee = advise(tracee, &fork_advice, true).await?;
        Ok((tracee, made.map(|()| FrozenCopy(frozen))))
    }
}

/// Follows a copy to its end.
pub(super) async fn follow(
    mut tracee: Tracee<Parked>,
    frozen: Rc<FrozenProcess>,
    session: Rc<ReplaySession>,
) {
    let process = tracee.tgid();
    frozen.is_there.set(true);
    while let CopyRequest::Restore(restored) = frozen.next().await {
        let count = restored.others.len() + 1;
        tracee = match make(tracee, &[], &session, NewTask::Restored(restored)).await {
            Ok((tracee, Ok(()))) => tracee,
            Ok((tracee, Err(error))) => {
                session.fail(error);
                session.appeared(count);
                tracee
            }
            Err(_) => {
                session.fail(std::io::Error::from_raw_os_error(libc::ESRCH));
                session.appeared(count);
                break;
            }
        };
    }
    frozen.is_there.set(false);
    kill(process);
}

/// Has a process copied, after which its registers are to be set.
async fn make(
    tracee: Tracee<Parked>,
    fork_advice: &[ForkAdvice],
    session: &Rc<ReplaySession>,
    new_task: NewTask,
) -> Result<(Tracee<Parked>, std::io::Result<()>), Failure> {
    let tracee = advise(tracee, fork_advice, false).await?;
    let mut batch = RemoteCalls::default();
    batch.call(libc::SYS_clone, [SIBLING, 0, 0, 0, 0, 0]);
    made(tracee, batch, session, new_task).await
}

/// Has a task make another one, of this description.
pub(super) async fn made(
    tracee: Tracee<Parked>,
    batch: RemoteCalls,
    session: &Rc<ReplaySession>,
    new_task: NewTask,
) -> Result<(Tracee<Parked>, std::io::Result<()>), Failure> {
    let mut new_task = Some(new_task);
    let (tracee, results) = batch
        .make_tasks(tracee, |child| {
            if let Some(new_task) = new_task.take() {
                session.add_new_task(child, new_task);
            }
        })
        .await?;
    let error = results.iter().find_map(|&value| error_of(value));
    let made = match error {
        Some(error) => Err(std::io::Error::from_raw_os_error(error)),
        None => Ok(()),
    };
    Ok((tracee, made))
}

/// Gives the advice again that keeps forks from copying memory, or takes it back.
pub(super) async fn advise(
    mut tracee: Tracee<Parked>,
    fork_advice: &[ForkAdvice],
    again: bool,
) -> Result<Tracee<Parked>, Failure> {
    // As many as fit.
    for some in fork_advice.chunks(256) {
        let mut batch = RemoteCalls::default();
        for part in some {
            let advice = if again { part.advice } else { part.opposite };
            let advice = advice as u64;
            batch.call(
                libc::SYS_madvise,
                [part.address, part.length, advice, 0, 0, 0],
            );
        }
        (tracee, _) = batch.make(tracee).await?;
    }
    Ok(tracee)
}
