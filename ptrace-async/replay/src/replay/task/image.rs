//! Execve of a replayed task: its memory is built from the trace.

use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

use ptrace_async::runtime::{Parked, Stop, Tracee};

use super::super::mappings;
use super::super::remote_calls::{self, RemoteCalls};
use super::{Failure, ReplayedTask, put, write};
use crate::memory::maps;
use crate::trace::event::Image;

impl ReplayedTask {
    pub(super) async fn image(
        &mut self,
        mut tracee: Tracee<Parked>,
        image: &Image,
    ) -> Result<Tracee<Parked>, Failure> {
        // The first program is the helper's already.
        if self.call.is_some() {
            tracee = self.execute(tracee).await?;
        }
        // Where that is impossible, only what names the processor differs.
        tracee.bind(image.cpu);
        self.space = Rc::default();
        self.session.is_called(self.task, image.pid);
        let mut batch = RemoteCalls::default();
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
            .filter(|area| !remote_calls::RANGE.contains(&area.start) && area.name != b"[vsyscall]")
        {
            let args = [area.start, area.end - area.start, 0, 0, 0, 0];
            batch.call(libc::SYS_munmap, args);
        }
        for mapping in &image.mappings {
            let path = match mapping.file {
                Some((number, _)) => {
                    let (path, _) = self.session.locate_mapped(number).ok_or(Failure::Stopped)?;
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
        Ok(tracee)
    }

    async fn execute(&self, tracee: Tracee<Parked>) -> Result<Tracee<Parked>, Failure> {
        let executed = remote_calls::execute(tracee, &self.session.helper.path()).await;
        executed.map_err(|stop| match stop {
            Stop::Signal(tracee) => {
                let result = tracee.registers().map_or(0, |regs| regs.rax.cast_signed());
                Failure::Diverged(
                    "the start of a program".to_owned(),
                    format!("the helper program cannot be executed: {result}"),
                )
            }
            stop => stop.into(),
        })
    }
}
