//! The replacement of `tokio`: its source, with hooks for `rr_channel::executor` and, in what tasks
//! wait for, `rr_channel::objects`.
//!
//! A task gets its name where it is spawned, and is polled and dropped under that name. Work
//! for blocking threads has a name too. Nothing changes in how tasks are woken, or in which
//! thread polls them. In a replay, a thread may have to wait inside a task for the next event
//! of its log. Another thread then takes over its work: with several workers through
//! `block_in_place`, with one by lending the scheduler to a thread that serves the other tasks.
//! Only the thread that has the scheduler runs, so tasks still alternate.
//!
//! Each edit names the text that it expects, exactly once. A version with another text is an
//! error.

mod broadcasts;
mod channels;
mod locks;
mod tasks;

use super::copy::Edit;

/// The edits of tokio, by version.
pub(super) const EDITS: &[(&str, &[Edit])] =
    &[("1.", COMMON), ("1.53.", OF_1_53), ("1.54.", OF_1_54)];

/// If set to `0`, what tasks wait for is not recorded.
pub(super) const VARIABLE: &str = "RR_CHANNEL_TOKIO";

/// The edits that record what tasks wait for, by version.
pub(super) const OF_WAITS: &[(&str, &[Edit])] = &[
    ("1.", locks::COMMON),
    ("1.", channels::COMMON),
    ("1.", broadcasts::COMMON),
    ("1.53.", broadcasts::OF_1_53),
    ("1.54.", broadcasts::OF_1_54),
    ("1.", tasks::COMMON),
];

