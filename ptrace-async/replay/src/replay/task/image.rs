//! A replayed task that executes a program.

use std::cell::Cell;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

use ptrace_async::runtime::{Exec, Prehook, Stop, Tracee};
use ptrace_async::syscall::Invocation;

use super::super::{agent, agent::Batch, mappings};
use super::{Here, Over, Replayed, is_restarted, put, write};
use crate::maps;
use crate::trace::event::Image;

impl Replayed {
    pub(super) async fn image(&mut self, here: Here, image: &Image) -> Result<Here, Over> {
        let mut tracee = match here {
            Here::Parked(tracee) => tracee,
            Here::Call(mut tracee) => {
                let path = agent::lend(&tracee, self.player.agent.path().as_bytes())?;
                let execute = Invocation {
                    nr: libc::SYS_execve as u64,
                    args: [path, 0, 0, 0, 0, 0],
                };
                tracee.modify(execute)?;
                executed(tracee).await?.park()
            }
        };
        // Where that is impossible, only what names the processor differs.
        tracee.bind(image.cpu);
        self.program_break = Rc::new(Cell::new(0));
        self.loaded = Rc::new(Cell::new(0));
        let mut batch = Batch::default();
        batch.call(libc::SYS_close_range, [0, u64::from(u32::MAX), 0, 0, 0, 0]);
        let trap = [
            libc::PR_SET_TSC as u64,
            libc::PR_TSC_SIGSEGV as u64,
            0,
            0,
            0,
            0,
        ];
        batch.call(libc::SYS_prctl, trap);
        let areas = maps::read(tracee.tgid())?;
        for area in areas
            .iter()
            .filter(|area| !agent::RANGE.contains(&area.start) && area.name != b"[vsyscall]")
        {
            let args = [area.start, area.end - area.start, 0, 0, 0, 0];
            batch.call(libc::SYS_munmap, args);
        }
        for mapping in &image.mappings {
            let path = match mapping.file {
                Some((number, _)) => {
                    let (path, _) = self.player.locate_mapped(number).ok_or(Over::Stopped)?;
                    Some(path)
                }
                None => None,
            };
            let path = path.as_ref().map(|path| path.as_os_str().as_bytes());
            mappings::fresh(&mut batch, mapping, path);
            if batch.is_full() {
                tracee = self
                    .make(tracee, std::mem::take(&mut batch), "a program's memory")
                    .await?;
            }
        }
        let tracee = self.make(tracee, batch, "a program's memory").await?;
        write(&tracee, &image.writes);
        put(&tracee, &image.registers)?;
        self.entry = None;
        self.call = None;
        self.returned = None;
        Ok(Here::Parked(tracee))
    }
}

/// Executes, and comes to the first stop of the new program.
async fn executed(tracee: Tracee<Prehook>) -> Result<Tracee<Exec>, Over> {
    let mut stop = tracee.resume_to_exit().stop().await;
    loop {
        stop = match stop {
            Stop::Exec(tracee) => return Ok(tracee),
            Stop::Posthook(tracee) if is_restarted(tracee.value()) => tracee.resume().stop().await,
            Stop::Prehook(tracee) => tracee.resume_to_exit().stop().await,
            Stop::Posthook(tracee) => {
                return Err(Over::Diverged(
                    "a program's start".to_owned(),
                    format!("the agent cannot be executed: {}", tracee.value()),
                ));
            }
            other => match other.park() {
                Some(tracee) => tracee.resume().stop().await,
                None => return Err(Over::Gone),
            },
        };
    }
}
