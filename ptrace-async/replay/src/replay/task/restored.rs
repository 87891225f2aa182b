//! Tasks that go on from a checkpoint.

use std::rc::Rc;
use std::time::Duration;

use ptrace_async::runtime::{Parked, Tracee};

use super::watch::Run;
use super::{Over, Replayed, frozen, kill};
use crate::replay::address_space::Space;
use crate::replay::agent::Batch;
use crate::replay::session::{Birth, Player};
use crate::replay::snapshot::{Kept, Revived};

/// The flags of a thread, and of another process with the same memory.
const THREAD: i32 = libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM;
const PROCESS: i32 = libc::CLONE_VM | libc::CLONE_PARENT;

/// Makes those that share its memory, and goes on.
pub(super) async fn follow(tracee: Tracee<Parked>, revived: Revived, player: Rc<Player>) {
    let observer = Rc::new(tracee.observer());
    let process = tracee.tgid();
    let count = revived.others.len() + 1;
    let Revived {
        kept,
        space,
        others,
        odd,
    } = revived;
    let tracee = match begin(tracee, &kept, &space, others, &odd, &player).await {
        Ok(tracee) => tracee,
        Err(over) => {
            let reason = match over {
                Over::Gone | Over::Stopped => std::io::Error::from_raw_os_error(libc::ESRCH),
                over => std::io::Error::other(over.differs().1),
            };
            player.fail(reason);
            player.appeared(count);
            kill(process);
            return;
        }
    };
    let replayed = Replayed {
        player,
        task: kept.task,
        observer,
        events: kept.events,
        entry: kept.entry,
        call: kept.call,
        returned: kept.returned,
        given: kept.given,
        child: kept.child,
        space,
        run: Run::new(Duration::ZERO),
    };
    replayed.follow(tracee).await;
}

async fn begin(
    mut tracee: Tracee<Parked>,
    kept: &Kept,
    space: &Rc<Space>,
    others: Vec<Kept>,
    odd: &[crate::replay::snapshot::Odd],
    player: &Rc<Player>,
) -> Result<Tracee<Parked>, Over> {
    tracee = frozen::advise(tracee, odd, true).await?;
    for other in others {
        let flags = if other.process == kept.process {
            THREAD
        } else {
            PROCESS
        };
        let mut batch = Batch::default();
        batch.call(libc::SYS_clone, [flags as u64, 0, 0, 0, 0, 0]);
        let revived = Revived {
            kept: other,
            space: space.clone(),
            others: Vec::new(),
            odd: Rc::default(),
        };
        let made;
        (tracee, made) =
            frozen::made(tracee, batch, player, Birth::Revived(Box::new(revived))).await?;
        made.map_err(|error| Over::Diverged(String::new(), error.to_string()))?;
    }
    tracee.set_extended_state(&kept.extended)?;
    tracee.set_registers(&kept.registers)?;
    Ok(tracee)
}
