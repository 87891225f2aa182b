//! Copies of processes, which do not run: what checkpoints are made of.

use std::rc::Rc;

use ptrace_async::runtime::{Parked, Tracee};
use ptrace_async::syscall::error_of;

use super::{Over, Replayed, kill};
use crate::replay::agent::Batch;
use crate::replay::session::record_queue::Order;
use crate::replay::session::{Birth, Player};
use crate::replay::snapshot::{Copy, Described, Held, Kept, Odd, Wish, odd};

/// The child of a copy's parent: who copies never waits for it.
const SIBLING: u64 = libc::CLONE_PARENT as u64;

impl Replayed {
    /// Does what is asked of a task at rest; nothing is left of one that has gone.
    pub(super) async fn obey(
        &mut self,
        tracee: Tracee<Parked>,
        order: Order,
    ) -> Option<Tracee<Parked>> {
        match order {
            Order::Put => return self.put_back(tracee).await.ok(),
            Order::GoOn => return self.go_on(tracee).await,
            Order::Describe | Order::Copy => {}
        }
        let (tracee, described) = self.describe(tracee, order).await.ok()?;
        match described {
            Ok(described) => self.player.described.borrow_mut().push(described),
            Err(error) => self.player.fail(error),
        }
        Some(tracee)
    }

    async fn describe(
        &mut self,
        tracee: Tracee<Parked>,
        order: Order,
    ) -> Result<(Tracee<Parked>, std::io::Result<Described>), Over> {
        let kept = Kept {
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
        let mut described = Described {
            kept,
            space: self.space.clone(),
            copy: None,
        };
        if order == Order::Describe {
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
        let found = self.player.doubted.borrow_mut().take()?;
        match self.next_visit(tracee, &found.point, found.number).await {
            Ok(tracee) => Some(tracee),
            Err(over) => {
                self.differs(found.number, over);
                None
            }
        }
    }

    /// Writes to memory that is shared, as was asked.
    async fn put_back(&self, mut tracee: Tracee<Parked>) -> Result<Tracee<Parked>, Over> {
        let Some(put) = self.player.put.borrow_mut().take() else {
            return Ok(tracee);
        };
        let registers = tracee.registers()?;
        let writable = libc::PROT_READ | libc::PROT_WRITE;
        let is_writable = i32::from(put.prot) & libc::PROT_WRITE != 0;
        let protect = |prot: u64| {
            let mut batch = Batch::default();
            batch.call(libc::SYS_mprotect, [put.address, put.length, prot, 0, 0, 0]);
            batch
        };
        if !is_writable {
            // Nobody else may write there either (ptrace(2)).
            (tracee, _) = protect(writable as u64).make(tracee).await?;
        }
        for (address, page) in &put.writes {
            if let Err(error) = tracee.write(*address, page) {
                self.player.fail(error);
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
    ) -> Result<(Tracee<Parked>, std::io::Result<Copy>), Over> {
        let odd: Rc<[Odd]> = if self.space.is_odd() {
            odd(tracee.tgid())?.into()
        } else {
            Rc::default()
        };
        let held = Rc::new(Held::default());
        *held.odd.borrow_mut() = odd.clone();
        let (tracee, made) = make(tracee, &odd, &self.player, Birth::Copy(held.clone())).await?;
        // As it was advised.
        let tracee = advise(tracee, &odd, true).await?;
        Ok((tracee, made.map(|()| Copy(held))))
    }
}

/// Follows a copy to its end.
pub(super) async fn follow(mut tracee: Tracee<Parked>, held: Rc<Held>, player: Rc<Player>) {
    let process = tracee.tgid();
    held.is_there.set(true);
    while let Wish::Revive(revived) = held.next().await {
        let count = revived.others.len() + 1;
        tracee = match make(tracee, &[], &player, Birth::Revived(revived)).await {
            Ok((tracee, Ok(()))) => tracee,
            Ok((tracee, Err(error))) => {
                player.fail(error);
                player.appeared(count);
                tracee
            }
            Err(_) => {
                player.fail(std::io::Error::from_raw_os_error(libc::ESRCH));
                player.appeared(count);
                break;
            }
        };
    }
    held.is_there.set(false);
    kill(process);
}

/// Has a process copied, after which its registers are to be set.
async fn make(
    tracee: Tracee<Parked>,
    odd: &[Odd],
    player: &Rc<Player>,
    birth: Birth,
) -> Result<(Tracee<Parked>, std::io::Result<()>), Over> {
    let tracee = advise(tracee, odd, false).await?;
    let mut batch = Batch::default();
    batch.call(libc::SYS_clone, [SIBLING, 0, 0, 0, 0, 0]);
    made(tracee, batch, player, birth).await
}

/// Has a task make another one, whose birth is this one.
pub(super) async fn made(
    tracee: Tracee<Parked>,
    batch: Batch,
    player: &Rc<Player>,
    birth: Birth,
) -> Result<(Tracee<Parked>, std::io::Result<()>), Over> {
    let mut birth = Some(birth);
    let (tracee, results) = batch
        .make_tasks(tracee, |child| {
            if let Some(birth) = birth.take() {
                player.bear(child, birth);
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
    odd: &[Odd],
    again: bool,
) -> Result<Tracee<Parked>, Over> {
    // As many as fit.
    for some in odd.chunks(256) {
        let mut batch = Batch::default();
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
