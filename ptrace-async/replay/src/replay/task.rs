//! A replayed task: it runs to where its next record was made, and is given what the
//! record says.

use std::cell::Cell;
use std::rc::Rc;

use ptrace_async::runtime::{Observer, Parked, Prehook, Signal, Started, Stop, Stopped, Tracee};

use super::agent::Batch;
use super::player::{Birth, Player};
use super::{Divergence, backtrace};
use crate::own::{check, is_fault};
use crate::trace::Task;
use crate::trace::event::{Call, Event, Exit, Registers, State, Write};

mod buffered;
mod calls;
mod describe;
mod image;
mod points;
mod spawned;

/// Where a task waits.
enum Here {
    /// At the entry of the call that it was recorded at.
    Call(Tracee<Prehook>),
    /// Anywhere else.
    Parked(Tracee<Parked>),
}

impl Here {
    fn park(self) -> Tracee<Parked> {
        match self {
            Self::Call(tracee) => tracee.park(),
            Self::Parked(tracee) => tracee,
        }
    }
}

/// Why a task is not followed any more.
enum Over {
    /// It has ended, or something has ended it.
    Gone,
    /// The replay has been ended.
    Stopped,
    /// It did something else than was recorded.
    Diverged(String, String),
}

impl From<Stop> for Over {
    fn from(stop: Stop) -> Self {
        match stop.park() {
            // A stop where none was to be expected.
            Some(tracee) => Self::Diverged(
                "the end of a call".to_owned(),
                format!("another stop of thread {}", tracee.tid()),
            ),
            None => Self::Gone,
        }
    }
}

impl From<std::io::Error> for Over {
    fn from(_: std::io::Error) -> Self {
        Self::Gone
    }
}

struct Replayed {
    player: Rc<Player>,
    task: Task,
    observer: Observer,
    /// The registers at the entry of the current call.
    entry: Option<libc::user_regs_struct>,
    call: Option<Call>,
    /// What the last call returned, if nothing has happened since.
    returned: Option<i64>,
    program_break: Rc<Cell<u64>>,
    /// Up to where the log of calls that do not stop is filled; of all who share memory.
    loaded: Rc<Cell<u64>>,
}

