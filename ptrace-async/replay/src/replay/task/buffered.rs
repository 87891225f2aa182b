//! Unstopped calls of a replayed task.

use ptrace_async::memory::Memory;
use ptrace_async::runtime::{Parked, Stop, Tracee};
use ptrace_async::syscall::error_of;

use super::super::{mappings, remote_calls::RemoteCalls};
use super::{Failure, ReplayedTask, describe, this_call, write};
use crate::buffer;
use crate::trace::event::{Buffered, Call, CallEffect, Patched, Return};

impl ReplayedTask {
    /// Gives the stub entries that it has not come to yet. Calls that are to be made again
    /// stop for that.
    pub(super) async fn buffered(
        &mut self,
        mut tracee: Tracee<Parked>,
        buffered: &Buffered,
    ) -> Result<Tracee<Parked>, Failure> {
        let mut files = buffered.files.iter();
        let mut ready = Vec::new();
        let mut given = 0;
        for entry in buffer::entries(&buffered.log) {
            let (Some(args), Some(nr)) = (entry.args, entry.number) else {
                continue;
            };
            if error_of(entry.result).is_some() {
                continue;
            }
            ready.extend_from_slice(&buffered.log[given..entry.range.start]);
            given = entry.range.end;
            let is_of_a_file =
                nr == libc::SYS_mmap as u64 && args[3] as i32 & libc::MAP_ANONYMOUS == 0;
            if !is_of_a_file {
                let log = &buffered.log[entry.range];
                match self.made_instead(nr, args, entry.result.cast_unsigned()) {
                    Some((number, args, result)) => {
                        ready.extend_from_slice(&buffer::made(log, number, args, result));
                    }
                    None => ready.extend_from_slice(log),
                }
                continue;
            }
            ready.extend_from_slice(&buffer::stopped());
            self.give(&tracee, std::mem::take(&mut ready))?;
            let mut done = Return {
                value: entry.result,
                ..Return::default()
            };
            if let Some(&file) = files.next() {
                done.more = CallEffect::Mapped {
                    file,
                    shared: false,
                };
            }
            // It runs up to there.
            self.given = None;
            tracee = self.again(tracee, nr, args, done).await?;
        }
        ready.extend_from_slice(&buffered.log[given..]);
        self.give(&tracee, ready)?;
        Ok(tracee)
    }

    /// The call that does to memory what a recorded one did, without a file: its number,
    /// arguments and result; nothing where there is nothing to do.
    pub(super) fn made_instead(
        &self,
        nr: u64,
        args: [u64; 6],
        result: u64,
    ) -> Option<(i64, [u64; 6], u64)> {
        let mut batch = RemoteCalls::default();
        match nr.cast_signed() {
            libc::SYS_mmap => mappings::map_again(&mut batch, &args, result, None),
            libc::SYS_brk => {
                let old = self.space.program_break.replace(result);
                mappings::program_break(&mut batch, old, result);
            }
            number => {
                if number == libc::SYS_madvise {
                    self.space.advised(&args);
                }
                batch.call(number, args);
            }
        }
        let (number, args) = batch.single()?;
        let result = match number {
            libc::SYS_mmap => args[0],
            _ => 0,
        };
        Some((number, args, result))
    }

    /// Makes a call again that did not stop when it was recorded.
    pub(super) async fn again(
        &mut self,
        tracee: Tracee<Parked>,
        nr: u64,
        args: [u64; 6],
        done: Return,
    ) -> Result<Tracee<Parked>, Failure> {
        let stop = self.run(tracee).await?;
        let call = match &stop {
            Stop::Prehook(tracee) => this_call(tracee)?,
            _ => Call::default(),
        };
        let Stop::Prehook(tracee) = stop else {
            return Err(Failure::Diverged(
                describe::made(nr, args),
                describe::stop(&stop),
            ));
        };
        if (call.nr, call.args) != (nr, args) {
            return Err(Failure::Diverged(
                describe::made(nr, args),
                describe::call(&call),
            ));
        }
        let mut regs = tracee.registers()?;
        // As the stub leaves it.
        regs.r11 = 0;
        self.entry = Some(regs);
        self.call = Some(call);
        let tracee = self.done(tracee.park(), done).await?;
        self.returned = None;
        Ok(tracee)
    }

    /// Puts entries behind those that the stub has.
    pub(super) fn give(
        &mut self,
        tracee: &Tracee<Parked>,
        mut entries: Vec<u8>,
    ) -> Result<(), Failure> {
        // Those that were given before, and are not used, come first: the recorder may take
        // a log at a stop that leaves no record.
        let cursor = tracee.read_u64(buffer::cursor()).unwrap_or(0);
        let loaded = self.space.loaded.get();
        let mut end = loaded.max(buffer::LOG);
        if cursor >= end {
            end = buffer::LOG;
            tracee.write(buffer::cursor(), &buffer::LOG.to_le_bytes())?;
        }
        self.given.get_or_insert(end);
        self.space.loaded.set(end + entries.len() as u64);
        if self.space.loaded.get() + 16 > buffer::BASE + buffer::REPLAYED_LENGTH {
            return Err(Failure::Diverged(
                "calls recorded without a stop".to_owned(),
                "their entries do not fit into the buffer".to_owned(),
            ));
        }
        // Behind the last there is none.
        entries.extend_from_slice(&[0; 16]);
        tracee.write(end, &entries)?;
        Ok(())
    }

    /// The task was killed before it could use what it was given last. Who goes on in the same
    /// memory must not take that for its own.
    pub(super) fn take_back(&self, tracee: &Tracee<Parked>) {
        let Some(given) = self.given else { return };
        let cursor = tracee.read_u64(buffer::cursor()).unwrap_or(0);
        let end = given.max(cursor);
        self.space.loaded.set(end);
        // An error means that the process is gone.
        let _ = tracee.write(end, &[0; 16]);
    }

    /// Changes code as it was changed; the stub is that of a replay.
    pub(super) async fn patched(
        &mut self,
        mut tracee: Tracee<Parked>,
        patched: &Patched,
    ) -> Result<Tracee<Parked>, Failure> {
        let what = "code that the recorder patched";
        let mut batch = RemoteCalls::default();
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED) as u64;
        let code = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        let data = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let mut map = |address, length, prot| {
            batch.call(libc::SYS_mmap, [address, length, prot, flags, u64::MAX, 0]);
        };
        if patched.is_first {
            map(buffer::BASE, buffer::CODE_LENGTH, code);
            let rest = buffer::REPLAYED_LENGTH - buffer::CODE_LENGTH;
            map(buffer::BASE + buffer::CODE_LENGTH, rest, data);
        }
        for &page in &patched.pages {
            map(page, 4096, code);
        }
        // Else it may be behind the call, with a result.
        let in_a_call = !batch.is_empty() || patched.end.is_some();
        if !batch.is_empty() {
            tracee = self.make(tracee, batch, what).await?;
        }
        if patched.is_first {
            let stub = buffer::replaying()
                .map_err(|error| Failure::Diverged(what.to_owned(), error.to_string()))?;
            tracee.write(buffer::BASE, &stub.code)?;
            tracee.write(buffer::cursor(), &buffer::LOG.to_le_bytes())?;
            self.space.loaded.set(buffer::LOG);
        }
        write(&tracee, &patched.writes);
        if let (Some(entry), Some(end)) = (&mut self.entry, patched.end) {
            entry.rip = end;
        }
        if in_a_call {
            self.stand(&tracee)?;
        }
        Ok(tracee)
    }
}
