//! Events of a replayed task between calls: signals, execution points, trapped instructions.

use ptrace_async::memory::Memory;
use ptrace_async::runtime::{Parked, Stop, Tracee};

use super::super::remote_calls::RemoteCalls;
use super::{Failure, ReplayedTask, describe, of_its_own, put_state, write};
use crate::code::registers::Registers;
use crate::memory::{digest, maps};
use crate::replay::execution_points::check::Check;
use crate::replay::session::ReachedPoint;
use crate::trace::event::{ExecutionPoint, Instruction, SignalPosition};
use crate::tracee::step::step;
use crate::tracee::trapped::{apply, instruction, is_trap_of};

/// How many visits may be like a point but for what is in memory.
const STRANGERS: u32 = 1000;

/// A point in words.
fn at(point: &ExecutionPoint) -> String {
    format!("an execution point at {:#x}", point.registers.ip())
}

/// Lets a task execute one instruction on its way to a point, whatever signals others send it.
async fn one_step(
    mut tracee: Tracee<Parked>,
    point: &ExecutionPoint,
) -> Result<Tracee<Parked>, Failure> {
    loop {
        tracee = match step(tracee).await {
            Stop::Signal(tracee) if tracee.signal() == libc::SIGTRAP => return Ok(tracee.park()),
            Stop::Signal(tracee) if !of_its_own(&tracee) => tracee.park(),
            Stop::GroupStop(tracee) => tracee.park(),
            Stop::Interrupted(tracee) => tracee.park(),
            stop => return Err(Failure::Diverged(at(point), describe::stop(&stop))),
        };
    }
}

impl ReplayedTask {
    pub(super) async fn signal(
        &mut self,
        tracee: Tracee<Parked>,
        signal: &crate::trace::event::Signal,
    ) -> Result<Tracee<Parked>, Failure> {
        let what = || format!("signal {} at {:#x}", signal.signal, signal.ip);
        let tracee = match signal.at {
            SignalPosition::Event => {
                let ip = tracee.registers()?.rip;
                if ip != signal.ip {
                    return Err(Failure::Diverged(what(), format!("the task is at {ip:#x}")));
                }
                tracee
            }
            SignalPosition::Call => match self.run(tracee).await? {
                Stop::Prehook(tracee) if tracee.instruction_pointer() - 2 == signal.ip => {
                    tracee.park()
                }
                stop => return Err(Failure::Diverged(what(), describe::stop(&stop))),
            },
            SignalPosition::Fault => match self.run(tracee).await? {
                Stop::Signal(tracee)
                    if tracee.signal() == signal.signal && tracee.registers()?.rip == signal.ip =>
                {
                    tracee.park()
                }
                stop => return Err(Failure::Diverged(what(), describe::stop(&stop))),
            },
        };
        self.returned = None;
        write(&tracee, std::slice::from_ref(&signal.frame));
        put_state(&tracee, &signal.state)?;
        Ok(tracee)
    }

    /// Lets the program run to a point that no call marks: to the first visit that is like it,
    /// or to a later one, if the first has turned out not to be it.
    pub(super) async fn point(
        &mut self,
        tracee: Tracee<Parked>,
        number: u64,
        point: ExecutionPoint,
    ) -> Result<Tracee<Parked>, Failure> {
        let mut tracee = self.visit(tracee, &point, number).await?;
        for _ in 0..self.session.mistaken(number) {
            tracee = self.next_visit(tracee, &point, number).await?;
        }
        self.session.note_point(ReachedPoint {
            number,
            task: self.task,
            is_verified: point.contents.is_some() && self.session.compares_memory(number),
            point: point.into(),
        });
        Ok(tracee)
    }

    /// Goes on from a visit to the next one that is like it.
    pub(super) async fn next_visit(
        &mut self,
        tracee: Tracee<Parked>,
        point: &ExecutionPoint,
        number: u64,
    ) -> Result<Tracee<Parked>, Failure> {
        let tracee = one_step(tracee, point).await?;
        self.visit(tracee, point, number).await
    }