const COMMON: &[Edit] = &[
    Edit {
        file: "src/runtime/task/core.rs",
        from: "    /// Either the future or the output.\n    pub(super) stage: CoreStage<T>,\n",
        to: "    /// Either the future or the output.\n    pub(super) stage: CoreStage<T>,\n\n    \
             pub(super) rr: rr_channel::executor::Task,\n",
    },
    Edit {
        file: "src/runtime/task/core.rs",
        from: "            core: Core {\n                scheduler,\n",
        to: "            core: Core {\n                \
             rr: rr_channel::executor::Task::new(),\n                scheduler,\n",
    },
    Edit {
        file: "src/runtime/task/core.rs",
        from: "                future.poll(&mut cx)\n",
        to: "                self.rr.run(|| future.poll(&mut cx))\n",
    },
    Edit {
        file: "src/runtime/task/core.rs",
        from: "        self.stage.stage.with_mut(|ptr| *ptr = stage);\n",
        to: "        self.rr.run(|| self.stage.stage.with_mut(|ptr| *ptr = stage));\n",
    },
    Edit {
        file: "src/runtime/task/harness.rs",
        from: "        let snapshot = self.state().transition_to_complete();\n",
        to: "        if self.state().load().is_join_interested() {\n            \
                 self.core().rr.end();\n        \
             }\n        \
             let snapshot = self.state().transition_to_complete();\n",
    },
    Edit {
        file: "src/runtime/task/harness.rs",
        from: "                self.core().drop_future_or_output();\n            \
               } else if snapshot.is_join_waker_set() {\n",
        to: "                self.core().drop_future_or_output();\n                \
             self.core().rr.end();\n            \
             } else if snapshot.is_join_waker_set() {\n",
    },
    Edit {
        file: "src/runtime/blocking/pool.rs",
        from: "        builder.spawn(move || {\n            \
                   // Only the reference should be moved into the closure\n            \
                   let _enter = rt.enter();\n            \
                   rt.inner.blocking_spawner().inner.run(id);\n            \
                   drop(shutdown_tx);\n        \
               })\n",
        to: "        let run = move || {\n            \
                 rr_channel::executor::serve();\n            \
                 // Only the reference should be moved into the closure\n            \
                 let _enter = rt.enter();\n            \
                 rt.inner.blocking_spawner().inner.run(id);\n            \
                 drop(shutdown_tx);\n        \
             };\n        \
             rr_channel::executor::thread(|| builder.spawn(run))\n",
    },
    Edit {
        file: "src/runtime/builder.rs",
        from: "self.worker_threads.unwrap_or_else(num_cpus);\n",
        to: "self\n                .worker_threads\n                \
             .unwrap_or_else(|| rr_channel::executor::threads(num_cpus()));\n",
    },
    Edit {
        file: "src/runtime/builder.rs",
        from: "self.max_blocking_threads + worker_threads",
        to: "rr_channel::executor::thread_limit(self.max_blocking_threads + worker_threads)",
    },
    Edit {
        file: "src/runtime/scheduler/multi_thread/worker.rs",
        from: "        for worker in self.0.drain(..) {\n            \
               runtime::spawn_blocking(move || run(worker));\n",
        to: "        for worker in self.0.drain(..) {\n            \
             rr_channel::executor::nameless(|| runtime::spawn_blocking(move || run(worker)));\n",
    },
    Edit {
        file: "src/runtime/scheduler/multi_thread/worker.rs",
        from: "        let worker = cx.worker.clone();\n        \
               runtime::spawn_blocking(move || run(worker));\n",
        to: "        let worker = cx.worker.clone();\n        \
             rr_channel::executor::nameless(|| runtime::spawn_blocking(move || run(worker)));\n",
    },
    Edit {
        file: "src/runtime/scheduler/multi_thread/worker.rs",
        from: "fn run(worker: Arc<Worker>) {\n",
        to: "/// Has another thread be this worker while `wait` waits.\n\
             fn rr_meanwhile(wait: &mut dyn FnMut()) {\n    \
                 if with_current(|cx| cx.is_some()) {\n        \
                     block_in_place(wait);\n    \
                 } else {\n        \
                     wait();\n    \
                 }\n\
             }\n\n\
             fn run(worker: Arc<Worker>) {\n",
    },
    Edit {
        file: "src/runtime/driver.rs",
        from: "        self.inner.park(handle);\n",
        to: "        rr_channel::executor::own(|| self.inner.park(handle));\n",
    },
    Edit {
        file: "src/runtime/driver.rs",
        from: "        self.inner.park_timeout(handle, duration);\n",
        to: "        rr_channel::executor::own(|| self.inner.park_timeout(handle, duration));\n",
    },
    Edit {
        file: "src/runtime/task/list.rs",
        from: "pub(crate) struct OwnedTasks<S: 'static> {\n",
        to: "pub(crate) struct OwnedTasks<S: 'static> {\n    \
             pub(crate) rr: rr_channel::executor::Tasks,\n",
    },
    Edit {
        file: "src/runtime/task/list.rs",
        from: "            list: ShardedList::new(sharded_size),\n",
        to: "            rr: rr_channel::executor::Tasks::new(),\n            \
             list: ShardedList::new(sharded_size),\n",
    },
    Edit {
        file: "src/runtime/scheduler/multi_thread/handle.rs",
        from: "    pub(crate) fn shutdown(&self) {\n",
        to: "    pub(crate) fn shutdown(&self) {\n        \
             self.shared.owned.rr.run_on().wait();\n",
    },
    Edit {
        file: "src/runtime/scheduler/current_thread/mod.rs",
        from: "/// Scheduler state shared between threads.\nstruct Shared {\n",
        to: "/// Scheduler state shared between threads.\nstruct Shared {\n    rr: RrTurns,\n",
    },
    Edit {
        file: "src/runtime/scheduler/current_thread/mod.rs",
        from: "            shared: Shared {\n",
        to: "            shared: Shared {\n                rr: RrTurns::default(),\n",
    },
    Edit {
        file: "src/runtime/scheduler/current_thread/mod.rs",
        from: "            core.enter(|core, _context| {\n",
        to: "            core.enter(|core, _context| {\n                \
             let core = rr_run_on(core, handle);\n",
    },
    Edit {
        file: "src/runtime/scheduler/current_thread/mod.rs",
        from: "    // Drain the OwnedTasks collection. This call also closes the\n",
        to: "    core = handle.rr_await_all(core);\n    \
             // Drain the OwnedTasks collection. This call also closes the\n",
    },
    Edit {
        file: "src/runtime/scheduler/current_thread/mod.rs",
        from: "                let handle = &context.handle;\n\n                \
               if handle.reset_woken() {\n",
        to: "                let handle = &context.handle;\n                \
             core = handle.rr_pass(core);\n\n                \
             if handle.reset_woken() {\n",
    },
    Edit {
        file: "src/runtime/scheduler/current_thread/mod.rs",
        from: "                        return (core, Some(v));\n                    \
               }\n                \
               }\n",
        to: "                        return (core, Some(v));\n                    \
             }\n                \
             }\n\n                \
             core = match handle.rr_delegate(context, core) {\n                    \
                 Ok(c) => {\n                        \
                     core = c;\n                        \
                     continue 'outer;\n                    \
                 }\n                    \
                 Err(c) => c,\n                \
             };\n",
    },
    Edit {
        file: "src/runtime/scheduler/current_thread/mod.rs",
        from: "        let already_woken = arc_self.shared.woken.swap(true, Release);\n",
        to: "        let already_woken = arc_self.shared.woken.swap(true, Release);\n        \
             arc_self.shared.rr.woke();\n",
    },
    Edit {
        file: "src/runtime/scheduler/current_thread/mod.rs",
        from: "                    core.tick();\n",
        to: "                    core = handle.rr_pass(core);\n                    core.tick();\n",
    },
    Edit {
        file: "src/runtime/scheduler/current_thread/mod.rs",
        from: "context::set_scheduler(&self.context, || f(core, context));\n",
        to: "context::set_scheduler(&self.context, || {\n            \
                 rr_channel::executor::worker(rr_meanwhile, || f(core, context))\n        \
             });\n",
    },
    Edit {
        file: "src/runtime/scheduler/current_thread/mod.rs",
        from: "impl Drop for CoreGuard<'_> {\n",
        to: LENDING,
    },
];