/// Follows a task to its end.
pub(super) async fn follow(tracee: Tracee<Started>, player: Rc<Player>) {
    let tgid = tracee.tgid();
    let observer = tracee.observer();
    let (here, birth) = match player.birth(tracee.tid()) {
        Some(birth) => (Here::Parked(tracee.park()), birth),
        None => {
            let Some(first) = first(tracee).await else {
                player.feed.end();
                return;
            };
            let birth = Birth {
                task: Task(0),
                program_break: Rc::default(),
                loaded: Rc::default(),
            };
            (Here::Parked(first), birth)
        }
    };
    let task = birth.task;
    let mut replayed = Replayed {
        player: player.clone(),
        task,
        observer,
        entry: None,
        call: None,
        returned: None,
        program_break: birth.program_break,
        loaded: birth.loaded,
    };
    let left = replayed.play(here).await;
    player.feed.pass(task);
    // Nothing of it is to run on.
    if left && let Some(pid) = rustix::process::Pid::from_raw(tgid) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

/// From the launch to the agent.
async fn first(tracee: Tracee<Started>) -> Option<Tracee<Parked>> {
    let mut stop = tracee.resume().stop().await;
    loop {
        if let Stop::Exec(tracee) = stop {
            return Some(tracee.park());
        }
        stop = stop.go_on()?.stop().await;
    }
}

impl Replayed {
    /// Whether the task is there when there is nothing more to be replayed.
    async fn play(&mut self, mut here: Here) -> bool {
        loop {
            let Some((number, event)) = self.player.feed.next(self.task).await else {
                return true;
            };
            if let Event::Exit(exit) = event {
                self.exit(here.park(), exit).await;
                return false;
            }
            here = match self.event(here, event).await {
                Ok(here) => here,
                Err(Over::Gone) => return false,
                Err(Over::Stopped) => return true,
                Err(Over::Diverged(recorded, replayed)) => {
                    self.player.diverge(Divergence::new(
                        (self.task, number),
                        recorded,
                        replayed,
                        backtrace::Here {
                            task: &self.observer,
                            player: &self.player,
                        },
                    ));
                    return true;
                }
            };
        }
    }

    async fn event(&mut self, here: Here, event: Event) -> Result<Here, Over> {
        match event {
            Event::Image(image) => self.image(here, &image).await,
            Event::Call(call) => self.call(here, call).await,
            Event::Return(done) => self.done(here, done).await,
            Event::Patched(patched) => self.patched(here, &patched).await,
            Event::Buffered(buffered) => self.buffered(here, &buffered).await,
            Event::Spawned(spawned) => self.spawned(here, spawned).await,
            Event::Started(started) => {
                let tracee = here.park();
                tracee.bind(started.cpu);
                put(&tracee, &started.registers)?;
                write(&tracee, &started.writes);
                Ok(Here::Parked(tracee))
            }
            Event::Signal(signal) => self.signal(here, &signal).await,
            Event::Point(point) => self.point(here, &point).await,
            Event::Instruction(answer) => self.instruction(here, answer).await,
            Event::Digest(digest) => self.digest(here, digest),
            Event::FileChanged(changed) => {
                self.player.change(&changed);
                Ok(here)
            }
            Event::Written(writes) => match here {
                Here::Call(tracee) => {
                    write(&tracee, &writes);
                    Ok(Here::Call(tracee))
                }
                Here::Parked(tracee) => {
                    write(&tracee, &writes);
                    Ok(Here::Parked(tracee))
                }
            },
            Event::Exit(_)
            | Event::File(_)
            | Event::Joined(_)
            | Event::Ended(_)
            | Event::ChangedOutside(_) => Ok(here),
        }
    }

    /// Lets the program run to its next stop.
    async fn run(&mut self, here: Here) -> Result<Stop, Over> {
        let tracee = here.park();
        if let Some(value) = self.returned.take()
            && let Some(call) = self.call
            && let Ok(mut regs) = tracee.registers()
        {
            // No handler came in between, so the kernel has made the call again
            // (arch_do_signal_or_restart).
            let number = match value {
                -516 => Some(libc::SYS_restart_syscall as u64),
                -514..=-512 => Some(call.nr),
                _ => None,
            };
            if let Some(number) = number {
                regs.rax = number;
                regs.rip -= 2;
                tracee.set_registers(&regs)?;
            }
        }
        let mut stop = tracee.resume().stop().await;
        loop {
            stop = match stop {
                Stop::Signal(tracee) if !of_its_own(&tracee) => tracee.resume().stop().await,
                Stop::GroupStop(tracee) => tracee.resume().stop().await,
                Stop::Interrupted(tracee) => tracee.resume().stop().await,
                Stop::PreExit(tracee) => tracee.resume().stop().await,
                Stop::Exited(_) | Stop::Killed { .. } | Stop::Superseded => return Err(Over::Gone),
                other => return Ok(other),
            };
        }
    }

    /// Ends the task. Its turn lasts until it cannot be seen any more.
    async fn exit(&self, tracee: Tracee<Parked>, exit: Exit) {
        write(&tracee, &exit.writes);
        if self.task == Task(0) {
            self.player.end(exit.ending);
        }
        let mut batch = Batch::default();
        batch.call(libc::SYS_exit, [0; 6]);
        batch.begin(&tracee);
        let leads = tracee.tid() == tracee.tgid();
        let mut stop = tracee.resume().stop().await;
        loop {
            if leads && matches!(stop, Stop::PreExit(_)) {
                // It is reported when its threads have ended.
                self.player.feed.pass(self.task);
            }
            let Some(tracee) = stop.park() else { return };
            stop = tracee.resume().stop().await;
        }
    }
}

/// The call that a task has come to.
fn this_call(tracee: &Tracee<Prehook>) -> Result<Call, Over> {
    Ok(Call {
        nr: tracee.invocation().nr,
        args: tracee.invocation().args,
        ip: tracee.instruction_pointer(),
        sp: tracee.stack_pointer(),
        check: check(&tracee.registers()?),
    })
}

/// Whether the kernel is going to make a call again.
fn is_restarted(value: i64) -> bool {
    (-516..=-512).contains(&value)
}

fn put<S: Stopped>(tracee: &Tracee<S>, registers: &Registers) -> std::io::Result<()> {
    let mut regs = tracee.registers()?;
    registers.store(&mut regs);
    regs.orig_rax = u64::MAX;
    tracee.set_registers(&regs)
}

fn put_state<S: Stopped>(tracee: &Tracee<S>, state: &State) -> Result<(), Over> {
    put(tracee, &state.registers)?;
    tracee.set_extended_state(&state.extended)?;
    Ok(())
}

fn write<S: Stopped>(tracee: &Tracee<S>, writes: &[Write]) {
    for one in writes {
        // What cannot be written is noticed by what the program does with it.
        let _ = tracee.write(one.address, &one.bytes);
    }
}

/// Whether a signal comes from what the program itself does.
fn of_its_own(tracee: &Tracee<Signal>) -> bool {
    tracee.info().is_ok_and(|info| is_fault(&info))
}
