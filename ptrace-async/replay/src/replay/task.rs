//! A replayed task: it runs to where its next record was made, and is given what the
//! record says.

use std::cell::Cell;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

use ptrace_async::memory::Memory;
use ptrace_async::runtime::{
    Exec, Observer, Parked, Prehook, Signal, Started, Stop, Stopped, Tracee,
};
use ptrace_async::syscall::{Invocation, error_of};

use super::agent::{self, Batch};
use super::check::Check;
use super::player::{Birth, Player};
use super::{Divergence, again, backtrace, mappings};
use crate::record::task::{apply, check, instruction};
use crate::trace::Task;
use crate::trace::event::{
    At, Buffered, Call, Event, Exit, Image, Instruction, More, Patched, Point, Registers, Return,
    Spawned, State, Write,
};
use crate::{buffer, maps, memory, printed};

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
            Event::Exit(_) | Event::File(_) | Event::Joined(_) | Event::Ended(_) => Ok(here),
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
                Stop::Signal(tracee) if !is_fault(&tracee) => tracee.resume().stop().await,
                Stop::GroupStop(tracee) => tracee.resume().stop().await,
                Stop::Interrupted(tracee) => tracee.resume().stop().await,
                Stop::PreExit(tracee) => tracee.resume().stop().await,
                Stop::Exited(_) | Stop::Killed { .. } | Stop::Superseded => return Err(Over::Gone),
                other => return Ok(other),
            };
        }
    }

    async fn call(&mut self, here: Here, recorded: Call) -> Result<Here, Over> {
        let stop = self.run(here).await?;
        let Stop::Prehook(tracee) = stop else {
            return Err(Over::Diverged(describe(&recorded), describe_stop(&stop)));
        };
        let regs = tracee.registers()?;
        let now = this_call(&tracee)?;
        if now != recorded {
            return Err(Over::Diverged(describe(&recorded), describe(&now)));
        }
        self.entry = Some(regs);
        self.call = Some(recorded);
        Ok(Here::Call(tracee))
    }

    async fn done(&mut self, here: Here, done: Return) -> Result<Here, Over> {
        let (Some(mut regs), Some(call)) = (self.entry, self.call) else {
            return Err(Over::Diverged(
                "a call's end".to_owned(),
                "no call".to_owned(),
            ));
        };
        let mut tracee = here.park();
        regs.orig_rax = u64::MAX;
        regs.rax = done.value.cast_unsigned();
        if error_of(done.value).is_none() {
            tracee = self.rebuild(tracee, &call, &done, &mut regs).await?;
        }
        if let More::Output {
            stream,
            number,
            check,
        } = done.more
        {
            let bytes = printed::bytes(&tracee, &call.invocation(), done.value);
            if check.is_some_and(|check| check != printed::check(&bytes)) {
                let text = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
                let recorded = format!(
                    "{} bytes of other output, by {}",
                    done.value,
                    describe(&call)
                );
                return Err(Over::Diverged(
                    recorded,
                    format!("output that begins {text:?}"),
                ));
            }
            self.player
                .printer
                .borrow_mut()
                .print(number, stream, bytes);
        }
        tracee.set_registers(&regs)?;
        if let More::State(state) = &done.more {
            put_state(&tracee, state)?;
            self.returned = None;
        } else {
            self.returned = Some(done.value);
        }
        write(&tracee, &done.writes);
        Ok(Here::Parked(tracee))
    }

    /// What a call does to the task itself is done again.
    async fn rebuild(
        &mut self,
        tracee: Tracee<Parked>,
        call: &Call,
        done: &Return,
        regs: &mut libc::user_regs_struct,
    ) -> Result<Tracee<Parked>, Over> {
        if !again::is_made_again(call.nr) {
            return Ok(tracee);
        }
        let mut batch = Batch::default();
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
                    More::Mapped { file, shared } => {
                        let located = if shared {
                            self.player.locate_shared(file)
                        } else {
                            self.player.locate(file)
                        };
                        Some((located.ok_or(Over::Stopped)?, shared))
                    }
                    _ => None,
                };
                let address = done.value.cast_unsigned();
                let path = file
                    .as_ref()
                    .map(|(path, shared)| (path.as_os_str().as_bytes(), *shared));
                mappings::again(&mut batch, &call.args, address, path);
            }
            libc::SYS_brk => {
                let (old, new) = (self.program_break.get(), done.value.cast_unsigned());
                self.program_break.set(new);
                mappings::program_break(&mut batch, old, new);
            }
            libc::SYS_munmap | libc::SYS_mprotect | libc::SYS_pkey_mprotect => {
                batch.call(call.nr.cast_signed(), call.args);
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
            libc::SYS_madvise => mappings::advise(&mut batch, &call.args),
            libc::SYS_mremap => mappings::moved(&mut batch, &call.args, done.value.cast_unsigned()),
            _ => return Ok(tracee),
        }
        if batch.is_empty() {
            return Ok(tracee);
        }
        self.make(tracee, batch, &describe(call)).await
    }

    /// Has the agent make calls that succeeded when they were recorded.
    async fn make(
        &self,
        tracee: Tracee<Parked>,
        batch: Batch,
        what: &str,
    ) -> Result<Tracee<Parked>, Over> {
        let (tracee, results) = batch.make(tracee).await?;
        match results.iter().find_map(|&value| error_of(value)) {
            None => Ok(tracee),
            Some(error) => Err(Over::Diverged(
                what.to_owned(),
                format!("it fails: {}", std::io::Error::from_raw_os_error(error)),
            )),
        }
    }

    async fn image(&mut self, here: Here, image: &Image) -> Result<Here, Over> {
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
                Some((number, _)) => Some(self.player.locate(number).ok_or(Over::Stopped)?),
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

    /// Gives the stub entries that it has not come to yet. Calls that are to be made again
    /// stop for that.
    async fn buffered(&mut self, here: Here, buffered: &Buffered) -> Result<Here, Over> {
        let mut tracee = here.park();
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
                done.more = More::Mapped {
                    file,
                    shared: false,
                };
            }
            tracee = self.again(tracee, nr, args, done).await?;
        }
        ready.extend_from_slice(&buffered.log[given..]);
        self.give(&tracee, ready)?;
        Ok(Here::Parked(tracee))
    }

    /// The call that does to memory what a recorded one did, without a file: its number,
    /// arguments and result; nothing where there is nothing to do.
    fn made_instead(&self, nr: u64, args: [u64; 6], result: u64) -> Option<(i64, [u64; 6], u64)> {
        let mut batch = Batch::default();
        match nr.cast_signed() {
            libc::SYS_mmap => mappings::again(&mut batch, &args, result, None),
            libc::SYS_brk => {
                let old = self.program_break.replace(result);
                mappings::program_break(&mut batch, old, result);
            }
            number => batch.call(number, args),
        }
        let (number, args) = batch.single()?;
        let result = match number {
            libc::SYS_mmap => args[0],
            _ => 0,
        };
        Some((number, args, result))
    }

    /// Makes a call again that did not stop when it was recorded.
    async fn again(
        &mut self,
        tracee: Tracee<Parked>,
        nr: u64,
        args: [u64; 6],
        done: Return,
    ) -> Result<Tracee<Parked>, Over> {
        let stop = self.run(Here::Parked(tracee)).await?;
        let call = match &stop {
            Stop::Prehook(tracee) => this_call(tracee)?,
            _ => Call::default(),
        };
        let Stop::Prehook(tracee) = stop else {
            return Err(Over::Diverged(
                describe_made(nr, args),
                describe_stop(&stop),
            ));
        };
        if (call.nr, call.args) != (nr, args) {
            return Err(Over::Diverged(describe_made(nr, args), describe(&call)));
        }
        let mut regs = tracee.registers()?;
        // As the stub leaves it.
        regs.r11 = 0;
        self.entry = Some(regs);
        self.call = Some(call);
        let here = self.done(Here::Call(tracee), done).await?;
        self.returned = None;
        Ok(here.park())
    }

    /// Puts entries behind those that the stub has.
    fn give(&self, tracee: &Tracee<Parked>, mut entries: Vec<u8>) -> Result<(), Over> {
        // Those that were given before, and are not used, come first: the recorder may take
        // a log at a stop that leaves no record.
        let cursor = tracee.read_u64(buffer::cursor()).unwrap_or(0);
        let loaded = self.loaded.get();
        let mut end = loaded.max(buffer::LOG);
        if cursor >= end {
            end = buffer::LOG;
            tracee.write(buffer::cursor(), &buffer::LOG.to_le_bytes())?;
        }
        self.loaded.set(end + entries.len() as u64);
        if self.loaded.get() + 16 > buffer::BASE + buffer::REPLAYED_LENGTH {
            return Err(Over::Diverged(
                "calls that did not stop".to_owned(),
                "they do not fit".to_owned(),
            ));
        }
        // Behind the last there is none.
        entries.extend_from_slice(&[0; 16]);
        tracee.write(end, &entries)?;
        Ok(())
    }

    /// Changes code as it was changed; the stub is that of a replay.
    async fn patched(&mut self, here: Here, patched: &Patched) -> Result<Here, Over> {
        let what = "code of the recorder's";
        let mut tracee = here.park();
        let mut batch = Batch::default();
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
        if !batch.is_empty() {
            tracee = self.make(tracee, batch, what).await?;
        }
        if patched.is_first {
            let stub = buffer::replaying()
                .map_err(|error| Over::Diverged(what.to_owned(), error.to_string()))?;
            tracee.write(buffer::BASE, &stub.code)?;
            tracee.write(buffer::cursor(), &buffer::LOG.to_le_bytes())?;
            self.loaded.set(buffer::LOG);
        }
        write(&tracee, &patched.writes);
        if let (Some(entry), Some(end)) = (&mut self.entry, patched.end) {
            entry.rip = end;
        }
        Ok(Here::Parked(tracee))
    }

    async fn spawned(&mut self, here: Here, spawned: Spawned) -> Result<Here, Over> {
        let Here::Call(mut tracee) = here else {
            return Err(Over::Diverged(
                "a new task".to_owned(),
                "no call".to_owned(),
            ));
        };
        let kept = libc::CLONE_VM
            | libc::CLONE_FS
            | libc::CLONE_FILES
            | libc::CLONE_SIGHAND
            | libc::CLONE_THREAD
            | libc::CLONE_SYSVSEM;
        let mut flags = spawned.flags & kept as u64;
        if flags & libc::CLONE_THREAD as u64 == 0 {
            flags &= !(libc::CLONE_FILES as u64);
        }
        let clone = Invocation {
            nr: libc::SYS_clone as u64,
            args: [flags, 0, 0, 0, 0, 0],
        };
        tracee.modify(clone)?;
        let mut stop = tracee.resume_to_exit().stop().await;
        loop {
            stop = match stop {
                Stop::Spawned(tracee) => {
                    let shares = flags & libc::CLONE_VM as u64 != 0;
                    let birth = Birth {
                        task: spawned.child,
                        program_break: if shares {
                            self.program_break.clone()
                        } else {
                            Rc::new(Cell::new(self.program_break.get()))
                        },
                        loaded: if shares {
                            self.loaded.clone()
                        } else {
                            Rc::new(Cell::new(self.loaded.get()))
                        },
                    };
                    self.player.bear(tracee.child(), birth);
                    tracee.resume().stop().await
                }
                // Somebody's signal came in between; the kernel makes the call again.
                Stop::Posthook(tracee) if is_restarted(tracee.value()) => {
                    tracee.resume().stop().await
                }
                Stop::Prehook(tracee) => tracee.resume_to_exit().stop().await,
                Stop::Posthook(tracee) => {
                    return match error_of(tracee.value()) {
                        None => Ok(Here::Parked(tracee.park())),
                        Some(error) => Err(Over::Diverged(
                            "a new task".to_owned(),
                            format!(
                                "it cannot be made: {}",
                                std::io::Error::from_raw_os_error(error)
                            ),
                        )),
                    };
                }
                Stop::Exited(_) | Stop::Killed { .. } | Stop::Superseded => return Err(Over::Gone),
                other => match other.park() {
                    Some(tracee) => tracee.resume().stop().await,
                    None => return Err(Over::Gone),
                },
            };
        }
    }

    async fn signal(
        &mut self,
        here: Here,
        signal: &crate::trace::event::Signal,
    ) -> Result<Here, Over> {
        let what = || format!("signal {} at {:#x}", signal.signal, signal.ip);
        let tracee = match signal.at {
            At::Event => {
                let tracee = here.park();
                let ip = tracee.registers()?.rip;
                if ip != signal.ip {
                    return Err(Over::Diverged(what(), format!("at {ip:#x}")));
                }
                tracee
            }
            At::Call => match self.run(here).await? {
                Stop::Prehook(tracee) if tracee.instruction_pointer() - 2 == signal.ip => {
                    tracee.park()
                }
                stop => return Err(Over::Diverged(what(), describe_stop(&stop))),
            },
            At::Fault => match self.run(here).await? {
                Stop::Signal(tracee)
                    if tracee.signal() == signal.signal && tracee.registers()?.rip == signal.ip =>
                {
                    tracee.park()
                }
                stop => return Err(Over::Diverged(what(), describe_stop(&stop))),
            },
        };
        self.returned = None;
        write(&tracee, std::slice::from_ref(&signal.frame));
        put_state(&tracee, &signal.state)?;
        Ok(Here::Parked(tracee))
    }

    /// Lets the program run to a point that no call marks.
    async fn point(&mut self, here: Here, point: &Point) -> Result<Here, Over> {
        let what = || format!("a point at {:#x}", point.registers.0[16]);
        let tracee = here.park();
        let mut batch = Batch::default();
        let areas = maps::read(tracee.tgid())?;
        let Some(mut check) = Check::prepare(&tracee, point, &areas, &mut batch) else {
            return Err(Over::Diverged(what(), "no such code".to_owned()));
        };
        let mut tracee = self.aside(tracee, batch, &what()).await?;
        // What is about to be moved elsewhere is not to be executed here from its middle.
        while check.displaces(tracee.registers()?.rip) {
            tracee = match tracee.step().stop().await {
                Stop::Signal(tracee) if tracee.signal() == libc::SIGTRAP => tracee.park(),
                stop => return Err(Over::Diverged(what(), describe_stop(&stop))),
            };
        }
        let insert = |check: &mut Check, tracee: &Tracee<Parked>| {
            check
                .insert(tracee, point)
                .map_err(|error| Over::Diverged(what(), error))
        };
        insert(&mut check, &tracee)?;
        loop {
            tracee = match self.run(Here::Parked(tracee)).await? {
                Stop::Signal(tracee)
                    if tracee.signal() == libc::SIGTRAP
                        && check.has_hit(tracee.registers()?.rip) =>
                {
                    tracee.park()
                }
                stop => return Err(Over::Diverged(what(), describe_stop(&stop))),
            };
            let mut regs = tracee.registers()?;
            let registers = check.outside(&Registers::from(&regs));
            registers.store(&mut regs);
            regs.orig_rax = u64::MAX;
            if point.is_at(&tracee, &registers) {
                tracee.set_registers(&regs)?;
                let mut batch = Batch::default();
                check.remove(&tracee, &mut batch);
                let tracee = self.aside(tracee, batch, &what()).await?;
                return Ok(Here::Parked(tracee));
            }
            if check.is_trap() {
                check.restore(&tracee);
                tracee.set_registers(&regs)?;
                tracee = match tracee.step().stop().await {
                    Stop::Signal(tracee) if tracee.signal() == libc::SIGTRAP => tracee.park(),
                    stop => return Err(Over::Diverged(what(), describe_stop(&stop))),
                };
                insert(&mut check, &tracee)?;
            } else {
                regs.rip = check.miss();
                tracee.set_registers(&regs)?;
            }
        }
    }

    /// Has the agent make calls, and leaves the registers as they are.
    async fn aside(
        &mut self,
        tracee: Tracee<Parked>,
        batch: Batch,
        what: &str,
    ) -> Result<Tracee<Parked>, Over> {
        if batch.is_empty() {
            return Ok(tracee);
        }
        let mut regs = tracee.registers()?;
        regs.orig_rax = u64::MAX;
        let tracee = self.make(tracee, batch, what).await?;
        tracee.set_registers(&regs)?;
        Ok(tracee)
    }

    async fn instruction(&mut self, here: Here, answer: Instruction) -> Result<Here, Over> {
        match self.run(here).await? {
            Stop::Signal(tracee)
                if tracee.signal() == libc::SIGSEGV
                    && tracee.registers()?.rip == answer.ip
                    && instruction(&tracee, answer.ip) == Some(answer.kind) =>
            {
                let mut regs = tracee.registers()?;
                apply(&answer, &mut regs);
                tracee.set_registers(&regs)?;
                Ok(Here::Parked(tracee.park()))
            }
            stop => Err(Over::Diverged(
                format!("{:?} at {:#x}", answer.kind, answer.ip),
                describe_stop(&stop),
            )),
        }
    }

    fn digest(&self, here: Here, recorded: u64) -> Result<Here, Over> {
        let tracee = here.park();
        let areas = maps::read(tracee.tid())?;
        let sp = self.entry.map_or(0, |entry| entry.rsp);
        let now = memory::digest(&tracee, &areas, sp);
        if now != recorded {
            return Err(Over::Diverged(
                format!("memory with the digest {recorded:016x}"),
                format!("{now:016x}"),
            ));
        }
        self.player.digested();
        Ok(Here::Parked(tracee))
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
fn is_fault(tracee: &Tracee<Signal>) -> bool {
    let faults = [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGILL,
        libc::SIGTRAP,
    ];
    faults.contains(&tracee.signal()) && tracee.info().is_ok_and(|info| info.si_code > 0)
}

fn describe(call: &Call) -> String {
    let invocation = call.invocation();
    let [a, b, c, d, e, f] = call.args;
    format!(
        "{}({a:#x}, {b:#x}, {c:#x}, {d:#x}, {e:#x}, {f:#x}) at {:#x}, stack {:#x}, other registers {:08x}",
        invocation.syscall().name(),
        call.ip,
        call.sp,
        call.check
    )
}

/// A call that did not stop.
fn describe_made(nr: u64, args: [u64; 6]) -> String {
    let call = Invocation { nr, args };
    let [a, b, c, d, e, f] = args;
    format!(
        "{}({a:#x}, {b:#x}, {c:#x}, {d:#x}, {e:#x}, {f:#x})",
        call.syscall().name()
    )
}

fn describe_stop(stop: &Stop) -> String {
    match stop {
        Stop::Prehook(tracee) => {
            let regs = tracee.registers();
            describe(&Call {
                nr: tracee.invocation().nr,
                args: tracee.invocation().args,
                ip: tracee.instruction_pointer(),
                sp: tracee.stack_pointer(),
                check: regs.map_or(0, |regs| check(&regs)),
            })
        }
        Stop::Signal(tracee) => {
            let ip = tracee.registers().map_or(0, |regs| regs.rip);
            format!("signal {} at {ip:#x}", tracee.signal())
        }
        other => format!("{other:?}"),
    }
}