const OF_1_53: &[Edit] = &[Edit {
    file: "src/runtime/scheduler/multi_thread/worker.rs",
    from: "            assert!(cx.run(core).is_err());\n",
    to: "            rr_channel::executor::worker(rr_meanwhile, || assert!(cx.run(core).is_err()));\n",
}];

const OF_1_54: &[Edit] = &[Edit {
    file: "src/runtime/scheduler/multi_thread/worker.rs",
    from: "            cx.run(core);\n",
    to: "            rr_channel::executor::worker(rr_meanwhile, || cx.run(core));\n",
}];

/// How a scheduler of one thread serves other tasks while one waits.
const LENDING: &str = r#"/// Whose turn it is with a core that several threads want.
#[derive(Default)]
struct RrTurns {
    state: std::sync::Mutex<RrState>,
    changed: std::sync::Condvar,
    /// Threads that want it.
    wanted: std::sync::atomic::AtomicUsize,
}

#[derive(Default)]
struct RrState {
    core: Option<Box<Core>>,
    /// The next thread to ask for it, and to get it.
    asks: u64,
    gets: u64,
    /// Tasks that wait or have waited, and are not done with that.
    lent: usize,
}

impl RrTurns {
    fn lock(&self) -> std::sync::MutexGuard<'_, RrState> {
        self.state.lock().unwrap_or_else(|error| error.into_inner())
    }

    fn wait<'a>(
        &self,
        state: std::sync::MutexGuard<'a, RrState>,
    ) -> std::sync::MutexGuard<'a, RrState> {
        self.changed
            .wait(state)
            .unwrap_or_else(|error| error.into_inner())
    }

    fn is_wanted(&self) -> bool {
        self.wanted.load(Acquire) > 0
    }

    fn give(&self, core: Box<Core>) {
        self.lock().core = Some(core);
        self.changed.notify_all();
    }

    /// The future of `block_on` was woken.
    fn woke(&self) {
        if rr_channel::objects::is_replayed() {
            drop(self.lock());
            self.changed.notify_all();
        }
    }
}

impl Handle {
    /// Waits for the core. `give` is the core of a thread that has it, and lets others go
    /// first.
    fn rr_get(&self, give: Option<Box<Core>>) -> Box<Core> {
        let turns = &self.shared.rr;
        let mut state = turns.lock();
        let turn = state.asks;
        state.asks += 1;
        turns.wanted.fetch_add(1, AcqRel);
        match give {
            Some(core) => state.core = Some(core),
            // Who has it may be parked.
            None => self.driver.unpark(),
        }
        turns.changed.notify_all();
        while state.gets != turn || state.core.is_none() {
            state = turns.wait(state);
        }
        state.gets += 1;
        turns.wanted.fetch_sub(1, AcqRel);
        state.core.take().expect("it is there")
    }

    /// Waits for the core that was lent.
    fn rr_take_back(&self) -> Box<Core> {
        let core = self.rr_get(None);
        self.shared.rr.lock().lent -= 1;
        self.shared.rr.changed.notify_all();
        core
    }

    /// Lets those have the core who want it.
    fn rr_pass(&self, core: Box<Core>) -> Box<Core> {
        if self.shared.rr.is_wanted() {
            return self.rr_get(Some(core));
        }
        core
    }

    /// In a replay, has another thread serve the tasks until the future of `block_on` is woken: a
    /// task may wait in the middle of its poll for what that future does next. Returns the core,
    /// as an error if no other thread may have it.
    fn rr_delegate(&self, context: &Context, core: Box<Core>) -> Result<Box<Core>, Box<Core>> {
        if !rr_channel::objects::is_replayed() {
            return Err(core);
        }
        let (core, is_done) = context.enter(core, || {
            let lent = rr_channel::executor::nameless(|| context.rr_lend());
            let Some(handle) = lent else {
                return false;
            };
            let turns = &handle.shared.rr;
            let mut state = turns.lock();
            while !handle.shared.woken.load(Acquire) {
                state = turns.wait(state);
            }
            drop(state);
            let core = handle.rr_take_back();
            *context.core.borrow_mut() = Some(core);
            true
        });
        if is_done {
            Ok(core)
        } else {
            Err(core)
        }
    }

