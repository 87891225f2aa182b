//! Tasks that continue from a checkpoint.

use std::rc::Rc;
use std::time::Duration;

use ptrace_async::runtime::{Parked, Tracee};

use super::watch::RunTimer;
use super::{Failure, ReplayedTask, frozen, kill};
use crate::replay::address_space::AddressSpace;
use crate::replay::remote_calls::RemoteCalls;
use crate::replay::session::{NewTask, ReplaySession};
use crate::replay::snapshot::{RestoredTask, TaskSnapshot};

/// The flags of a thread, and of another process with the same memory.
const THREAD: i32 = libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM;
const PROCESS: i32 = libc::CLONE_VM | libc::CLONE_PARENT;

/// Makes those that share its memory, and goes on.
pub(super) async fn follow(
    tracee: Tracee<Parked>,
    restored: RestoredTask,
    session: Rc<ReplaySession>,
) {
    let observer = Rc::new(tracee.observer());
    let process = tracee.tgid();
    let count = restored.others.len() + 1;
    let RestoredTask {
        kept,
        space,
        others,
        fork_advice,
    } = restored;
    let tracee = match begin(tracee, &kept, &space, others, &fork_advice, &session).await {
        Ok(tracee) => tracee,
        Err(failure) => {
            let reason = match failure {
                Failure::Gone | Failure::Stopped => std::io::Error::from_raw_os_error(libc::ESRCH),
                failure => std::io::Error::other(failure.describe().1),
            };
            session.fail(reason);
            session.appeared(count);
            kill(process);
            return;
        }
    };
    let replayed = ReplayedTask {
        session,
        task: kept.task,
        observer,
        events: kept.events,
        entry: kept.entry,
        call: kept.call,
        returned: kept.returned,
        given: kept.given,
        child: kept.child,
        space,
        run: RunTimer::new(Duration::ZERO),
    };
    replayed.follow(tracee).await;
}

async fn begin(
    mut tracee: Tracee<Parked>,
    kept: &TaskSnapshot,
    space: &Rc<AddressSpace>,
    others: Vec<TaskSnapshot>,
    fork_advice: &[crate::replay::snapshot::ForkAdvice],
    session: &Rc<ReplaySession>,
) -> Result<Tracee<Parked>, Failure> {
    tracee = frozen::advise(tracee, fork_advice, true).await?;
    for other in others {
        let flags = if other.process == kept.process {
            THREAD
        } else {
            PROCESS
        };
        let mut batch = RemoteCalls::default();
        batch.call(libc::SYS_clone, [flags as u64, 0, 0, 0, 0, 0]);
        let restored = RestoredTask {
            kept: other,
            space: space.clone(),
            others: Vec::new(),
            fork_advice: Rc::default(),
        };
        let made;
        (tracee, made) = frozen::made(
            tracee,
            batch,
            session,
            NewTask::Restored(Box::new(restored)),
        )
        .await?;
        made.map_err(|error| Failure::Diverged(String::new(), error.to_string()))?;
    }
    tracee.set_extended_state(&kept.extended)?;
    tracee.set_registers(&kept.registers)?;
    Ok(tracee)
}
