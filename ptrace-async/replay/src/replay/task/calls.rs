//! Calls of a replayed task: entry, result, and repeated effects.

use std::os::unix::ffi::OsStrExt;

use ptrace_async::runtime::{Parked, Stop, Tracee};
use ptrace_async::syscall::error_of;

use super::super::mappings;
use super::super::remote_calls::RemoteCalls;
use super::{Failure, ReplayedTask, describe, put_state, this_call, write};
use crate::trace::event::{Call, CallEffect, Return};
use crate::tracee::{output, repeated_calls};

impl ReplayedTask {
    pub(super) async fn call(
        &mut self,
        tracee: Tracee<Parked>,
        recorded: Call,
    ) -> Result<Tracee<Parked>, Failure> {
        let stop = self.run(tracee).await?;
        let Stop::Prehook(tracee) = stop else {
            return Err(Failure::Diverged(
                describe::call(&recorded),
                describe::stop(&stop),
            ));
        };
        let regs = tracee.registers()?;
        let now = this_call(&tracee)?;
        if now != recorded {
            return Err(Failure::Diverged(
                describe::call(&recorded),
                describe::call(&now),
            ));
        }
        self.entry = Some(regs);
        self.call = Some(recorded);
        Ok(tracee.park())
    }

    pub(super) async fn done(
        &mut self,
        mut tracee: Tracee<Parked>,
        done: Return,
    ) -> Result<Tracee<Parked>, Failure> {
        let (Some(mut regs), Some(call)) = (self.entry, self.call) else {
            return Err(Failure::Diverged(
                "the return of a call".to_owned(),
                "the task is in no call".to_owned(),
            ));
        };
        if let Some(child) = self.child.take()
            && let Ok(pid) = i32::try_from(done.value)
            && pid > 0
        {
            self.session.is_called(child, pid);
        }
        regs.orig_rax = u64::MAX;
        regs.rax = done.value.cast_unsigned();
        if error_of(done.value).is_none() {
            tracee = self.rebuild(tracee, &call, &done, &mut regs).await?;
        }
        if let CallEffect::Output {
            stream,
            number,
            check,
        } = done.more
        {
            let bytes = output::bytes(&tracee, &call.invocation(), done.value);
            if check.is_some_and(|check| check != output::check(&bytes)) {
                let text = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
                let recorded = format!(
                    "{} bytes of other output, by {}",
                    done.value,
                    describe::call(&call)
                );
                return Err(Failure::Diverged(
                    recorded,
                    format!("output that begins {text:?}"),
                ));
            }
            self.session
                .printer
                .borrow_mut()
                .print(number, stream, bytes);
        }
        tracee.set_registers(&regs)?;
        if let CallEffect::State(state) = &done.more {
            put_state(&tracee, state)?;
            self.returned = None;
        } else {
            self.returned = Some(done.value);
        }
        write(&tracee, &done.writes);
        Ok(tracee)
    }

    /// Repeats the effects of a call on the task itself.
    pub(super) async fn rebuild(
        &mut self,
        tracee: Tracee<Parked>,
        call: &Call,
        done: &Return,
        regs: &mut libc::user_regs_struct,
    ) -> Result<Tracee<Parked>, Failure> {
        if !repeated_calls::is_made_again(call.nr) {
            return Ok(tracee);
        }
        let mut batch = RemoteCalls::default();
        match call.nr.cast_signed() {
            libc::SYS_arch_prctl => {
                const SET_GS: u64 = 0x1001;
                const SET_FS: u64 = 0x1002;
                match call.args[0] {
                    SET_FS => regs.fs_base = call.args[1],
                    SET_GS => regs.gs_base = call.args[1],
                    _ => {}
                }
                return Ok(tracee);
            }
            libc::SYS_mmap => {
                let file = match done.more {
                    CallEffect::Mapped { file, shared } => {
                        let located = self.session.locate_mapped(file);
                        let (path, is_ours) = located.ok_or(Failure::Stopped)?;
                        Some((path, shared && is_ours))
                    }
                    _ => None,
                };
                let address = done.value.cast_unsigned();
                let path = file
                    .as_ref()
                    .map(|(path, writes)| (path.as_os_str().as_bytes(), *writes));
                mappings::map_again(&mut batch, &call.args, address, path);
            }
            libc::SYS_brk => {
                let new = done.value.cast_unsigned();
                let old = self.space.program_break.replace(new);
                mappings::program_break(&mut batch, old, new);
            }
            libc::SYS_munmap
            | libc::SYS_mprotect
            | libc::SYS_pkey_mprotect
            | libc::SYS_pkey_free => batch.call(call.nr.cast_signed(), call.args),
            libc::SYS_pkey_alloc => {
                batch.call(libc::SYS_pkey_alloc, call.args);
                let what = describe::call(call);
                let (tracee, results) = self.results(tracee, batch, &what).await?;
                // The program names the key to the processor, by an instruction of its own.
                if results != [done.value] {
                    let keys = |results: &[i64]| format!("the protection key {results:?}");
                    return Err(Failure::Diverged(keys(&[done.value]), keys(&results)));
                }
                return Ok(tracee);
            }
            // How far the stack may grow.
            libc::SYS_setrlimit if call.args[0] == u64::from(libc::RLIMIT_STACK) => {
                batch.call(libc::SYS_setrlimit, call.args);
            }
            libc::SYS_prlimit64
                if matches!(call.args[..3], [0, which, new]
                    if which == u64::from(libc::RLIMIT_STACK) && new != 0) =>
            {
                let [_, which, new, ..] = call.args;
                batch.call(libc::SYS_prlimit64, [0, which, new, 0, 0, 0]);
            }
            libc::SYS_madvise => {
                self.space.advised(&call.args);
                mappings::advise(&mut batch, &call.args);
            }
            libc::SYS_mremap => mappings::moved(&mut batch, &call.args, done.value.cast_unsigned()),
            _ => return Ok(tracee),
        }
        if batch.is_empty() {
            return Ok(tracee);
        }
        self.make(tracee, batch, &describe::call(call)).await
    }

    /// Has the helper make calls that succeeded when they were recorded.
    pub(super) async fn make(
        &self,
        tracee: Tracee<Parked>,
        batch: RemoteCalls,
        what: &str,
    ) -> Result<Tracee<Parked>, Failure> {
        Ok(self.results(tracee, batch, what).await?.0)
    }

    /// As [`Self::make`], with what the calls return.
    async fn results(
        &self,
        tracee: Tracee<Parked>,
        batch: RemoteCalls,
        what: &str,
    ) -> Result<(Tracee<Parked>, Vec<i64>), Failure> {
        let (tracee, results) = batch.make(tracee).await?;
        match results.iter().find_map(|&value| error_of(value)) {
            None => Ok((tracee, results)),
            Some(error) => Err(Failure::Diverged(
                what.to_owned(),
                format!("it fails: {}", std::io::Error::from_raw_os_error(error)),
            )),
        }
    }
}