    /// Waits for all tasks that wait.
    fn rr_await_all(&self, mut core: Box<Core>) -> Box<Core> {
        let turns = &self.shared.rr;
        loop {
            core = self.rr_pass(core);
            let state = turns.lock();
            if state.lent == 0 {
                return core;
            }
            if turns.is_wanted() {
                continue;
            }
            drop(turns.wait(state));
        }
    }
}

/// Has another thread serve the other tasks while `wait` waits.
fn rr_meanwhile(wait: &mut dyn FnMut()) {
    let lent = context::with_scheduler(|cx| match cx {
        Some(scheduler::Context::CurrentThread(cx)) => cx.rr_lend(),
        _ => None,
    });
    wait();
    let Some(handle) = lent else {
        return;
    };
    let core = handle.rr_take_back();
    context::with_scheduler(|cx| {
        if let Some(scheduler::Context::CurrentThread(cx)) = cx {
            *cx.core.borrow_mut() = Some(core);
        }
    });
}

impl Context {
    /// Lends the core to a new thread; `None` if it has none, or only this thread may have it.
    fn rr_lend(&self) -> Option<Arc<Handle>> {
        if self.handle.local_tid.is_some() {
            return None;
        }
        // They come into the core.
        self.defer.wake();
        let core = self.core.borrow_mut().take()?;
        if let Err(core) = rr_spare(&self.handle, core) {
            *self.core.borrow_mut() = Some(core);
            return None;
        }
        Some(self.handle.clone())
    }
}

/// Lends the core to a new thread, which serves tasks. Returns the core if there can be none.
fn rr_spare(handle: &Arc<Handle>, core: Box<Core>) -> Result<(), Box<Core>> {
    handle.shared.rr.lock().lent += 1;
    let serve = handle.clone();
    let builder = thread::Builder::new().name("tokio-rr-spare".to_owned());
    let spawned = rr_channel::executor::thread(|| builder.spawn(move || rr_serve(serve)));
    if spawned.is_err() {
        handle.shared.rr.lock().lent -= 1;
        return Err(core);
    }
    handle.shared.rr.give(core);
    Ok(())
}

/// The runtime ends. In a replay, has its tasks do first what they did in the recorded run.
fn rr_run_on(core: Box<Core>, handle: &Arc<Handle>) -> Box<Core> {
    let mut run_on = handle.shared.owned.rr.run_on();
    if handle.local_tid.is_some() || !run_on.goes_on() {
        return core;
    }
    if let Err(core) = rr_channel::executor::nameless(|| rr_spare(handle, core)) {
        return core;
    }
    run_on.wait();
    handle.rr_take_back()
}

/// Serves tasks until somebody wants the core.
fn rr_serve(handle: Arc<Handle>) {
    rr_channel::executor::serve();
    let outer = scheduler::Handle::CurrentThread(handle.clone());
    crate::runtime::context::enter_runtime(&outer, false, |_| {
        let cx = scheduler::Context::CurrentThread(Context {
            handle,
            core: RefCell::new(None),
            defer: Defer::new(),
        });
        context::set_scheduler(&cx, || {
            let cx = cx.expect_current_thread();
            rr_channel::executor::worker(rr_meanwhile, || cx.rr_serve())
        });
    });
}

impl Context {
    fn rr_serve(&self) {
        let handle = &self.handle;
        let mut core = handle.rr_get(None);
        loop {
            for _ in 0..handle.shared.config.event_interval {
                if handle.shared.rr.is_wanted() {
                    let (core, ()) = self.enter(core, || self.defer.wake());
                    return handle.shared.rr.give(core);
                }
                core.tick();
                let Some(task) = core.next_task(handle) else {
                    break;
                };
                let task = handle.shared.owned.assert_owner(task);
                core = self.run_task(task, core);
            }
            let is_idle = core.tasks.is_empty() && self.defer.is_empty();
            let mut driver = core.driver.take().expect("driver missing");
            let at_most = (!is_idle).then_some(Duration::from_millis(0));
            core = self.park_internal(core, handle, &mut driver, at_most);
            core.driver = Some(driver);
        }
    }
}

impl Drop for CoreGuard<'_> {
"#;