    async fn visit(
        &mut self,
        tracee: Tracee<Parked>,
        point: &ExecutionPoint,
        number: u64,
    ) -> Result<Tracee<Parked>, Failure> {
        let what = || at(point);
        let mut strangers = 0;
        let tracee = self.come_to_code(tracee, point).await?;
        let mut batch = RemoteCalls::default();
        let areas = maps::read(tracee.tgid())?;
        let Some(mut check) = Check::prepare(&tracee, point, &areas, &mut batch) else {
            return Err(Failure::Diverged(
                what(),
                "the code there is not the recorded code".to_owned(),
            ));
        };
        let mut tracee = self.aside(tracee, batch, &what()).await?;
        // What is about to be moved elsewhere is not to be executed here from its middle.
        while check.displaces(tracee.registers()?.rip) {
            tracee = one_step(tracee, point).await?;
        }
        let insert = |check: &mut Check, tracee: &Tracee<Parked>| {
            check
                .insert(tracee, point)
                .map_err(|error| Failure::Diverged(what(), error))
        };
        insert(&mut check, &tracee)?;
        loop {
            let stopped = match self.run(tracee).await? {
                Stop::Signal(tracee) => tracee,
                stop => return Err(Failure::Diverged(what(), describe::stop(&stop))),
            };
            let mut regs = stopped.registers()?;
            let signal = stopped.signal();
            if let Some(elsewhere) = check.elsewhere(regs.rip, signal) {
                regs.rip = elsewhere;
                regs.orig_rax = u64::MAX;
                stopped.set_registers(&regs)?;
                tracee = stopped.park();
                continue;
            }
            if signal != libc::SIGTRAP || !check.has_hit(regs.rip) {
                let stop = Stop::Signal(stopped);
                let seen = describe::stop(&stop);
                tracee = stop.park().ok_or(Failure::Gone)?;
                let goes_on = check.lacks(&tracee, point, signal);
                if goes_on.map_err(|error| Failure::Diverged(what(), error))? {
                    continue;
                }
                return Err(Failure::Diverged(what(), seen));
            }
            tracee = stopped.park();
            let trapped = regs.rip;
            let registers = check.outside(&Registers::from(&regs));
            registers.store(&mut regs);
            regs.orig_rax = u64::MAX;
            let mut is_at = point.is_at(&tracee, &registers);
            if is_at && self.session.compares_memory(number) && !point.has_contents(&tracee) {
                is_at = false;
                self.session.differs_in_memory.set(Some(number));
                strangers += 1;
                if strangers > STRANGERS {
                    let seen =
                        format!("{STRANGERS} visits with the same registers and other memory");
                    return Err(Failure::Diverged(what(), seen));
                }
            }
            if is_at {
                tracee.set_registers(&regs)?;
                let mut batch = RemoteCalls::default();
                check.remove(&tracee, &mut batch);
                let tracee = self.aside(tracee, batch, &what()).await?;
                return Ok(tracee);
            }
            let on = check
                .pass(&tracee, point, trapped)
                .map_err(|error| Failure::Diverged(what(), error))?;
            if let Some(on) = on {
                regs.rip = on;
                tracee.set_registers(&regs)?;
            } else {
                check.restore(&tracee);
                tracee.set_registers(&regs)?;
                tracee = one_step(tracee, point).await?;
                insert(&mut check, &tracee)?;
            }
        }
    }

    /// Lets the program run until it has made the code that the point is in, and executes it;
    /// what is put into code before that is lost.
    async fn come_to_code(
        &mut self,
        tracee: Tracee<Parked>,
        point: &ExecutionPoint,
    ) -> Result<Tracee<Parked>, Failure> {
        let ip = point.registers.ip();
        let is_there = |tracee: &Tracee<Parked>| {
            let mut code = vec![0; point.code.len()];
            tracee.read_exact(ip, &mut code).is_ok() && code == point.code
        };
        let mut tracee = tracee;
        while !is_there(&tracee) {
            if tracee.registers()?.rip == ip {
                tracee = one_step(tracee, point).await?;
            }
            let cannot = |error| {
                Failure::Diverged(
                    at(point),
                    format!("no hardware breakpoint can be set: {error}"),
                )
            };
            tracee.set_hardware_breakpoint(Some(ip)).map_err(cannot)?;
            let stop = self.run(tracee).await?;
            let Stop::Signal(stopped) = stop else {
                return Err(Failure::Diverged(at(point), describe::stop(&stop)));
            };
            stopped.set_hardware_breakpoint(None).map_err(cannot)?;
            if stopped.signal() != libc::SIGTRAP || stopped.registers()?.rip != ip {
                let stop = Stop::Signal(stopped);
                return Err(Failure::Diverged(at(point), describe::stop(&stop)));
            }
            tracee = stopped.park();
        }
        Ok(tracee)
    }

    /// Has the helper make calls, and leaves the registers as they are.
    pub(super) async fn aside(
        &mut self,
        tracee: Tracee<Parked>,
        batch: RemoteCalls,
        what: &str,
    ) -> Result<Tracee<Parked>, Failure> {
        if batch.is_empty() {
            return Ok(tracee);
        }
        let mut regs = tracee.registers()?;
        regs.orig_rax = u64::MAX;
        let tracee = self.make(tracee, batch, what).await?;
        tracee.set_registers(&regs)?;
        Ok(tracee)
    }

    pub(super) async fn instruction(
        &mut self,
        tracee: Tracee<Parked>,
        answer: Instruction,
    ) -> Result<Tracee<Parked>, Failure> {
        match self.run(tracee).await? {
            Stop::Signal(tracee)
                if is_trap_of(answer.kind, tracee.signal())
                    && tracee.registers()?.rip == answer.ip
                    && instruction(&tracee, answer.ip) == Some(answer.kind) =>
            {
                let mut regs = tracee.registers()?;
                apply(&answer, &mut regs);
                tracee.set_registers(&regs)?;
                Ok(tracee.park())
            }
            stop => Err(Failure::Diverged(
                format!("{:?} at {:#x}", answer.kind, answer.ip),
                describe::stop(&stop),
            )),
        }
    }

    pub(super) fn digest(
        &self,
        tracee: Tracee<Parked>,
        recorded: u64,
    ) -> Result<Tracee<Parked>, Failure> {
        let areas = maps::read(tracee.tid())?;
        let sp = self.entry.map_or(0, |entry| entry.rsp);
        let now = digest::digest(&tracee, &areas, sp);
        if now != recorded {
            return Err(Failure::Diverged(
                format!("memory with the digest {recorded:016x}"),
                format!("memory with the digest {now:016x}"),
            ));
        }
        self.session.digested();
        Ok(tracee)
    }
}
